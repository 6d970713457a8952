import { ChatCursor } from "./chat-cursor.js";
import { AnswerStream, EventStream, type StreamOptions } from "./stream.js";
import type { CallOptions, Transport } from "./transport.js";
import type {
  Answer, Chat, ChatDetail, ChatPage, CreatedDirectory, DirectoryListing, Jurisdiction, Model, PluginEntry,
  QuestionOptions, UploadedFile, VmStatus,
} from "./types.js";

/** The service holds no response longer than this, in seconds. */
const WAIT_MAX = 60;

export interface LanguageOptions extends CallOptions {
  /** Of labels: `cs`, `en` or `sk`. */
  language?: "cs" | "en" | "sk";
}

export interface WaitOptions extends CallOptions {
  /** Holds the response until the answer is completed, for so many seconds at most, and never more than 60. */
  wait?: number;
}

export interface AskOptions extends QuestionOptions, WaitOptions {
  /** Names the question, so that repeating it asks nothing again; made up for each question unless given. */
  idempotencyKey?: string;
}

/** Content with a name, as `causerie/node` makes it of a path. */
export interface NamedContent {
  name: string;
  content: Blob;
}

/** A `File`, or content that `name` in the options names. */
export type FileContent = Blob | Uint8Array | ArrayBuffer | NamedContent;

export interface UploadOptions extends CallOptions {
  name?: string;
  /** A folder that exists; `/uploads` unless given. */
  destination?: string;
  /** Puts the file into a folder of its own, so that it replaces nothing. */
  temporary?: boolean;
}

class Resource {
  constructor(protected readonly transport: Transport) {}
}

/** The account's machine. */
export class Vm extends Resource {
  async get(options: CallOptions = {}): Promise<VmStatus> {
    return this.transport.json({ method: "GET", path: "/vm", ...options });
  }

  async start(options: CallOptions = {}): Promise<VmStatus> {
    return this.transport.json({ method: "POST", path: "/vm/start", ...options });
  }

  async stop(options: CallOptions = {}): Promise<VmStatus> {
    return this.transport.json({ method: "POST", path: "/vm/stop", ...options });
  }
}

/** What a question may choose from. */
export class Catalogs extends Resource {
  async models(options: LanguageOptions = {}): Promise<Model[]> {
    return this.#list("/models", options);
  }

  async jurisdictions(options: LanguageOptions = {}): Promise<Jurisdiction[]> {
    return this.#list("/jurisdictions", options);
  }

  async skills(options: CallOptions = {}): Promise<PluginEntry[]> {
    return this.#list("/skills", options);
  }

  async agents(options: CallOptions = {}): Promise<PluginEntry[]> {
    return this.#list("/agents", options);
  }

  async #list<T>(path: string, { language, signal }: LanguageOptions): Promise<T[]> {
    return this.transport.json({ method: "GET", path, signal, headers: language ? { "accept-language": language } : {} });
  }
}

/** Files of the workspace. */
export class Files extends Resource {
  async upload(file: FileContent, options: UploadOptions = {}): Promise<UploadedFile> {
    const content = "content" in file ? file.content : file;
    const name = options.name ?? (file as { name?: unknown }).name;
    if (typeof name !== "string") throw new TypeError('content without a name needs one: { name: "lease.pdf" }');
    const form = new FormData();
    if (options.destination !== undefined) form.set("destination", options.destination);
    if (options.temporary) form.set("temporary", "true");
    form.set("file", content instanceof Blob ? content : new Blob([content as BlobPart]), name);
    // A temporary file gets a folder of its own each time: a second one would stay unseen.
    const repeatable = !options.temporary;
    return this.transport.json({ method: "POST", path: "/files", form, repeatable, signal: options.signal });
  }

  /** Returns the content of a file. */
  async download(path: string, options: CallOptions = {}): Promise<Uint8Array> {
    const call = { method: "GET", path: `/files${inUrl(path)}`, ...options } as const;
    return this.transport.read(call, async (response) => new Uint8Array(await response.arrayBuffer()));
  }

  /** Streams the content of a file. */
  async open(path: string, options: CallOptions = {}): Promise<ReadableStream<Uint8Array>> {
    const response = await this.transport.send({ method: "GET", path: `/files${inUrl(path)}`, ...options });
    return response.body ?? new Blob([]).stream();
  }

  /** Deletes a file, or a folder; with `recursive` one that is not empty. */
  async delete(path: string, { recursive, signal }: CallOptions & { recursive?: boolean } = {}): Promise<void> {
    const query: Record<string, string> = recursive ? { recursive: "true" } : {};
    const call = { method: "DELETE", path: `/files${inUrl(path)}`, query, repeatable: false, signal } as const;
    await this.transport.nothing(call);
  }
}

/** Folders of the workspace. */
export class Directories extends Resource {
  async list(path = "/", options: CallOptions = {}): Promise<DirectoryListing> {
    const inside = inUrl(path);
    return this.transport.json({ method: "GET", path: `/directories${inside === "/" ? "" : inside}`, ...options });
  }

  async create(path: string, options: CallOptions = {}): Promise<CreatedDirectory> {
    return this.transport.json({ method: "POST", path: `/directories${inUrl(path)}`, repeatable: false, ...options });
  }
}

/** Conversations. */
export class Chats extends Resource {
  /** Iterates over all conversations, each once: pinned ones first, then the most recent. They may be changed and deleted
   * meanwhile. */
  async *list({ pageSize = 100, signal }: CallOptions & { pageSize?: number } = {}): AsyncGenerator<Chat> {
    const cursor = new ChatCursor(pageSize);
    while (!cursor.isOver) {
      yield* cursor.accept(await this.page({ offset: cursor.offset, limit: cursor.limit, signal }));
    }
  }

