//! Sets of words in the schema, closed ones and such as may grow. Each is taken from the code that decides the word.

use domain::answer::{ErrorCode as AnswerError, RunState};
use domain::catalog::{ModelStatus, ProviderName};
use domain::indexing::IndexState;
use domain::machine::MachineStatus;
use domain::step::ReplyKind;
use domain::unread::UnreadReason;
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{AnyOfBuilder, ObjectBuilder, Schema, Type};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};
use workspace::WorkspaceEntryKind;

use super::{entry_word, event_word, reply_word, state_word, status_word};
use crate::error::Code;

macro_rules! words {
    ($($(#[doc = $doc:literal])+ $name:ident = $words:expr;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of(concat!($($doc),+).trim(), &$words)
            }
        }

        impl ToSchema for $name {}
    )+};
}

words! {
    /// The state of a machine.
    MachineState = [
        MachineStatus::Running, MachineStatus::Stopped, MachineStatus::Starting, MachineStatus::Stopping,
    ].map(MachineStatus::as_str);

    /// The vendor whose protocol the model's server speaks. `OPENAI` includes compatible servers.
    ModelProvider = [ProviderName::Anthropic, ProviderName::OpenAi, ProviderName::Google].map(ProviderName::as_str);

    /// The health of a model, by its recent calls.
    ModelHealth = [ModelStatus::Up, ModelStatus::Degraded, ModelStatus::Down, ModelStatus::Unknown]
        .map(ModelStatus::as_str);

    /// The type of a folder's entry.
    EntryType = [WorkspaceEntryKind::File, WorkspaceEntryKind::Folder, WorkspaceEntryKind::Link, WorkspaceEntryKind::Other].map(entry_word);

    /// Whether an answer is still being written.
    AnswerStatus = [false, true].map(status_word);

    /// The progress of a tool, search or subagent.
    RunProgress = [RunState::Pending, RunState::Complete, RunState::Error].map(state_word);

    /// The type of a pending call.
    PendingCallType = [ReplyKind::Function, ReplyKind::Question].map(reply_word);

    /// Whether the answer is in progress or completed.
    EventName = [false, true].map(event_word);

    /// The known reasons why an answer could not be finished.
    KnownAnswerErrorCode = AnswerError::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>();

    /// The known states of a file's indexing.
    KnownIndexingState = IndexState::ALL.map(IndexState::code);

    /// The known reasons why a file cannot be read completely.
    KnownUnreadReason = UnreadReason::ALL.map(UnreadReason::code);

    /// The known error codes.
    KnownErrorCode = Code::all().map(|code| code.on_the_wire().0).collect::<Vec<_>>();
}

/// Declares sets of words that may grow: one of the known words, in a separate schema, or any other string.
/// Generators give the known words a name, and generated clients accept words that are added later.
macro_rules! open_words {
    ($($(#[doc = $doc:literal])+ $name:ident = $known:ident;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                let any_of = AnyOfBuilder::new().description(Some(concat!($($doc),+).trim()));
                any_of
                    .item(Ref::from_schema_name($known::name()))
                    .item(ObjectBuilder::new().schema_type(Type::String))
                    .into()
            }
        }

        impl ToSchema for $name {
            fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
                schemas.push(($known::name().into_owned(), $known::schema()));
            }
        }
    )+};
}

open_words! {
    /// Why an answer could not be finished. Codes may be added.
    AnswerErrorCode = KnownAnswerErrorCode;

    /// The state of a file's indexing. States may be added.
    IndexingState = KnownIndexingState;

    /// Why a file cannot be read completely. Reasons may be added.
    UnreadReasonCode = KnownUnreadReason;

    /// The error code, for programs. Codes may be added.
    ErrorCode = KnownErrorCode;
}

/// Declares the types of fields with one constant value, which distinguish objects.
macro_rules! constants {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal;)+) => {$(
        $(#[doc = $doc])+
        pub(crate) struct $name;

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($word)
            }
        }

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                one_of(concat!($($doc),+).trim(), &[$word])
            }
        }

        impl ToSchema for $name {}
    )+};
}

constants! {
    /// A message of the user.
    UserRole = "USER";

    /// A message of the agent.
    AssistantRole = "ASSISTANT";

    /// A section of the answer's text.
    TextType = "TEXT";

    /// Reasoning.
    ReasoningType = "REASONING";

    /// A tool that was run.
    ToolType = "TOOL";

    /// A search of the web.
    WebSearchType = "WEB_SEARCH";

    /// The name of the tool that searches the web.
    WebSearchName = "web_search";

    /// A skill that was used.
    SkillType = "SKILL";

    /// Another agent.
    AgentType = "AGENT";

    /// A workspace file.
    FileType = "FILE";

    /// A place in a workspace file.
    FileSourceType = "FILE";

    /// A page of the web.
    UrlSourceType = "URL";
}

fn one_of(doc: &str, words: &[&'static str]) -> RefOr<Schema> {
    let string = ObjectBuilder::new().schema_type(Type::String).description(Some(doc));
    string.enum_values(Some(words.iter().copied())).examples(words.first().copied()).into()
}
