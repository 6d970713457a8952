//! The messages of clients.
//!
//! Only the fields that the server knows are read: a body of any other content costs no memory besides its text.

use domain::excerpt::EXCERPT_MAX_CHARS;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use crate::error::{McpError, McpResult};
use crate::request_id::{ID_MAX_BYTES, RequestId};

/// The most messages of a batch.
const BATCH_MAX: usize = 16;

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    Request(RpcRequest),
    Notification {
        method: String,
        params: RequestParams,
    },
    /// A response, although this server asks nothing.
    Response,
}

/// A request.
#[derive(Debug)]
pub(crate) struct RpcRequest {
    pub(crate) id: RequestId,
    pub(crate) method: String,
    pub(crate) params: RequestParams,
}

/// One message or, in the oldest revision, several.
#[derive(Debug)]
pub(crate) enum MessageBody {
    One(Box<RawValue>),
    Batch(Vec<Box<RawValue>>),
}

impl MessageBody {
    /// Splits a body into its messages.
    ///
    /// # Errors
    /// [`McpError`] for an empty batch, and for one of too many messages.
    pub(crate) fn parse(raw: Box<RawValue>) -> McpResult<Self> {
        if !raw.get().starts_with('[') {
            return Ok(Self::One(raw));
        }
        let batch: Vec<Box<RawValue>> = serde_json::from_str(raw.get()).map_err(McpError::invalid_request)?;
        if batch.is_empty() || batch.len() > BATCH_MAX {
            return Err(McpError::invalid_request(format_args!("a batch has 1 to {BATCH_MAX} messages")));
        }
        Ok(Self::Batch(batch))
    }
}

/// The parameters that this server reads, of all methods.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RequestParams {
    #[serde(default, rename = "_meta")]
    pub(crate) meta: Option<RequestMeta>,
    /// The name of a tool.
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) arguments: Option<Box<RawValue>>,
    /// The address of a resource.
    #[serde(default)]
    pub(crate) uri: Option<String>,
    #[serde(default)]
    pub(crate) cursor: Option<String>,
    #[serde(default, rename = "taskId")]
    pub(crate) task_id: Option<String>,
    /// The revision that `initialize` asks for.
    #[serde(default, rename = "protocolVersion")]
    pub(crate) protocol_version: Option<String>,
    /// The request that a cancellation names.
    #[serde(default, rename = "requestId")]
    request_id: Option<Box<RawValue>>,
}

/// The facts about a request.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RequestMeta {
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(crate) revision: Option<String>,
    #[serde(default, rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(crate) capabilities: Option<ClientCapabilities>,
    #[serde(default, rename = "progressToken")]
    progress_token: Option<Box<RawValue>>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct ClientCapabilities {
    #[serde(default)]
    extensions: Option<ClientExtensions>,
}

#[derive(Debug, Default, Deserialize)]
struct ClientExtensions {
    #[serde(default, rename = "io.modelcontextprotocol/tasks")]
    tasks: Option<IgnoredAny>,
}

impl ClientCapabilities {
    /// Returns true if the client can poll tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        self.extensions.as_ref().is_some_and(|extensions| extensions.tasks.is_some())
    }
}

impl RequestParams {
    /// Returns the token under which the client wants to read the progress.
    pub(crate) fn progress_token(&self) -> Option<RequestId> {
        RequestId::parse(self.meta.as_ref()?.progress_token.as_ref()?)
    }

    /// Returns the request that a cancellation names.
    pub(crate) fn cancelled_request(&self) -> Option<RequestId> {
        RequestId::parse(self.request_id.as_ref()?)
    }
}

#[derive(Deserialize)]
struct Envelope {
    #[serde(default)]
    jsonrpc: Option<String>,
    /// Also `null`, which is no id.
    #[serde(default, deserialize_with = "some_value")]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Box<RawValue>>,
}

fn some_value<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(source).map(Some)
}

/// A message that cannot be served, and the id by which it can be answered.
#[derive(Debug)]
pub(crate) struct RefusedMessage {
    pub(crate) id: Option<RequestId>,
    pub(crate) error: McpError,
}

impl From<McpError> for RefusedMessage {
    fn from(error: McpError) -> Self {
        Self { id: None, error }
    }
}

