//! Calls whose results come from outside of the service: functions of the client, and questions to the user.

use std::collections::HashSet;

use domain::limits::{FUNCTIONS_MAX, FUNCTIONS_MAX_BYTES};
use domain::step::{ReplyKind, StepCall, ToolSpec, WORKSPACE_INSTRUCTIONS};
use domain::tool::{HostTool, facts_of};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The longest name of a function, in bytes, as vendors accept it.
const NAME_MAX_BYTES: usize = 64;
/// The maximum number of choices of a question.
const CHOICES_MAX: usize = 20;

/// The calls that the model of a turn may make to the outside.
#[derive(Debug, Clone, Default)]
pub(super) struct OutsideCalls {
    /// The names of the client's functions.
    pub(super) functions: Vec<String>,
    /// True if the model may ask the user questions.
    pub(super) asks_user: bool,
}

/// The arguments of the tool `ask_user`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionArguments {
    question: String,
    #[serde(default)]
    choices: Vec<String>,
}

/// The reason why the functions of a client cannot be offered to a model.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FunctionError {
    #[error("too many tools: send at most {FUNCTIONS_MAX}")]
    TooMany,
    #[error(
        "the tools are too long: send at most {FUNCTIONS_MAX_BYTES} bytes of names, descriptions and parameters"
    )]
    TooLong,
    #[error("a tool's name is invalid: use 1 to {NAME_MAX_BYTES} letters, digits, _ and -, and no double __")]
    Name,
    #[error("the tool {0} has the name of a tool of the service: use another name")]
    Taken(String),
    #[error("the tool {0} is sent twice: send it once")]
    Twice(String),
    #[error("the parameters of the tool {0} are not a JSON object")]
    Parameters(String),
}

impl OutsideCalls {
    /// Returns true if the client runs this function.
    pub(super) fn has_function(&self, tool: &str) -> bool {
        self.functions.iter().any(|name| name == tool)
    }

    /// Returns the kind of reply that the call awaits. A call with invalid arguments awaits none: it fails at once.
    pub(super) fn awaited_reply(&self, call: &StepCall) -> Option<ReplyKind> {
        if self.has_function(&call.tool) {
            let is_valid = serde_json::from_str::<Map<String, Value>>(&call.arguments).is_ok();
            return is_valid.then_some(ReplyKind::Function);
        }
        if !self.asks_user || call.tool != HostTool::AskUser.name() {
            return None;
        }
        let asked: QuestionArguments = serde_json::from_str(&call.arguments).ok()?;
        let is_valid = !asked.question.trim().is_empty() && asked.choices.len() <= CHOICES_MAX;
        is_valid.then_some(ReplyKind::Question)
    }
}

/// Returns the error for a call of a function whose arguments are no JSON object.
pub(super) fn invalid_arguments(tool: &str) -> String {
    if tool == HostTool::AskUser.name() {
        return format!(
            "Invalid arguments: use {{\"question\": \"…\", \"choices\": [\"…\"]}} with at most {CHOICES_MAX} choices."
        );
    }
    "Invalid arguments: use a JSON object.".to_owned()
}

/// Checks the functions of a client: their number, size and names.
///
/// # Errors
/// [`FunctionError`].
pub fn check_functions(functions: &[ToolSpec]) -> Result<(), FunctionError> {
    if functions.len() > FUNCTIONS_MAX {
        return Err(FunctionError::TooMany);
    }
    let size = |tool: &ToolSpec| tool.name.len() + tool.description.len() + tool.schema.len();
    if functions.iter().map(size).sum::<usize>() > FUNCTIONS_MAX_BYTES {
        return Err(FunctionError::TooLong);
    }
    let mut names = HashSet::new();
    for ToolSpec { name, schema, .. } in functions {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        let fits = (1..=NAME_MAX_BYTES).contains(&name.len());
        if !fits || !name.bytes().all(is_plain) || mcp::server_of(name).is_some() {
            return Err(FunctionError::Name);
        }
        if facts_of(name).is_some() || name == WORKSPACE_INSTRUCTIONS {
            return Err(FunctionError::Taken(name.clone()));
        }
        if !names.insert(name) {
            return Err(FunctionError::Twice(name.clone()));
        }
        if serde_json::from_str::<Map<String, Value>>(schema).is_err() {
            return Err(FunctionError::Parameters(name.clone()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use domain::step::Purpose;

    use super::*;

    fn function(name: &str) -> ToolSpec {
        let (description, schema) = ("Does something.".to_owned(), r#"{"type":"object"}"#.to_owned());
        ToolSpec { name: name.to_owned(), description, schema }
    }

    #[test]
    fn functions_of_clients_are_bounded() {
        assert_eq!(check_functions(&[function("get_weather"), function("Send-Mail2")]), Ok(()));
        for name in ["", "ř", "a b", "registry__note", &"x".repeat(65)] {
            assert_eq!(check_functions(&[function(name)]), Err(FunctionError::Name), "{name}");
        }
        for name in ["shell", "ask_user", "attached_files", WORKSPACE_INSTRUCTIONS] {
            let taken = check_functions(&[function(name)]);
            assert_eq!(taken, Err(FunctionError::Taken(name.to_owned())));
        }
        assert_eq!(
            check_functions(&[function("a"), function("a")]),
            Err(FunctionError::Twice("a".to_owned()))
        );
        let odd = ToolSpec { schema: "[]".to_owned(), ..function("a") };
        assert_eq!(check_functions(&[odd]), Err(FunctionError::Parameters("a".to_owned())));
        let long = ToolSpec { description: "x".repeat(FUNCTIONS_MAX_BYTES), ..function("a") };
        assert_eq!(check_functions(&[long]), Err(FunctionError::TooLong));
        let many: Vec<_> = (0..=FUNCTIONS_MAX).map(|number| function(&format!("f{number}"))).collect();
        assert_eq!(check_functions(&many), Err(FunctionError::TooMany));
    }

    #[test]
    fn only_valid_calls_await_replies() {
        let outside = OutsideCalls { functions: vec!["get_weather".to_owned()], asks_user: true };
        let kind = |outside: &OutsideCalls, tool: &str, arguments: &str| {
            let (id, purpose) = ("c".to_owned(), Purpose::Tool);
            outside.awaited_reply(&StepCall {
                id,
                tool: tool.to_owned(),
                arguments: arguments.to_owned(),
                purpose,
            })
        };
        assert_eq!(kind(&outside, "get_weather", r#"{"city": "Brno"}"#), Some(ReplyKind::Function));
        assert_eq!(kind(&outside, "get_weather", r#"{"city""#), None);
        assert_eq!(
            kind(&outside, "ask_user", r#"{"question": "Which?", "choices": ["a", "b"]}"#),
            Some(ReplyKind::Question)
        );
        for odd in ["{}", r#"{"question": " "}"#, r#"{"question": "a", "text": 1}"#] {
            assert_eq!(kind(&outside, "ask_user", odd), None, "{odd}");
        }
        assert_eq!(kind(&outside, "shell", "{}"), None);
        assert_eq!(
            kind(&OutsideCalls::default(), "ask_user", r#"{"question": "Which?"}"#),
            None,
            "nobody answers"
        );
    }
}
