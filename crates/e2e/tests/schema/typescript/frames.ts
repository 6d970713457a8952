/** Reads a stream of events: the names and data of its frames. `State` is the type that a generator gave the data. */
export async function* frames<State>(body: ReadableStream<Uint8Array>): AsyncGenerator<[string, State]> {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body as unknown as AsyncIterable<Uint8Array>) {
    text += decoder.decode(chunk, { stream: true });
    const complete = text.split("\n\n");
    text = complete.pop() ?? "";
    for (const frame of complete) {
      const field = (name: string) =>
        frame.split("\n").find((line) => line.startsWith(name + ": "))?.slice(name.length + 2);
      const data = field("data");
      if (data !== undefined) yield [field("event") ?? "", JSON.parse(data) as State];
    }
  }
}

export function check(holds: boolean, told: unknown): asserts holds {
  if (!holds) throw new Error(JSON.stringify(told));
}

export const [baseUrl, key] = process.argv.slice(2) as [string, string];
export const question = { input: "What is 2 + 2, in one word?" };
