// What a program does with the client, against a real server at APTIX_URL. It ends with 0 when all
// of it went as it should; TestTypeScriptClient runs it.
import assert from "node:assert/strict";

import { Aptix, AptixError } from "@aptixhq/client";

const url = process.env.APTIX_URL;
const aptix = new Aptix({ url });

async function all(events) {
  const seen = [];
  for await (const event of events) seen.push(event);
  return seen;
}

const text = (events) => events.filter((e) => e.type === "text.delta").map((e) => e.text).join("");

// An answer, and the same turn again.
const turn = { sessionId: "ts1", turnId: "t1", instruction: "hello" };
const answer = await aptix.execute(turn);
assert.equal(answer.kind, "final");
assert.equal(answer.mode, "general");
assert.deepEqual(await aptix.execute(turn), answer);

// Another body under the same id is refused, with a code.
await assert.rejects(aptix.execute({ ...turn, instruction: "other" }), (e) => e instanceof AptixError && e.code === "turn_conflict" && e.status === 409);

// A stream, whole.
const whole = await all(aptix.stream({ sessionId: "ts2", turnId: "t1", instruction: "list the modes" }));
assert.deepEqual(whole.map((e) => e.sequence), whole.map((_, i) => i + 1));
assert.equal(whole.at(-1).type, "turn.completed");
assert.equal(text(whole).endsWith(whole.at(-1).response.primaryOutputText), true);

// The same over connections that break after a few hundred bytes each.
let broken = 0;
const fragile = new Aptix({
  url,
  fetch: async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body || !response.ok || broken >= 3) return response;
    broken++;
    let left = 300;
    const cut = new TransformStream({
      transform(chunk, controller) {
        controller.enqueue(chunk.subarray(0, left));
        left -= chunk.length;
        if (left <= 0) controller.error(new TypeError("the connection broke"));
      },
    });
    return new Response(response.body.pipeThrough(cut), response);
  },
});
const pieces = await all(fragile.stream({ sessionId: "ts3", turnId: "t1", instruction: "list the modes" }));
assert.equal(broken, 3);
assert.deepEqual(pieces.map((e) => e.sequence), pieces.map((_, i) => i + 1));
assert.deepEqual(pieces.map((e) => e.type), whole.map((e) => e.type));

// A tool of the client, streamed.
const made = await aptix.api.POST("/v1/sessions", {
  body: { sessionId: "ts4", tools: [{ type: "function", name: "read_file", parameters: { type: "object", properties: { path: { type: "string" } } } }] },
});
assert.equal(made.response.status, 201);
const asked = await all(aptix.stream({ sessionId: "ts4", turnId: "t1", instruction: 'call read_file {"path":"a.txt"}' }));
const waiting = asked.at(-1);
assert.equal(waiting.type, "turn.waiting");
const [call] = waiting.response.toolCalls;
assert.equal(call.name, "read_file");
const done = await all(
  aptix.streamContinue({ sessionId: "ts4", turnId: "t1", toolResults: [{ toolCallId: call.toolCallId, executionMs: 1, resultJson: '{"content":"kumquat"}' }] }),
);
assert.equal(done.at(-1).type, "turn.completed");
assert.match(text(done), /kumquat/);

// The typed routes: the mode by hand, and what that left.
const changed = await aptix.api.PUT("/v1/sessions/{sessionId}/mode", {
  params: { path: { sessionId: "ts4" } },
  body: { mode: "ddr_authoring", reason: "A record." },
});
assert.equal(changed.data.mode, "ddr_authoring");
const history = await aptix.api.GET("/v1/sessions/{sessionId}/mode-history", { params: { path: { sessionId: "ts4" } } });
assert.deepEqual(history.data.data.map((h) => [h.previousMode, h.mode, h.actor]), [["general", "ddr_authoring", "user"]]);
const missing = await aptix.api.GET("/v1/sessions/{sessionId}", { params: { path: { sessionId: "none" } } });
assert.equal(missing.error.code, "not_found");

// Nobody there: an error after a few tries, not a hang.
await assert.rejects(new Aptix({ url: "http://127.0.0.1:9", attempts: 2 }).execute(turn), TypeError);

// Leaving early gives the connection back.
for await (const event of aptix.stream({ instruction: "list the modes" })) {
  assert.equal(event.type, "turn.started");
  break;
}
console.log("ok");
