/** The objects of the interface, as they are in JSON. Times are ISO 8601 in UTC. Fields may be added. */

export type MachineState = "RUNNING" | "STOPPED" | "STARTING" | "STOPPING";
export type AnswerStatus = "in_progress" | "completed";
export type RunState = "PENDING" | "COMPLETE" | "ERROR";

/** A code for programs. Codes may be added. */
export type ErrorCode =
  | "BAD_REQUEST" | "UNKNOWN_MODEL" | "UNKNOWN_SETTING" | "UNKNOWN_JURISDICTION" | "UNKNOWN_AGENT" | "UNKNOWN_SKILL"
  | "AMBIGUOUS_NAME" | "EMPTY_FILE" | "IS_FOLDER" | "NOT_A_FOLDER" | "OUTSIDE_WORKSPACE" | "FORBIDDEN" | "KEY_SCOPE"
  | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "CONVERSATION_BUSY" | "INSUFFICIENT_CREDITS" | "SPENDING_LIMIT" | "NO_MACHINE"
  | "MACHINE_NOT_RUNNING" | "MODEL_UNAVAILABLE" | "IDEMPOTENCY_MISMATCH" | "CALL_CLOSED" | "ALREADY_EXISTS" | "AMBIGUOUS_PATH" | "NOT_EMPTY"
  | "TOO_MANY_ENTRIES" | "QUOTA_EXCEEDED" | "TOO_LARGE" | "RANGE_NOT_SATISFIABLE" | "RATE_LIMITED" | "TARGET_TOO_LONG"
  | "HEAD_TOO_LARGE" | "TOO_SLOW" | "INTERNAL" | "UNAVAILABLE"
  | (string & {});

/** Why an answer could not be finished. Codes may be added. */
export type AnswerErrorCode =
  | "MODEL_UNAVAILABLE" | "MODEL_REJECTED" | "MODEL_KEY_REFUSED" | "MODEL_UNPAID" | "AGENT_UNAVAILABLE"
  | "CONTEXT_TOO_LONG" | "INSUFFICIENT_CREDITS"
  | "SPENDING_LIMIT" | "MACHINE_FAILED" | "TOO_MANY_STEPS" | "OUTPUT_EXHAUSTED" | "MODEL_REFUSED"
  | "REPLY_OVERDUE" | "INTERRUPTED" | "INTERNAL"
  | (string & {});

export interface VmStatus {
  status: MachineState;
}

/** A model that a question may name by its `id`. */
export interface Model {
  id: string;
  label: string;
  description: string;
  provider: "ANTHROPIC" | "OPENAI" | "GOOGLE";
  status: "UP" | "DEGRADED" | "DOWN" | "UNKNOWN";
  default: boolean;
  deprecated: boolean;
  settings: ModelSetting[];
  builtin?: boolean;
}

export interface ModelSetting {
  key: string;
  label: string;
  options: { value: string; label: string }[];
  defaultValue: string;
}

export interface Jurisdiction {
  id: string;
  label: string;
}

/** A skill or an agent. A question names it by `id`, `fullName` or `name`. */
export interface PluginEntry {
  id: string;
  name: string;
  fullName: string;
  description: string;
}

/** A file that was uploaded; `path` is for `filePaths` of a question. `size` in bytes. */
export interface UploadedFile {
  name: string;
  path: string;
  size: number;
}

/** How far the indexing of a file has come: `pending`, `indexing`, `indexed`, `partial` or `unreadable`. */
export interface FileIndexing {
  state: string;
  reason?: string;
  message?: string;
  pagesRead?: number;
  pages?: number;
}

/** How many files at and below a folder there are, by the state of their indexing. */
export interface FolderIndexing {
  files: number;
  indexed: number;
  pending: number;
  partial: number;
  unreadable: number;
}

export interface DirectoryEntry {
  name: string;
  path: string;
  type: "FILE" | "DIRECTORY" | "SYMLINK" | "OTHER";
  size: number;
  modifiedTime: string;
  mimeType: string;
  /** Of files only. */
  indexing?: FileIndexing;
}

export interface DirectoryListing {
  path: string;
  entries: DirectoryEntry[];
  totalEntries: number;
  indexing: FolderIndexing;
}

export interface CreatedDirectory {
  name: string;
  path: string;
}

/** A place in a file of the workspace: its `page`, the first and last of its `lines`, or both, where it has them. */
export interface FileSource {
  type: "FILE";
  path: string;
  page?: number;
  lines?: [number, number];
  /** The name of the sheet, or of the file in an archive, that the page is, or of the file that is attached to it. */
  pageName?: string;
}

