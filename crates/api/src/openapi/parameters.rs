//! Parameters that operations share, and request headers that handlers parse themselves.
#![expect(dead_code, reason = "these types are read by the derive alone")]

use utoipa::IntoParams;

/// The path parameter of a conversation.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfChat {
    /// The conversation: `chatId` of an answer or of a listed conversation.
    #[param(rename = "chatId", format = "uuid", example = "3b9f2c1e-5d47-4f6a-8e0b-7c6d5e4f3a21")]
    chat: String,
}

/// The path parameter of an answer.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfMessage {
    /// The answer: `id` of what asking gave.
    #[param(rename = "messageId", format = "uuid", example = "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34")]
    message: String,
}

/// The path parameter of a file or folder.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfPath {
    /// A path in the workspace: `path` of an upload or of an entry. Its slashes stand in the URL as they are, or
    /// encoded; `?` and `#` must be encoded, other characters may be. A slash at its beginning makes no difference.
    #[param(example = "uploads/lease.pdf", min_length = 1, max_length = 4095)]
    path: String,
}

/// The language of labels.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct InLanguage {
    /// The language of labels: `cs`, `en` or `sk`, by their weights; Czech unless one of them is accepted.
    #[param(rename = "Accept-Language", value_type = String, required = false, example = "en, cs;q=0.5")]
    accept_language: Option<String>,
}

/// The time to wait for an answer.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct PreferWaitHeader {
    /// `wait=N` holds the response until the answer is completed, for N seconds at most, and never more than 60.
    #[param(rename = "Prefer", value_type = String, required = false, example = "wait=30")]
    prefer: Option<String>,
}

/// The key that makes a question safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Repeatable {
    /// A name of your own for this question. The same key with the same body within 24 hours asks nothing again,
    /// but gets the first answer as it stands now; with another body it is refused.
    #[param(
        rename = "Idempotency-Key", value_type = String, required = false, min_length = 1, max_length = 255,
        example = "2f6c1f0e-lease-question"
    )]
    idempotency_key: Option<String>,
}

/// The entity tag that the client has already.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct IfNoneMatchHeader {
    /// Entity tags of what the client has: 304 when one of them still holds.
    #[param(rename = "If-None-Match", value_type = String, required = false, example = "\"1.42\"")]
    if_none_match: Option<String>,
}

/// The requested part of a file, and its condition.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Ranged {
    /// One range of bytes, answered with 206. Several ranges are answered with the whole file.
    #[param(rename = "Range", value_type = String, required = false, example = "bytes=0-1023")]
    range: Option<String>,
    /// An entity tag: the range is sent only if the file still has it, otherwise the whole file. A time gets the whole file,
    /// because a file may change twice within a second.
    #[param(rename = "If-Range", value_type = String, required = false, example = "\"2f-6a1b-5e\"")]
    if_range: Option<String>,
    /// A time: 304 when the file was not changed since. Passed over beside `If-None-Match`.
    #[param(
        rename = "If-Modified-Since", value_type = String, required = false,
        example = "Sat, 21 Nov 2026 09:30:00 GMT"
    )]
    if_modified_since: Option<String>,
}

/// The state after which a stream resumes.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Resumed {
    /// The `id` of the last event that came. The state that it names is not sent again.
    #[param(
        rename = "Last-Event-ID", value_type = String, required = false,
        example = "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34:1.42"
    )]
    last_event_id: Option<String>,
}
