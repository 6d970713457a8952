// What the client does with a running service: CAUSERIE_URL and CAUSERIE_API_KEY say which. It changes the account.
import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { AuthenticationError, BadRequestError, Causerie, NotFoundError, PermissionDeniedError, type FileSource } from "../src/index.js";
import { fileFromPath } from "../src/node.js";

const client = new Causerie();
const LEASE = "Lease.\n\nThe rent is due on the fifth day of each month.\n\nThe deposit is two rents.\n";
const QUESTION = "On which day is the rent due?";
async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) found.push(item);
  return found;
}

const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

test("machine and catalogs", async () => {
  assert.match((await client.vm.get()).status, /^(RUNNING|STOPPED|STARTING|STOPPING)$/);
  assert.equal((await client.vm.start()).status, "STARTING");
  const models = await client.catalogs.models({ language: "en" });
  assert.equal(models.filter((model) => model.default).length, 1);
  assert.ok((await client.catalogs.jurisdictions({ language: "en" })).some((one) => one.id === "CZ"));
  assert.ok((await client.catalogs.skills()).some((one) => one.fullName === "causerie:contract-review"));
  assert.ok((await client.catalogs.agents()).some((one) => one.fullName === "causerie:assistant"));
});

test("files come from paths, blobs and bytes", async () => {
  const path = join(await mkdtemp(join(tmpdir(), "causerie-")), "léase 1%.txt");
  await writeFile(path, LEASE);
  assert.equal((await client.directories.create("/ts")).path, "/ts");
  const bytes = new TextEncoder().encode(LEASE);
  const uploaded = [
    await client.files.upload(await fileFromPath(path), { destination: "/ts" }),
    await client.files.upload(new Blob([LEASE]), { name: "blob?#.txt", destination: "/ts" }),
    await client.files.upload(bytes, { name: "bytes.txt", destination: "/ts" }),
  ];
  const listed = await client.directories.list("/ts");
  assert.deepEqual(new Set(listed.entries.map((entry) => entry.path)), new Set(uploaded.map((file) => file.path)));
  for (const file of uploaded) {
    assert.equal(text(await client.files.download(file.path)), LEASE);
    assert.equal(await new Response(await client.files.open(file.path)).text(), LEASE);
  }
  const temporary = await client.files.upload(bytes, { name: "t.txt", temporary: true });
  assert.match(temporary.path, /\/\.tmp\//);
  assert.equal(text(await client.files.download("/ts/../ts/bytes.txt")), LEASE);
  for (const outside of ["..", "../vm", "/ts/../../chats/1"]) {
    await assert.rejects(client.files.download(outside), PermissionDeniedError);
    await assert.rejects(client.directories.create(outside), PermissionDeniedError);
  }
  await assert.rejects(client.chats.get(".."), NotFoundError);
  await client.files.delete(temporary.path);
  await client.files.delete("/ts", { recursive: true });
  await assert.rejects(client.directories.list("/ts"), NotFoundError);
  await assert.rejects(client.files.upload(bytes), TypeError);
});

test("a question is answered, streamed and continued", async () => {
  const file = await client.files.upload(new Blob([LEASE]), { name: "lease.txt" });
  const stream = await client.stream(QUESTION, { filePaths: [file.path] });
  let pieces = "";
  for await (const piece of stream.text()) pieces += piece;
  const answer = stream.answer;
  assert.ok(answer);
  assert.equal(answer.status, "completed");
  assert.equal(pieces, answer.text);
  assert.match(pieces, /fifth day/);
  const cited = answer.parts.flatMap((part) => (part.type === "TEXT" ? part.citations : []));
  assert.ok(cited.some(({ source }) => (source as FileSource).path === file.path));
  const again = await all(client.answers.stream(answer));
  assert.deepEqual(again.map(({ event, answer }) => [event, answer]), [["completed", answer]]);
  const ended = await all(client.answers.stream(answer, { lastEventId: again[0]?.id }));
  assert.deepEqual(ended.map(({ event, answer }) => [event, answer]), [["completed", answer]]);

  const more = await client.answers.wait(await client.ask("And the deposit?", { chatId: answer.chatId, wait: 1 }));
  assert.deepEqual(await client.answers.get(answer.chatId, more.id), more);
  const { messages } = await client.chats.get(answer.chatId);
  assert.deepEqual(messages.map((message) => message.role), ["USER", "ASSISTANT", "USER", "ASSISTANT"]);
  for await (const event of client.chats.watch(answer.chatId)) {
    assert.deepEqual(event.answer, more);
    break;
  }
  assert.equal((await client.chats.update(answer.chatId, { title: "Rent", pinned: true })).title, "Rent");
  assert.equal((await client.chats.stop(answer.chatId)).status, "completed");
  await client.chats.delete(answer.chatId);
  await assert.rejects(client.chats.get(answer.chatId), (error: unknown) => {
    return error instanceof NotFoundError && error.code === "NOT_FOUND" && error.requestId !== undefined;
  });
});

test("pages are walked through", async () => {
  const asked = [];
  for (let each = 0; each < 5; each += 1) asked.push((await client.ask("Hello", { wait: 20 })).chatId);
  const listed = (await all(client.chats.list({ pageSize: 2 }))).map((chat) => chat.chatId);
  assert.equal(new Set(listed).size, listed.length);
  assert.equal(listed.length, (await client.chats.page({ limit: 1 })).totalCount);
  assert.ok(asked.every((chatId) => listed.includes(chatId)));
  for (const chatId of listed) await client.chats.delete(chatId);
});

test("a question is asked once by its key, and refusals have types", async () => {
  const idempotencyKey = `key-${Date.now()}`;
  const first = await client.ask("Hello", { idempotencyKey });
  assert.equal((await client.ask("Hello", { idempotencyKey })).id, first.id);
  assert.notEqual((await client.ask("Hello")).id, first.id);
  await assert.rejects(client.ask("Hello", { model: "clerk" }), (error: unknown) => {
    return error instanceof BadRequestError && error.code === "UNKNOWN_MODEL" && /valid values/.test(error.message);
  });
  await assert.rejects(new Causerie({ apiKey: "api-none" }).vm.get(), AuthenticationError);
});

test("a signal ends a call and a stream", async () => {
  const answer = await client.ask("Hello", { wait: 20 });
  const abort = new AbortController();
  const stream = client.chats.watch(answer.chatId, { signal: abort.signal });
  await assert.rejects(async () => {
    for await (const _ of stream) abort.abort(new Error("enough"));
  }, /enough/);
  await assert.rejects(client.vm.get({ signal: abort.signal }), /enough/);
});
