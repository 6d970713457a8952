//! The tools: their names, permissions and descriptions, and their calls.

use domain::scope::{Permission, Scope};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::ask;
use crate::conversations;
use crate::error::{McpError, McpResult};
use crate::files;
use crate::message::parse_fields;
use crate::output::{ToolError, ToolOutput, ToolResult};
use crate::service::{CallContext, McpService};
use crate::waiting::AnswerWait;

/// The arguments of a call without arguments.
const NO_ARGUMENTS: &str = "{}";

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Ask,
    Wait,
    Stop,
    ListConversations,
    ReadConversation,
    ListFiles,
    UploadFile,
}

/// The reply of a call.
pub(crate) enum ToolReply {
    Output(ToolOutput),
    /// The answer is waited for.
    Wait(AnswerWait),
}

/// The effects of a tool, as clients show them before they permit a call.
enum Effects {
    ReadOnly,
    Adds,
    Replaces,
}

impl Tool {
    const ALL: [Self; 7] = [
        Self::Ask,
        Self::Wait,
        Self::Stop,
        Self::ListConversations,
        Self::ReadConversation,
        Self::ListFiles,
        Self::UploadFile,
    ];

    /// Returns the tool of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Ask => "ask",
            Self::Wait => "wait",
            Self::Stop => "stop",
            Self::ListConversations => "list_conversations",
            Self::ReadConversation => "read_conversation",
            Self::ListFiles => "list_files",
            Self::UploadFile => "upload_file",
        }
    }

    /// Returns the name of a call in the log of refused calls.
    const fn operation(self) -> &'static str {
        match self {
            Self::Ask => "mcp ask",
            Self::Wait => "mcp wait",
            Self::Stop => "mcp stop",
            Self::ListConversations => "mcp list_conversations",
            Self::ReadConversation => "mcp read_conversation",
            Self::ListFiles => "mcp list_files",
            Self::UploadFile => "mcp upload_file",
        }
    }

    /// Returns the permissions of which a call needs one.
    const fn needs(self) -> &'static [Permission] {
        match self {
            Self::Ask | Self::Stop => &[Permission::Ask],
            Self::Wait => &[Permission::Read, Permission::Ask],
            Self::ListConversations | Self::ReadConversation => &[Permission::Read],
            Self::ListFiles | Self::UploadFile => &[Permission::Files],
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Ask => "Ask a question",
            Self::Wait => "Wait for an answer",
            Self::Stop => "Stop an answer",
            Self::ListConversations => "List conversations",
            Self::ReadConversation => "Read a conversation",
            Self::ListFiles => "List files",
            Self::UploadFile => "Upload a file",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Ask => {
                "Asks the agent a question about the files in the workspace. It searches and reads them, and answers \
                 with sources. If `status` is in_progress, call `wait` with the `answer_id`. For a further question \
                 send the `conversation_id` of the answer."
            }
            Self::Wait => "Waits until an answer is complete, and returns it.",
            Self::Stop => "Stops an answer. The text so far is kept.",
            Self::ListConversations => "Lists conversations: pinned ones first, then the latest.",
            Self::ReadConversation => "Returns the questions and answers of a conversation.",
            Self::ListFiles => "Lists a folder of the workspace, one level.",
            Self::UploadFile => {
                "Stores a file of at most about 3 MB in the workspace, where it is read and can be asked about."
            }
        }
    }

    fn input_schema(self) -> Value {
        match self {
            Self::Ask => ask::ask_schema(),
            Self::Wait => ask::wait_arguments_schema(),
            Self::Stop => ask::stop_schema(),
            Self::ListConversations => conversations::list_schema(),
            Self::ReadConversation => conversations::read_schema(),
            Self::ListFiles => files::list_schema(),
            Self::UploadFile => files::upload_schema(),
        }
    }

    fn output_schema(self) -> Value {
        match self {
            Self::Ask | Self::Wait | Self::Stop => crate::answers::answer_schema(),
            Self::ListConversations => conversations::listed_schema(),
            Self::ReadConversation => conversations::conversation_schema(),
            Self::ListFiles => files::listing_schema(),
            Self::UploadFile => files::uploaded_schema(),
        }
    }

    const fn effects(self) -> Effects {
        match self {
            Self::Wait | Self::ListConversations | Self::ReadConversation | Self::ListFiles => {
                Effects::ReadOnly
            }
            Self::Ask => Effects::Adds,
            // Stopping takes away the rest of an answer.
            Self::Stop | Self::UploadFile => Effects::Replaces,
        }
    }

    fn to_value(self) -> Value {
        let (is_read_only, is_destructive) = match self.effects() {
            Effects::ReadOnly => (true, false),
            Effects::Adds => (false, false),
            Effects::Replaces => (false, true),
        };
        json!({
            "name": self.name(),
            "title": self.title(),
            "description": self.description(),
            "inputSchema": self.input_schema(),
            "outputSchema": self.output_schema(),
            "annotations": {
                "title": self.title(),
                "readOnlyHint": is_read_only,
                "destructiveHint": is_destructive,
                "idempotentHint": !matches!(self, Self::Ask),
                "openWorldHint": matches!(self, Self::Ask),
            },
        })
    }

    /// Calls the tool.
    ///
    /// # Errors
    /// [`ToolError`].
    async fn call(
        self,
        service: &McpService,
        call: &CallContext,
        arguments: Option<&RawValue>,
    ) -> ToolResult<ToolReply> {
        service.access.authorize(&call.principal, self.needs(), self.operation())?;
        let json = arguments.map_or(NO_ARGUMENTS, RawValue::get);
        let output = match self {
            Self::Ask => return ask::ask(service, call, parse(json)?).await.map(ToolReply::Wait),
            Self::Wait => return ask::wait(service, call, parse(json)?).await.map(ToolReply::Wait),
            Self::Stop => ask::stop(service, call, parse(json)?).await,
            Self::ListConversations => conversations::list_conversations(service, call, parse(json)?).await,
            Self::ReadConversation => conversations::read_conversation(service, call, parse(json)?).await,
            Self::ListFiles => files::list_files(service, call, parse(json)?).await,
            Self::UploadFile => files::upload_file(service, call, parse(json)?).await,
        };
        output.map(ToolReply::Output)
    }
}

