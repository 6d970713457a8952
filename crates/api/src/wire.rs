//! The public JSON (section 2 of the interface). The docs of types and fields are published in the schema.

mod answer;
mod catalog;
pub(crate) mod enums;
pub(crate) mod examples;
mod folder;
mod source;

use control::conversations::ConversationSummary;
use domain::answer::{RevisionStamp, RunState};
use domain::id::MessageId;
use domain::machine::MachineStatus;
use domain::step::ReplyKind;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use workspace::WorkspaceEntryKind;

pub(crate) use self::answer::{Answer, Message, assistant_message, encode_answer, user_message};
pub(crate) use self::catalog::{Jurisdiction, Model, PluginEntryBody};
use self::enums::{AnswerStatus, MachineState};
pub(crate) use self::folder::{DirectoryListingBody, FileIndexingBody};

/// The state of the account's machine.
#[derive(Debug, Serialize, ToSchema)]
pub struct VmStatus {
    #[schema(value_type = MachineState)]
    status: &'static str,
}

impl VmStatus {
    pub(crate) fn from_status(status: MachineStatus) -> Self {
        Self { status: status.as_str() }
    }
}

/// The form of an upload, read while it arrives.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derive alone")]
pub(crate) struct UploadForm {
    /// The file, with a name and not empty.
    #[schema(format = Binary, min_length = 1)]
    file: String,
    /// An existing folder of the workspace; `/uploads` by default.
    #[schema(value_type = String, required = false, examples("/contracts"))]
    destination: Option<String>,
    /// Puts the file into a new folder, so that it replaces no other file; it stays until it is deleted. Cannot
    /// be combined with `destination`.
    #[schema(value_type = bool, required = false, default = false, examples(true))]
    temporary: Option<bool>,
}

/// A file that was uploaded.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UploadedFile)]
pub(crate) struct UploadedFileBody {
    /// Its name, without folders that the client sent with it.
    #[schema(examples("lease.pdf"))]
    pub(crate) name: String,
    /// Its path in the workspace, as `filePaths` of a question accepts it.
    #[schema(examples("/uploads/lease.pdf"))]
    pub(crate) path: String,
    /// Its size in bytes.
    #[schema(examples(52614))]
    pub(crate) size: u64,
}

/// A folder that was created.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CreatedDirectory)]
pub(crate) struct CreatedDirectoryBody {
    /// Its name.
    #[schema(examples("contracts"))]
    pub(crate) name: String,
    /// Its path in the workspace, as `destination` of an upload accepts it.
    #[schema(examples("/contracts"))]
    pub(crate) path: String,
}

/// A summary of a conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chat)]
pub(crate) struct Conversation {
    /// The conversation.
    #[schema(format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    chat_id: String,
    /// Its title, initially taken from the first question.
    #[schema(examples("When is the rent due?"))]
    title: String,
    /// `in_progress` while an answer is being written.
    #[schema(value_type = AnswerStatus)]
    status: &'static str,
    /// When its first question was accepted.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: String,
    /// When its last question was accepted or its last answer was completed.
    #[schema(format = DateTime, examples("2026-11-21T09:30:04.000Z"))]
    modified_at: String,
    /// The model that answers in it.
    #[schema(examples("reader"))]
    model: String,
    /// Whether it is listed before conversations that are not pinned.
    #[schema(examples(false))]
    pinned: bool,
    /// Whether the web may be searched for its answers.
    #[schema(examples(false))]
    web_search_enabled: bool,
    /// The identifiers of its jurisdictions.
    #[schema(examples("CZ"))]
    jurisdictions: Vec<String>,
}

impl Conversation {
    pub(crate) fn from_summary(summary: ConversationSummary) -> Self {
        Self {
            chat_id: summary.id.to_string(),
            title: summary.title,
            status: status_word(summary.open_answer.is_none()),
            created_at: summary.created_at.to_string(),
            modified_at: summary.modified_at.to_string(),
            model: summary.model,
            pinned: summary.pinned,
            web_search_enabled: summary.web_search,
            jurisdictions: summary.jurisdictions,
        }
    }
}

