//! The successes of operations that have several. [`super::headers`] has their headers.
#![expect(dead_code, reason = "these types are read by the derive alone")]

use utoipa::IntoResponses;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use crate::wire::Answer;
use crate::wire::examples;

/// The responses to an accepted question.
#[derive(IntoResponses)]
pub(crate) enum AskResponses {
    /// The question is accepted and durably stored; its answer is in progress
    #[response(status = 202, example = json!(examples::answer_begun()))]
    Begun(Answer<'static>),
    /// The answer is completed
    #[response(status = 201, example = json!(examples::answer_completed()))]
    Completed(Answer<'static>),
}

/// The responses to the collection of an answer.
#[derive(IntoResponses)]
pub(crate) enum Collected {
    /// The current state of the answer
    #[response(
        status = 200,
        examples(
            ("in progress" = (value = json!(examples::answer_begun()))),
            ("completed" = (value = json!(examples::answer_completed())))
        )
    )]
    AsItStands(Answer<'static>),
    /// The client has the current state
    #[response(status = 304)]
    Known,
}

/// The response to a reply.
#[derive(IntoResponses)]
pub(crate) enum Replied {
    /// The reply is stored; the current state of the answer
    #[response(status = 200, example = json!(examples::answer_begun()))]
    AsItStands(Answer<'static>),
}

/// The responses to a download.
#[derive(IntoResponses)]
pub(crate) enum Downloaded {
    /// The file; for `HEAD` its headers only
    #[response(status = 200, content_type = "*/*")]
    Whole(#[to_schema] FileContent),
    /// The requested range of the file
    #[response(status = 206, content_type = "*/*")]
    Part(#[to_schema] FileContent),
    /// The client has the current file
    #[response(status = 304)]
    Known,
}

/// The stream of one answer.
#[derive(IntoResponses)]
pub(crate) enum AnswerEvents {
    /// Frames with `event`, `id` and the answer as `data`: a `StreamEvent`. `completed` is the last
    #[response(status = 200, content_type = "text/event-stream", example = json!(examples::EVENTS))]
    Events(Answer<'static>),
    /// The reader already has the `completed` event of this answer: no more events follow
    #[response(status = 204)]
    Over,
}

/// The stream of a conversation.
#[derive(IntoResponses)]
pub(crate) enum ChatEvents {
    /// Frames with `event`, `id` and an answer as `data`: a `StreamEvent`. One answer follows the other
    #[response(status = 200, content_type = "text/event-stream", example = json!(examples::EVENTS))]
    Events(Answer<'static>),
}

/// The content of a file.
pub(crate) struct FileContent;

impl utoipa::PartialSchema for FileContent {
    fn schema() -> RefOr<Schema> {
        let binary = SchemaFormat::KnownFormat(KnownFormat::Binary);
        ObjectBuilder::new().schema_type(Type::String).format(Some(binary)).into()
    }
}

impl utoipa::ToSchema for FileContent {}
