// What the client does when the service, or what is in between, fails: played by a `fetch` of its own.
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { FrameDecoder } from "../src/frames.js";
import { Causerie, ConnectionFailedError, RateLimitError, ResponseFormError, TextRevisedError } from "../src/index.js";
import { inUrl } from "../src/resources.js";

const MOST = 3;
const ANSWER = { id: "m", chatId: "c", createdAt: "2026-11-21T09:30:00.000Z", model: "x", parts: [] };
const broken = new TypeError("fetch failed");
const starting = () => Response.json({ code: "UNAVAILABLE", message: "x" }, { status: 503, headers: { "retry-after": "0" } });

interface Sent {
  url: string;
  headers: Record<string, string>;
  body: unknown;
}

function clientOf(...replies: (Response | Error)[]): [Causerie, Sent[]] {
  const sent: Sent[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    sent.push({ url, headers: init.headers as Record<string, string>, body: init.body });
    const reply = replies.shift();
    if (reply instanceof Response) return reply;
    throw reply ?? broken;
  }) as typeof globalThis.fetch;
  const retries = { most: MOST, firstWait: 0.001, longestWait: 5 };
  return [new Causerie({ baseUrl: "http://test", apiKey: "api-x", retries, fetch }), sent];
}

function frame(text: string, revision: number, status = "in_progress"): string {
  const event = status === "completed" ? "completed" : "message";
  return `event: ${event}\ndata: ${JSON.stringify({ ...ANSWER, text, status })}\nid: m:1.${revision}\nretry: 1\n\n`;
}

function events(...frames: string[]): Response {
  return new Response(frames.join(""), { headers: { "content-type": "text/event-stream" } });
}

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

test("an unknown option is refused by its name", () => {
  const create = (options: object) => () => new Causerie({ apiKey: "api-x", ...options });
  assert.throws(create({ url: "http://test" }), { name: "TypeError", message: /"url"; use baseUrl, apiKey, / });
  assert.throws(create({ retries: { max: 1 } }), { name: "TypeError", message: /"max"; use most, / });
  assert.doesNotThrow(create({ baseUrl: "http://test", timeout: 1, retries: { most: 0 }, fetch: undefined }));
});

test("a question is repeated under one key", async () => {
  const accepted = Response.json({ ...ANSWER, text: "", status: "in_progress" }, { status: 202 });
  const [client, sent] = clientOf(broken, starting(), accepted);
  assert.equal((await client.ask("Hello", { settings: { reasoningEffort: "HIGH" } })).id, "m");
  assert.equal(sent.length, 3);
  assert.equal(new Set(sent.map(({ headers }) => headers["idempotency-key"])).size, 1);
  const settings = [{ key: "reasoningEffort", value: "HIGH" }];
  assert.deepEqual(JSON.parse(sent[2]?.body as string), { input: "Hello", settings });
});

test("a wait beyond the longest is the caller's", async () => {
  const limited = Response.json({ code: "RATE_LIMITED", message: "x" }, { status: 429, headers: { "retry-after": "60" } });
  const [client, sent] = clientOf(limited);
  await assert.rejects(client.vm.get(), (error: unknown) => error instanceof RateLimitError && error.retryAfter === 60);
  assert.equal(sent.length, 1);
});

