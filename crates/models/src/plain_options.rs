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
        ]
    }

    fn for_anthropic(&self) -> Vec<(&'static str, Option<Value>)> {
        let choice = self.tool_choice.as_ref().map(|choice| match choice {
            ToolChoice::Auto => json!({"type": "auto"}),
            ToolChoice::Never => json!({"type": "none"}),
            ToolChoice::Required => json!({"type": "any"}),
            ToolChoice::Function(name) => json!({"type": "tool", "name": name}),
        });
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
        };
        let of = |format| Value::Object(options.for_format(format));
        let completions = of(WireFormat::ChatCompletions);
        assert_eq!(completions["tool_choice"], json!({"type": "function", "function": {"name": "f"}}));
        assert_eq!(completions["response_format"]["json_schema"]["name"], "n");
        assert_eq!((&completions["stop"], &completions["temperature"]), (&json!(["END"]), &json!(0.5)));
        let responses = of(WireFormat::Responses);
        assert_eq!(responses["tool_choice"], json!({"type": "function", "name": "f"}));
        assert_eq!(responses["text"]["format"]["type"], "json_schema");
        let anthropic = of(WireFormat::Anthropic);
        assert_eq!(anthropic["tool_choice"], json!({"type": "tool", "name": "f"}));
        assert_eq!(anthropic["stop_sequences"], json!(["END"]));
        let gemini = of(WireFormat::Gemini);
        assert_eq!(gemini["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"], json!(["f"]));
        assert_eq!(gemini["generationConfig"]["responseJsonSchema"], json!({"type": "object"}));
        for format in WireFormat::ALL {
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
