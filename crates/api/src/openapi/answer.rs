//! The shape of answers and messages (sections 2.8 to 2.10), which are written by hand in [`crate::wire`]: a
//! test holds what is written there against these.
#![expect(dead_code, reason = "these types are read by the derive alone")]

use utoipa::ToSchema;

use super::examples;
use super::words::{
    AgentType, AnswerErrorCode, AnswerStatus, AssistantRole, EventName, FileSourceType, FileType,
    ReasoningType, RunProgress, SkillType, TextType, ToolType, UrlSourceType, WebSearchName, WebSearchType,
};
use crate::wire::{Conversation, UserMessage};

/// An answer as it stands: at first empty, then written bit by bit, at last completed.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase", examples(examples::answer_begun, examples::answer_completed))]
pub(crate) struct Answer {
    /// The answer, by which it is collected.
    #[schema(format = "uuid", examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34"))]
    id: String,
    /// Its conversation, by which the next question goes on with it.
    #[schema(format = "uuid", examples("3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21"))]
    chat_id: String,
    /// `completed` once `text` and `parts` are whole.
    #[schema(value_type = AnswerStatus)]
    status: String,
    /// When the question was accepted.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: String,
    /// The model that the conversation answers with.
    #[schema(examples("reader"))]
    model: String,
    /// What is written so far, as Markdown without the marks of citations.
    #[schema(examples("The rent is due on the fifth of each month."))]
    text: String,
    /// What the answer consists of, in the order created. Parts come and change until the answer is completed.
    parts: Vec<AnswerPart>,
    /// Why the answer could not be finished. Absent from any other.
    #[schema(required = false)]
    error: AnswerError,
}

/// An event of a stream, as its frame tells it.
#[derive(ToSchema)]
pub(crate) struct StreamEvent {
    #[schema(inline, value_type = EventName)]
    event: String,
    /// An `Answer` in one line of JSON: its whole state, which supersedes those before.
    #[schema(content_media_type = "application/json", examples(examples::event_data))]
    data: String,
    /// Names the state, for `Last-Event-ID`.
    #[schema(examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34:1.42"))]
    id: String,
    /// After how many milliseconds to connect again when the stream was cut. Only the first event has it.
    #[schema(required = false, examples(1000))]
    retry: u32,
}

/// Why an answer could not be finished. What was written stands, and the text ends with a sentence that says so.
#[derive(ToSchema)]
pub(crate) struct AnswerError {
    /// For programs.
    #[schema(value_type = AnswerErrorCode)]
    code: String,
    /// For people.
    #[schema(examples("The model could not be reached."))]
    message: String,
}

/// A part of an answer, told by its `type`. A client that wants the answer alone reads `text`.
#[derive(ToSchema)]
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
pub(crate) enum AnswerPart {
    Text(TextPart),
    Reasoning(ReasoningPart),
    Tool(ToolPart),
    WebSearch(WebSearchPart),
    Skill(SkillPart),
    Agent(AgentPart),
    File(FilePart),
}

/// A piece of the answer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct TextPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("5a1e7b90-2c3d-4e5f-8a6b-9c0d1e2f3a4b"))]
    part_id: String,
    #[schema(inline, value_type = TextType)]
    r#type: String,
    /// Safe HTML in which citations are links to their sources.
    #[schema(examples("<p>The rent is due on the fifth of each month.</p>"))]
    content: String,
    /// What the piece cites, in order, each once.
    citations: Vec<Citation>,
}

/// What the model thought before it answered.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct ReasoningPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("0b4c2d6e-7f80-4912-a3b4-c5d6e7f80912"))]
    part_id: String,
    #[schema(inline, value_type = ReasoningType)]
    r#type: String,
    /// Safe HTML.
    #[schema(examples("<p>The lease will say when rent is due.</p>"))]
    content: String,
}

/// A tool that the agent ran.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct ToolPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("7d2f4a6c-8e10-4b3d-9f5a-6c7e8091a2b3"))]
    part_id: String,
    #[schema(inline, value_type = ToolType)]
    r#type: String,
    /// Which tool.
    #[schema(examples("search"))]
    tool_name: String,
    /// This run of it.
    #[schema(examples("call_1"))]
    tool_call_id: String,
    /// How far the run has come.
    #[schema(value_type = RunProgress)]
    state: String,
    /// Where it found something.
    sources: Vec<Source>,
}

/// A search of the web.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct WebSearchPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("2e4f6a8c-0b1d-4c3e-8f5a-7b9c1d3e5f70"))]
    part_id: String,
    #[schema(inline, value_type = WebSearchType)]
    r#type: String,
    #[schema(inline, value_type = WebSearchName)]
    tool_name: String,
    /// This run of it.
    #[schema(examples("call_2"))]
    tool_call_id: String,
    /// How far the search has come.
    #[schema(value_type = RunProgress)]
    state: String,
    /// What was searched for.
    #[schema(examples("rent due date customary"))]
    query: String,
    /// What was found.
    sources: Vec<Source>,
}

