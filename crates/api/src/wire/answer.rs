//! Answers and messages (sections 2.8 to 2.10): the types that make both their JSON and its schema.
//!
//! They borrow from a snapshot, and are written in segments: a long text is escaped once and shared by the readers of
//! all revisions that contain it.

use std::marker::PhantomData;

use bytes::Bytes;
use control::conversations::StoredQuestion;
use domain::answer::AnswerEnding;
use domain::citation::PassagePlace;
use domain::id::{AgentId, ConversationId, MessageId, PartId, SkillId};
use domain::time::Timestamp;
use http_common::{SHARED_MIN_BYTES, json_escape_into, to_segments};
use live::{PartKind, Representation, Rope, RopeSegment, Snapshot, SnapshotPart};
use serde::{Serialize, Serializer};
use utoipa::ToSchema;

use super::enums::{
    AgentType, AnswerErrorCode, AnswerStatus, AssistantRole, FileType, PendingCallType, ReasoningType,
    RunProgress, SkillType, TextType, ToolType, UserRole, WebSearchName, WebSearchType,
};
use super::examples;
use super::source::{Citation, Source};
use super::{reply_word, state_word, status_word};

/// Writes the answer as one line of JSON, in segments.
pub(crate) fn encode_answer(snapshot: &Snapshot) -> Vec<Bytes> {
    encode_segments(snapshot, &Answer::from_snapshot(snapshot))
}

/// Writes the answer as a message of its conversation, likewise.
pub(crate) fn assistant_message(snapshot: &Snapshot) -> Vec<Bytes> {
    encode_segments(snapshot, &Message::Assistant(AssistantMessage::from_snapshot(snapshot)))
}

/// Writes a question as a message of its conversation, likewise.
pub(crate) fn user_message(question: &StoredQuestion) -> Vec<Bytes> {
    let room = HEAD_BYTES + question.text.len() + question.text.len() / 16;
    to_segments(&Message::User(UserMessage::from_question(question)), room, |_| None).expect(WRITABLE)
}

/// The reason why writing does not fail.
const WRITABLE: &str = "messages have neither maps nor floats";
/// The approximate size of everything besides texts and parts, in bytes.
const HEAD_BYTES: usize = 256;
/// The initial capacity at most, in bytes: longer answers consist mostly of shared segments.
const ROOM_MAX_BYTES: usize = 16 << 10;

fn encode_segments(snapshot: &Snapshot, value: &impl Serialize) -> Vec<Bytes> {
    // In the order in which they are written.
    let mut long = snapshot_ropes(snapshot)
        .flat_map(Rope::segments)
        .filter(|segment| segment.text().len() >= SHARED_MIN_BYTES)
        .peekable();
    let shared = |text: &str| {
        let segment = long.next_if(|segment| std::ptr::eq(segment.text(), text))?;
        Some(escape_segment(segment))
    };
    to_segments(value, estimate_size(snapshot).min(ROOM_MAX_BYTES), shared).expect(WRITABLE)
}

fn escape_segment(segment: &RopeSegment) -> Bytes {
    segment.encode_once(Representation::Json, |text| {
        let mut escaped = Vec::with_capacity(text.len() + text.len() / 8);
        json_escape_into(text, &mut escaped);
        escaped.into()
    })
}

/// Returns the text, then the texts of the parts.
fn snapshot_ropes(snapshot: &Snapshot) -> impl Iterator<Item = &Rope> {
    let parts = snapshot.parts.iter().filter_map(|part| match &part.shape {
        PartKind::Text { html, .. } | PartKind::Reasoning { html } | PartKind::Agent { html, .. } => {
            Some(html)
        }
        PartKind::Tool { .. }
        | PartKind::WebSearch { .. }
        | PartKind::Skill { .. }
        | PartKind::File { .. } => None,
    });
    std::iter::once(&snapshot.text).chain(parts)
}

/// Returns an estimate of the size of an answer with short texts.
fn estimate_size(snapshot: &Snapshot) -> usize {
    const PART_BYTES: usize = 192;
    let texts = snapshot_ropes(snapshot).map(|rope| rope.len() + rope.len() / 16);
    HEAD_BYTES + PART_BYTES * snapshot.parts.len() + texts.sum::<usize>()
}

/// A text, written in segments.
struct RopeText<'a>(&'a Rope);

impl Serialize for RopeText<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self.0)
    }
}

/// A list whose items are created while they are written.
struct Each<'a, T, S>(&'a [S], PhantomData<fn() -> T>);

impl<'a, T, S> Each<'a, T, S> {
    fn new(items: &'a [S]) -> Self {
        Self(items, PhantomData)
    }
}

