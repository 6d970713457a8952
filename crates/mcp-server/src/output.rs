//! The results of tools.

use control::UseCaseError;
use serde_json::{Value, json};

use crate::era::Era;
use crate::uri::file_uri;

/// A result of a tool.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ToolOutput {
    /// The value in the form of the tool's schema; `None` for an error of the request.
    value: Option<Value>,
    /// The text of an error.
    error: Option<String>,
    /// Workspace paths to link to.
    links: Vec<String>,
}

impl ToolOutput {
    /// Creates a result.
    pub(crate) fn new(value: Value) -> Self {
        Self { value: Some(value), error: None, links: Vec::new() }
    }

    /// Creates the result of a request that is refused. The model of the client reads the message.
    pub(crate) fn from_refusal(message: String) -> Self {
        Self { value: None, error: Some(message), links: Vec::new() }
    }

    /// Marks the result as that of a failure.
    pub(crate) fn with_error(self, message: String) -> Self {
        Self { error: Some(message), ..self }
    }

    /// Links to files.
    pub(crate) fn with_links(self, links: Vec<String>) -> Self {
        Self { links, ..self }
    }

    /// Returns the result in the form of a revision.
    pub(crate) fn into_result(self, era: Era) -> Value {
        let Self { value, error, links } = self;
        let is_error = error.is_some();
        let text = |text: String| json!({ "type": "text", "text": text });
        let mut content: Vec<Value> = error.into_iter().map(text).collect();
        // Clients that do not know structured results read it as text.
        content.extend(value.as_ref().map(|value| text(value.to_string())));
        if era.has_links() {
            content.extend(links.iter().map(|path| {
                let name = path.rsplit('/').next().unwrap_or(path);
                json!({ "type": "resource_link", "uri": file_uri(path), "name": name })
            }));
        }
        let mut result = json!({ "content": content, "isError": is_error });
        if let Some(value) = value {
            result["structuredContent"] = value;
        }
        result
    }
}

/// The reason why a tool was not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToolError(pub(crate) String);

pub(crate) type ToolResult<T> = Result<T, ToolError>;

impl From<UseCaseError> for ToolError {
    fn from(error: UseCaseError) -> Self {
        let code = error.code().as_str();
        Self(format!("{code}: {}", error.into_message()))
    }
}

impl ToolError {
    /// Creates an error for invalid arguments.
    pub(crate) fn invalid(message: impl std::fmt::Display) -> Self {
        UseCaseError::invalid(message).into()
    }
}

#[cfg(test)]
mod tests {
    use control::PublicCode;

    use super::*;

    const NEWEST: Era = Era::Stateless { has_tasks: false };

    #[test]
    fn result_is_structured_and_text() {
        let output = ToolOutput::new(json!({"a": 1})).with_links(vec!["/uploads/a b.txt".to_owned()]);
        let result = output.clone().into_result(NEWEST);
        assert_eq!(result["structuredContent"], json!({"a": 1}));
        assert_eq!(result["content"][0]["text"], r#"{"a":1}"#);
        assert_eq!(result["content"][1]["uri"], "causerie://files/uploads/a%20b.txt");
        assert_eq!(result["isError"], false);
        let oldest = output.into_result(Era::Handshake { revision: "2025-03-26" });
        assert_eq!(oldest["content"].as_array().map(Vec::len), Some(1), "links are newer");
    }

    #[test]
    fn refused_request_has_no_structure() {
        let error = ToolError::from(UseCaseError::new(PublicCode::KeyScope, "why"));
        let result = ToolOutput::from_refusal(error.0).into_result(NEWEST);
        assert_eq!(result, json!({"content": [{"type": "text", "text": "KEY_SCOPE: why"}], "isError": true}));
    }
}
