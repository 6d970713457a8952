// The client that @hey-api/openapi-ts generates: it reads streams itself.
import { client } from "./hey_api/client.gen";
import { askQuestion, streamAnswer } from "./hey_api/sdk.gen";
import type { Answer, ErrorResponse, KnownErrorCode } from "./hey_api/types.gen";
import { baseUrl, check, key, question } from "./frames";

async function main() {
  client.setConfig({ baseUrl, headers: { "X-Api-Key": key } });
  const refused = await askQuestion({ body: { ...question, model: "clerk" } });
  const known: KnownErrorCode = "UNKNOWN_MODEL";
  // Its type of errors includes the 401 without a body, as `unknown`.
  check((refused.error as ErrorResponse).code === known, refused.error);

  const asked = await askQuestion({ body: question });
  check(asked.data !== undefined, asked.error);
  const path = { chatId: asked.data.chatId, messageId: asked.data.id };
  const { stream } = await streamAnswer({ path });
  let last: Answer | undefined;
  for await (const answer of stream) if (answer) last = answer;
  check(last?.status === "completed" && last.id === asked.data.id && last.text.length > 0, last);
}

main();