impl<'a, T: From<&'a S> + Serialize, S> Serialize for Each<'a, T, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_seq(self.0.iter().map(T::from))
    }
}

fn serialize_display<S: Serializer>(
    value: &impl std::fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The current state of an answer: empty at first, then growing, finally completed.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(examples(examples::answer_begun, examples::answer_completed))]
pub(crate) struct Answer<'a> {
    /// The identifier of the answer.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34"))]
    id: MessageId,
    /// The identifier of its conversation, with which the next question continues it.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    chat_id: ConversationId,
    /// `completed` once `text` and `parts` are complete.
    #[schema(value_type = AnswerStatus)]
    status: &'static str,
    /// When the question was accepted.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: Timestamp,
    /// The model that the conversation answers with.
    #[schema(examples("reader"))]
    model: &'a str,
    /// The text written so far, as Markdown without the marks of citations.
    #[schema(value_type = String, examples("The rent is due on the fifth of each month."))]
    text: RopeText<'a>,
    /// The parts of the answer in the order of their creation. Parts are added and change until the answer is
    /// completed.
    #[schema(value_type = Vec<AnswerPart<'static>>)]
    parts: Each<'a, AnswerPart<'a>, SnapshotPart>,
    /// The calls that the answer waits for; absent while it waits for none. Reply to each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<PendingCall<'static>>)]
    pending: Vec<PendingCall<'a>>,
    /// Why the answer could not be finished; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = AnswerError<'static>)]
    error: Option<AnswerError<'a>>,
}

/// A call of the model that waits for a reply of the client.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingCall<'a> {
    /// The identifier of the call, for the reply.
    #[schema(examples("call_1"))]
    call_id: &'a str,
    /// `FUNCTION` for a tool of the client, `QUESTION` for a question to the user.
    #[schema(value_type = PendingCallType)]
    r#type: &'static str,
    /// The name of the tool; `ask_user` for a question.
    #[schema(examples("get_weather"))]
    tool_name: &'a str,
    /// The arguments as the model wrote them: a JSON object as text.
    #[schema(examples("{\"city\": \"Brno\"}"))]
    arguments: &'a str,
    /// The time at which the answer ends if the call has no reply.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = DateTime, examples("2026-11-22T09:30:00.000Z"))]
    expires_at: Timestamp,
}

impl<'a> From<&'a domain::pause::PendingCall> for PendingCall<'a> {
    fn from(pending: &'a domain::pause::PendingCall) -> Self {
        Self {
            call_id: &pending.call.id,
            r#type: reply_word(pending.kind),
            tool_name: &pending.call.tool,
            arguments: &pending.call.arguments,
            expires_at: pending.deadline,
        }
    }
}

/// Why an answer could not be finished. The text written so far is kept and ends with a sentence that says so.
#[derive(Serialize, ToSchema)]
pub(crate) struct AnswerError<'a> {
    /// For programs.
    #[schema(value_type = AnswerErrorCode)]
    code: &'static str,
    /// For people.
    #[schema(examples("The model could not be reached."))]
    message: &'a str,
}

