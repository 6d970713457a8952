//! Dispatches requests and lists of models to the wire formats.

use domain::step::{StepError, StepRequest};
use serde_json::{Map, Value};

use crate::format::WireFormat;
use crate::listing::ModelListing;
use crate::pause::Pause;
use crate::{anthropic, chat_completions, gemini, options, responses};

/// The request parameters that a server accepts for one model, learned from its rejections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestDialect {
    Anthropic(anthropic::AnthropicDialect),
    ChatCompletions(chat_completions::CompletionsDialect),
    Gemini(gemini::GeminiDialect),
    Responses(responses::ResponsesDialect),
}

impl WireFormat {
    /// Reads a list of models.
    pub(crate) fn parse_models(self, body: &[u8]) -> Option<ModelListing> {
        match self {
            Self::Anthropic => anthropic::parse_models(body),
            // OpenAI has one list for both formats.
            Self::ChatCompletions | Self::Responses => chat_completions::parse_models(body),
            Self::Gemini => gemini::parse_models(body),
        }
    }

    /// Reads the dialects of the models in a list, if it contains them.
    pub(crate) fn parse_dialects(self, body: &[u8]) -> Vec<(String, RequestDialect)> {
        match self {
            Self::Anthropic => {
                let dialects = anthropic::parse_dialects(body).into_iter();
                dialects.map(|(model, dialect)| (model, RequestDialect::Anthropic(dialect))).collect()
            }
            Self::ChatCompletions | Self::Gemini | Self::Responses => Vec::new(),
        }
    }

    /// Returns the initial dialect of a model.
    pub(crate) fn initial_dialect(self, model: &str, own: bool) -> RequestDialect {
        match self {
            Self::Anthropic => RequestDialect::Anthropic(anthropic::AnthropicDialect::from_model(model)),
            Self::ChatCompletions => {
                RequestDialect::ChatCompletions(chat_completions::CompletionsDialect::for_server(own))
            }
            Self::Gemini => RequestDialect::Gemini(gemini::GeminiDialect::from_model(model)),
            Self::Responses => RequestDialect::Responses(responses::ResponsesDialect::NEWEST),
        }
    }
}

impl RequestDialect {
    /// Returns another dialect to try after a rejection with this reason, in lower case; `None` if none is left.
    pub(crate) fn fallback_dialect(self, reason: &str) -> Option<Self> {
        match self {
            Self::Anthropic(dialect) => dialect.fallback_dialect(reason).map(Self::Anthropic),
            Self::ChatCompletions(dialect) => dialect.fallback_dialect(reason).map(Self::ChatCompletions),
            Self::Gemini(dialect) => dialect.fallback_dialect(reason).map(Self::Gemini),
            Self::Responses(dialect) => dialect.fallback_dialect(reason).map(Self::Responses),
        }
    }

