/** Client of the Causerie agent conversation service. */

export { Causerie, type ClientOptions } from "./client.js";
export * from "./errors.js";
export type {
  Answers, AskOptions, Catalogs, Chats, Directories, FileContent, Files, LanguageOptions, NamedContent, UploadOptions, Vm,
  WaitOptions,
} from "./resources.js";
export type { Retries } from "./retries.js";
export { AnswerStream, EventStream, type StreamOptions } from "./stream.js";
export type { CallOptions } from "./transport.js";
export * from "./types.js";
export { VERSION } from "./version.js";
