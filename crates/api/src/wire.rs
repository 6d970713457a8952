//! How things look on the wire (section 2 of the interface). Answers are written from shared segments,
//! everything else by serde. What is said here of a type and its fields is published in the schema.

mod catalog;

use std::io::Write;

use bytes::Bytes;
use control::conversations::Summary;
use control::live::{Citation, Rope, Shape, ShotPart, Snapshot};
use domain::answer::{Ending, RunState, Stamp};
use domain::citation::Place;
use domain::id::MessageId;
use domain::machine::MachineStatus;
use http_common::json_escape_into;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use workspace::{Entry, EntryKind};

pub(crate) use self::catalog::{Jurisdiction, Listed, Model};
use crate::openapi::words::{AnswerStatus, EntryType, MachineState, UserRole};

/// What the account's machine is doing.
#[derive(Debug, Serialize, ToSchema)]
pub struct VmStatus {
    #[schema(value_type = MachineState)]
    status: &'static str,
}

impl VmStatus {
    pub(crate) fn of(status: MachineStatus) -> Self {
        Self { status: status.as_str() }
    }
}

/// The form of an upload, which is read as it comes in.
#[derive(ToSchema)]
#[expect(dead_code, reason = "read by the derive alone")]
pub(crate) struct UploadForm {
    /// The file, with a name and some content.
    #[schema(format = Binary, min_length = 1)]
    file: String,
    /// A folder of the workspace that exists; `/uploads` unless given.
    #[schema(value_type = String, required = false, examples("/contracts"))]
    destination: Option<String>,
    /// Puts the file into a folder of its own, so that it replaces nothing; it stays until it is deleted. Not
    /// together with `destination`.
    #[schema(value_type = bool, required = false, default = false, examples(true))]
    temporary: Option<bool>,
}

/// A file that was uploaded.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = UploadedFile)]
pub(crate) struct Uploaded {
    /// Its name, without any folders that the client put into it.
    #[schema(examples("lease.pdf"))]
    pub(crate) name: String,
    /// Where it is in the workspace; for `filePaths` of a question as it stands.
    #[schema(examples("/uploads/lease.pdf"))]
    pub(crate) path: String,
    /// Its size in bytes.
    #[schema(examples(52614))]
    pub(crate) size: u64,
}

/// One level of a folder, without hidden entries.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DirectoryListing)]
pub(crate) struct Listing {
    /// The folder.
    #[schema(examples("/uploads"))]
    pub(crate) path: String,
    /// What is in it: folders first, each kind by name.
    pub(crate) entries: Vec<ListedEntry>,
    /// How many they are.
    #[schema(examples(1))]
    pub(crate) total_entries: usize,
}

/// An entry of a folder.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = DirectoryEntry)]
pub(crate) struct ListedEntry {
    /// Its name.
    #[schema(examples("lease.pdf"))]
    name: String,
    /// Where it is in the workspace, for whatever takes a path.
    #[schema(examples("/uploads/lease.pdf"))]
    path: String,
    #[schema(value_type = EntryType)]
    r#type: &'static str,
    /// Its size in bytes; 0 unless it is a file.
    #[schema(examples(52614))]
    size: u64,
    /// When it was changed.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    modified_time: String,
    /// The type of its content by its name; `inode/directory` for folders.
    #[schema(examples("application/pdf"))]
    mime_type: String,
}

impl ListedEntry {
    pub(crate) fn of(entry: Entry) -> Self {
        Self {
            r#type: entry_word(entry.kind),
            size: entry.size,
            modified_time: entry.modified.to_string(),
            mime_type: entry.mime.to_owned(),
            path: entry.path.to_string(),
            name: entry.name,
        }
    }
}

/// A folder that was created.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = CreatedDirectory)]
pub(crate) struct CreatedFolder {
    /// Its name.
    #[schema(examples("contracts"))]
    pub(crate) name: String,
    /// Where it is in the workspace; for `destination` of an upload as it stands.
    #[schema(examples("/contracts"))]
    pub(crate) path: String,
}

