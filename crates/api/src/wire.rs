//! How things look on the wire (section 2 of the interface). Answers are written from shared segments,
//! everything else by serde.

use bytes::{BufMut, Bytes, BytesMut};
use control::conversations::Summary;
use control::live::{Citation, Rope, Shape, ShotPart, Snapshot};
use domain::answer::{Ending, RunState, Stamp};
use domain::catalog::{self, Language, ModelEntry, ModelStatus};
use domain::citation::Place;
use domain::id::MessageId;
use domain::machine::MachineStatus;
use edge::json_escape_into;
use serde::{Deserialize, Serialize};
use workspace::{Entry, EntryKind};

/// The state of a machine (2.1).
#[derive(Debug, Serialize)]
pub struct VmStatus {
    status: &'static str,
}

impl VmStatus {
    pub(crate) fn of(status: MachineStatus) -> Self {
        Self { status: status.as_str() }
    }
}

/// A model of the catalog (2.2).
#[derive(Debug, Serialize)]
pub struct Model<'a> {
    id: &'a str,
    label: &'a str,
    description: &'a str,
    provider: &'static str,
    status: &'static str,
    default: bool,
    deprecated: bool,
    settings: Vec<Setting<'a>>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    builtin: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Setting<'a> {
    key: &'a str,
    label: &'a str,
    options: Vec<SettingOption<'a>>,
    default_value: &'a str,
}

#[derive(Debug, Serialize)]
struct SettingOption<'a> {
    value: &'a str,
    label: &'a str,
}

impl<'a> Model<'a> {
    pub(crate) fn of(entry: &'a ModelEntry, status: ModelStatus, language: Language) -> Self {
        Self {
            id: &entry.id,
            label: entry.label.in_language(language),
            description: entry.description.in_language(language),
            provider: entry.provider.as_str(),
            status: status.as_str(),
            default: entry.default,
            deprecated: entry.deprecated,
            settings: entry.settings.iter().map(|setting| Setting::of(setting, language)).collect(),
            builtin: entry.builtin,
        }
    }
}

impl<'a> Setting<'a> {
    fn of(setting: &'a catalog::Setting, language: Language) -> Self {
        let options = setting.options.iter();
        Self {
            key: &setting.key,
            label: setting.label.in_language(language),
            options: options
                .map(|option| SettingOption {
                    value: &option.value,
                    label: option.label.in_language(language),
                })
                .collect(),
            default_value: &setting.default_value,
        }
    }
}

/// A jurisdiction (2.3).
#[derive(Debug, Serialize)]
pub(crate) struct Jurisdiction<'a> {
    pub(crate) id: &'a str,
    pub(crate) label: &'a str,
}

/// An uploaded file (2.5).
#[derive(Debug, Serialize)]
pub(crate) struct Uploaded {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) size: u64,
}

/// A listed folder (2.6).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Listing {
    pub(crate) path: String,
    pub(crate) entries: Vec<ListedEntry>,
    pub(crate) total_entries: usize,
}

/// An entry of a listing (2.6).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListedEntry {
    name: String,
    path: String,
    r#type: &'static str,
    size: u64,
    modified_time: String,
    mime_type: String,
}

impl ListedEntry {
    pub(crate) fn of(entry: Entry) -> Self {
        Self {
            r#type: match entry.kind {
                EntryKind::File => "FILE",
                EntryKind::Folder => "DIRECTORY",
                EntryKind::Link => "SYMLINK",
                EntryKind::Other => "OTHER",
            },
            size: entry.size,
            modified_time: entry.modified.to_string(),
            mime_type: entry.mime.to_owned(),
            path: entry.path.to_string(),
            name: entry.name,
        }
    }
}

/// A created folder (2.7).
#[derive(Debug, Serialize)]
pub(crate) struct CreatedFolder {
    pub(crate) name: String,
    pub(crate) path: String,
}

/// A conversation (2.9).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Conversation {
    chat_id: String,
    title: String,
    status: &'static str,
    created_at: String,
    modified_at: String,
    model: String,
    pinned: bool,
    web_search_enabled: bool,
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

/// A page of conversations (4.4).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Page {
    pub(crate) chats: Vec<Conversation>,
    pub(crate) offset: u64,
    pub(crate) limit: u32,
    pub(crate) total_count: u64,
}

/// The body of a question (4.4).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Question {
    pub(crate) input: Option<String>,
    pub(crate) chat_id: Option<String>,
    pub(crate) agent_id: Option<String>,
    pub(crate) skill_ids: Option<Vec<String>>,
    pub(crate) file_paths: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    pub(crate) jurisdictions: Option<Vec<String>>,
    pub(crate) web_search_enabled: Option<bool>,
    pub(crate) settings: Option<Vec<ChosenSetting>>,
}

/// A setting of a question.
#[derive(Debug, Deserialize)]
pub(crate) struct ChosenSetting {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The body of a change of a conversation.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    pub(crate) title: Option<String>,
    pub(crate) pinned: Option<bool>,
}

/// The two states of answers and conversations (3.2).
fn status_word(completed: bool) -> &'static str {
    if completed { "completed" } else { "in_progress" }
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
    let mut out = Writer::default();
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

/// A message of the history that is a question (2.9).
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserMessage<'a> {
    pub(crate) id: String,
    pub(crate) role: &'static str,
    pub(crate) status: &'static str,
    pub(crate) created_at: String,
    pub(crate) text: &'a str,
    pub(crate) file_paths: &'a [String],
}

/// Writes JSON into segments: short pieces together, shared ones as they are.
#[derive(Default)]
struct Writer {
    done: Vec<Bytes>,
    open: BytesMut,
}

impl Writer {
    fn raw(&mut self, text: &str) -> &mut Self {
        self.open.put_slice(text.as_bytes());
        self
    }

    /// What needs no escaping: identifiers, times, numbers.
    fn display(&mut self, value: impl std::fmt::Display) -> &mut Self {
        self.raw(&value.to_string())
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let mut escaped = Vec::with_capacity(text.len() + 2);
        json_escape_into(text, &mut escaped);
        self.raw("\"");
        self.open.put_slice(&escaped);
        self.raw("\"")
    }

    fn rope(&mut self, rope: &Rope) -> &mut Self {
        self.raw("\"");
        for segment in rope.segments() {
            let encoded = segment.encoded(|text| {
                let mut escaped = Vec::with_capacity(text.len() + text.len() / 8);
                json_escape_into(text, &mut escaped);
                Bytes::from(escaped)
            });
            self.share(encoded);
        }
        self.raw("\"")
    }

    fn share(&mut self, segment: Bytes) {
        if segment.len() < 512 {
            self.open.put_slice(&segment);
            return;
        }
        if !self.open.is_empty() {
            self.done.push(self.open.split().freeze());
        }
        self.done.push(segment);
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
        if !self.open.is_empty() {
            self.done.push(self.open.split().freeze());
        }
        self.done
    }
}

const fn state_word(state: RunState) -> &'static str {
    match state {
        RunState::Pending => "PENDING",
        RunState::Complete => "COMPLETE",
        RunState::Error => "ERROR",
    }
}
