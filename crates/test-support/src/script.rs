//! Scripts of the fake vendor.

use serde::Deserialize;
use serde_json::{Value, json};

/// A script for the requests after one question.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// One step for each request; the last one repeats.
    pub steps: Vec<ScriptStep>,
}

/// The tries of one request: each repetition of the request runs the next one; the last one repeats.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum ScriptStep {
    Tries(Vec<Try>),
    Same(Box<Try>),
}

/// One answer to one request.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Try {
    /// Rejects the request with this status instead of answering.
    pub status: Option<u16>,
    pub message: Option<String>,
    pub code: Option<String>,
    /// The rejection's `Retry-After`, verbatim.
    pub retry_after: Option<String>,
    /// The streamed actions, in order.
    pub actions: Vec<ScriptAction>,
    /// Milliseconds before each word of `say`, `think` and `refuse`.
    pub pace_ms: u64,
    /// Interleaves the deltas of adjacent calls.
    pub interleave: bool,
    /// The stop reason, by its name in Chat Completions or in the request's format; by default it follows from the
    /// actions. `""` sends none.
    pub finish: Option<String>,
    /// Reports usage when the request asks for it.
    pub usage: bool,
    /// The number of end markers.
    pub done: u8,
}

impl Default for Try {
    fn default() -> Self {
        Self {
            status: None,
            message: None,
            code: None,
            retry_after: None,
            actions: Vec::new(),
            pace_ms: 0,
            interleave: false,
            finish: None,
            usage: true,
            done: 1,
        }
    }
}

/// A piece of an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScriptAction {
    /// Writes text, word by word.
    Say(String),
    /// Reasons, word by word.
    Think(String),
    /// Sends reasoning that is hidden but must be sent back; nothing in Chat Completions.
    ThinkHidden,
    /// Refuses, word by word.
    Refuse(String),
    /// Writes `count` tokens at a fixed interval.
    Tokens {
        count: u32,
        /// The interval in milliseconds.
        #[serde(default)]
        every_ms: u64,
        /// Adds the send time to each token: `t7@` and microseconds since 1970.
        #[serde(default)]
        stamp: bool,
    },
    /// Calls a tool. Sends a string verbatim, other values as JSON.
    Call {
        tool: String,
        #[serde(default)]
        arguments: Value,
        /// The call's identifier; generated when absent, omitted when empty.
        #[serde(default)]
        id: Option<String>,
    },
    /// Searches the web by the vendor's own tool, whose call must be sent back after a pause; only in Messages.
    Search(String),
    /// Cites a source for the text since the last citation or the start of the text.
    Cite(Cite),
    WaitMs(u64),
    Raw(String),
    /// Sends an error event and ends.
    Error {
        message: String,
        code: Value,
    },
    /// Cuts the connection between frames.
    Cut,
    /// Cuts the connection in the middle of a frame.
    CutFrame,
    /// Cuts the connection in the middle of a character.
    CutUtf8,
    /// Sends nothing more, but keeps the connection open.
    Stall,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cite {
    /// The page's URL; empty for a document.
    pub url: String,
    pub title: String,
    /// The name of a document from the request; ignored in Chat Completions.
    pub document: String,
    /// The document's page, if the format has it.
    pub page: Option<u64>,
    /// The quoted text, if the format has it.
    pub quote: String,
}

/// The listed models. The first one answers with one sentence by default.
pub const NAMES: &[&str] = &[
    "standin",
    "text-100x50",
    "text-200x5",
    "obey",
    "reasoning",
    "two-calls",
    "bad-arguments",
    "cut",
    "cut-frame",
    "cut-utf8",
    "cut-once",
    "stall",
    "stall-first",
    "rate-limited",
    "overloaded",
    "overloaded-mid",
    "error-mid",
    "no-done",
    "done-twice",
    "no-usage",
    "unknown-fields",
    "refused",
    "filtered",
    "full",
    "empty",
    "too-long",
    "denied",
    "no-tools",
];

