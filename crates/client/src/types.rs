//! The JSON objects of the interface. Unknown fields are ignored.

use serde::{Deserialize, Serialize};

/// A question (section 4.4). Only `input` is needed: `Question::new("…")`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Question {
    /// The question itself.
    pub input: String,
    /// The conversation to continue; a new one when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chat_id: Option<String>,
    /// An agent by id, name or full name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_id: Option<String>,
    /// Skills by id, name or full name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skill_ids: Vec<String>,
    /// Workspace paths of files to attach.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub file_paths: Vec<String>,
    /// A model's id; the default model when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Ids of jurisdictions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jurisdictions: Vec<String>,
    /// Allows web search.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub web_search_enabled: bool,
    /// Settings of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingValue>,
}

impl Question {
    /// Creates a question with only a text.
    #[must_use]
    pub fn new(input: impl Into<String>) -> Self {
        Self { input: input.into(), ..Self::default() }
    }
}

/// A setting of a model with its chosen value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingValue {
    /// The key of the setting.
    pub key: String,
    /// One of its options.
    pub value: String,
}

/// The progress of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It is waiting or being written.
    InProgress,
    /// It is complete.
    Completed,
}

/// An answer (section 2.8).
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatAnswer {
    /// The message's id.
    pub id: String,
    /// The conversation's id.
    pub chat_id: String,
    pub status: Status,
    /// When it was created, ISO 8601.
    #[serde(default)]
    pub created_at: String,
    /// The model of the conversation.
    #[serde(default)]
    pub model: String,
    /// The text so far.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub parts: Vec<ChatAnswerPart>,
    /// The reason of the failure, if it failed.
    #[serde(default)]
    pub error: Option<ApiFailure>,
}

impl ChatAnswer {
    /// Returns true if the answer is completed.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.status == Status::Completed
    }
}

/// The error of a failed answer or rejected call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct ApiFailure {
    /// The code, for programs.
    #[serde(default)]
    pub code: String,
    /// The message, for people.
    #[serde(default)]
    pub message: String,
}

/// The type of a part (section 2.10).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PartType {
    /// A piece of the answer.
    Text,
    /// Reasoning.
    Reasoning,
    /// A tool that was run.
    Tool,
    /// A search of the web.
    WebSearch,
    /// A skill that was used.
    Skill,
    /// Another agent.
    Agent,
    /// A file that was added to the answer.
    File,
    /// A type that this client does not know.
    #[serde(other)]
    Unknown,
}

/// The state of a part that runs something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PartState {
    /// It is running.
    Pending,
    /// It succeeded.
    Complete,
    /// It failed or was interrupted.
    Error,
    /// A state that this client does not know.
    #[serde(other)]
    Unknown,
}

/// A part of an answer (section 2.10). Its type determines which fields are set.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChatAnswerPart {
    /// Its id, which does not change while the answer grows.
    pub part_id: String,
    #[serde(rename = "type")]
    pub kind: PartType,
    /// HTML of text and reasoning.
    #[serde(default)]
    pub content: Option<String>,
    /// The tool's name.
    #[serde(default)]
    pub tool_name: Option<String>,
    /// The run's identifier.
    #[serde(default)]
    pub tool_call_id: Option<String>,
    /// The run's state.
    #[serde(default)]
    pub state: Option<PartState>,
    /// The query of a search.
    #[serde(default)]
    pub query: Option<String>,
    /// A file's workspace path.
    #[serde(default)]
    pub path: Option<String>,
    /// A skill's identifier.
    #[serde(default)]
    pub skill_id: Option<String>,
    /// The name of a skill or a file.
    #[serde(default)]
    pub name: Option<String>,
    /// A skill's full name.
    #[serde(default)]
    pub full_name: Option<String>,
    /// The citations in the text.
    #[serde(default)]
    pub citations: Vec<PartCitation>,
    /// The results of a search.
    #[serde(default)]
    pub sources: Vec<CitedSource>,
}

/// A place in the text that cites a source.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartCitation {
    /// Its identifier within the answer.
    pub citation_id: String,
    pub source: CitedSource,
    /// True if the passage contains each sentence that cites it; absent if that was not checked.
    #[serde(default)]
    pub verified: Option<bool>,
    /// The first thing that the passage does not contain.
    #[serde(default)]
    pub reason: Option<String>,
}

