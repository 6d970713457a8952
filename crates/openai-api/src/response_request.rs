//! The body of a request for a response.

use control::plain_steps::PlainOptions;
use domain::excerpt::Excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::asking::NamedPlace;
use crate::body::parse_object;
use crate::error::{OpenAiError, OpenAiResult};
use crate::json_forms::{AnyText, IdText, JsonObject, NamedText, TextOrList, UnusedField};
use crate::messages::{MESSAGES_MAX, Message, MessageBody, MessageRole, SentCall};
use crate::plain::{PlainFields, convert_format, new_tool};
use crate::request_fields::{Metadata, check_tools_count};
use crate::response_wire::{NamedConversation, ResponseEcho, ResponseId};
use crate::side_request::SideFacts;
use crate::summary::summarized_messages;
use crate::tool_choice::ToolRule;

/// The longest value of `reasoning.effort` that a response repeats, in bytes.
const EFFORT_MAX_BYTES: usize = 32;
/// The longest key or identifier that a response repeats, in bytes.
const ECHOED_MAX_BYTES: usize = 512;
/// The prefix of the names of tools that search the web.
const WEB_SEARCH: &str = "web_search";
/// Tools that an agent has by itself.
const OWN_TOOLS: [&str; 2] = ["file_search", "code_interpreter"];
/// Items of an output that say nothing to the next question.
const OUTPUT_ITEMS: [&str; 6] = [
    "reasoning",
    "mcp_call",
    "mcp_list_tools",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
];

/// A request for a response. Other fields are ignored.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponseRequest {
    #[serde(default)]
    pub(crate) model: Option<String>,
    #[serde(default)]
    input: Option<TextOrList<JsonObject<ItemBody>>>,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default)]
    pub(crate) previous_response_id: Option<String>,
    #[serde(default)]
    conversation: Option<IdText>,
    #[serde(default)]
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) background: Option<bool>,
    #[serde(default)]
    metadata: Option<Metadata>,
    #[serde(default)]
    tools: Option<Vec<JsonObject<ResponseTool>>>,
    #[serde(default)]
    pub(crate) tool_choice: Option<Value>,
    #[serde(default)]
    reasoning: Option<JsonObject<ReasoningBody>>,
    #[serde(default)]
    text: Option<JsonObject<TextBody>>,
    #[serde(default)]
    max_output_tokens: Option<u64>,
    #[serde(default)]
    temperature: Option<f64>,
    #[serde(default)]
    top_p: Option<f64>,
    #[serde(default)]
    store: Option<bool>,
    #[serde(default)]
    parallel_tool_calls: Option<bool>,
    #[serde(default)]
    frequency_penalty: Option<f64>,
    #[serde(default)]
    presence_penalty: Option<f64>,
    #[serde(default)]
    max_tool_calls: Option<u64>,
    #[serde(default)]
    safety_identifier: Option<String>,
    #[serde(default)]
    top_logprobs: Option<u64>,
    #[serde(default)]
    prompt: UnusedField,
    #[serde(default)]
    context_management: UnusedField,
    #[serde(default)]
    pub(crate) prompt_cache_key: Option<String>,
}

/// A tool of the client, or the name of one that the service has.
#[derive(Debug, Deserialize)]
pub(crate) struct ResponseTool {
    pub(crate) r#type: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<String>,
    #[serde(default)]
    pub(crate) parameters: Option<Value>,
    #[serde(default)]
    pub(crate) strict: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct ReasoningBody {
    #[serde(default)]
    effort: Option<String>,
}

#[derive(Debug, Deserialize)]
struct TextBody {
    #[serde(default)]
    format: Option<Value>,
    #[serde(default)]
    verbosity: UnusedField,
}

/// An item of the input.
#[derive(Debug, Deserialize)]
struct ItemBody {
    #[serde(default)]
    r#type: Option<String>,
    #[serde(default)]
    id: Option<String>,
    /// The result of a call: a text, or parts.
    #[serde(default)]
    output: Option<Value>,
    #[serde(default)]
    call_id: Option<String>,
    #[serde(default)]
    encrypted_content: Option<String>,
    #[serde(default)]
    arguments: Option<AnyText>,
    #[serde(default)]
    input: Option<AnyText>,
    #[serde(default)]
    name: Option<String>,
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
        check_tools_count(self.tools.as_deref())?;
        if self.kinds_of_tools().any(|kind| kind == "mcp") {
            let message = "servers of tools are configured in the service: leave tools of type mcp out";
            return Err(OpenAiError::invalid_field("tools", message));
        }
        if self.previous_response_id.is_some() && self.conversation.is_some() {
            let message = "conversation and previous_response_id exclude each other: send one of them";
            return Err(OpenAiError::invalid_field("conversation", message));
        }
        self.metadata.as_ref().map_or(Ok(()), Metadata::check_bounds)
    }

