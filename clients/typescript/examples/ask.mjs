// Asks one question and prints the answer as it comes:
//
//   APTIX_URL=http://127.0.0.1:8080 node examples/ask.mjs "What can you do?"
import { Aptix } from "@aptixhq/client";

const aptix = new Aptix({ url: process.env.APTIX_URL, apiKey: process.env.APTIX_API_KEY });

for await (const event of aptix.stream({ instruction: process.argv[2] ?? "What can you do?" })) {
  switch (event.type) {
    case "text.delta":
      process.stdout.write(event.text);
      break;
    case "mode.changed":
      console.log(`\n» mode ${event.previousMode} → ${event.mode}: ${event.reason}`);
      break;
    case "turn.completed":
      console.log(`\n[${event.response.mode}]`);
      break;
    case "turn.failed":
      console.error(event.problem.detail);
      process.exitCode = 1;
  }
}
