// Compiles only if the types of the client have the fields of the schema, which `openapi-typescript` wrote to `schema.ts`.
import type * as client from "../src/index.js";
import type { components } from "./schema.js";

interface Types {
  Answer: client.Answer;
  AnswerError: client.AnswerError;
  ClientTool: client.ClientTool;
  PendingCall: client.PendingCall;
  TextPart: client.TextPart;
  ReasoningPart: client.ReasoningPart;
  ToolPart: client.ToolPart;
  WebSearchPart: client.WebSearchPart;
  SkillPart: client.SkillPart;
  AgentPart: client.AgentPart;
  FilePart: client.FilePart;
  FileSource: client.FileSource;
  UrlSource: client.UrlSource;
  Citation: client.Citation;
  Chat: client.Chat;
  ChatPage: client.ChatPage;
  ChatDetail: client.ChatDetail;
  UserMessage: client.UserMessage;
  AssistantMessage: client.AssistantMessage;
  Model: client.Model;
  ModelSetting: client.ModelSetting;
  Jurisdiction: client.Jurisdiction;
  PluginEntry: client.PluginEntry;
  UploadedFile: client.UploadedFile;
  FileIndexing: client.FileIndexing;
  FolderIndexing: client.FolderIndexing;
  DirectoryEntry: client.DirectoryEntry;
  DirectoryListing: client.DirectoryListing;
  CreatedDirectory: client.CreatedDirectory;
  VmStatus: client.VmStatus;
}

type Schemas = components["schemas"];
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Fields = { [Name in keyof Types]: Same<keyof Types[Name], keyof Schemas[Name]> };

export function allSame(fields: Fields): Record<keyof Types, true> {
  return fields;
}