    fn kinds_of_tools(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().flatten().map(|tool| tool.0.r#type.as_str())
    }

    /// Returns true if the request permits web search.
    pub(crate) fn permits_web_search(&self) -> bool {
        self.kinds_of_tools().any(|kind| kind.starts_with(WEB_SEARCH))
    }

    /// Returns true if the client has tools of its own.
    pub(crate) fn has_client_tools(&self) -> bool {
        self.kinds_of_tools().any(|kind| !kind.starts_with(WEB_SEARCH) && !OWN_TOOLS.contains(&kind))
    }

    /// Returns what tells a request beside the conversation.
    pub(crate) fn side_facts(&self) -> SideFacts<'_> {
        let is_forced = self.tool_choice.as_ref().is_some_and(ToolRule::is_forced);
        let parameters = self.tools.iter().flatten().filter_map(|tool| tool.0.parameters.as_ref());
        SideFacts {
            is_streamed: self.stream == Some(true),
            output_max_tokens: self.max_output_tokens,
            schema: self.output_format().map(|format| &format["schema"]),
            forced: if is_forced { parameters.collect() } else { Vec::new() },
        }
    }

    /// Returns what a plain model gets of the request.
    ///
    /// # Errors
    /// [`OpenAiError`] that names the wrong field.
    pub(crate) fn plain_input(&self) -> OpenAiResult<PlainFields> {
        let is_own = |kind: &str| kind.starts_with(WEB_SEARCH) || OWN_TOOLS.contains(&kind);
        let tools = self.tools.iter().flatten().filter(|tool| !is_own(&tool.0.r#type));
        let tools = tools.map(|JsonObject(tool)| {
            let name = tool.name.as_ref().filter(|_| tool.r#type == "function");
            new_tool(name, tool.description.as_ref(), tool.parameters.as_ref())
        });
        let format = self.output_format();
        let format =
            format.map(|format| convert_format(format, format, "text.format")).transpose()?.flatten();
        let options = PlainOptions {
            response_format: format,
            temperature: self.temperature,
            top_p: self.top_p,
            frequency_penalty: self.frequency_penalty,
            presence_penalty: self.presence_penalty,
            parallel_tool_calls: self.parallel_tool_calls,
            ..PlainOptions::default()
        };
        let output_max_tokens = self.output_max_tokens()?;
        let fields = PlainFields {
            tools: tools.collect::<Result<_, _>>()?,
            options,
            output_max_tokens,
            ..PlainFields::default()
        };
        fields.with_tool_choice(self.tool_choice.as_ref())
    }

    fn output_max_tokens(&self) -> OpenAiResult<Option<u32>> {
        if self.max_output_tokens == Some(0) {
            let message = "max_output_tokens is 0: use at least 1";
            return Err(OpenAiError::invalid_field("max_output_tokens", message));
        }
        Ok(self.max_output_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)))
    }

    /// Returns the fields that have no effect for a plain model.
    pub(crate) fn fields_ignored_plainly(&self) -> Vec<&'static str> {
        let has_own =
            self.kinds_of_tools().any(|kind| kind.starts_with(WEB_SEARCH) || OWN_TOOLS.contains(&kind));
        let has_words = |name| !self.metadata_words(name).is_empty();
        let own = [
            ("tools", has_own),
            ("background", self.background == Some(true)),
            ("metadata.jurisdictions", has_words("jurisdictions")),
            ("metadata.skills", has_words("skills")),
        ];
        let own = own.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        own.chain(self.unused_fields()).collect()
    }