/// A source: a file of the workspace or a URL.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CitedSource {
    /// `URL` or `FILE`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The URL.
    #[serde(default)]
    pub url: Option<String>,
    /// The workspace path.
    #[serde(default)]
    pub path: Option<String>,
    /// The page of the file, from 1, in formats with pages.
    #[serde(default)]
    pub page: Option<u32>,
    /// The first and last line in the file, from 1, in formats with lines.
    #[serde(default)]
    pub lines: Option<(u32, u32)>,
    /// The name of the page, if it has one: a sheet, or a file in an archive.
    #[serde(default)]
    pub page_name: Option<String>,
    /// The title of the URL, if known.
    #[serde(default)]
    pub title: Option<String>,
}

/// An uploaded file (section 2.5).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct UploadedFile {
    /// Its name.
    pub name: String,
    /// Its workspace path.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
}

/// One level of a folder (section 2.6).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FolderListing {
    /// The folder's path.
    pub path: String,
    pub entries: Vec<FolderEntry>,
    /// The total number of entries.
    pub total_entries: u64,
}

/// An entry of a folder (section 2.6).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FolderEntry {
    /// Its name.
    pub name: String,
    /// Its workspace path.
    pub path: String,
    /// `FILE`, `DIRECTORY`, `SYMLINK` or `OTHER`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size in bytes.
    pub size: u64,
    /// When it was changed, ISO 8601.
    pub modified_time: String,
    /// Its media type.
    pub mime_type: String,
    /// The progress of its indexing; only for files.
    #[serde(default)]
    pub indexing: Option<IndexingInfo>,
}

/// The progress of the indexing of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexingInfo {
    /// `pending`, `indexing`, `indexed`, `partial` or `unreadable`.
    pub state: String,
    /// The reason why it cannot be read completely.
    #[serde(default)]
    pub reason: Option<String>,
    /// The pages that were read.
    #[serde(default)]
    pub pages_read: Option<u64>,
    /// All pages.
    #[serde(default)]
    pub pages: Option<u64>,
}

/// A new folder (section 2.7).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct NewFolderInfo {
    /// Its name.
    pub name: String,
    /// Its workspace path.
    pub path: String,
}

/// The machine's state (section 2.1): `RUNNING`, `STOPPED`, `STARTING` or `STOPPING`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MachineInfo {
    /// The state.
    pub status: String,
}

/// A model (section 2.2).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ModelInfo {
    /// The value for `model` of a question.
    pub id: String,
    /// Its name for people.
    pub label: String,
    #[serde(default)]
    pub description: String,
    #[serde(default)]
    pub provider: String,
    /// `UP`, `DEGRADED`, `DOWN` or `UNKNOWN`.
    #[serde(default)]
    pub status: String,
    /// True for the model that answers questions without a model.
    #[serde(default)]
    pub default: bool,
    /// True if it should not be used for new work.
    #[serde(default)]
    pub deprecated: bool,
}

/// A conversation (section 2.9).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chat {
    /// Its id.
    pub chat_id: String,
    /// Its title.
    pub title: String,
    pub status: Status,
    /// When it began, ISO 8601.
    #[serde(default)]
    pub created_at: String,
    /// When it last changed, ISO 8601.
    #[serde(default)]
    pub modified_at: String,
    /// The model that it answers with.
    #[serde(default)]
    pub model: String,
    /// True if it is listed first.
    #[serde(default)]
    pub pinned: bool,
}

/// A page of conversations (section 4.4).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Chats {
    /// The page.
    pub chats: Vec<Chat>,
    /// The number of skipped conversations.
    pub offset: u64,
    /// The maximum size of a page.
    pub limit: u64,
    /// The total number of conversations.
    pub total_count: u64,
}

/// A conversation with its history (section 2.9).
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChatWithMessages {
    /// The conversation.
    pub chat: Chat,
    /// Its messages, oldest first.
    pub messages: Vec<ChatMessage>,
}

/// A message of the history.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ChatMessage {
    /// Its id.
    pub id: String,
    /// `USER` or `ASSISTANT`.
    pub role: String,
    pub status: Status,
    /// Its text.
    #[serde(default)]
    pub text: String,
    #[serde(default)]
    pub parts: Vec<ChatAnswerPart>,
    /// The reason of the failure, if it is an answer that failed.
    #[serde(default)]
    pub error: Option<ApiFailure>,
}

impl ChatMessage {
    /// Returns the message as an answer of a conversation; the history does not say which model wrote it.
    #[must_use]
    pub fn into_answer(self, chat_id: &str) -> ChatAnswer {
        let Self { id, role: _, status, text, parts, error } = self;
        let (created_at, model) = (String::new(), String::new());
        ChatAnswer { id, chat_id: chat_id.to_owned(), status, created_at, model, text, parts, error }
    }
}