/// Parses a message.
///
/// # Errors
/// [`RefusedMessage`].
pub(crate) fn parse_message(raw: &RawValue) -> Result<ClientMessage, RefusedMessage> {
    if !raw.get().starts_with('{') {
        return Err(McpError::invalid_request("the message is not a JSON object").into());
    }
    let envelope: Envelope = serde_json::from_str(raw.get())
        .map_err(|error| McpError::invalid_request(format_args!("not a JSON-RPC message: {error}")))?;
    let Envelope { jsonrpc, id: raw_id, method, params } = envelope;
    let id = raw_id.as_deref().and_then(RequestId::parse);
    let refused = |error| RefusedMessage { id: id.clone(), error };
    if jsonrpc.as_deref() != Some("2.0") {
        return Err(refused(McpError::invalid_request("jsonrpc must be \"2.0\"")));
    }
    let Some(method) = method else {
        return match id {
            Some(_) => Ok(ClientMessage::Response),
            None => Err(refused(McpError::invalid_request("the message has no method"))),
        };
    };
    let params = params.map_or_else(|| Ok(RequestParams::default()), |raw| parse_params(&raw));
    let params = params.map_err(refused)?;
    match (raw_id, id) {
        (None, _) => Ok(ClientMessage::Notification { method, params }),
        (Some(_), Some(id)) => Ok(ClientMessage::Request(RpcRequest { id, method, params })),
        (Some(_), None) => {
            let message = format!("id must be a text or a whole number of at most {ID_MAX_BYTES} bytes");
            Err(McpError::invalid_request(message).into())
        }
    }
}

fn parse_params(raw: &RawValue) -> McpResult<RequestParams> {
    if !raw.get().starts_with('{') {
        return Err(McpError::malformed_params("params must be an object"));
    }
    parse_fields(raw.get()).map_err(McpError::malformed_params)
}

/// Parses an object.
///
/// # Errors
/// The wrong field, for people.
pub(crate) fn parse_fields<'de, T: Deserialize<'de>>(json: &'de str) -> Result<T, String> {
    let mut source = serde_json::Deserializer::from_str(json);
    serde_path_to_error::deserialize(&mut source).map_err(|error| {
        let field = error.path().to_string();
        let text = error.inner().to_string();
        // The position in the text tells nothing to a model.
        let text = text.split(" at line ").next().unwrap_or_default();
        let place = if matches!(field.as_str(), "." | "?") { String::new() } else { format!("{field}: ") };
        format!("{place}{text}").chars().take(EXCERPT_MAX_CHARS).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ClientMessage, RefusedMessage> {
        let raw: Box<RawValue> = serde_json::from_str(text).expect("JSON");
        parse_message(&raw)
    }

    #[test]
    fn messages_are_told_apart() {
        let request = parse(r#"{"jsonrpc":"2.0","id":"a","method":"tools/list","params":{"cursor":"2"}}"#);
        let Ok(ClientMessage::Request(request)) = request else { panic!("{request:?}") };
        assert_eq!((request.id, request.method.as_str()), (RequestId::Text("a".to_owned()), "tools/list"));
        assert_eq!(request.params.cursor.as_deref(), Some("2"));
        let cancelled =
            parse(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}"#);
        let Ok(ClientMessage::Notification { params, .. }) = cancelled else { panic!("{cancelled:?}") };
        assert_eq!(params.cancelled_request(), Some(RequestId::Number(7)));
        assert!(matches!(parse(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Ok(ClientMessage::Response)));
    }

    #[test]
    fn refused_message_keeps_readable_id() {
        let refused = parse(r#"{"jsonrpc":"2.0","id":7,"method":"x","params":{"name":7}}"#).expect_err("no");
        assert_eq!(refused.id, Some(RequestId::Number(7)));
        let message = refused.error.to_message(refused.id.as_ref());
        assert_eq!(message["error"]["code"], -32602);
        assert!(message["error"]["message"].as_str().is_some_and(|text| text.starts_with("name: ")));
        for wrong in [
            "7",
            "[]",
            r#"{"id":1,"method":"x"}"#,
            r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            r#"{"jsonrpc":"2.0"}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[]}"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn extension_of_tasks_is_recognized() {
        let of = |capabilities: &str| {
            serde_json::from_str::<ClientCapabilities>(capabilities).expect(capabilities).has_tasks()
        };
        assert!(of(r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#));
        assert!(!of(r#"{"extensions":{"other":{}}}"#) && !of("{}") && !of(r#"{"roots":{"a":[1]}}"#));
    }

    #[test]
    fn batches_are_bounded() {
        let of = |text: String| MessageBody::parse(serde_json::from_str(&text).expect("JSON"));
        assert!(matches!(of("{}".to_owned()), Ok(MessageBody::One(_))));
        assert!(matches!(of(format!("[{}]", ["{}"; BATCH_MAX].join(","))), Ok(MessageBody::Batch(_))));
        assert!(of(format!("[{}]", ["{}"; BATCH_MAX + 1].join(","))).is_err());
        assert!(of("[]".to_owned()).is_err());
    }
}
