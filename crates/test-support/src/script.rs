//! What the stand-in is told to do.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::instructions;
use crate::request::{Refusal, Request};

/// What is done for the requests that follow on one question.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// A step for each request; the last one is done again for those beyond.
    pub steps: Vec<Step>,
}

/// What is done for one request: when it is made again, the next try; the last one for those beyond.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum Step {
    /// Several tries.
    Tries(Vec<Try>),
    /// The same each time.
    Same(Box<Try>),
}

/// One answer to one request.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Try {
    /// Refuses with this status instead of answering.
    pub status: Option<u16>,
    /// The refusal's message.
    pub message: Option<String>,
    /// The refusal's code.
    pub code: Option<String>,
    /// The refusal's `Retry-After`, as it stands.
    pub retry_after: Option<String>,
    /// What is streamed, in order.
    pub actions: Vec<Action>,
    /// Milliseconds before each word of `say`, `think` and `refuse`.
    pub pace_ms: u64,
    /// Whether the pieces of calls next to each other are mixed.
    pub interleave: bool,
    /// The reason for stopping, by its name in Chat Completions or in the format at hand; by default what the actions
    /// suggest, none when `""`.
    pub finish: Option<String>,
    /// Whether usage is reported to those who ask for it.
    pub usage: bool,
    /// How often the end is marked.
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
pub enum Action {
    /// Says the text word by word.
    Say(String),
    /// Reasons word by word.
    Think(String),
    /// Has a thought that is not shown but wanted back; nothing in Chat Completions.
    ThinkHidden,
    /// Refuses word by word.
    Refuse(String),
    /// Says so many tokens, one each so many milliseconds.
    Tokens {
        /// How many.
        count: u32,
        /// How far apart.
        #[serde(default)]
        every_ms: u64,
        /// Whether each token tells when it was sent: `t7@` and microseconds since 1970.
        #[serde(default)]
        stamp: bool,
    },
    /// Calls a tool. A string is sent as it stands, everything else as JSON.
    Call {
        /// The tool's name.
        tool: String,
        /// The arguments.
        #[serde(default)]
        arguments: Value,
        /// The call's identifier; made up when absent, left out when empty.
        #[serde(default)]
        id: Option<String>,
    },
    /// Names a source of what was said since the last one was named, or the text began.
    Cite(Cite),
    /// Waits.
    WaitMs(u64),
    /// Sends these bytes.
    Raw(String),
    /// Sends an error event and ends.
    Error {
        /// Its message.
        message: String,
        /// Its code.
        code: Value,
    },
    /// Cuts the connection between frames.
    Cut,
    /// Cuts the connection in the middle of a frame.
    CutFrame,
    /// Cuts the connection in the middle of a character.
    CutUtf8,
    /// Sends nothing more and keeps the connection open.
    Stall,
}

/// A source that the vendor names itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cite {
    /// The page's address; empty for a document.
    pub url: String,
    /// The page's title.
    pub title: String,
    /// The name of a document that was sent; nothing in Chat Completions.
    pub document: String,
    /// The document's page, where the format tells it.
    pub page: Option<u64>,
    /// What the source says, where the format tells it.
    pub quote: String,
}

/// The models that are listed. The first one answers in a sentence what no script says otherwise.
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
];

/// The script of a model's name.
#[must_use]
pub fn builtin(model: &str) -> Option<Script> {
    let hello = || json!({"say": "The stand-in says a few words."});
    let then_hello = |action: &str| json!([hello(), action]);
    let actions = |actions: Value| json!({"actions": actions});
    let once = |failure: Value| json!([failure, {"actions": [hello()]}]);
    let step = match model {
        "standin" => actions(json!([hello()])),
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
        _ => return counted(model).or_else(|| calls(model)),
    };
    parse(json!({"steps": [step]}))
}

/// `text-200x5`: 200 tokens, one each 5 ms, each stamped with its time.
fn counted(model: &str) -> Option<Script> {
    let (count, every_ms) = model.strip_prefix("text-")?.split_once('x')?;
    let (count, every_ms): (u32, u64) = (count.parse().ok()?, every_ms.parse().ok()?);
    let tokens = json!({"tokens": {"count": count, "every_ms": every_ms, "stamp": true}});
    parse(json!({"steps": [{"actions": [tokens]}]}))
}

fn calls(model: &str) -> Option<Script> {
    let first = match model {
        "two-calls" => json!({"interleave": true, "actions": [
            {"say": "I look."},
            {"call": {"tool": "list", "arguments": {"path": "/"}}},
            {"call": {"tool": "search", "arguments": {"query": "nájem \"bytu\""}}},
        ]}),
        "bad-arguments" => json!({"actions": [{"call": {"tool": "list", "arguments": "{\"path\": "}}]}),
        _ => return None,
    };
    parse(json!({"steps": [first, {"actions": [{"say": "Both came back."}]}]}))
}

fn parse(script: Value) -> Option<Script> {
    serde_json::from_value(script).ok()
}

/// What is done for this request, which came `count` times before.
pub(crate) fn attempt(request: &Request, count: usize) -> Result<Try, Refusal> {
    let (question, step) = request.question();
    let script = match question.split_once("STANDIN ") {
        Some((_, json)) => serde_json::Deserializer::from_str(json)
            .into_iter::<Script>()
            .next()
            .and_then(Result::ok)
            .ok_or_else(|| Refusal::new(400, "the script cannot be read", "bad_script"))?,
        None if request.model == "obey" => return Ok(instructions::obey(request)),
        None => builtin(&request.model).ok_or_else(|| {
            let message = format!("The model `{}` does not exist", request.model);
            Refusal::new(404, message, "model_not_found")
        })?,
    };
    let nothing = || Refusal::new(400, "the script is empty", "bad_script");
    match script.steps.get(step.min(script.steps.len().saturating_sub(1))).ok_or_else(nothing)? {
        Step::Same(same) => Ok((**same).clone()),
        Step::Tries(tries) => {
            tries.get(count.min(tries.len().saturating_sub(1))).cloned().ok_or_else(nothing)
        }
    }
}
