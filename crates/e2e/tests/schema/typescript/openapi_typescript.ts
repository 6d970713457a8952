// The types that openapi-typescript generates, with the client openapi-fetch that is made for them.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi_typescript/types";
import { baseUrl, check, frames, key, question } from "./frames";

async function main() {
  const client = createClient<paths>({ baseUrl, headers: { "X-Api-Key": key } });
  const refused = await client.POST("/api/v1/chats", { body: { ...question, model: "clerk" } });
  const known: components["schemas"]["KnownErrorCode"] = "UNKNOWN_MODEL";
  check(refused.error?.code === known, refused.error);

  const asked = await client.POST("/api/v1/chats", { body: question });
  check(asked.data !== undefined, asked.error);
  const path = { chatId: asked.data.chatId, messageId: asked.data.id };
  const events = "/api/v1/chats/{chatId}/messages/{messageId}/events";
  const streamed = await client.GET(events, { params: { path }, parseAs: "stream" });
  check(Boolean(streamed.data), streamed.error);
  type Event = paths[typeof events]["get"]["responses"][200]["content"]["text/event-stream"];
  let last: [string, Event] | undefined;
  for await (const event of frames<Event>(streamed.data as ReadableStream<Uint8Array>)) last = event;
  check(last?.[0] === "completed" && last[1].id === asked.data.id && last[1].text.length > 0, last);
}

main();