/// A part of an answer, tagged by its `type`. A client that needs the answer alone reads `text`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "type", mapping(
    ("TEXT" = "#/components/schemas/TextPart"),
    ("REASONING" = "#/components/schemas/ReasoningPart"),
    ("TOOL" = "#/components/schemas/ToolPart"),
    ("WEB_SEARCH" = "#/components/schemas/WebSearchPart"),
    ("SKILL" = "#/components/schemas/SkillPart"),
    ("AGENT" = "#/components/schemas/AgentPart"),
    ("FILE" = "#/components/schemas/FilePart"),
)))]
pub(crate) enum AnswerPart<'a> {
    Text(TextPart<'a>),
    Reasoning(ReasoningPart<'a>),
    Tool(ToolPart<'a>),
    WebSearch(WebSearchPart<'a>),
    Skill(SkillPart<'a>),
    Agent(AgentPart<'a>),
    File(FilePart<'a>),
}

/// A section of the answer's text.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TextPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("5a1e7b90-2c3d-4e5f-8a6b-9c0d1e2f3a4b"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: TextType,
    /// Safe HTML in which citations are links to their sources.
    #[schema(value_type = String, examples("<p>The rent is due on the fifth of each month.</p>"))]
    content: RopeText<'a>,
    /// The citations of the piece, in order, without duplicates.
    #[schema(value_type = Vec<Citation<'static>>)]
    citations: Each<'a, Citation<'a>, live::SnapshotCitation>,
}

/// The model's reasoning before it answered.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReasoningPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("0b4c2d6e-7f80-4912-a3b4-c5d6e7f80912"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: ReasoningType,
    /// Safe HTML.
    #[schema(value_type = String, examples("<p>The lease will say when rent is due.</p>"))]
    content: RopeText<'a>,
}

/// A tool that the agent ran.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToolPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("7d2f4a6c-8e10-4b3d-9f5a-6c7e8091a2b3"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: ToolType,
    /// The name of the tool.
    #[schema(examples("search"))]
    tool_name: &'a str,
    /// The identifier of this run.
    #[schema(examples("call_1"))]
    tool_call_id: &'a str,
    /// The progress of the run.
    #[schema(value_type = RunProgress)]
    state: &'static str,
    /// The sources that it found.
    #[schema(value_type = Vec<Source<'static>>)]
    sources: Each<'a, Source<'a>, PassagePlace>,
}

/// A search of the web.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WebSearchPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("2e4f6a8c-0b1d-4c3e-8f5a-7b9c1d3e5f70"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: WebSearchType,
    #[schema(inline)]
    tool_name: WebSearchName,
    /// The identifier of this run.
    #[schema(examples("call_2"))]
    tool_call_id: &'a str,
    /// The progress of the search.
    #[schema(value_type = RunProgress)]
    state: &'static str,
    /// The query.
    #[schema(examples("rent due date customary"))]
    query: &'a str,
    /// The results.
    #[schema(value_type = Vec<Source<'static>>)]
    sources: Each<'a, Source<'a>, PassagePlace>,
}

/// A skill whose instructions the agent opened.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SkillPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("91a2b3c4-d5e6-4f70-8192-a3b4c5d6e7f8"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: SkillType,
    /// The skill, as the catalog names it.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("d8d27773-57ec-56f8-8913-a7972f4d3c04"))]
    skill_id: SkillId,
    /// Its short name.
    #[schema(examples("contract-review"))]
    name: &'a str,
    /// Its full name.
    #[schema(examples("causerie:contract-review"))]
    full_name: &'a str,
    /// Whether it could be opened.
    #[schema(value_type = RunProgress)]
    state: &'static str,
}

/// Another agent to which a part of the task was delegated.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AgentPart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("a3b4c5d6-e7f8-4091-a2b3-c4d5e6f70819"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: AgentType,
    /// The agent, as the catalog names it.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("9c3f1b7a-2d4e-5f60-8a1b-0c2d3e4f5a6b"))]
    agent_id: AgentId,
    /// Its short name.
    #[schema(examples("lawyer"))]
    name: &'a str,
    /// Its unique full name.
    #[schema(examples("causerie:lawyer"))]
    full_name: &'a str,
    /// Its progress.
    #[schema(value_type = RunProgress)]
    state: &'static str,
    /// Its output as safe HTML. Citations are links once it is done.
    #[schema(value_type = String, examples("<p>The rent is due on the fifth of each month.</p>"))]
    content: RopeText<'a>,
    /// Its citations, in order, without duplicates; empty before it is done.
    #[schema(value_type = Vec<Citation<'static>>)]
    citations: Each<'a, Citation<'a>, live::SnapshotCitation>,
}

/// A workspace file that was used for the answer.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct FilePart<'a> {
    /// The identifier of the part, stable as long as the answer exists.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("c4d5e6f7-0819-4a2b-b3c4-d5e6f708192a"))]
    part_id: PartId,
    #[schema(inline)]
    r#type: FileType,
    /// The file in the workspace.
    #[schema(examples("/uploads/lease.pdf"))]
    path: &'a str,
    /// Its name.
    #[schema(examples("lease.pdf"))]
    name: &'a str,
}

/// A question or an answer, tagged by its `role`.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "role", mapping(
    ("USER" = "#/components/schemas/UserMessage"),
    ("ASSISTANT" = "#/components/schemas/AssistantMessage"),
)))]
pub(crate) enum Message<'a> {
    User(UserMessage<'a>),
    Assistant(AssistantMessage<'a>),
}

/// A question in the history of its conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct UserMessage<'a> {
    /// The question.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("d5e6f708-192a-4b3c-84d5-e6f708192a3b"))]
    id: MessageId,
    #[schema(inline)]
    role: UserRole,
    /// Always `completed`.
    #[schema(value_type = AnswerStatus)]
    status: &'static str,
    /// When it was accepted.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: Timestamp,
    /// The text.
    #[schema(examples("When is the rent due?"))]
    text: &'a str,
    /// The attached files.
    #[schema(examples("/uploads/lease.pdf"))]
    file_paths: &'a [String],
}

