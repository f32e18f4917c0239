import type { components } from "./schema.js";

/** What an answer with an error says (application/problem+json). */
export type Problem = components["schemas"]["Problem"];

/** An error that the server has answered with. */
export class AptixError extends Error {
  override readonly name = "AptixError";

  constructor(
    readonly problem: Problem,
    /** After how many milliseconds the server wants to be asked again, if it said so. */
    readonly retryAfter?: number,
  ) {
    super(problem.detail ?? problem.title);
  }

  /** The code of the problem, such as "turn_in_progress". */
  get code(): string {
    return this.problem.code;
  }

  get status(): number {
    return this.problem.status;
  }
}

/** Makes an error of an answer, whatever stands in it. */
export async function errorOf(response: Response): Promise<AptixError> {
  const text = await response.text().catch(() => "");
  let problem: Problem;
  try {
    problem = JSON.parse(text) as Problem;
    if (typeof problem.code !== "string") throw new TypeError("no code");
  } catch {
    // Somebody between here and the server has answered.
    const status = response.status;
    problem = { type: "about:blank", title: `HTTP ${status}`, status, code: "internal", detail: text.slice(0, 200), requestId: "" } as Problem;
  }
  const seconds = Number(response.headers.get("Retry-After") ?? NaN);
  return Number.isFinite(seconds) ? new AptixError(problem, seconds * 1000) : new AptixError(problem);
}