/// A skill that the agent opened, to follow its instructions.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct SkillPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("91a2b3c4-d5e6-4f70-8192-a3b4c5d6e7f8"))]
    part_id: String,
    #[schema(inline, value_type = SkillType)]
    r#type: String,
    /// The skill, as the catalog names it.
    #[schema(format = "uuid", examples("d8d27773-57ec-56f8-8913-a7972f4d3c04"))]
    skill_id: String,
    /// Its short name.
    #[schema(examples("contract-review"))]
    name: String,
    /// Its full name.
    #[schema(examples("causerie:contract-review"))]
    full_name: String,
    /// Whether it could be opened.
    #[schema(value_type = RunProgress)]
    state: String,
}

/// Another agent that was given a part of the task.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct AgentPart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("a3b4c5d6-e7f8-4091-a2b3-c4d5e6f70819"))]
    part_id: String,
    #[schema(inline, value_type = AgentType)]
    r#type: String,
    /// The agent, as the catalog names it.
    #[schema(format = "uuid", examples("9c3f1b7a-2d4e-5f60-8a1b-0c2d3e4f5a6b"))]
    agent_id: String,
    /// Its short name.
    #[schema(examples("lawyer"))]
    name: String,
    /// Its full name, which no other agent has.
    #[schema(examples("causerie:lawyer"))]
    full_name: String,
    /// How far it has come.
    #[schema(value_type = RunProgress)]
    state: String,
    /// What it says: safe HTML. Its citations are links once it is done.
    #[schema(examples("<p>The rent is due on the fifth of each month.</p>"))]
    content: String,
    /// What it cites, in order, each once; nothing before it is done.
    citations: Vec<Citation>,
}

/// A workspace file that entered the answer.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct FilePart {
    /// The part, under the same name as long as the answer exists.
    #[schema(format = "uuid", examples("c4d5e6f7-0819-4a2b-b3c4-d5e6f708192a"))]
    part_id: String,
    #[schema(inline, value_type = FileType)]
    r#type: String,
    /// The file in the workspace.
    #[schema(examples("/uploads/lease.pdf"))]
    path: String,
    /// Its name.
    #[schema(examples("lease.pdf"))]
    name: String,
}

/// A source that a piece of the answer cites.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct Citation {
    /// The citation, which its link in `content` carries as well.
    #[schema(examples("c1"))]
    citation_id: String,
    source: Source,
}

/// Where something was found, told by its `type`.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "type", mapping(
    ("FILE" = "#/components/schemas/FileSource"),
    ("URL" = "#/components/schemas/UrlSource"),
)))]
pub(crate) enum Source {
    File(FileSource),
    Url(UrlSource),
}

/// A place in a workspace file.
#[derive(ToSchema)]
pub(crate) struct FileSource {
    #[schema(inline, value_type = FileSourceType)]
    r#type: String,
    /// The file in the workspace.
    #[schema(examples("/uploads/lease.pdf"))]
    path: String,
    /// The page, from 1, of a file that has pages.
    #[schema(required = false, minimum = 1, examples(3))]
    page: u32,
    /// The first line and the last, from 1, of a file that has lines.
    #[schema(required = false, min_items = 2, max_items = 2, examples(12))]
    lines: Vec<u32>,
}

/// A page of the web.
#[derive(ToSchema)]
pub(crate) struct UrlSource {
    #[schema(inline, value_type = UrlSourceType)]
    r#type: String,
    /// Where it is.
    #[schema(format = "uri", examples("https://example.org/rent"))]
    url: String,
    /// Its title.
    #[schema(examples("When rent is due"))]
    title: String,
}

/// A conversation with all that was said in it.
#[derive(ToSchema)]
#[schema(examples(examples::conversation))]
pub(crate) struct ChatDetail {
    /// The conversation.
    chat: Conversation,
    /// Its messages, the oldest first.
    messages: Vec<Message>,
}

/// A question or an answer, told by its `role`.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(discriminator(property_name = "role", mapping(
    ("USER" = "#/components/schemas/UserMessage"),
    ("ASSISTANT" = "#/components/schemas/AssistantMessage"),
)))]
pub(crate) enum Message {
    User(UserMessage<'static>),
    Assistant(AssistantMessage),
}

/// An answer in the history of its conversation.
#[derive(ToSchema)]
#[schema(rename_all = "camelCase")]
pub(crate) struct AssistantMessage {
    /// The answer, by which it is collected.
    #[schema(format = "uuid", examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34"))]
    id: String,
    #[schema(inline, value_type = AssistantRole)]
    role: String,
    /// `completed` once `text` and `parts` are whole.
    #[schema(value_type = AnswerStatus)]
    status: String,
    /// When its question was accepted.
    #[schema(format = DateTime, examples("2026-11-21T09:30:00.000Z"))]
    created_at: String,
    /// What is written so far, as Markdown without the marks of citations.
    #[schema(examples("The rent is due on the fifth of each month."))]
    text: String,
    /// What the answer consists of, in the order created.
    parts: Vec<AnswerPart>,
    /// Why the answer could not be finished. Absent from any other.
    #[schema(required = false)]
    error: AnswerError,
}
