//! Options of a step without an agent, which a client chooses. Each wire format has its own fields for them.

use serde_json::{Map, Value, json};

use crate::format::WireFormat;

/// Options of a step, besides its messages and its tools.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PlainOptions {
    pub tool_choice: Option<ToolChoice>,
    pub response_format: Option<ResponseFormat>,
    /// Texts at which the model stops.
    pub stop: Vec<String>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    pub seed: Option<i64>,
    pub frequency_penalty: Option<f64>,
    pub presence_penalty: Option<f64>,
    /// False to permit one call at a time.
    pub parallel_tool_calls: Option<bool>,
}

/// The calls that a model may make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolChoice {
    Auto,
    /// No call.
    Never,
    /// A call of any tool.
    Required,
    /// A call of this tool.
    Function(String),
}

/// The form of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum ResponseFormat {
    /// A JSON object.
    JsonObject,
    /// JSON by a schema.
    JsonSchema { name: String, schema: Value },
}

impl PlainOptions {
    /// Returns the options in the fields of a wire format. A format without a field for an option leaves it out.
    pub(crate) fn for_format(&self, format: WireFormat) -> Map<String, Value> {
        let fields = match format {
            WireFormat::ChatCompletions => self.for_completions(),
            WireFormat::Responses => self.for_responses(),
            WireFormat::Anthropic => self.for_anthropic(),
            WireFormat::Gemini => self.for_gemini(),
        };
        let mut options = Map::new();
        for (name, value) in fields {
            if let Some(value) = value {
                options.insert(name.to_owned(), value);
            }
        }
        options
    }

    /// Returns the options that a wire format has no field for, by their names in OpenAI's Chat Completions.
    pub(crate) fn unsupported_in(&self, format: WireFormat) -> Vec<&'static str> {
        let is_penalty = |penalty: Option<f64>| penalty.is_some_and(|penalty| penalty != 0.0);
        let has_object_format = self.response_format == Some(ResponseFormat::JsonObject);
        let set = [
            ("stop", !self.stop.is_empty(), format == WireFormat::Responses),
            ("seed", self.seed.is_some(), matches!(format, WireFormat::Responses | WireFormat::Anthropic)),
            (
                "frequency_penalty",
                is_penalty(self.frequency_penalty),
                matches!(format, WireFormat::Responses | WireFormat::Anthropic),
            ),
            (
                "presence_penalty",
                is_penalty(self.presence_penalty),
                matches!(format, WireFormat::Responses | WireFormat::Anthropic),
            ),
            ("parallel_tool_calls", self.parallel_tool_calls == Some(false), format == WireFormat::Gemini),
            ("response_format", has_object_format, format == WireFormat::Anthropic),
        ];
        set.into_iter().filter(|(_, is_set, lacks)| *is_set && *lacks).map(|(name, ..)| name).collect()
    }

    fn for_completions(&self) -> Vec<(&'static str, Option<Value>)> {
        let choice = self.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Function(name) => json!({"type": "function", "function": {"name": name}}),
            other => other.word(),
        });
        let format = self.response_format.as_ref().map(|format| match format {
            ResponseFormat::JsonObject => json!({"type": "json_object"}),
            ResponseFormat::JsonSchema { name, schema } => {
                json!({"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": true}})
            }
        });
        vec![
            ("tool_choice", choice),
            ("response_format", format),
            ("stop", self.stop_texts()),
            ("temperature", self.temperature.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("frequency_penalty", self.frequency_penalty.map(Value::from)),
            ("presence_penalty", self.presence_penalty.map(Value::from)),
            ("parallel_tool_calls", self.parallel_tool_calls.map(Value::from)),
        ]
    }

    fn for_responses(&self) -> Vec<(&'static str, Option<Value>)> {
        let choice = self.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Function(name) => json!({"type": "function", "name": name}),
            other => other.word(),
        });
        let format = self.response_format.as_ref().map(|format| match format {
            ResponseFormat::JsonObject => json!({"format": {"type": "json_object"}}),
            ResponseFormat::JsonSchema { name, schema } => {
                json!({"format": {"type": "json_schema", "name": name, "schema": schema, "strict": true}})
            }
        });
        vec![
            ("tool_choice", choice),
            ("text", format),
            ("temperature", self.temperature.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
            ("parallel_tool_calls", self.parallel_tool_calls.map(Value::from)),
        ]
    }

    fn for_anthropic(&self) -> Vec<(&'static str, Option<Value>)> {
        let is_sequential = self.parallel_tool_calls == Some(false);
        let choice = self.tool_choice.as_ref().or(is_sequential.then_some(&ToolChoice::Auto));
        let mut choice = choice.map(|choice| match choice {
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::Never => json!({"type": "none"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Function(name) => json!({"type": "tool", "name": name}),
        });
        if let Some(choice) = choice.as_mut().filter(|choice| is_sequential && choice["type"] != "none") {
            choice["disable_parallel_tool_use"] = true.into();
        }
        let format = self.response_format.as_ref().and_then(|format| match format {
            ResponseFormat::JsonObject => None,
            ResponseFormat::JsonSchema { schema, .. } => {
                Some(json!({"format": {"type": "json_schema", "schema": schema}}))
            }
        });
        vec![
            ("tool_choice", choice),
            ("output_config", format),
            ("stop_sequences", self.stop_texts()),
            ("temperature", self.temperature.map(Value::from)),
            ("top_p", self.top_p.map(Value::from)),
        ]
    }

    fn for_gemini(&self) -> Vec<(&'static str, Option<Value>)> {
        let calling = self.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Auto => json!({"mode": "AUTO"}),
            ToolChoice::Never => json!({"mode": "NONE"}),
            ToolChoice::Required => json!({"mode": "ANY"}),
            ToolChoice::Function(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
        });
        let mut config = Map::new();
        if let Some(format) = &self.response_format {
            config.insert("responseMimeType".to_owned(), json!("application/json"));
            if let ResponseFormat::JsonSchema { schema, .. } = format {
                config.insert("responseJsonSchema".to_owned(), schema.clone());
            }
        }
        let others = [
            ("stopSequences", self.stop_texts()),
            ("temperature", self.temperature.map(Value::from)),
            ("topP", self.top_p.map(Value::from)),
            ("seed", self.seed.map(Value::from)),
            ("frequencyPenalty", self.frequency_penalty.map(Value::from)),
            ("presencePenalty", self.presence_penalty.map(Value::from)),
        ];
        let set = others.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        config.extend(set);
        vec![
            ("toolConfig", calling.map(|calling| json!({"functionCallingConfig": calling}))),
            ("generationConfig", (!config.is_empty()).then_some(Value::Object(config))),
        ]
    }

    fn stop_texts(&self) -> Option<Value> {
        (!self.stop.is_empty()).then(|| json!(self.stop))
    }
}