/// An answer in the history of its conversation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AssistantMessage<'a> {
    /// The identifier of the answer.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = "uuid", examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34"))]
    id: MessageId,
    #[schema(inline)]
    role: AssistantRole,
    /// `completed` once `text` and `parts` are complete.
    #[schema(value_type = AnswerStatus)]
    status: &'static str,
    /// When its question was accepted.
    #[serde(serialize_with = "serialize_display")]
    #[schema(value_type = String, format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: Timestamp,
    /// The text written so far, as Markdown without the marks of citations.
    #[schema(value_type = String, examples("The rent is due on the fifth of each month."))]
    text: RopeText<'a>,
    /// The parts of the answer in the order of their creation.
    #[schema(value_type = Vec<AnswerPart<'static>>)]
    parts: Each<'a, AnswerPart<'a>, SnapshotPart>,
    /// The calls that the answer waits for; absent while it waits for none. Reply to each of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false, value_type = Vec<PendingCall<'static>>)]
    pending: Vec<PendingCall<'a>>,
    /// Why the answer could not be finished; absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(required = false, value_type = AnswerError<'static>)]
    error: Option<AnswerError<'a>>,
}

impl<'a> Answer<'a> {
    fn from_snapshot(snapshot: &'a Snapshot) -> Self {
        Self {
            id: snapshot.meta.answer,
            chat_id: snapshot.meta.conversation,
            status: status_word(snapshot.ending.is_some()),
            created_at: snapshot.meta.created_at,
            model: &snapshot.meta.model,
            text: RopeText(&snapshot.text),
            parts: Each::new(&snapshot.parts),
            pending: snapshot.pending.iter().map(PendingCall::from).collect(),
            error: AnswerError::from_ending(snapshot.ending.as_ref()),
        }
    }
}

impl<'a> UserMessage<'a> {
    fn from_question(question: &'a StoredQuestion) -> Self {
        Self {
            id: question.id,
            role: UserRole,
            status: status_word(true),
            created_at: question.created_at,
            text: &question.text,
            file_paths: &question.attachments,
        }
    }
}

impl<'a> AssistantMessage<'a> {
    fn from_snapshot(snapshot: &'a Snapshot) -> Self {
        Self {
            id: snapshot.meta.answer,
            role: AssistantRole,
            status: status_word(snapshot.ending.is_some()),
            created_at: snapshot.meta.created_at,
            text: RopeText(&snapshot.text),
            parts: Each::new(&snapshot.parts),
            pending: snapshot.pending.iter().map(PendingCall::from).collect(),
            error: AnswerError::from_ending(snapshot.ending.as_ref()),
        }
    }
}

impl<'a> AnswerError<'a> {
    fn from_ending(ending: Option<&'a AnswerEnding>) -> Option<Self> {
        match ending {
            Some(AnswerEnding::Failed(error)) => {
                Some(Self { code: error.code.as_str(), message: &error.message })
            }
            Some(AnswerEnding::Done | AnswerEnding::Stopped) | None => None,
        }
    }
}

impl<'a> From<&'a SnapshotPart> for AnswerPart<'a> {
    fn from(part: &'a SnapshotPart) -> Self {
        let part_id = part.id;
        match &part.shape {
            PartKind::Text { html, citations } => Self::Text(TextPart {
                part_id,
                r#type: TextType,
                content: RopeText(html),
                citations: Each::new(citations),
            }),
            PartKind::Reasoning { html } => {
                Self::Reasoning(ReasoningPart { part_id, r#type: ReasoningType, content: RopeText(html) })
            }
            PartKind::Tool { tool, call, state, sources } => Self::Tool(ToolPart {
                part_id,
                r#type: ToolType,
                tool_name: tool,
                tool_call_id: call,
                state: state_word(*state),
                sources: Each::new(sources),
            }),
            PartKind::WebSearch { query, call, state, sources } => Self::WebSearch(WebSearchPart {
                part_id,
                r#type: WebSearchType,
                tool_name: WebSearchName,
                tool_call_id: call,
                state: state_word(*state),
                query,
                sources: Each::new(sources),
            }),
            PartKind::Skill { skill, state } => Self::Skill(SkillPart {
                part_id,
                r#type: SkillType,
                skill_id: skill.id,
                name: &skill.name,
                full_name: &skill.full_name,
                state: state_word(*state),
            }),
            PartKind::Agent { agent, state, html, citations } => Self::Agent(AgentPart {
                part_id,
                r#type: AgentType,
                agent_id: agent.id,
                name: &agent.name,
                full_name: &agent.full_name,
                state: state_word(*state),
                content: RopeText(html),
                citations: Each::new(citations),
            }),
            PartKind::File { path } => Self::File(FilePart {
                part_id,
                r#type: FileType,
                path,
                name: path.rsplit('/').next().unwrap_or(path),
            }),
        }
    }
}
