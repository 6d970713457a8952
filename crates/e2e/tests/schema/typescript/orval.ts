// The client that orval generates. It reads bodies whole; a stream is read from its address, with its types.
import { askQuestion, getStreamAnswerUrl, type streamAnswerResponse200 } from "./orval/api";
import { KnownErrorCode } from "./orval/api.schemas";
import { baseUrl, check, frames, key, question } from "./frames";

async function main() {
  // Its addresses have no host: that is a setting of the generator, or the browser's.
  const fetchThere = globalThis.fetch;
  globalThis.fetch = (url, options) => fetchThere(`${baseUrl}${String(url)}`, options);
  const headers = { "X-Api-Key": key };
  const refused = await askQuestion({ ...question, model: "clerk" }, { headers });
  check(refused.status === 400 && refused.data.code === KnownErrorCode.UNKNOWN_MODEL, refused);

  const asked = await askQuestion(question, { headers });
  check(asked.status === 201 || asked.status === 202, asked);
  const response = await fetch(getStreamAnswerUrl(asked.data.chatId, asked.data.id), { headers });
  check(response.status === 200 && response.body !== null, response.status);
  type Event = streamAnswerResponse200["data"];
  let last: [string, Event] | undefined;
  for await (const event of frames<Event>(response.body)) last = event;
  check(last?.[0] === "completed" && last[1].id === asked.data.id && last[1].text.length > 0, last);
}

main();