    /// Returns the format of the output, unless it is text.
    pub(crate) fn output_format(&self) -> Option<&Value> {
        let format = self.text.as_ref().and_then(|text| text.0.format.as_ref());
        format.filter(|format| !format.is_null() && format["type"] != "text")
    }

    /// Returns the fields that no model gets.
    pub(crate) fn unused_fields(&self) -> impl Iterator<Item = &'static str> {
        let verbosity = self.text.as_ref().is_some_and(|text| text.0.verbosity.is_set());
        let fields = [
            ("text.verbosity", verbosity),
            ("max_tool_calls", self.max_tool_calls.is_some()),
            ("top_logprobs", self.top_logprobs.is_some_and(|count| count > 0)),
            ("prompt", self.prompt.is_set()),
            ("context_management", self.context_management.is_set()),
        ];
        fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Returns the fields that only a plain model gets.
    pub(crate) fn plain_fields(&self) -> impl Iterator<Item = &'static str> {
        let is_penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
        let fields = [
            ("text.format", self.output_format().is_some()),
            ("max_output_tokens", self.max_output_tokens.is_some()),
            ("temperature", self.temperature.is_some()),
            ("top_p", self.top_p.is_some()),
            ("parallel_tool_calls", self.parallel_tool_calls == Some(false)),
            ("frequency_penalty", is_penalty(self.frequency_penalty)),
            ("presence_penalty", is_penalty(self.presence_penalty)),
        ];
        fields.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name)
    }

    /// Returns the fields that have no effect for an agent.
    pub(crate) fn ignored_fields(&self) -> Vec<&'static str> {
        let own = [("tools", self.has_client_tools()), ("store", self.store == Some(false))];
        let own = own.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        own.chain(self.plain_fields()).chain(self.unused_fields()).collect()
    }

    /// Returns true if the request names the response or the conversation that it continues.
    pub(crate) fn names_place(&self) -> bool {
        self.place_field().is_some()
    }

    /// Returns the field that names the response or the conversation.
    pub(crate) fn place_field(&self) -> Option<&'static str> {
        let previous = self.previous_response_id.as_ref().map(|_| "previous_response_id");
        previous.or(self.conversation.as_ref().map(|_| "conversation"))
    }

    /// Returns the effort of the model.
    pub(crate) fn effort(&self) -> Option<&str> {
        self.reasoning.as_ref()?.0.effort.as_deref()
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
        let Some(NamedText(id)) = &self.conversation else { return Ok(None) };
        let found = NamedConversation::parse(id).map(|found| match found {
            NamedConversation::Stored(id) => NamedPlace::Last(id),
            NamedConversation::Created(name) => NamedPlace::Named(name),
        });
        found.map(Some).ok_or_else(|| {
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
            Some(TextOrList::Text(text)) if text.contains('\0') => {
                let message = "input contains a NUL character: remove it";
                return Err(OpenAiError::invalid_field("input", message));
            }
            Some(TextOrList::Text(text)) => input.messages.push(Message { text, ..Message::default() }),
            Some(TextOrList::List(items)) if items.len() > MESSAGES_MAX => {
                let message = format!("input has too many items: send at most {MESSAGES_MAX}");
                return Err(OpenAiError::invalid_field("input", message));
            }
            Some(TextOrList::List(items)) => {
                for (at, JsonObject(item)) in items.into_iter().enumerate() {
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

    /// Returns the words of a list in `metadata`.
    pub(crate) fn metadata_words(&self, name: &str) -> Vec<String> {
        self.metadata.as_ref().map(|metadata| metadata.words(name)).unwrap_or_default()
    }

    /// Returns the fields that the response repeats.
    pub(crate) fn to_echo(&self) -> ResponseEcho {
        let default = ResponseEcho::default();
        let known = |kind: &str| {
            let own = OWN_TOOLS.iter().find(|own| **own == kind);
            if kind.starts_with(WEB_SEARCH) { Some(WEB_SEARCH) } else { own.copied() }
        };
        let choice = self.tool_choice.as_ref().and_then(Value::as_str);
        let effort = self.effort();
        let short = |text: &Option<String>| text.clone().filter(|text| text.len() <= ECHOED_MAX_BYTES);
        ResponseEcho {
            instructions: self.instructions.clone(),
            metadata: self.metadata.as_ref().map_or_else(|| json!({}), Metadata::to_value),
            previous: self.previous_response_id.clone(),
            tools: self.kinds_of_tools().filter_map(known).map(|kind| json!({"type": kind})).collect(),
            tool_choice: json!(choice.filter(|choice| *choice == "none").unwrap_or("auto")),
            effort: effort.filter(|effort| effort.len() <= EFFORT_MAX_BYTES).map(str::to_owned),
            temperature: self.temperature.unwrap_or(default.temperature),
            top_p: self.top_p.unwrap_or(default.top_p),
            output_max_tokens: self.max_output_tokens,
            prompt_cache_key: short(&self.prompt_cache_key),
            safety_identifier: short(&self.safety_identifier),
            ..default
        }
    }

    /// Returns the fields that the response of a plain model repeats.
    pub(crate) fn to_plain_echo(&self) -> ResponseEcho {
        let tools = self.tools.iter().flatten().map(|JsonObject(tool)| {
            json!({"type": tool.r#type, "name": tool.name, "description": tool.description,
                "parameters": tool.parameters, "strict": tool.strict})
        });
        let default = ResponseEcho::default();
        ResponseEcho {
            tools: tools.collect(),
            tool_choice: self.tool_choice.clone().unwrap_or(default.tool_choice),
            parallel_tool_calls: self.parallel_tool_calls.unwrap_or(default.parallel_tool_calls),
            frequency_penalty: self.frequency_penalty.unwrap_or(default.frequency_penalty),
            presence_penalty: self.presence_penalty.unwrap_or(default.presence_penalty),
            format: self.output_format().cloned().unwrap_or(default.format),
            ..self.to_echo()
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
            Some("function_call" | "custom_tool_call") => {
                let (Some(name), id) = (self.name, self.call_id.unwrap_or_default()) else {
                    return Err(format!("{place}: name is missing"));
                };
                let arguments = self.arguments.or(self.input).unwrap_or_default().0;
                let call = SentCall { id, name, arguments };
                // Calls that follow one another belong to one step of the model.
                match input.messages.last_mut().filter(|last| last.role == MessageRole::Assistant) {
                    Some(last) => last.calls.push(call),
                    None => {
                        let (role, calls) = (MessageRole::Assistant, vec![call]);
                        input.messages.push(Message { role, calls, ..Message::default() });
                    }
                }
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let text = output_text(self.output);
                if text.contains('\0') {
                    return Err(format!("{place} contains a NUL character: remove it"));
                }
                let (role, call_id) = (MessageRole::Tool, self.call_id);
                input.messages.push(Message { role, text, call_id, ..Message::default() });
            }
            Some("compaction" | "compaction_summary") => {
                let summary = self.encrypted_content.unwrap_or_default();
                let foreign = || format!("{place}: the summary is not of this service: send the messages");
                input.messages.extend(summarized_messages(&summary).ok_or_else(foreign)?);
            }
            Some(kind) if OUTPUT_ITEMS.contains(&kind) => {}
            Some(other) => {
                return Err(format!("{place}: items of type {} are not supported", Excerpt(other)));
            }
        }
        Ok(())
    }
}

/// Returns the text of a call's result: a text, or the texts of parts; other values are their JSON.
fn output_text(output: Option<Value>) -> String {
    match output {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) if parts.iter().all(|part| part["text"].is_string()) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join("\n\n")
        }
        Some(other) => other.to_string(),
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
        let created = format!("conv_new_{id}");
        let named = place(&format!(r#", "conversation": "{created}""#));
        assert_eq!(named, Ok(Some(NamedPlace::Named(created))));
        assert!(place(r#", "conversation": "conv_x""#).is_err());
        let error = place(r#", "previous_response_id": "resp_x""#).expect_err("an error").to_value();
        assert_eq!(error["code"], "previous_response_not_found");
    }
}