    /// Builds the request's body, which continues a pause, and adds the operator's options for the model.
    ///
    /// # Errors
    /// Fails when the format cannot express the request.
    pub(crate) fn encode_body(
        self,
        request: &StepRequest,
        pause: &Pause,
        options: &Map<String, Value>,
    ) -> Result<Vec<u8>, StepError> {
        match self {
            Self::Anthropic(dialect) => options::encode_with_options(
                &anthropic::build_body(request, dialect)?.with_pause(pause),
                options,
            ),
            Self::ChatCompletions(dialect) => {
                options::encode_with_options(&chat_completions::build_body(request, dialect)?, options)
            }
            Self::Gemini(dialect) => {
                options::encode_with_options(&gemini::build_body(request, dialect)?, options)
            }
            Self::Responses(dialect) => {
                options::encode_with_options(&responses::build_body(request, dialect)?, options)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse_listing(format: WireFormat, body: &Value) -> Option<ModelListing> {
        format.parse_models(body.to_string().as_bytes())
    }

    fn model_names(listing: &ModelListing) -> Vec<&str> {
        listing.models.iter().map(|model| model.name.as_str()).collect()
    }

    /// Returns the field of the list, the field of a name in it, and the prefix of names.
    fn listing_fields(format: WireFormat) -> (&'static str, &'static str, &'static str) {
        match format {
            WireFormat::Gemini => ("models", "name", "models/"),
            WireFormat::Anthropic | WireFormat::ChatCompletions | WireFormat::Responses => ("data", "id", ""),
        }
    }

    #[test]
    fn parse_models_skips_odd_entry_alone() {
        for format in WireFormat::ALL {
            let (list, name, prefix) = listing_fields(format);
            let named = |word: &str| json!({ name: format!("{prefix}{word}") });
            let invalid = [
                json!(null),
                json!(1),
                json!("text"),
                json!([]),
                json!({}),
                json!({ name: null }),
                json!({ name: 7 }),
                json!({ name: "" }),
                json!({ name: "two\nlines" }),
                json!({ name: "x".repeat(1000) }),
                json!({ "object": "model" }),
            ];
            let mut entries = vec![named("first")];
            entries.extend(invalid.clone());
            entries.extend([named("last"), named("first")]);
            let listing = parse_listing(format, &json!({ list: entries, "unknown": {} })).expect("a list");
            assert_eq!(
                (model_names(&listing), listing.unreadable),
                (vec!["first", "last"], invalid.len()),
                "{format:?}"
            );
        }
    }

    #[test]
    fn parse_models_odd_field_keeps_entry() {
        let invalid =
            [json!(null), json!("x"), json!(-1), json!(1e300), json!([1]), json!({"a": 1}), json!(true)];
        let fields = [
            "created",
            "created_at",
            "display_name",
            "displayName",
            "max_input_tokens",
            "max_tokens",
            "lifecycle",
            "capabilities",
            "context_length",
            "max_model_len",
            "context_window",
            "inputTokenLimit",
            "outputTokenLimit",
            "supportedGenerationMethods",
            "thinking",
            "owned_by",
            "unknown",
        ];
        for format in WireFormat::ALL {
            let (list, name, prefix) = listing_fields(format);
            for field in fields {
                for value in &invalid {
                    let body = json!({ list: [{ name: format!("{prefix}m"), field: value }] });
                    let listing = parse_listing(format, &body).expect("a list");
                    assert_eq!(
                        (model_names(&listing), listing.unreadable),
                        (vec!["m"], 0),
                        "{format:?} {body}"
                    );
                }
            }
        }
    }

    #[test]
    fn context_limit_read_from_any_field() {
        let of = |entry: Value| {
            let body = json!({ "data": [entry] });
            parse_listing(WireFormat::ChatCompletions, &body).expect("a list").models.remove(0).context_tokens
        };
        let (long, served) = (Some(131_072), Some(4096));
        assert_eq!(of(json!({"id": "m", "context_length": 131_072, "max_model_len": 4096})), served);
        assert_eq!(of(json!({"id": "m", "max_model_len": null, "context_length": 131_072})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": "odd", "context_window": "131072"})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": 0, "context_length": 131_072.0})), long);
        assert_eq!(of(json!({"id": "m"})), None);
        let twice = br#"{"data":[{"id":"a","id":"m","context_length":1,"context_length":4096}],"data":
            [{"id":"a","id":"m","context_length":1,"context_length":4096}]}"#;
        let listing = WireFormat::ChatCompletions.parse_models(twice).expect("a list");
        assert_eq!((model_names(&listing), listing.models[0].context_tokens), (vec!["m"], served));
    }

    #[test]
    fn parse_models_distinguishes_none_from_empty() {
        for format in WireFormat::ALL {
            let (list, ..) = listing_fields(format);
            for none in [
                json!({ list: {} }),
                json!({ list: "x" }),
                json!({"error": {"code": 1}}),
                json!("x"),
                json!(null),
            ] {
                assert_eq!(parse_listing(format, &none), None, "{format:?} {none}");
            }
            assert_eq!(format.parse_models(b"<html>"), None);
            for empty in [json!({ list: [] }), json!({ list: null }), json!({}), json!([])] {
                assert_eq!(
                    parse_listing(format, &empty),
                    Some(ModelListing::default()),
                    "{format:?} {empty}"
                );
            }
        }
        let bare = parse_listing(WireFormat::ChatCompletions, &json!([{"id": "m"}]))
            .expect("some servers send it so");
        assert_eq!(model_names(&bare), ["m"]);
    }
}
