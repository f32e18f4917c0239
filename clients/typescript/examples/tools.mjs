// Asks in a mode, and runs a tool of this program where the model asks for it:
//
//   APTIX_URL=http://127.0.0.1:8080 node examples/tools.mjs 'call stock {"item": "tea"}'
import { Aptix, AptixError } from "@aptixhq/client";

const aptix = new Aptix({ url: process.env.APTIX_URL, apiKey: process.env.APTIX_API_KEY });

const stock = { tea: 12, coffee: 0 };

// What the tool says, or why it cannot: the model is told either.
function run(call) {
  const { item } = JSON.parse(call.argumentsJson);
  const result = { toolCallId: call.toolCallId, executionMs: 0 };
  if (!(item in stock)) return { ...result, errorMessage: `there is no item ${item}; there are ${Object.keys(stock).join(" and ")}` };
  return { ...result, resultJson: JSON.stringify({ item, pieces: stock[item] }) };
}

const { data: session, error } = await aptix.api.POST("/v1/sessions", {
  body: {
    mode: "general",
    tools: [{
      type: "function", name: "stock", description: "Says how many pieces of an item are there.",
      parameters: { type: "object", properties: { item: { type: "string" } }, required: ["item"] },
    }],
  },
});
if (error) throw new Error(error.detail);

const turn = { sessionId: session.sessionId, turnId: crypto.randomUUID() };
try {
  let events = aptix.stream({ ...turn, instruction: process.argv[2] ?? 'call stock {"item": "tea"}' });
  while (events) {
    let waiting = [];
    for await (const event of events) {
      if (event.type === "text.delta") process.stdout.write(event.text);
      if (event.type === "turn.waiting") waiting = event.response.toolCalls;
      if (event.type === "turn.failed") throw new Error(event.problem.detail);
    }
    events = waiting.length > 0 && aptix.streamContinue({ ...turn, toolResults: waiting.map(run) });
  }
  console.log();
} catch (problem) {
  console.error(problem instanceof AptixError ? `${problem.code}: ${problem.message}` : problem.message);
  process.exitCode = 1;
}