/// A conversation in short.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Chat)]
pub(crate) struct Conversation {
    /// The conversation.
    #[schema(format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    chat_id: String,
    /// Its title, at first taken from the first question.
    #[schema(examples("When is the rent due?"))]
    title: String,
    /// `in_progress` while an answer is being written.
    #[schema(value_type = AnswerStatus)]
    status: &'static str,
    /// When its first question was accepted.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: String,
    /// When its last question was accepted or its last answer was done.
    #[schema(format = DateTime, examples("2026-11-21T09:30:04.000Z"))]
    modified_at: String,
    /// The model that answers in it.
    #[schema(examples("reader"))]
    model: String,
    /// Whether it is listed before those that are not.
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
    pub(crate) fn of(summary: Summary) -> Self {
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
pub(crate) struct Page {
    /// Pinned ones first, then the most recently changed.
    pub(crate) chats: Vec<Conversation>,
    /// How many were skipped.
    #[schema(examples(0))]
    pub(crate) offset: u64,
    /// How many there may be on the page, as it was applied.
    #[schema(examples(50))]
    pub(crate) limit: u32,
    /// How many conversations the caller has.
    #[schema(examples(1))]
    pub(crate) total_count: u64,
}

/// A question. A conversation that it goes on with keeps its model, settings, jurisdictions and web search: the
/// question's own are then passed over.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    /// The text, of at most 1 MiB, not of white space alone.
    #[schema(required, value_type = String, min_length = 1, examples("When is the rent due?"))]
    pub(crate) input: Option<String>,
    /// The conversation to go on with; a new one unless given.
    #[schema(format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    pub(crate) chat_id: Option<String>,
    /// The agent that answers, by id, full name or name; the account's default one unless given.
    #[schema(examples("causerie:lawyer"))]
    pub(crate) agent_id: Option<String>,
    /// Skills for this question, each by id, full name or name: the agent then opens no others. All are open to it
    /// unless given.
    #[schema(max_items = 100, examples("causerie:contract-review"))]
    pub(crate) skill_ids: Option<Vec<String>>,
    /// Files and folders of the workspace to attach.
    #[schema(max_items = 100, examples("/uploads/lease.pdf"))]
    pub(crate) file_paths: Option<Vec<String>>,
    /// The model that answers, by id; the default one unless given.
    #[schema(examples("reader"))]
    pub(crate) model: Option<String>,
    /// Jurisdictions, by id: whose law the question is about.
    #[schema(examples("CZ"))]
    pub(crate) jurisdictions: Option<Vec<String>>,
    /// Whether the web may be searched; not unless given.
    #[schema(examples(false))]
    pub(crate) web_search_enabled: Option<bool>,
    /// Settings of the model, as its entry in the catalog offers them.
    pub(crate) settings: Option<Vec<ChosenSetting>>,
}

/// A setting of the model.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = QuestionSetting)]
pub(crate) struct ChosenSetting {
    /// Which setting.
    #[schema(examples("reasoningEffort"))]
    pub(crate) key: String,
    /// One of its options.
    #[schema(examples("HIGH"))]
    pub(crate) value: String,
}

/// What to change of a conversation. What is not given stays.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ChatChange)]
pub(crate) struct Change {
    /// The title, without control characters; white space around it is dropped.
    #[schema(min_length = 1, max_length = 120, examples("Rent"))]
    pub(crate) title: Option<String>,
    /// Whether it is listed before those that are not.
    #[schema(examples(true))]
    pub(crate) pinned: Option<bool>,
}

/// An entry's type (2.6).
pub(crate) const fn entry_word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "FILE",
        EntryKind::Folder => "DIRECTORY",
        EntryKind::Link => "SYMLINK",
        EntryKind::Other => "OTHER",
    }
}

/// The two states of answers and conversations (3.2).
pub(crate) const fn status_word(completed: bool) -> &'static str {
    if completed { "completed" } else { "in_progress" }
}

/// The names of the two events of a stream (section 6).
pub(crate) const fn event_word(completed: bool) -> &'static str {
    if completed { "completed" } else { "message" }
}

/// The identifier of a state in an event stream: message, epoch, revision.
#[must_use]
pub fn event_id(message: MessageId, stamp: Stamp) -> String {
    format!("{message}:{}.{}", stamp.epoch, stamp.revision)
}

/// Reads an identifier back; `None` for what this service did not write.
#[must_use]
pub fn read_event_id(text: &str) -> Option<(MessageId, Stamp)> {
    let (message, stamp) = text.split_once(':')?;
    let (epoch, revision) = stamp.split_once('.')?;
    Some((message.parse().ok()?, Stamp { epoch: epoch.parse().ok()?, revision: revision.parse().ok()? }))
}