/// Lists the tools that a key may call.
pub(crate) fn list_tools(scope: Scope) -> Value {
    let may_call = |tool: &Tool| tool.needs().iter().any(|permission| scope.allows(*permission));
    let tools: Vec<Value> = Tool::ALL.into_iter().filter(may_call).map(Tool::to_value).collect();
    json!({ "tools": tools })
}

/// Calls the tool of this name.
///
/// # Errors
/// [`McpError`] for an unknown tool. The refusal of a tool is its output.
pub(crate) async fn call_tool(
    service: &McpService,
    call: &CallContext,
    name: Option<&str>,
    arguments: Option<&RawValue>,
) -> McpResult<ToolReply> {
    let name = name.ok_or_else(|| McpError::invalid_params("name is missing: name a tool"))?;
    let unknown = || {
        let names: Vec<&str> = Tool::ALL.into_iter().map(Tool::name).collect();
        McpError::invalid_params(format_args!(
            "there is no tool {}; valid names: {}",
            domain::excerpt::Excerpt(name),
            names.join(", ")
        ))
    };
    let tool = Tool::parse(name).ok_or_else(unknown)?;
    // The future of a call is large.
    match Box::pin(tool.call(service, call, arguments)).await {
        Ok(reply) => Ok(reply),
        Err(ToolError(message)) => Ok(ToolReply::Output(ToolOutput::from_refusal(message))),
    }
}

/// Parses arguments. Their error is for the model, which can correct them.
fn parse<'de, T: Deserialize<'de>>(json: &'de str) -> ToolResult<T> {
    if !json.starts_with('{') {
        return Err(ToolError::invalid("the arguments are not an object"));
    }
    parse_fields(json).map_err(ToolError::invalid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_sees_only_its_tools() {
        let names = |scope: &str| {
            let list = list_tools(Scope::parse(scope).expect("a scope"));
            let tools = list["tools"].as_array().expect("tools").clone();
            tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names("ask"), ["ask", "wait", "stop"]);
        assert_eq!(names("read"), ["wait", "list_conversations", "read_conversation"]);
        assert_eq!(names("files"), ["list_files", "upload_file"]);
        assert_eq!(names("machine"), Vec::<String>::new());
        assert_eq!(names("read,ask,files,machine").len(), Tool::ALL.len());
    }

    #[test]
    fn schemas_are_closed_objects() {
        for tool in Tool::ALL {
            assert_eq!(Tool::parse(tool.name()), Some(tool));
            assert!(tool.operation().ends_with(tool.name()));
            let (input, output) = (tool.input_schema(), tool.output_schema());
            assert_eq!((&input["type"], &output["type"]), (&json!("object"), &json!("object")));
            assert_eq!(input["additionalProperties"], false);
            for schema in [input, output] {
                for name in schema["required"].as_array().into_iter().flatten() {
                    assert!(schema["properties"].get(name.as_str().expect("a name")).is_some(), "{name}");
                }
            }
        }
    }

    #[test]
    fn unknown_arguments_are_named() {
        let error = parse::<ask::WaitArguments>(r#"{"answer_id":"x","patience":1}"#).expect_err("no");
        assert!(error.0.contains("patience"), "{}", error.0);
        assert!(parse::<ask::WaitArguments>("[]").is_err());
    }
}
