/**
 * A client of Aptix. Every route is typed after the server's OpenAPI document (`api`); turns have
 * methods of their own, because their streams resume: a connection that breaks, a server that
 * restarts, and a node that dies are not seen, but for the event `turn.resumed`, which tells that
 * text from `replaceFrom` on is void.
 */
import createFetch, { type Client as FetchClient } from "openapi-fetch";

import { AptixError, errorOf } from "./errors.js";
import type { components, paths } from "./schema.js";
import { messages } from "./sse.js";

export { AptixError, type Problem } from "./errors.js";
export type { components, paths } from "./schema.js";

type Schemas = components["schemas"];

export type Final = Schemas["Final"];
export type ClientToolContinuation = Schemas["ClientToolContinuation"];
/** The answer of a turn: it is over, or it waits for its client. */
export type Answer = Final | ClientToolContinuation;
export type Event = Schemas["Event"];
export type ToolResult = Schemas["ToolResult"];
/** A user turn; ids that are left out are made up. */
export type UserTurn = Omit<Schemas["UserTurn"], "sessionId" | "turnId" | "stream"> & { sessionId?: string; turnId?: string };
/** The results of the tool calls that a turn waits for, in their order. */
export type ToolContinuation = Schemas["ToolContinuation"];

export interface Options {
  /** The server's address; default http://127.0.0.1:8080. */
  url?: string;
  /** Sent as Authorization: Bearer. */
  apiKey?: string;
  /** How often something is tried without progress; default 5. */
  attempts?: number;
  /** How long a stream may be silent, in milliseconds, before its connection counts as broken; default 45,000. */
  silence?: number;
  /** Takes the place of the global fetch. */
  fetch?: typeof fetch;
}

/** The events after which no other follows in this delivery. */
const ends = new Set(["turn.completed", "turn.waiting", "turn.failed", "turn.cancelled"]);

export class Aptix {
  /** Every route of the API. */
  readonly api: FetchClient<paths>;

  readonly #url: string;
  readonly #headers: Record<string, string>;
  readonly #attempts: number;
  readonly #silence: number;
  readonly #fetch: typeof fetch;

  constructor(options: Options = {}) {
    this.#url = (options.url ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.#headers = options.apiKey ? { Authorization: `Bearer ${options.apiKey}` } : {};
    this.#attempts = options.attempts ?? 5;
    this.#silence = options.silence ?? 45_000;
    this.#fetch = options.fetch ?? ((...args) => fetch(...args));
    this.api = createFetch<paths>({ baseUrl: this.#url, headers: this.#headers, fetch: (request) => this.#fetch(request) });
  }

  /** Runs a turn and returns its answer. Sending it again after a lost connection never runs it twice. */
  async execute(turn: UserTurn, signal?: AbortSignal): Promise<Answer> {
    return this.#answer(named(turn), signal);
  }

  /** Goes on with a turn that waits for tools. */
  async continue(results: ToolContinuation, signal?: AbortSignal): Promise<Answer> {
    return this.#answer(results, signal);
  }

  /** Runs a turn and yields its events until it is over or waits for its client. */
  stream(turn: UserTurn, signal?: AbortSignal): AsyncGenerator<Event> {
    const body = { ...named(turn), stream: true };
    return this.#follow(body.sessionId, body.turnId, 0, signal, body);
  }

  /** Goes on with a streamed turn and yields what follows. */
  streamContinue(results: ToolContinuation, signal?: AbortSignal): AsyncGenerator<Event> {
    return this.#follow(results.sessionId, results.turnId, 0, signal, results);
  }

  /** Yields the events of a turn that come after one, until it is over or waits. */
  events(sessionId: string, turnId: string, after = 0, signal?: AbortSignal): AsyncGenerator<Event> {
    return this.#follow(sessionId, turnId, after, signal);
  }

  async #answer(body: object, signal: AbortSignal | undefined): Promise<Answer> {
    for (let attempt = 1; ; attempt++) {
      try {
        const response = await this.#send("POST", "/v1/agent/execute", signal, body);
        return (await response.json()) as Answer;
      } catch (error) {
        await this.#again(error, attempt, signal);
      }
    }
  }

  /** Follows a turn over as many connections as it takes. A body begins it; it is sent until an event has come. */
  async *#follow(sessionId: string, turnId: string, after: number, signal: AbortSignal | undefined, body?: object): AsyncGenerator<Event> {
    const path = `/v1/sessions/${encodeURIComponent(sessionId)}/turns/${encodeURIComponent(turnId)}/events`;
    for (let attempt = 1; ; attempt++) {
      const connection = new AbortController();
      const either = AbortSignal.any(signal ? [signal, connection.signal] : [connection.signal]);
      const watch = silenceWatch(this.#silence, connection);
      try {
        const response = body
          ? await this.#send("POST", "/v1/agent/execute", either, body, "text/event-stream")
          : await this.#send("GET", `${path}?after=${after}`, either, undefined, "text/event-stream");
        if (response.status === 204 || response.body === null) return;
        for await (const message of messages(response.body)) {
          watch.heard();
          if (message.data === "") continue;
          const event = JSON.parse(message.data) as Event;
          after = event.sequence;
          body = undefined;
          attempt = 0;
          yield event;
          if (ends.has(event.type)) return;
        }
        throw new TypeError("the stream ended before its turn");
      } catch (error) {
        await this.#again(error, attempt, signal);
      } finally {
        watch.stop();
      }
    }
  }

  async #send(method: string, path: string, signal: AbortSignal | undefined, body?: object, accept = "application/json"): Promise<Response> {
    const response = await this.#fetch(this.#url + path, {
      method,
      headers: { ...this.#headers, Accept: accept, ...(body ? { "Content-Type": "application/json" } : {}) },
      ...(body ? { body: JSON.stringify(body) } : {}),
      ...(signal ? { signal } : {}),
    });
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  /** Returns after a pause when it is worth trying again, and throws the error when it is not. */
  async #again(error: unknown, attempt: number, signal: AbortSignal | undefined): Promise<void> {
    const refused = error instanceof AptixError;
    if (signal?.aborted || attempt >= this.#attempts || (refused && error.status !== 503)) throw error;
    const pause = (refused ? error.retryAfter : undefined) ?? 100 * 2 ** Math.min(attempt, 6) * (0.5 + Math.random());
    await new Promise((resolve) => setTimeout(resolve, Math.min(pause, 30_000)));
    signal?.throwIfAborted();
  }
}

function named(turn: UserTurn): UserTurn & { sessionId: string; turnId: string } {
  return { ...turn, sessionId: turn.sessionId ?? crypto.randomUUID(), turnId: turn.turnId ?? crypto.randomUUID() };
}

/** Aborts a connection on which nothing is heard; the server says something every 15 s. */
function silenceWatch(milliseconds: number, connection: AbortController) {
  const expire = () => connection.abort(new TypeError("the stream was silent for too long"));
  let timer = setTimeout(expire, milliseconds);
  return {
    heard() {
      clearTimeout(timer);
      timer = setTimeout(expire, milliseconds);
    },
    stop() {
      clearTimeout(timer);
    },
  };
}