/// An answer (2.8) as one line of JSON, in segments that readers of the same revision share.
#[must_use]
pub fn answer(snapshot: &Snapshot) -> Vec<Bytes> {
    let mut out = Writer::with_room_for(snapshot);
    let meta = &snapshot.meta;
    out.raw("{\"id\":\"").display(meta.answer).raw("\",\"chatId\":\"").display(meta.conversation);
    out.raw("\",\"status\":\"").raw(status_word(snapshot.ending.is_some()));
    out.raw("\",\"createdAt\":\"").display(meta.created_at).raw("\",\"model\":").text(&meta.model);
    out.raw(",\"text\":").rope(&snapshot.text);
    out.raw(",\"parts\":");
    out.list(&snapshot.parts, Writer::part);
    if let Some(Ending::Failed(error)) = &snapshot.ending {
        out.raw(",\"error\":{\"code\":\"").raw(error.code.as_str());
        out.raw("\",\"message\":").text(&error.message).raw("}");
    }
    out.raw("}");
    out.segments()
}

/// A message of the history that is an answer (2.9).
pub(crate) fn assistant_message(snapshot: &Snapshot) -> Vec<Bytes> {
    let mut out = Writer::default();
    out.raw("{\"id\":\"").display(snapshot.meta.answer).raw("\",\"role\":\"ASSISTANT\",\"status\":\"");
    out.raw(status_word(snapshot.ending.is_some()))
        .raw("\",\"createdAt\":\"")
        .display(snapshot.meta.created_at);
    out.raw("\",\"text\":").rope(&snapshot.text).raw(",\"parts\":");
    out.list(&snapshot.parts, Writer::part);
    if let Some(Ending::Failed(error)) = &snapshot.ending {
        out.raw(",\"error\":{\"code\":\"").raw(error.code.as_str());
        out.raw("\",\"message\":").text(&error.message).raw("}");
    }
    out.raw("}");
    out.segments()
}

/// A question in the history of its conversation.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserMessage<'a> {
    /// The question.
    #[schema(format = "uuid", examples("d5e6f708-192a-4b3c-84d5-e6f708192a3b"))]
    pub(crate) id: String,
    #[schema(inline, value_type = UserRole)]
    pub(crate) role: &'static str,
    /// Always `completed`.
    #[schema(value_type = AnswerStatus)]
    pub(crate) status: &'static str,
    /// When it was accepted.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    pub(crate) created_at: String,
    /// The text.
    #[schema(examples("When is the rent due?"))]
    pub(crate) text: &'a str,
    /// What was attached.
    #[schema(examples("/uploads/lease.pdf"))]
    pub(crate) file_paths: &'a [String],
}

/// Longer answers are shared segments for the most part.
const ROOM_MAX_BYTES: usize = 16 << 10;
/// A shorter segment is written beside its neighbours.
const COPIED_MAX_BYTES: usize = 4 << 10;

/// Writes JSON into segments: short pieces together, shared ones as they are.
#[derive(Default)]
struct Writer {
    done: Vec<Bytes>,
    open: Vec<u8>,
}

impl Writer {
    /// A writer that an answer of short texts will not outgrow.
    fn with_room_for(snapshot: &Snapshot) -> Self {
        const HEAD_BYTES: usize = 256;
        const PART_BYTES: usize = 192;
        let text = |rope: &Rope| rope.len() + rope.len() / 16;
        let part = |part: &ShotPart| match &part.shape {
            Shape::Text { html, .. } | Shape::Reasoning { html } | Shape::Agent { html, .. } => {
                PART_BYTES + text(html)
            }
            Shape::Tool { .. } | Shape::WebSearch { .. } | Shape::Skill { .. } | Shape::File { .. } => {
                PART_BYTES
            }
        };
        let room = HEAD_BYTES + text(&snapshot.text) + snapshot.parts.iter().map(part).sum::<usize>();
        Self { done: Vec::new(), open: Vec::with_capacity(room.min(ROOM_MAX_BYTES)) }
    }

    fn raw(&mut self, text: &str) -> &mut Self {
        self.open.extend_from_slice(text.as_bytes());
        self
    }

