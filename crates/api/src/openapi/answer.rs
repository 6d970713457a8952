//! The schema of bodies that are sent in pieces: events, and a conversation with its messages.
#![expect(dead_code, reason = "these types are read by the derive alone")]

use utoipa::ToSchema;

use crate::wire::enums::EventName;
use crate::wire::examples;
use crate::wire::{Answer, Conversation, Message};

/// An event of a stream: the fields of its frame, with `data` parsed.
#[derive(ToSchema)]
pub(crate) struct StreamEvent {
    #[schema(inline, value_type = EventName)]
    event: String,
    /// The answer in one line of JSON: its whole state, which supersedes earlier events.
    data: Answer<'static>,
    /// The identifier of the state, for `Last-Event-ID`.
    #[schema(examples("8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34:1.42"))]
    id: String,
    /// The delay in milliseconds before connecting again after an interruption. Only the first event has it.
    #[schema(required = false, examples(1000))]
    retry: u32,
}

/// A conversation with all its messages.
#[derive(ToSchema)]
#[schema(examples(examples::conversation))]
pub(crate) struct ChatDetail {
    /// The conversation.
    chat: Conversation,
    /// Its messages, the oldest first.
    messages: Vec<Message<'static>>,
}