/** A page of the web. */
export interface UrlSource {
  type: "URL";
  url: string;
  title: string;
}

export type Source = FileSource | UrlSource;

/** A source that a piece of the answer cites; its link in the HTML has the id in `data-citation`. */
export interface Citation {
  citationId: string;
  source: Source;
  /** Whether every sentence that cites the passage stands in it; absent until the text is finished, or if unchecked. */
  verified?: boolean;
  /** What does not stand in the passage, if it is not verified. */
  reason?: string;
}

interface PartOf<Type extends string> {
  partId: string;
  type: Type;
}

/** A piece of the answer, as safe HTML. */
export interface TextPart extends PartOf<"TEXT"> {
  content: string;
  citations: Citation[];
}

export interface ReasoningPart extends PartOf<"REASONING"> {
  content: string;
}

export interface ToolPart extends PartOf<"TOOL"> {
  toolName: string;
  toolCallId: string;
  state: RunState;
  sources: Source[];
}

export interface WebSearchPart extends PartOf<"WEB_SEARCH"> {
  toolName: string;
  toolCallId: string;
  state: RunState;
  query: string;
  sources: Source[];
}

export interface SkillPart extends PartOf<"SKILL"> {
  skillId: string;
  name: string;
  fullName: string;
  state: RunState;
}

/** Another agent that was given a part of the task; `content` is safe HTML and grows. */
export interface AgentPart extends PartOf<"AGENT"> {
  agentId: string;
  name: string;
  fullName: string;
  state: RunState;
  content: string;
  citations: Citation[];
}

export interface FilePart extends PartOf<"FILE"> {
  path: string;
  name: string;
}

/** A part of an answer, by its `type`. */
export type AnswerPart = TextPart | ReasoningPart | ToolPart | WebSearchPart | SkillPart | AgentPart | FilePart;

export interface AnswerError {
  code: AnswerErrorCode;
  message: string;
}

/** A function that you run yourself. `parameters` is the JSON Schema of an object. */
export interface ClientTool {
  name: string;
  description?: string;
  parameters?: Record<string, unknown>;
}

/** A call of the model that waits for a reply. `arguments` is JSON as the model wrote it. Types may be added. */
export interface PendingCall {
  callId: string;
  type: "FUNCTION" | "QUESTION" | (string & {});
  toolName: string;
  arguments: string;
  expiresAt: string;
}

/** An answer as it stands. `text` is Markdown; `error` is there if the answer could not be finished. */
export interface Answer {
  id: string;
  chatId: string;
  status: AnswerStatus;
  createdAt: string;
  model: string;
  text: string;
  parts: AnswerPart[];
  pending?: PendingCall[];
  error?: AnswerError;
}

/** An event of a stream. `answer` is the whole state and supersedes those before; `id` resumes after it. */
export interface AnswerEvent {
  event: "message" | "completed";
  answer: Answer;
  id: string;
}

/** A conversation in short. */
export interface Chat {
  chatId: string;
  title: string;
  status: AnswerStatus;
  createdAt: string;
  modifiedAt: string;
  model: string;
  pinned: boolean;
  webSearchEnabled: boolean;
  jurisdictions: string[];
}

export interface ChatPage {
  chats: Chat[];
  offset: number;
  limit: number;
  totalCount: number;
}

export interface UserMessage {
  id: string;
  role: "USER";
  status: AnswerStatus;
  createdAt: string;
  text: string;
  filePaths: string[];
}

export interface AssistantMessage {
  id: string;
  role: "ASSISTANT";
  status: AnswerStatus;
  createdAt: string;
  text: string;
  parts: AnswerPart[];
  pending?: PendingCall[];
  error?: AnswerError;
}

export type Message = UserMessage | AssistantMessage;

/** A conversation with its messages, the oldest first. */
export interface ChatDetail {
  chat: Chat;
  messages: Message[];
}

/** What a question may say besides its text. */
export interface QuestionOptions {
  /** The conversation to go on with; a new one unless given. */
  chatId?: string;
  agentId?: string;
  skillIds?: string[];
  /** Files and folders of the workspace, such as `path` of an upload. */
  filePaths?: string[];
  model?: string;
  jurisdictions?: string[];
  webSearchEnabled?: boolean;
  /** Functions that you run yourself. Their calls are `pending` of the answer. */
  tools?: ClientTool[];
  /** Whether the model may ask questions, which are `pending` of the answer. */
  askUserEnabled?: boolean;
  /** Settings of the model, by their keys. */
  settings?: Record<string, string>;
}
