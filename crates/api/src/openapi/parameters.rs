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
    /// The answer's `id`, as returned when the question was asked.
    #[param(rename = "messageId", format = "uuid", example = "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34")]
    message: String,
}

/// The path parameter of a call.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfCall {
    /// The `callId` of a pending call of the answer.
    #[param(rename = "callId", example = "call_1", min_length = 1)]
    call: String,
}

/// The path parameter of a file or folder.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(crate) struct OfPath {
    /// A path in the workspace: the `path` of an upload or of an entry. Slashes may be percent-encoded or not;
    /// `?` and `#` must be encoded, other characters may be. A leading slash makes no difference.
    #[param(example = "uploads/lease.pdf", min_length = 1, max_length = 4095)]
    path: String,
}

/// The language of labels.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct InLanguage {
    /// The language of labels: `cs`, `en` or `sk`, by weight; Czech if none of them is accepted.
    #[param(rename = "Accept-Language", value_type = String, required = false, example = "en, cs;q=0.5")]
    accept_language: Option<String>,
}

/// The time to wait for an answer.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct PreferWaitHeader {
    /// `wait=N` delays the response until the answer is completed, for at most N seconds and never more than 60.
    #[param(rename = "Prefer", value_type = String, required = false, example = "wait=30")]
    prefer: Option<String>,
}

/// The key that makes a question safe to repeat.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Repeatable {
    /// A unique name that you choose for this question. Within 24 hours, the same key with the same body
    /// returns the current state of the first answer instead of asking again; with another body it is refused.
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
    /// Entity tags of the states that the client has: 304 if one of them is current.
    #[param(rename = "If-None-Match", value_type = String, required = false, example = "\"1.42\"")]
    if_none_match: Option<String>,
}

/// The requested part of a file, and its condition.
#[derive(IntoParams)]
#[into_params(parameter_in = Header)]
pub(crate) struct Ranged {
    /// One range of bytes, answered with 206. A request for several ranges returns the whole file.
    #[param(rename = "Range", value_type = String, required = false, example = "bytes=0-1023")]
    range: Option<String>,
    /// An entity tag: the range is sent only if it is the file's current one, otherwise the whole file. With a
    /// time the whole file is sent, because a file may change twice within a second.
    #[param(rename = "If-Range", value_type = String, required = false, example = "\"2f-6a1b-5e\"")]
    if_range: Option<String>,
    /// A time: 304 if the file has not changed since. Ignored if `If-None-Match` is sent.
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
    /// The `id` of the last received event. Its state is not sent again.
    #[param(
        rename = "Last-Event-ID", value_type = String, required = false,
        example = "8f0d3c52-6a0e-4d4b-9c1f-2b7e5a9d1c34:1.42"
    )]
    last_event_id: Option<String>,
}