  /** Returns one page, of at most 200 conversations. */
  async page(options: CallOptions & { offset?: number; limit?: number } = {}): Promise<ChatPage> {
    const { offset = 0, limit = 50, signal } = options;
    const query = { offset: String(offset), limit: String(limit) };
    return this.transport.json({ method: "GET", path: "/chats", query, signal });
  }

  async get(chatId: string, options: CallOptions = {}): Promise<ChatDetail> {
    return this.transport.json({ method: "GET", path: chatPath(chatId), ...options });
  }

  async update(chatId: string, json: { title?: string; pinned?: boolean }, options: CallOptions = {}): Promise<Chat> {
    return this.transport.json({ method: "PATCH", path: chatPath(chatId), json, ...options });
  }

  /** Stops the answer that is being written. */
  async stop(chatId: string, options: CallOptions = {}): Promise<Chat> {
    return this.transport.json({ method: "POST", path: `${chatPath(chatId)}/stop`, ...options });
  }

  async delete(chatId: string, options: CallOptions = {}): Promise<void> {
    await this.transport.nothing({ method: "DELETE", path: chatPath(chatId), repeatable: false, ...options });
  }

  /** Streams the conversation through all its questions. It begins with the latest answer. */
  watch(chatId: string, options: StreamOptions = {}): EventStream {
    return new EventStream(this.transport, `${chatPath(chatId)}/events`, false, options);
  }
}

/** Answers. */
export class Answers extends Resource {
  /** Asks a question: `ask` of the client. */
  async ask(input: string, options: AskOptions): Promise<Answer> {
    const { idempotencyKey = uniqueName(), wait, signal, settings, ...question } = options;
    const headers = { "idempotency-key": idempotencyKey, ...prefer(wait) };
    const pairs = settings && Object.entries(settings).map(([key, value]) => ({ key, value }));
    const json = { input, ...question, ...(pairs ? { settings: pairs } : {}) };
    return this.transport.json({ method: "POST", path: "/chats", headers, json, held: held(wait), signal });
  }

  /** Returns the answer as it stands, or as it is when completed within `wait` seconds (at most 60). */
  async get(chatId: string, messageId: string, { wait, signal }: WaitOptions = {}): Promise<Answer> {
    const path = answerPath(chatId, messageId);
    return this.transport.json({ method: "GET", path, headers: prefer(wait), held: held(wait), signal });
  }

  /** Waits until the answer is completed or has pending calls, however long that takes. */
  async wait(answer: Answer, { signal }: CallOptions = {}): Promise<Answer> {
    let newest = answer;
    while (newest.status !== "completed" && !newest.pending) {
      newest = await this.get(answer.chatId, answer.id, { wait: WAIT_MAX, ...(signal ? { signal } : {}) });
    }
    return newest;
  }

  /** Replies to a pending call of an answer: with the output, or with the reason why there is none. */
  async reply(
    { chatId, id }: Pick<Answer, "chatId" | "id">,
    callId: string,
    reply: { output: string } | { error: string },
    options: CallOptions = {},
  ): Promise<Answer> {
    const path = `${answerPath(chatId, id)}/calls/${segment(callId)}`;
    return this.transport.json({ method: "POST", path, json: reply, ...options });
  }

  /** Streams an answer, such as `ask` returned: its `id` and `chatId` suffice. */
  stream({ chatId, id }: Pick<Answer, "chatId" | "id">, options: StreamOptions = {}): AnswerStream {
    return new AnswerStream(this.transport, `${answerPath(chatId, id)}/events`, options);
  }
}

/** Returns a name that no other question has. Node 18, and pages that are not secure, have no `randomUUID`. */
function uniqueName(): string {
  const random = () => Math.random().toString(36).slice(2);
  return globalThis.crypto?.randomUUID?.() ?? `${Date.now().toString(36)}-${random()}-${random()}`;
}

function chatPath(chatId: string): string {
  return `/chats/${segment(chatId)}`;
}

function answerPath(chatId: string, messageId: string): string {
  return `${chatPath(chatId)}/messages/${segment(messageId)}`;
}

function held(wait = 0): number {
  return Math.min(Math.floor(wait), WAIT_MAX);
}

function prefer(wait: number | undefined): Record<string, string> {
  return wait ? { prefer: `wait=${held(wait)}` } : {};
}

/**
 * Encodes a path of the workspace. Bytes of names that are not UTF-8 come percent-encoded; those stay.
 *
 * `fetch` resolves `..` in URLs, which would lead to another operation. A path that has it is sent as one segment, so that the
 * service resolves it, and refuses what is outside.
 */
export function inUrl(path: string): string {
  const shown = (name: string) => (isUtf8(path) ? name : name.replaceAll("%25", "%"));
  const encoded = path.replace(/^\/+/, "").split("/").map((name) => shown(encodeURIComponent(name)));
  return `/${encoded.some(isDots) ? [...encoded, ""].join("%2F") : encoded.join("/")}`;
}

function segment(identifier: string): string {
  const encoded = encodeURIComponent(identifier);
  return isDots(encoded) ? `${encoded}%2F` : encoded;
}

function isDots(name: string): boolean {
  return [".", ".."].includes(name.replaceAll(/%2e/gi, "."));
}

function isUtf8(path: string): boolean {
  const escapes = path.match(/(%[0-9a-f]{2})+/gi) ?? [];
  try {
    escapes.forEach(decodeURIComponent);
    return true;
  } catch {
    return false;
  }
}
