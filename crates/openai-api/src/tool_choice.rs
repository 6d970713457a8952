//! The field `tool_choice`, whose forms differ between completions and responses.

use serde_json::Value;

use control::plain_steps::ToolChoice;

use crate::error::{OpenAiError, OpenAiResult};

/// The calls that a client permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolRule {
    pub(crate) choice: ToolChoice,
    /// The names of the only functions that may be called, if they are named.
    pub(crate) allowed: Option<Vec<String>>,
}

impl ToolRule {
    /// Parses the field.
    ///
    /// # Errors
    /// [`OpenAiError`].
    pub(crate) fn parse(value: &Value) -> OpenAiResult<Self> {
        Self::read(value).ok_or_else(|| {
            let message = "use \"auto\", \"none\", \"required\", an object with the name of a function, or allowed_tools";
            OpenAiError::invalid_field("tool_choice", message)
        })
    }

    fn read(value: &Value) -> Option<Self> {
        let of = |choice| Some(Self { choice, allowed: None });
        match (value.as_str(), value["type"].as_str()) {
            (Some(word), _) => of(mode_of(word)?),
            (None, Some("allowed_tools")) => {
                let rule = value.get("allowed_tools").unwrap_or(value);
                let choice = mode_of(rule["mode"].as_str().unwrap_or("auto"))?;
                let names = rule["tools"].as_array()?.iter().filter_map(name_of).map(str::to_owned);
                Some(Self { choice, allowed: Some(names.collect()) })
            }
            (None, _) => of(ToolChoice::Function(name_of(value)?.to_owned())),
        }
    }

    /// Returns true if only a call would fulfil the request.
    pub(crate) fn is_forced(value: &Value) -> bool {
        match Self::read(value) {
            Some(rule) => matches!(rule.choice, ToolChoice::Required | ToolChoice::Function(_)),
            // The choice of a tool that is not the client's.
            None => value.is_object(),
        }
    }
}

fn mode_of(word: &str) -> Option<ToolChoice> {
    match word {
        "auto" => Some(ToolChoice::Auto),
        "none" => Some(ToolChoice::Never),
        "required" => Some(ToolChoice::Required),
        _ => None,
    }
}

/// Returns the name of a function, which completions have in an object of its own.
fn name_of(tool: &Value) -> Option<&str> {
    tool["function"]["name"].as_str().or_else(|| tool["name"].as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn choices_have_both_forms() {
        let parse = |value: Value| ToolRule::parse(&value);
        let of = |choice| Ok(ToolRule { choice, allowed: None });
        assert_eq!(parse(json!("auto")), of(ToolChoice::Auto));
        assert_eq!(parse(json!("required")), of(ToolChoice::Required));
        for named in
            [json!({"type": "function", "function": {"name": "f"}}), json!({"type": "function", "name": "f"})]
        {
            assert_eq!(parse(named), of(ToolChoice::Function("f".to_owned())));
        }
        let allowed = |choice| Ok(ToolRule { choice, allowed: Some(vec!["f".to_owned()]) });
        let tools = json!([{"type": "function", "function": {"name": "f"}}]);
        let nested = json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": tools}});
        assert_eq!(parse(nested), allowed(ToolChoice::Required));
        let flat =
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]});
        assert_eq!(parse(flat), allowed(ToolChoice::Auto));
        for wrong in [json!("some"), json!({"type": "function"}), json!({"type": "allowed_tools"}), json!([])]
        {
            assert!(parse(wrong).is_err());
        }
    }

    #[test]
    fn forced_choices_want_a_call() {
        for value in
            [json!("required"), json!({"type": "function", "name": "f"}), json!({"type": "web_search"})]
        {
            assert!(ToolRule::is_forced(&value), "{value}");
        }
        let allowed = json!({"type": "allowed_tools", "mode": "auto", "tools": []});
        for value in [json!("auto"), json!("none"), json!(null), allowed] {
            assert!(!ToolRule::is_forced(&value), "{value}");
        }
    }
}