/// A page of the caller's conversations.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = ChatPage)]
pub(crate) struct ChatPageBody {
    /// Pinned conversations first, then the latest changed.
    pub(crate) chats: Vec<Conversation>,
    /// The number of skipped conversations.
    #[schema(examples(0))]
    pub(crate) offset: u64,
    /// The maximum number of conversations of the page, as applied.
    #[schema(examples(50))]
    pub(crate) limit: u32,
    /// The number of the caller's conversations.
    #[schema(examples(1))]
    pub(crate) total_count: u64,
}

/// A question. An existing conversation keeps its model, settings, jurisdictions and web search: these fields
/// of later questions are ignored.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// The text, at most 1 MiB and not only white space.
    #[schema(required, value_type = String, min_length = 1, examples("When is the rent due?"))]
    pub(crate) input: Option<String>,
    /// The conversation to continue; a new one by default.
    #[schema(format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    pub(crate) chat_id: Option<String>,
    /// The agent that answers, by id, full name or name; by default the account's default agent.
    #[schema(examples("causerie:lawyer"))]
    pub(crate) agent_id: Option<String>,
    /// The skills that the agent may open for this question, by id, full name or name; all skills if the list
    /// is absent or empty.
    #[schema(max_items = 100, examples("causerie:contract-review"))]
    pub(crate) skill_ids: Option<Vec<String>>,
    /// Files and folders of the workspace to attach.
    #[schema(max_items = 100, examples("/uploads/lease.pdf"))]
    pub(crate) file_paths: Option<Vec<String>>,
    /// The model that answers, by id; the default model if absent.
    #[schema(examples("reader"))]
    pub(crate) model: Option<String>,
    /// The jurisdictions whose law the question is about, by id.
    #[schema(examples("CZ"))]
    pub(crate) jurisdictions: Option<Vec<String>>,
    /// Whether the web may be searched; false by default.
    #[schema(examples(false))]
    pub(crate) web_search_enabled: Option<bool>,
    /// Settings of the model, as its catalog entry offers them.
    pub(crate) settings: Option<Vec<ChosenSetting>>,
    /// Functions that the client runs itself. The model may call them for this question; the answer then waits in
    /// `pending`.
    #[schema(max_items = 64)]
    pub(crate) tools: Option<Vec<ClientTool>>,
    /// Whether the model may ask the user questions, which the client answers; false by default.
    #[schema(examples(false))]
    pub(crate) ask_user_enabled: Option<bool>,
}

/// The fields of a [`Question`] that apply when it continues a conversation.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FollowUp {
    input: Option<String>,
    pub(crate) chat_id: Option<String>,
    agent_id: Option<String>,
    skill_ids: Option<Vec<String>>,
    file_paths: Option<Vec<String>>,
    tools: Option<Vec<ClientTool>>,
    ask_user_enabled: Option<bool>,
}

impl From<FollowUp> for Question {
    fn from(follow_up: FollowUp) -> Self {
        let FollowUp { input, chat_id, agent_id, skill_ids, file_paths, tools, ask_user_enabled } = follow_up;
        let (model, jurisdictions, web_search_enabled, settings) = (None, None, None, None);
        Self {
            input,
            chat_id,
            agent_id,
            skill_ids,
            file_paths,
            model,
            jurisdictions,
            web_search_enabled,
            settings,
            tools,
            ask_user_enabled,
        }
    }
}

/// A function that the client runs itself.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct ClientTool {
    /// Its name: letters, digits, `_` and `-`, without a double `_`.
    #[schema(min_length = 1, max_length = 64, examples("get_weather"))]
    pub(crate) name: String,
    /// What it does, for the model.
    #[schema(value_type = String, required = false, examples("Returns the weather of a city."))]
    pub(crate) description: Option<String>,
    /// The JSON Schema of its arguments, which are an object; no arguments if absent.
    #[schema(value_type = ToolParameters, required = false)]
    pub(crate) parameters: Option<ToolParameters>,
}