test("a response that does not begin in time is given up", async () => {
  const fetch = ((_: string, { signal }: RequestInit) => {
    return new Promise((_resolve, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
  }) as typeof globalThis.fetch;
  const options = { apiKey: "api-x", timeout: 0.01, retries: { most: 0 }, fetch };
  await assert.rejects(new Causerie(options).vm.get(), ConnectionFailedError);
});

test("a wait is added to the time limit", async () => {
  const late = ((_: string, { signal }: RequestInit) => {
    return new Promise((resolve, reject) => {
      signal?.addEventListener("abort", () => reject(signal.reason));
      setTimeout(() => resolve(Response.json({ ...ANSWER, text: "", status: "completed" })), 50);
    });
  }) as typeof globalThis.fetch;
  const client = new Causerie({ apiKey: "api-x", timeout: 0.01, retries: { most: 0 }, fetch: late });
  assert.equal((await client.ask("Hello", { wait: 60 })).id, "m");
  assert.equal((await client.answers.get("c", "m", { wait: 60 })).id, "m");
  await assert.rejects(client.answers.get("c", "m"), ConnectionFailedError);
});

test("attempts are bounded, and what may not be repeated is not", async () => {
  const [client, sent] = clientOf();
  await assert.rejects(client.vm.get(), ConnectionFailedError);
  assert.equal(sent.length, 1 + MOST);
  await assert.rejects(client.files.upload(new Blob(["x"]), { name: "x", temporary: true }), ConnectionFailedError);
  assert.equal(sent.length, 2 + MOST);
});

test("a signal that outlives many calls is not listened to for ever", async () => {
  const done = { ...ANSWER, text: "x", status: "completed" };
  const refusal = Response.json({ code: "NOT_FOUND", message: "x" }, { status: 404 });
  const [client] = clientOf(Response.json(done), refusal, broken, Response.json(done), events(frame("x", 1, "completed")));
  const { signal } = new AbortController();
  await client.answers.get("c", "m", { signal });
  await assert.rejects(client.answers.get("c", "m", { signal }));
  await client.answers.get("c", "m", { signal });
  await client.answers.stream({ chatId: "c", id: "m" }, { signal }).untilDone();
  assert.equal(getEventListeners(signal, "abort").length, 0);
});

test("a stream resumes after its last event", async () => {
  const [client, sent] = clientOf(
    events(frame("One", 1), "event: message\ndata: {"),
    broken,
    starting(),
    events(frame("On", 2), frame("One tw \n", 3)),
    events(frame("One two.", 4, "completed")),
  );
  assert.deepEqual(await all(client.answers.stream({ chatId: "c", id: "m" }).text()), ["One", " tw", "o."]);
  const ids = sent.map(({ headers }) => headers["last-event-id"]);
  assert.deepEqual(ids, [undefined, "m:1.1", "m:1.1", "m:1.1", "m:1.3"]);
});

test("an answer that was read to its end before is collected", async () => {
  const resume = (...before: Response[]) => {
    const done = Response.json({ ...ANSWER, text: "One two.", status: "completed" });
    const [client, sent] = clientOf(...before, new Response(null, { status: 204 }), done);
    return [client.answers.stream({ chatId: "c", id: "m" }, { lastEventId: "m:1.4" }), sent] as const;
  };
  const [stream, sent] = resume();
  assert.equal((await stream.untilDone()).text, "One two.");
  assert.equal(sent.length, 2);
  assert.deepEqual(await all(resume()[0].text()), ["One two."]);
  assert.deepEqual(await all(resume(events(frame("One", 1)))[0].text()), ["One", " two."]);
});

test("a text that was revised is not passed off as its continuation", async () => {
  const [client] = clientOf(events(frame("One two", 1), frame("Three", 2), frame("Three.", 3, "completed")));
  const pieces = client.answers.stream({ chatId: "c", id: "m" }).text();
  assert.equal((await pieces.next()).value, "One two");
  await assert.rejects(pieces.next(), (error: unknown) => {
    return error instanceof TextRevisedError && error.answer.text === "Three.";
  });
});

test("a stream on which nothing happens is resumed as often as it breaks", async () => {
  const idle = Array.from({ length: 3 * MOST }, () => events(": beat\n\n"));
  const [client] = clientOf(...idle, events(frame("One.", 1, "completed")));
  assert.equal((await client.answers.stream({ chatId: "c", id: "m" }).untilDone()).text, "One.");
});

test("a stream that breaks before its first heartbeat is given up", async () => {
  const [client, sent] = clientOf(...Array.from({ length: 9 }, () => events("retry: 1\n\nevent: message\ndata: {")));
  await assert.rejects(client.answers.stream({ chatId: "c", id: "m" }).untilDone(), ConnectionFailedError);
  assert.equal(sent.length, 1 + MOST);
});

test("a stream that never comes is given up", async () => {
  const [client, sent] = clientOf();
  await assert.rejects(client.answers.stream({ chatId: "c", id: "m" }).untilDone(), ConnectionFailedError);
  assert.equal(sent.length, 1 + MOST);
});

test("redirects are refused", async (context) => {
  const paths: (string | undefined)[] = [];
  const server = createServer(({ url }, response) => {
    paths.push(url);
    response.writeHead(url === "/other" ? 200 : 301, { location: "/other" }).end("[]");
  });
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  context.after(() => (server.closeAllConnections(), server.close()));
  const { port } = server.address() as AddressInfo;
  const client = new Causerie({ baseUrl: `http://127.0.0.1:${port}`, apiKey: "api-x", retries: { most: MOST } });
  const calls = [() => client.ask("Hello"), () => client.vm.get(), () => client.answers.stream({ chatId: "c", id: "m" }).untilDone()];
  for (const call of calls) {
    await assert.rejects(call, (error: unknown) => error instanceof ResponseFormError && /redirects/.test(error.message));
  }
  assert.deepEqual(paths, ["/api/v1/chats", "/api/v1/vm", "/api/v1/chats/c/messages/m/events"]);
});

test("no conversation is passed over while the list changes", async () => {
  type Change = (chats: string[], chat: string) => void;
  const move = (chats: string[], chat: string, to: number) => chats.splice(to, 0, ...chats.splice(chats.indexOf(chat), 1));
  const remove = (chats: string[], chat: string) => chats.splice(chats.indexOf(chat), 1);
  const changes: [Change, number][] = [
    [() => undefined, 4],
    [remove, 7],
    [(chats, chat) => Number(chat.slice(1)) % 2 && remove(chats, chat), 8],
    [(chats, chat) => move(chats, chat, 0), 5],
    [(chats, chat) => chat === "c0" && move(chats, chat, chats.length), 6],
    [(chats, chat) => chat === "c5" && move(chats, "c35", 0), 6],
  ];
  for (const [change, most] of changes) {
    const chats = Array.from({ length: 40 }, (_, number) => `c${number}`);
    const expected = new Set(chats);
    let pages = 0;
    const fetch = (async (url: string) => {
      pages += 1;
      const [offset = 0, limit = 0] = ["offset", "limit"].map((name) => Number(new URL(url).searchParams.get(name)));
      const page = chats.slice(offset, offset + limit).map((chatId) => ({ chatId }));
      return Response.json({ chats: page, totalCount: chats.length });
    }) as typeof globalThis.fetch;
    const seen: string[] = [];
    for await (const { chatId } of new Causerie({ apiKey: "api-x", fetch }).chats.list({ pageSize: 10 })) {
      seen.push(chatId);
      change(chats, chatId);
    }
    assert.equal(seen.length, 40);
    assert.deepEqual(new Set(seen), expected);
    assert.ok(pages <= most, `${pages} pages for ${change}`);
  }
});

test("a response that is no JSON is told", async () => {
  const [client] = clientOf(new Response("<html>"));
  await assert.rejects(client.vm.get(), ResponseFormError);
});

test("frames are the same however the bytes are cut", () => {
  const text = "retry: 20\nevent: message\ndata: {\ndata: žluť}\nid: 1\n\n: beat\n\nevent: completed\ndata: b\nid: 2\n\n";
  for (const end of ["\n", "\r\n"]) {
    const bytes = new TextEncoder().encode(text.replaceAll("\n", end));
    const read = (...pieces: Uint8Array[]) => {
      const frames = new FrameDecoder();
      const found = pieces.flatMap((piece) => [...frames.feed(piece)]);
      assert.equal(frames.retrySeconds, 0.02);
      return found;
    };
    const expected = [{ event: "message", data: "{\nžluť}", id: "1" }, { event: "completed", data: "b", id: "2" }];
    assert.deepEqual(read(...[...bytes].map((byte) => Uint8Array.of(byte))), expected);
    for (let at = 0; at <= bytes.length; at += 1) {
      assert.deepEqual(read(bytes.slice(0, at), bytes.slice(at)), expected);
    }
  }
});

test("every name survives its URL", () => {
  const paths = ["/uploads/a b.txt", "á/100 %.txt", "/what?#.txt", "/a%20b", "/caf%E9 1", "", "a/..b/.c"];
  const urls = ["/uploads/a%20b.txt", "/%C3%A1/100%20%25.txt", "/what%3F%23.txt", "/a%2520b", "/caf%E9%201", "/", "/a/..b/.c"];
  assert.deepEqual(paths.map(inUrl), urls);
});

test("no path leaves the operation that it is given to", () => {
  for (const path of ["..", "../vm/stop", "a/../../chats/1", "./b", "caf%E9/%2e%2E/x", "/.."]) {
    const { pathname } = new URL(`http://host/api/v1/files${inUrl(path)}`);
    assert.ok(pathname.startsWith("/api/v1/files/") && pathname.includes("%2F"), pathname);
  }
});
