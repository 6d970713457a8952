import { Answers, Catalogs, Chats, Directories, Files, Vm, type AskOptions } from "./resources.js";
import { RETRIES, type Retries } from "./retries.js";
import type { AnswerStream } from "./stream.js";
import { TIMEOUT, Transport } from "./transport.js";
import type { Answer } from "./types.js";
import { VERSION } from "./version.js";

export interface ClientOptions {
  /** Where the service is, such as `http://127.0.0.1:8080`; under Node `CAUSERIE_URL` unless given. */
  baseUrl?: string;
  /** The key, which begins with `api-`; under Node `CAUSERIE_API_KEY` unless given. */
  apiKey?: string;
  /** Within how many seconds a response must begin; 90 unless given. Uploads have no limit but that of a signal. */
  timeout?: number;
  retries?: Partial<Retries>;
  /** Replaces the platform's `fetch`, for instance for a proxy. */
  fetch?: typeof globalThis.fetch;
}

/** The names of all options; the type makes the compiler refuse one that is missing here. */
const OPTIONS: Record<keyof ClientOptions, true> = { baseUrl: true, apiKey: true, timeout: true, retries: true, fetch: true };

/** Refuses misspelled options, which only a compiler sees otherwise. */
function refuseUnknown(options: object, known: object, what: string) {
  const unknown = Object.keys(options).find((name) => !Object.hasOwn(known, name));
  if (unknown === undefined) return;
  throw new TypeError(`there is no ${what} "${unknown}"; use ${Object.keys(known).join(", ")}`);
}

/** A client with a key. */
export class Causerie {
  readonly vm: Vm;
  readonly catalogs: Catalogs;
  readonly files: Files;
  readonly directories: Directories;
  readonly chats: Chats;
  readonly answers: Answers;

  constructor(options: ClientOptions = {}) {
    refuseUnknown(options, OPTIONS, "option");
    refuseUnknown(options.retries ?? {}, RETRIES, "option of retries");
    const url = new URL(options.baseUrl ?? environment("CAUSERIE_URL") ?? "http://127.0.0.1:8080");
    const key = options.apiKey ?? environment("CAUSERIE_API_KEY");
    if (!/^https?:$/.test(url.protocol)) throw new TypeError("the base URL has the form http://HOST:PORT");
    if (!key) throw new TypeError("give apiKey, or set CAUSERIE_API_KEY");
    const base = `${url.origin}${url.pathname.replace(/\/+$/, "")}/api/v1`;
    const headers = { "x-api-key": key.trim(), ...userAgent() };
    const fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    const retries = { ...RETRIES, ...options.retries };
    const transport = new Transport(retries, options.timeout ?? TIMEOUT, base, headers, fetch);
    this.vm = new Vm(transport);
    this.catalogs = new Catalogs(transport);
    this.files = new Files(transport);
    this.directories = new Directories(transport);
    this.chats = new Chats(transport);
    this.answers = new Answers(transport);
  }

  /** Asks a question. The answer is in progress, unless it is completed within `wait` seconds (at most 60). */
  async ask(input: string, options: AskOptions = {}): Promise<Answer> {
    return this.answers.ask(input, options);
  }

  /** Asks a question and streams its answer. */
  async stream(input: string, options: AskOptions = {}): Promise<AnswerStream> {
    const answer = await this.ask(input, options);
    return this.answers.stream(answer, { signal: options.signal });
  }
}

interface Process {
  env?: Record<string, string | undefined>;
  versions?: { node?: string };
}

function platform(): Process {
  return (globalThis as { process?: Process }).process ?? {};
}

function environment(name: string): string | undefined {
  return platform().env?.[name];
}

/** Browsers name themselves. */
function userAgent(): Record<string, string> {
  return platform().versions?.node ? { "user-agent": `causerie-typescript/${VERSION}` } : {};
}