/// The JSON Schema of an object.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolParameters(pub(crate) serde_json::Map<String, serde_json::Value>);

impl utoipa::PartialSchema for ToolParameters {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        utoipa::openapi::ObjectBuilder::new()
            .description(Some("The JSON Schema of an object."))
            .examples([examples::tool_parameters()])
            .into()
    }
}

impl ToSchema for ToolParameters {}

/// A reply to a pending call.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallReplyBody {
    pub(crate) output: Option<String>,
    pub(crate) error: Option<String>,
}

/// The output of a call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct CallOutput {
    /// The result of the function as text, or the answer to the question; at most 1 MiB.
    #[schema(examples("{\"temperature\": 21}"))]
    output: String,
}

/// The failure of a call.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct CallFailure {
    /// Why the function failed, for the model; at most 1 MiB.
    #[schema(examples("There is no such city."))]
    error: String,
}

/// The schema of [`CallReplyBody`].
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = CallReply, description = "A reply to a pending call.")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum CallReplySchema {
    Output(CallOutput),
    Failure(CallFailure),
}

/// A setting of the model.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = QuestionSetting)]
pub(crate) struct ChosenSetting {
    /// The setting.
    #[schema(examples("reasoningEffort"))]
    pub(crate) key: String,
    /// One of its options.
    #[schema(examples("HIGH"))]
    pub(crate) value: String,
}

/// The changes of a conversation. Omitted fields stay unchanged.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatChange)]
pub(crate) struct ChatChangeBody {
    /// The title, without control characters; surrounding white space is removed.
    #[schema(min_length = 1, max_length = 120, examples("Rent"))]
    pub(crate) title: Option<String>,
    /// Whether it is listed before conversations that are not pinned.
    #[schema(examples(true))]
    pub(crate) pinned: Option<bool>,
}

/// Returns the public word of an entry's type (2.6).
pub(crate) const fn entry_word(kind: WorkspaceEntryKind) -> &'static str {
    match kind {
        WorkspaceEntryKind::File => "FILE",
        WorkspaceEntryKind::Folder => "DIRECTORY",
        WorkspaceEntryKind::Link => "SYMLINK",
        WorkspaceEntryKind::Other => "OTHER",
    }
}

/// Returns the public state of an answer or conversation (3.2).
pub(crate) const fn status_word(completed: bool) -> &'static str {
    if completed { "completed" } else { "in_progress" }
}

/// Returns the name of an event (section 6).
pub(crate) const fn event_word(completed: bool) -> &'static str {
    if completed { "completed" } else { "message" }
}

/// Returns the identifier of a state in an event stream: message, epoch, revision.
#[must_use]
pub fn event_id(message: MessageId, stamp: RevisionStamp) -> String {
    format!("{message}:{}.{}", stamp.epoch, stamp.revision)
}

/// Parses the identifier of a state; `None` if this service did not write it.
#[must_use]
pub fn read_event_id(text: &str) -> Option<(MessageId, RevisionStamp)> {
    let (message, stamp) = text.split_once(':')?;
    let (epoch, revision) = stamp.split_once('.')?;
    Some((
        message.parse().ok()?,
        RevisionStamp { epoch: epoch.parse().ok()?, revision: revision.parse().ok()? },
    ))
}

pub(crate) const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "PENDING",
        RunState::Complete => "COMPLETE",
        RunState::Error => "ERROR",
    }
}

/// Returns the public type of a pending call.
pub(crate) const fn reply_word(kind: ReplyKind) -> &'static str {
    match kind {
        ReplyKind::Function => "FUNCTION",
        ReplyKind::Question => "QUESTION",
        ReplyKind::Approval => "APPROVAL",
    }
}
