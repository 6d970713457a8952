//! Reads a request as strictly as the vendors do.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Deserialize;
use serde_json::Value;

/// A request that was understood.
pub(crate) struct Request {
    pub(crate) model: String,
    pub(crate) messages: Vec<Message>,
    pub(crate) offers_tools: bool,
    pub(crate) wants_usage: bool,
    pub(crate) size_bytes: usize,
    /// Tells requests apart that are made again.
    pub(crate) fingerprint: u64,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Option<String>,
    #[serde(default)]
    pub(crate) tool_calls: Vec<ToolCall>,
    #[serde(default)]
    pub(crate) tool_call_id: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) function: Function,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Function {
    pub(crate) name: String,
    pub(crate) arguments: String,
}

#[derive(Deserialize)]
struct Wire {
    model: String,
    messages: Vec<Message>,
    #[serde(default)]
    stream: bool,
    #[serde(default)]
    stream_options: Value,
    #[serde(default)]
    tools: Option<Vec<Tool>>,
}

#[derive(Deserialize)]
struct Tool {
    r#type: String,
    function: Offered,
}

#[derive(Deserialize)]
struct Offered {
    name: String,
    #[serde(default)]
    parameters: Value,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, message: impl Into<String>, code: &str) -> Self {
        Self { status, message: message.into(), code: Some(code.to_owned()) }
    }

    fn invalid(message: impl Into<String>) -> Self {
        Self { status: 400, message: message.into(), code: None }
    }
}

impl Request {
    pub(crate) fn parse(body: &[u8]) -> Result<Self, Refusal> {
        let wire: Wire = serde_json::from_slice(body)
            .map_err(|error| Refusal::invalid(format!("could not parse the body: {error}")))?;
        if !wire.stream {
            return Err(Refusal::invalid("only streams are served here"));
        }
        check_messages(&wire.messages)?;
        let tools = wire.tools.as_deref();
        if tools.is_some_and(<[Tool]>::is_empty) {
            return Err(Refusal::invalid("[] is too short - 'tools'"));
        }
        for tool in tools.unwrap_or_default() {
            if tool.r#type != "function"
                || tool.function.name.is_empty()
                || !tool.function.parameters.is_object()
            {
                return Err(Refusal::invalid("a tool is malformed"));
            }
        }
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        Ok(Self {
            offers_tools: tools.is_some(),
            wants_usage: wire.stream_options["include_usage"] == Value::Bool(true),
            model: wire.model,
            messages: wire.messages,
            size_bytes: body.len(),
            fingerprint: hasher.finish(),
        })
    }

    /// The last user's message, and how many model messages follow it.
    pub(crate) fn question(&self) -> (&str, usize) {
        let at = self.messages.iter().rposition(|message| message.role == "user").unwrap_or(0);
        let text = self.messages.get(at).and_then(|message| message.content.as_deref()).unwrap_or("");
        let steps = self.messages[at..].iter().filter(|message| message.role == "assistant").count();
        (text, steps)
    }
}

/// Every call must be answered right after it, and nothing else may be.
fn check_messages(messages: &[Message]) -> Result<(), Refusal> {
    if messages.is_empty() {
        return Err(Refusal::invalid("[] is too short - 'messages'"));
    }
    let mut open: HashSet<&str> = HashSet::new();
    for message in messages {
        if message.role != "tool" && !open.is_empty() {
            return Err(Refusal::invalid("a tool call is not followed by its tool message"));
        }
        match message.role.as_str() {
            "system" | "user" if message.content.is_some() => {}
            "assistant" if message.content.is_some() || !message.tool_calls.is_empty() => {
                for call in &message.tool_calls {
                    if call.function.name.is_empty()
                        || serde_json::from_str::<Value>(&call.function.arguments).is_err()
                    {
                        return Err(Refusal::invalid("a tool call is malformed"));
                    }
                    if !open.insert(&call.id) {
                        return Err(Refusal::invalid("two tool calls have the same id"));
                    }
                }
            }
            "tool" if message.content.is_some() => {
                let answered = message.tool_call_id.as_deref().unwrap_or("");
                if !open.remove(answered) {
                    return Err(Refusal::invalid("a tool message answers no call"));
                }
            }
            _ => return Err(Refusal::invalid("a message is malformed")),
        }
    }
    if open.is_empty() { Ok(()) } else { Err(Refusal::invalid("a tool call is not answered")) }
}
