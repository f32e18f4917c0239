// A streamed conversation with a tool, as any program with OpenAI's client would hold
// it. It knows nothing of Aptix but its address.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: "none", maxRetries: 0 });
const tools = [
  {
    type: "function",
    name: "get_weather",
    description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } } },
    strict: false,
  },
];

// read follows a stream to its end, checks the numbers of its events, and returns the
// text that was streamed with the response that it ended with.
async function read(stream) {
  let text = "";
  let next = 0;
  let last;
  for await (const event of stream) {
    assert.equal(event.sequence_number, next++);
    if (event.type === "response.output_text.delta") text += event.delta;
    last = event;
  }
  assert.equal(last.type, "response.completed");
  return { text, response: last.response };
}

const models = await client.models.list();
const model = models.data[0].id;

// The stream helper of the client puts the response together by itself.
const helper = client.responses.stream({ model, input: "What is the weather in Oslo?", tools });
await read(helper);
const first = await helper.finalResponse();
const call = first.output.find((item) => item.type === "function_call");
assert.equal(call.name, "get_weather");
assert.deepEqual(JSON.parse(call.arguments), { city: "Oslo" });
assert.equal(first.metadata.mode, "ddr_authoring");

const second = await read(
  await client.responses.create({
    model,
    previous_response_id: first.id,
    input: [{ type: "function_call_output", call_id: call.call_id, output: "3 degrees" }],
    tools,
    stream: true,
  }),
);
assert.equal(second.text, "It is cold in Oslo.");

const third = await client.responses.create({
  model,
  conversation: second.response.conversation.id,
  input: "Thank you.",
  metadata: { mode: "general" },
});
assert.equal(third.output_text, "You are welcome.");
assert.equal(third.metadata.mode, "ddr_authoring");
assert.match(third.metadata.aptix_warning, /general/);

const again = await client.responses.retrieve(second.response.id);
assert.deepEqual(again.output, second.response.output);
const resumed = [];
for await (const event of await client.responses.retrieve(second.response.id, { stream: true, starting_after: 3 })) {
  resumed.push(event.sequence_number);
}
assert.equal(resumed[0], 4);

const items = await client.responses.inputItems.list(second.response.id);
assert.equal(items.data[0].output, "3 degrees");

await assert.rejects(client.responses.create({ model: "no-such-model", input: "x" }), (err) => {
  assert.ok(err instanceof OpenAI.NotFoundError);
  assert.equal(err.code, "model_not_found");
  return true;
});
console.log("ok");