/// Returns the script of a model name.
#[must_use]
pub fn builtin_script(model: &str) -> Option<Script> {
    let hello = || json!({"say": "The stand-in says a few words."});
    let then_hello = |action: &str| json!([hello(), action]);
    let actions = |actions: Value| json!({"actions": actions});
    let once = |failure: Value| json!([failure, {"actions": [hello()]}]);
    let step = match model {
        "standin" | "no-tools" => actions(json!([hello()])),
        "reasoning" => actions(json!([{"think": "First I think about it."}, hello()])),
        "cut" => actions(then_hello("cut")),
        "cut-frame" => actions(then_hello("cut_frame")),
        "cut-utf8" => actions(then_hello("cut_utf8")),
        "cut-once" => once(actions(then_hello("cut_frame"))),
        "stall" => actions(then_hello("stall")),
        "stall-first" => actions(json!(["stall"])),
        "rate-limited" => once(json!({"status": 429, "retry_after": "1", "code": "rate_limit_exceeded"})),
        "overloaded" => once(json!({"status": 529, "code": "overloaded_error"})),
        "overloaded-mid" => {
            once(actions(json!([hello(), {"error": {"message": "Overloaded", "code": "overloaded_error"}}])))
        }
        "error-mid" => actions(json!([hello(), {"error": {"message": "it broke", "code": null}}])),
        "no-done" => json!({"actions": [hello()], "done": 0}),
        "done-twice" => json!({"actions": [hello()], "done": 2}),
        "no-usage" => json!({"actions": [hello()], "usage": false}),
        "unknown-fields" => actions(json!([
            {"raw": ": a comment\nid: 7\nretry: 10\nevent: heartbeat\ndata: {\"kind\":\"ping\"}\n\nfield\n"},
            {"raw": "data: {\"choices\":[],\"obfuscation\":\"x\",\"extra\":{\"deep\":[1]}}\r\n\r\n"},
            hello()
        ])),
        "refused" => actions(json!([{"refuse": "I cannot help with that."}])),
        "filtered" => json!({"actions": [hello()], "finish": "content_filter"}),
        "full" => json!({"actions": [hello()], "finish": "length"}),
        "empty" => actions(json!([])),
        "too-long" => json!({"status": 400, "code": "context_length_exceeded",
            "message": "This model's maximum context length is 4096 tokens."}),
        "denied" => {
            json!({"status": 401, "code": "invalid_api_key", "message": "Incorrect API key provided"})
        }
        _ => return timed_tokens_script(model).or_else(|| calls_script(model)),
    };
    parse_script(json!({"steps": [step]}))
}

/// `text-200x5`: 200 tokens at an interval of 5 ms, each with its send time.
fn timed_tokens_script(model: &str) -> Option<Script> {
    let (count, every_ms) = model.strip_prefix("text-")?.split_once('x')?;
    let (count, every_ms): (u32, u64) = (count.parse().ok()?, every_ms.parse().ok()?);
    let tokens = json!({"tokens": {"count": count, "every_ms": every_ms, "stamp": true}});
    parse_script(json!({"steps": [{"actions": [tokens]}]}))
}

fn calls_script(model: &str) -> Option<Script> {
    let first = match model {
        "two-calls" => json!({"interleave": true, "actions": [
            {"say": "I look."},
            {"call": {"tool": "list", "arguments": {"path": "/"}}},
            {"call": {"tool": "search", "arguments": {"query": "nájem \"bytu\""}}},
        ]}),
        "bad-arguments" => json!({"actions": [{"call": {"tool": "list", "arguments": "{\"path\": "}}]}),
        _ => return None,
    };
    parse_script(json!({"steps": [first, {"actions": [{"say": "Both came back."}]}]}))
}

fn parse_script(script: Value) -> Option<Script> {
    serde_json::from_value(script).ok()
}