impl ToolChoice {
    fn word(&self) -> Value {
        json!(match self {
            Self::Never => "none",
            Self::Required => "required",
            Self::Auto | Self::Function(_) => "auto",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_fields_of_format() {
        let options = PlainOptions {
            tool_choice: Some(ToolChoice::Function("f".to_owned())),
            response_format: Some(ResponseFormat::JsonSchema {
                name: "n".to_owned(),
                schema: json!({"type": "object"}),
            }),
            stop: vec!["END".to_owned()],
            temperature: Some(0.5),
            top_p: None,
            seed: Some(7),
            frequency_penalty: Some(0.25),
            presence_penalty: Some(0.0),
            parallel_tool_calls: Some(false),
        };
        let of = |format| Value::Object(options.for_format(format));
        let completions = of(WireFormat::ChatCompletions);
        assert_eq!(completions["tool_choice"], json!({"type": "function", "function": {"name": "f"}}));
        assert_eq!(completions["response_format"]["json_schema"]["name"], "n");
        assert_eq!((&completions["stop"], &completions["temperature"]), (&json!(["END"]), &json!(0.5)));
        assert_eq!((&completions["seed"], &completions["parallel_tool_calls"]), (&json!(7), &json!(false)));
        let responses = of(WireFormat::Responses);
        assert_eq!(responses["parallel_tool_calls"], json!(false));
        assert_eq!(responses["tool_choice"], json!({"type": "function", "name": "f"}));
        assert_eq!(responses["text"]["format"]["type"], "json_schema");
        let anthropic = of(WireFormat::Anthropic);
        assert_eq!(
            anthropic["tool_choice"],
            json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true})
        );
        assert_eq!(anthropic["stop_sequences"], json!(["END"]));
        let gemini = of(WireFormat::Gemini);
        assert_eq!(gemini["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"], json!(["f"]));
        assert_eq!(gemini["generationConfig"]["responseJsonSchema"], json!({"type": "object"}));
        assert_eq!(gemini["generationConfig"]["seed"], json!(7));
        assert!(options.unsupported_in(WireFormat::ChatCompletions).is_empty());
        assert_eq!(options.unsupported_in(WireFormat::Responses), ["stop", "seed", "frequency_penalty"]);
        assert_eq!(options.unsupported_in(WireFormat::Anthropic), ["seed", "frequency_penalty"]);
        assert_eq!(options.unsupported_in(WireFormat::Gemini), ["parallel_tool_calls"]);
        for format in WireFormat::ALL {
            assert!(PlainOptions::default().unsupported_in(format).is_empty(), "{format:?}");
            assert!(PlainOptions::default().for_format(format).is_empty(), "{format:?}");
        }
    }

    #[test]
    fn tool_choice_words_differ_by_format() {
        let of = |choice, format| {
            let options = PlainOptions { tool_choice: Some(choice), ..PlainOptions::default() };
            Value::Object(options.for_format(format))
        };
        assert_eq!(of(ToolChoice::Required, WireFormat::ChatCompletions)["tool_choice"], "required");
        assert_eq!(of(ToolChoice::Never, WireFormat::Responses)["tool_choice"], "none");
        assert_eq!(of(ToolChoice::Auto, WireFormat::Anthropic)["tool_choice"]["type"], "auto");
        assert_eq!(
            of(ToolChoice::Required, WireFormat::Gemini)["toolConfig"]["functionCallingConfig"]["mode"],
            "ANY"
        );
    }
}
