//! The body of a request for a response.

use std::collections::BTreeMap;

use domain::excerpt::Excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::asking::NamedPlace;
use crate::body::parse_object;
use crate::error::{OpenAiError, OpenAiResult};
use crate::messages::{MESSAGES_MAX, Message, MessageBody, MessageRole};
use crate::response_wire::{ResponseEcho, ResponseId, parse_conversation};

/// The maximum number of pairs of `metadata`, and the characters of their names and values.
const METADATA_MAX: usize = 16;
const METADATA_NAME_CHARS: usize = 64;
const METADATA_VALUE_CHARS: usize = 512;
/// The maximum number of tools.
const TOOLS_MAX: usize = 256;
/// The longest value of `reasoning.effort` that a response repeats, in bytes.
const EFFORT_MAX_BYTES: usize = 32;
/// The prefix of the names of tools that search the web.
const WEB_SEARCH: &str = "web_search";
/// Tools that an agent has by itself.
const OWN_TOOLS: [&str; 2] = ["file_search", "code_interpreter"];
/// Items of an output that say nothing to the next question.
const OUTPUT_ITEMS: [&str; 8] = [
    "reasoning",
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "function_call",
    "compaction",
];

/// A request for a response. Other fields are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponseRequest {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    input: Option<InputBody>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    pub(crate) previous_response_id: Option<String>,
    #[serde(default)]
    conversation: Option<ConversationBody>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) background: Option<bool>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    tools: Option<Vec<ToolKind>>,
    #[serde(default)]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default)]
    pub(crate) reasoning: Option<ReasoningBody>,
    #[serde(default)]
    text: Option<TextBody>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    store: Option<bool>,
    #[serde(default)]
    pub(crate) prompt_cache_key: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum InputBody {
    Text(String),
    Items(Vec<ItemBody>),
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ConversationBody {
    Id(String),
    Object { id: String },
}

#[derive(Debug, Deserialize)]
struct ToolKind {
    r#type: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ReasoningBody {
    #[serde(default)]
    pub(crate) effort: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TextBody {
    #[serde(default)]
    format: Option<ToolKind>,
}

/// An item of the input.
#[derive(Debug, Deserialize)]
struct ItemBody {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    id: Option<String>,
    /// The result of a call.
    #[serde(default)]
    output: Option<Value>,
    #[serde(flatten)]
    message: MessageBody,
}

/// The input without its JSON form.
#[derive(Debug, Default)]
pub(crate) struct ResponseInput {
    pub(crate) messages: Vec<Message>,
    /// The last response of which the input names an item. The messages are those after it.
    pub(crate) after: Option<ResponseId>,
}

impl ResponseRequest {
    /// Parses a body.
    ///
    /// # Errors
    /// [`OpenAiError`] that names the wrong field.
    pub(crate) fn parse(body: &str) -> OpenAiResult<Self> {
        let request: Self = parse_object(body)?;
        request.check_bounds()?;
        Ok(request)
    }

    fn check_bounds(&self) -> OpenAiResult<()> {
        if self.tools.as_ref().is_some_and(|tools| tools.len() > TOOLS_MAX) {
            let message = format!("too many tools: send at most {TOOLS_MAX}");
            return Err(OpenAiError::invalid_field("tools", message));
        }
        if self.kinds_of_tools().any(|kind| kind == "mcp") {
            let message = "servers of tools are configured in the service: leave tools of type mcp out";
            return Err(OpenAiError::invalid_field("tools", message));
        }
        if self.previous_response_id.is_some() && self.conversation.is_some() {
            let message = "conversation and previous_response_id exclude each other: send one of them";
            return Err(OpenAiError::invalid_field("conversation", message));
        }
        let metadata = self.metadata.iter().flatten();
        let is_long = |(name, value): (&String, &String)| {
            name.chars().count() > METADATA_NAME_CHARS || value.chars().count() > METADATA_VALUE_CHARS
        };
        if metadata.clone().count() > METADATA_MAX || metadata.clone().any(is_long) {
            let message = format!(
                "metadata is too large: send at most {METADATA_MAX} pairs, with names of {METADATA_NAME_CHARS} and \
                 values of {METADATA_VALUE_CHARS} characters"
            );
            return Err(OpenAiError::invalid_field("metadata", message));
        }
        Ok(())
    }

    fn kinds_of_tools(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().flatten().map(|tool| tool.r#type.as_str())
    }

    /// Returns true if the request permits web search.
    pub(crate) fn permits_web_search(&self) -> bool {
        self.kinds_of_tools().any(|kind| kind.starts_with(WEB_SEARCH))
    }

    /// Returns true if the client has tools of its own.
    pub(crate) fn has_client_tools(&self) -> bool {
        self.kinds_of_tools().any(|kind| !kind.starts_with(WEB_SEARCH) && !OWN_TOOLS.contains(&kind))
    }

    /// Returns the fields that have no effect.
    pub(crate) fn ignored_fields(&self) -> Vec<&'static str> {
        let is_text = |format: &ToolKind| format.r#type == "text";
        let format = self.text.as_ref().and_then(|text| text.format.as_ref());
        let ignored = [
            ("tools", self.has_client_tools()),
            ("text.format", format.is_some_and(|format| !is_text(format))),
            ("max_output_tokens", self.max_output_tokens.is_some()),
            ("temperature", self.temperature.is_some()),
            ("top_p", self.top_p.is_some()),
            ("store", self.store == Some(false)),
        ];
        ignored.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name).collect()
    }

    /// Returns the place that the request names.
    ///
    /// # Errors
    /// [`OpenAiError`] if its id is none of this service.
    pub(crate) fn named_place(&self) -> OpenAiResult<Option<NamedPlace>> {
        if let Some(id) = &self.previous_response_id {
            let found = ResponseId::parse(id);
            let found = found.ok_or_else(|| OpenAiError::no_previous_response("previous_response_id", id))?;
            return Ok(Some(after_response(found)));
        }
        let Some(ConversationBody::Id(id) | ConversationBody::Object { id }) = &self.conversation else {
            return Ok(None);
        };
        let found = parse_conversation(id);
        found.map(|id| Some(NamedPlace::Last(id))).ok_or_else(|| {
            let message = format!("there is no conversation with the id {}", Excerpt(id));
            OpenAiError::invalid_field("conversation", message)
        })
    }

    /// Takes the input, with the instructions before it.
    ///
    /// # Errors
    /// [`OpenAiError`] if there is none, or an item is not understood.
    pub(crate) fn take_input(&mut self) -> OpenAiResult<ResponseInput> {
        let mut input = ResponseInput::default();
        match self.input.take() {
            Some(InputBody::Text(text)) if text.contains('\0') => {
                let message = "input contains a NUL character: remove it";
                return Err(OpenAiError::invalid_field("input", message));
            }
            Some(InputBody::Text(text)) => input.messages.push(Message { text, ..Message::default() }),
            Some(InputBody::Items(items)) if items.len() > MESSAGES_MAX => {
                let message = format!("input has too many items: send at most {MESSAGES_MAX}");
                return Err(OpenAiError::invalid_field("input", message));
            }
            Some(InputBody::Items(items)) => {
                for (at, item) in items.into_iter().enumerate() {
                    let place = format!("input[{at}]");
                    item.add_to(&mut input, &place)
                        .map_err(|message| OpenAiError::invalid_field(place, message))?;
                }
            }
            None => return Err(OpenAiError::invalid_field("input", "input is missing")),
        }
        if let Some(text) = &self.instructions {
            if text.contains('\0') {
                let message = "instructions contain a NUL character: remove it";
                return Err(OpenAiError::invalid_field("instructions", message));
            }
            let text = text.clone();
            input.messages.insert(0, Message { role: MessageRole::System, text, ..Message::default() });
        }
        Ok(input)
    }

    /// Returns the words of a list in `metadata`, which commas separate.
    pub(crate) fn metadata_words(&self, name: &str) -> Vec<String> {
        let text = self.metadata.as_ref().and_then(|metadata| metadata.get(name));
        let words = text.map(String::as_str).unwrap_or_default().split(',').map(str::trim);
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    /// Returns the fields that the response repeats.
    pub(crate) fn to_echo(&self) -> ResponseEcho {
        let default = ResponseEcho::default();
        let known = |kind: &str| {
            let own = OWN_TOOLS.iter().find(|own| **own == kind);
            if kind.starts_with(WEB_SEARCH) { Some(WEB_SEARCH) } else { own.copied() }
        };
        let choice = self.tool_choice.as_ref().and_then(Value::as_str);
        let effort = self.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_deref());
        ResponseEcho {
            instructions: self.instructions.clone(),
            metadata: json!(self.metadata.clone().unwrap_or_default()),
            previous: self.previous_response_id.clone(),
            tools: self.kinds_of_tools().filter_map(known).map(|kind| json!({"type": kind})).collect(),
            tool_choice: json!(choice.filter(|choice| *choice == "none").unwrap_or("auto")),
            effort: effort.filter(|effort| effort.len() <= EFFORT_MAX_BYTES).map(str::to_owned),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            output_max_tokens: self.max_output_tokens,
        }
    }
}

/// Returns the place after a response.
pub(crate) const fn after_response(ResponseId { conversation, answer }: ResponseId) -> NamedPlace {
    NamedPlace::After { conversation, answer }
}

impl ItemBody {
    fn add_to(self, input: &mut ResponseInput, place: &str) -> Result<(), String> {
        match self.r#type.as_deref() {
            None | Some("message") => input.messages.push(self.message.into_message(place)?),
            Some("item_reference") => {
                let id = self.id.unwrap_or_default();
                let found = ResponseId::of_item(&id);
                let missing = || format!("{place}: there is no item with the id {}", Excerpt(&id));
                input.after = Some(found.ok_or_else(missing)?);
                // What was said before it is part of its conversation.
                input.messages.retain(|message| message.role == MessageRole::System);
            }
            Some("function_call_output") => {
                let text = match self.output {
                    Some(Value::String(text)) => text,
                    Some(other) => other.to_string(),
                    None => String::new(),
                };
                if text.contains('\0') {
                    return Err(format!("{place} contains a NUL character: remove it"));
                }
                input.messages.push(Message { role: MessageRole::Tool, text, ..Message::default() });
            }
            Some(kind) if OUTPUT_ITEMS.contains(&kind) => {}
            Some(other) => {
                return Err(format!("{place}: items of type {} are not supported", Excerpt(other)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use domain::id::{ConversationId, MessageId, PartId};

    use super::*;

    fn parse(body: &str) -> OpenAiResult<(ResponseInput, ResponseRequest)> {
        let mut request = ResponseRequest::parse(body)?;
        Ok((request.take_input()?, request))
    }

    #[test]
    fn input_is_text_or_items() {
        let (input, _) = parse(r#"{"input": "a", "instructions": "Be brief."}"#).expect("a request");
        let texts: Vec<_> =
            input.messages.iter().map(|message| (message.role, message.text.as_str())).collect();
        assert_eq!(texts, [(MessageRole::System, "Be brief."), (MessageRole::User, "a")]);
        let body = r#"{"input": [{"role": "user", "content": "a"},
            {"type": "reasoning", "id": "rs_x", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "b", "annotations": []}]},
            {"type": "function_call_output", "call_id": "c", "output": "d"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "e"},
                {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
                {"type": "input_file", "file_data": "data:text/plain;base64,AA==", "filename": "a.txt"}]}]}"#;
        let (input, _) = parse(body).expect("a request");
        let texts: Vec<_> = input.messages.iter().map(|message| message.text.as_str()).collect();
        assert_eq!(texts, ["a", "b", "d", "e"]);
        assert_eq!(input.messages[3].files.len(), 2);
    }

    #[test]
    fn reference_replaces_what_precedes_it() {
        let id =
            ResponseId { conversation: ConversationId::from_random(1), answer: MessageId::from_random(2) };
        let item = id.item_id("msg", PartId::from_random(3), 0);
        let body = format!(
            r#"{{"input": [{{"role": "user", "content": "a"}}, {{"type": "item_reference", "id": "{item}"}},
                {{"role": "user", "content": "b"}}]}}"#
        );
        let (input, _) = parse(&body).expect("a request");
        assert_eq!(input.after, Some(id));
        assert_eq!(input.messages.len(), 1);
    }

    #[test]
    fn wrong_fields_are_named() {
        let long = "x".repeat(600);
        for (body, field) in [
            (r#"{"model": "m"}"#.to_owned(), "input"),
            (r#"{"input": [{"type": "item_reference", "id": "msg_x"}]}"#.to_owned(), "input[0]"),
            (r#"{"input": [{"type": "computer_call"}]}"#.to_owned(), "input[0]"),
            (r#"{"input": "a\u0000"}"#.to_owned(), "input"),
            (r#"{"input": "a", "instructions": "a\u0000"}"#.to_owned(), "instructions"),
            (r#"{"input": "a", "tools": [{"type": "mcp", "server_label": "x"}]}"#.to_owned(), "tools"),
            (format!(r#"{{"input": "a", "metadata": {{"a": "{long}"}}}}"#), "metadata"),
            (r#"{"input": "a", "background": "yes"}"#.to_owned(), "background"),
            (
                r#"{"input": "a", "conversation": "x", "previous_response_id": "y"}"#.to_owned(),
                "conversation",
            ),
        ] {
            let error = parse(&body).expect_err(&body).to_value();
            assert_eq!(error["param"], field, "{error}");
        }
    }

    #[test]
    fn named_place_needs_known_ids() {
        let place =
            |more: &str| parse(&format!(r#"{{"input": "a"{more}}}"#)).expect("a request").1.named_place();
        assert_eq!(place(""), Ok(None));
        let id = ConversationId::from_random(5);
        for json in [format!(r#""conv_{id}""#), format!(r#"{{"id": "conv_{id}"}}"#)] {
            assert_eq!(place(&format!(r#", "conversation": {json}"#)), Ok(Some(NamedPlace::Last(id))));
        }
        assert!(place(r#", "conversation": "conv_x""#).is_err());
        let error = place(r#", "previous_response_id": "resp_x""#).expect_err("an error").to_value();
        assert_eq!(error["code"], "previous_response_not_found");
    }
}
