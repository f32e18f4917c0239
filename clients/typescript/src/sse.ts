/** One message of a stream of server-sent events. */
export interface Message {
  id: string;
  data: string;
}

/**
 * Reads the messages of a stream. A message that the end of the stream cuts off is not one;
 * comments, which are heartbeats, are messages without data.
 */
export async function* messages(body: ReadableStream<Uint8Array>): AsyncGenerator<Message> {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  let rest = "";
  let id = "";
  let data: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += decoder.decode(value, { stream: true });
      const lines = rest.split(/\r\n|\n|\r(?!$)/);
      rest = lines.pop() ?? "";
      for (const line of lines) {
        if (line === "") {
          yield { id, data: data.join("\n") };
          data = [];
        } else if (line.startsWith("id:")) {
          id = line.slice(3).trim();
        } else if (line.startsWith("data:")) {
          data.push(line.slice(5).replace(/^ /, ""));
        }
      }
    }
  } finally {
    // Also when the caller leaves: the connection is given back.
    await reader.cancel().catch(() => undefined);
  }
}
