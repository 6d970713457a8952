//! Responses that are more than a status and a body: with headers of their own, or several of them.
#![expect(dead_code, clippy::large_enum_variant, reason = "these types are read by the derive alone")]

use utoipa::IntoResponses;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};

use super::answer::Answer;
use super::examples;
use crate::wire::{Jurisdiction, Model};

/// The models in the caller's language.
#[derive(IntoResponses)]
#[response(
    status = 200,
    description = "The models. One of them is the default",
    headers(
        ("Content-Language" = String, description = "The language of the labels: `cs`, `en` or `sk`"),
        ("Vary" = String, description = "`Accept-Language`"),
    )
)]
pub(crate) struct Models(Vec<Model<'static>>);

/// The jurisdictions in the caller's language.
#[derive(IntoResponses)]
#[response(
    status = 200,
    description = "The jurisdictions",
    headers(
        ("Content-Language" = String, description = "The language of the labels: `cs`, `en` or `sk`"),
        ("Vary" = String, description = "`Accept-Language`"),
    )
)]
pub(crate) struct Jurisdictions(Vec<Jurisdiction<'static>>);

#[derive(IntoResponses)]
pub(crate) enum Asked {
    /// The question is accepted and safely stored; its answer is being written
    #[response(
        status = 202,
        headers(("Idempotent-Replayed" = bool, description = "`true` when the question had been asked before")),
        example = json!(examples::answer_begun())
    )]
    Begun(Answer),
    /// The question is answered already
    #[response(
        status = 201,
        headers(("Idempotent-Replayed" = bool, description = "`true` when the question had been asked before")),
        example = json!(examples::answer_completed())
    )]
    Completed(Answer),
}

#[derive(IntoResponses)]
pub(crate) enum Collected {
    /// The answer as it stands
    #[response(
        status = 200,
        headers(("ETag" = String, description = "This state of the answer")),
        examples(
            ("in progress" = (value = json!(examples::answer_begun()))),
            ("completed" = (value = json!(examples::answer_completed())))
        )
    )]
    AsItStands(Answer),
    /// The client has this state already
    #[response(status = 304, headers(("ETag" = String, description = "This state of the answer")))]
    Known,
}

#[derive(IntoResponses)]
pub(crate) enum Downloaded {
    /// The file, or of `HEAD` what would come with it
    #[response(
        status = 200,
        content_type = "*/*",
        headers(
            ("Content-Length" = u64, description = "Its size in bytes"),
            ("Content-Disposition" = String, description = "`attachment` with its name, in UTF-8 where it needs that"),
            ("ETag" = String, description = "The file as it stands"),
            ("Last-Modified" = String, description = "When it was changed, to the second"),
            ("Accept-Ranges" = String, description = "`bytes`"),
        )
    )]
    Whole(#[to_schema] FileContent),
    /// The range of the file that was asked for
    #[response(
        status = 206,
        content_type = "*/*",
        headers(
            ("Content-Length" = u64, description = "The size of the range in bytes"),
            ("Content-Range" = String, description = "Which bytes these are, of how many: `bytes 0-1023/52614`"),
            ("Content-Disposition" = String, description = "`attachment` with its name, in UTF-8 where it needs that"),
            ("ETag" = String, description = "The file as it stands"),
            ("Last-Modified" = String, description = "When it was changed, to the second"),
        )
    )]
    Part(#[to_schema] FileContent),
    /// The client has the file as it stands
    #[response(
        status = 304,
        headers(
            ("ETag" = String, description = "The file as it stands"),
            ("Last-Modified" = String, description = "When it was changed, to the second"),
        )
    )]
    Known,
}

/// The events of one answer.
#[derive(IntoResponses)]
pub(crate) enum AnswerEvents {
    /// Events, each of which has the whole state of the answer and supersedes those before: `message` while it is
    /// in progress, at last `completed`, which ends the stream. `data` is an `Answer` in one line of JSON, `id` what
    /// `Last-Event-ID` takes. The present state comes at once. A comment comes every ten seconds; a reader that
    /// takes nothing for a minute is let go. A stream that ends without `completed` was cut: connect again
    #[response(
        status = 200,
        content_type = "text/event-stream",
        headers(("Cache-Control" = String, description = "`no-store`")),
        example = json!(examples::EVENTS)
    )]
    Events(#[to_schema] EventStream),
    /// The reader has the `completed` of this answer: there is nothing more to come
    #[response(status = 204)]
    Over,
}

/// The events of a conversation.
#[derive(IntoResponses)]
pub(crate) enum ChatEvents {
    /// Events, each of which has the whole state of an answer and supersedes those before: `message` while it is in
    /// progress, `completed` when it is done; then the next question's answer follows. `data` is an `Answer` in one
    /// line of JSON, `id` what `Last-Event-ID` takes. The present state of the latest answer comes at once, which
    /// may be completed long since: compare its `id`. The stream stays open until the conversation is deleted. A
    /// comment comes every ten seconds; a reader that takes nothing for a minute is let go
    #[response(
        status = 200,
        content_type = "text/event-stream",
        headers(("Cache-Control" = String, description = "`no-store`")),
        example = json!(examples::EVENTS)
    )]
    Events(#[to_schema] EventStream),
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

/// Frames of `event`, `data` and `id`.
pub(crate) struct EventStream;

impl utoipa::PartialSchema for EventStream {
    fn schema() -> RefOr<Schema> {
        let told = "Frames of `event`, `data` and `id`, each ended by an empty line";
        ObjectBuilder::new().schema_type(Type::String).description(Some(told)).into()
    }
}

impl utoipa::ToSchema for EventStream {}