    /// What needs no escaping: identifiers, times, numbers.
    fn display(&mut self, value: impl std::fmt::Display) -> &mut Self {
        // A buffer that grows takes everything.
        let _ = write!(self.open, "{value}");
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.raw("\"");
        json_escape_into(text, &mut self.open);
        self.raw("\"")
    }

    fn rope(&mut self, rope: &Rope) -> &mut Self {
        self.raw("\"");
        for segment in rope.segments() {
            if segment.text().len() < COPIED_MAX_BYTES {
                json_escape_into(segment.text(), &mut self.open);
                continue;
            }
            let encoded = segment.encoded(|text| {
                let mut escaped = Vec::with_capacity(text.len() + text.len() / 8);
                json_escape_into(text, &mut escaped);
                Bytes::from(escaped)
            });
            self.close();
            self.done.push(encoded);
        }
        self.raw("\"")
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.done.push(std::mem::take(&mut self.open).into());
        }
    }

    fn list<T>(&mut self, items: &[T], write: impl Fn(&mut Self, &T)) -> &mut Self {
        self.raw("[");
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                self.raw(",");
            }
            write(self, item);
        }
        self.raw("]")
    }

    /// A part (2.10).
    fn part(&mut self, part: &ShotPart) {
        self.raw("{\"partId\":\"").display(part.id).raw("\",\"type\":\"");
        match &part.shape {
            Shape::Text { html, citations } => {
                self.raw("TEXT\",\"content\":").rope(html).raw(",\"citations\":");
                self.list(citations, Self::citation);
            }
            Shape::Reasoning { html } => {
                self.raw("REASONING\",\"content\":").rope(html);
            }
            Shape::Tool { tool, call, state, sources } => {
                self.raw("TOOL\",\"toolName\":").text(tool).raw(",\"toolCallId\":").text(call);
                self.raw(",\"state\":\"").raw(state_word(*state)).raw("\",\"sources\":");
                self.list(sources, Self::source);
            }
            Shape::WebSearch { query, call, state, sources } => {
                self.raw("WEB_SEARCH\",\"toolName\":\"web_search\",\"toolCallId\":").text(call);
                self.raw(",\"state\":\"").raw(state_word(*state)).raw("\",\"query\":").text(query);
                self.raw(",\"sources\":");
                self.list(sources, Self::source);
            }
            Shape::Agent { agent, state, html, citations } => {
                self.raw("AGENT\",\"agentId\":\"").display(agent.id).raw("\",\"name\":").text(&agent.name);
                self.raw(",\"fullName\":").text(&agent.full_name);
                self.raw(",\"state\":\"").raw(state_word(*state)).raw("\",\"content\":").rope(html);
                self.raw(",\"citations\":");
                self.list(citations, Self::citation);
            }
            Shape::Skill { skill, state } => {
                self.raw("SKILL\",\"skillId\":\"").display(skill.id).raw("\",\"name\":").text(&skill.name);
                self.raw(",\"fullName\":").text(&skill.full_name);
                self.raw(",\"state\":\"").raw(state_word(*state)).raw("\"");
            }
            Shape::File { path } => {
                let name = path.rsplit('/').next().unwrap_or(path);
                self.raw("FILE\",\"path\":").text(path).raw(",\"name\":").text(name);
            }
        }
        self.raw("}");
    }

    fn citation(&mut self, citation: &Citation) {
        self.raw("{\"citationId\":").text(&citation.id());
        self.raw(",\"source\":");
        self.source(&citation.place);
        self.raw("}");
    }

    /// A source (2.10), with page and lines where there are any.
    fn source(&mut self, place: &Place) {
        match place {
            Place::File { path, page, lines } => {
                self.raw("{\"type\":\"FILE\",\"path\":").text(path);
                if let Some(page) = page {
                    self.raw(",\"page\":").display(page);
                }
                if let Some((first, last)) = lines {
                    self.raw(",\"lines\":[").display(first).raw(",").display(last).raw("]");
                }
            }
            Place::Web { url, title } => {
                self.raw("{\"type\":\"URL\",\"url\":").text(url).raw(",\"title\":").text(title);
            }
        }
        self.raw("}");
    }

    fn segments(mut self) -> Vec<Bytes> {
        self.close();
        self.done
    }
}

pub(crate) const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "PENDING",
        RunState::Complete => "COMPLETE",
        RunState::Error => "ERROR",
    }
}
