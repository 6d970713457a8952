//! Dispatches requests and lists of models to the wire formats.

use domain::step::{StepError, StepRequest};
use serde_json::{Map, Value};

use crate::format::Format;
use crate::listing::Listing;
use crate::pause::Pause;
use crate::{anthropic, chat_completions, gemini, options, responses};

/// The request parameters that a server accepts for one model, learned from its rejections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic(anthropic::Dialect),
    ChatCompletions(chat_completions::Dialect),
    Gemini(gemini::Dialect),
    Responses(responses::Dialect),
}

impl Format {
    /// Reads a list of models.
    pub(crate) fn models(self, body: &[u8]) -> Option<Listing> {
        match self {
            Self::Anthropic => anthropic::models(body),
            // OpenAI has one list for both formats.
            Self::ChatCompletions | Self::Responses => chat_completions::models(body),
            Self::Gemini => gemini::models(body),
        }
    }

    /// Reads the dialects of the models in a list, if it contains them.
    pub(crate) fn dialects(self, body: &[u8]) -> Vec<(String, Dialect)> {
        match self {
            Self::Anthropic => {
                let dialects = anthropic::dialects(body).into_iter();
                dialects.map(|(model, dialect)| (model, Dialect::Anthropic(dialect))).collect()
            }
            Self::ChatCompletions | Self::Gemini | Self::Responses => Vec::new(),
        }
    }

    /// Returns the initial dialect of a model.
    pub(crate) fn dialect(self, model: &str, own: bool) -> Dialect {
        match self {
            Self::Anthropic => Dialect::Anthropic(anthropic::Dialect::of(model)),
            Self::ChatCompletions => Dialect::ChatCompletions(chat_completions::Dialect::of(own)),
            Self::Gemini => Dialect::Gemini(gemini::Dialect::of(model)),
            Self::Responses => Dialect::Responses(responses::Dialect::NEWEST),
        }
    }
}

impl Dialect {
    /// Returns another dialect to try after a rejection with this reason, in small letters; `None` when there is none.
    pub(crate) fn fallback(self, reason: &str) -> Option<Self> {
        match self {
            Self::Anthropic(dialect) => dialect.fallback(reason).map(Self::Anthropic),
            Self::ChatCompletions(dialect) => dialect.fallback(reason).map(Self::ChatCompletions),
            Self::Gemini(dialect) => dialect.fallback(reason).map(Self::Gemini),
            Self::Responses(dialect) => dialect.fallback(reason).map(Self::Responses),
        }
    }

    /// Builds the request's body, which continues a pause, and adds the operator's options for the model.
    ///
    /// # Errors
    /// Fails when the format cannot express the request.
    pub(crate) fn body(
        self,
        request: &StepRequest,
        pause: &Pause,
        options: &Map<String, Value>,
    ) -> Result<Vec<u8>, StepError> {
        match self {
            Self::Anthropic(dialect) => {
                options::body(&anthropic::body(request, dialect)?.continuing(pause), options)
            }
            Self::ChatCompletions(dialect) => {
                options::body(&chat_completions::body(request, dialect)?, options)
            }
            Self::Gemini(dialect) => options::body(&gemini::body(request, dialect)?, options),
            Self::Responses(dialect) => options::body(&responses::body(request, dialect)?, options),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(format: Format, body: &Value) -> Option<Listing> {
        format.models(body.to_string().as_bytes())
    }

    fn names(listing: &Listing) -> Vec<&str> {
        listing.models.iter().map(|model| model.name.as_str()).collect()
    }

    /// Returns the field of the list, the field of a name in it, and the prefix of names.
    fn keys(format: Format) -> (&'static str, &'static str, &'static str) {
        match format {
            Format::Gemini => ("models", "name", "models/"),
            Format::Anthropic | Format::ChatCompletions | Format::Responses => ("data", "id", ""),
        }
    }

    #[test]
    fn one_odd_entry_drops_no_other_in_any_format() {
        for format in Format::ALL {
            let (list, name, prefix) = keys(format);
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
            let listing = read(format, &json!({ list: entries, "unknown": {} })).expect("a list");
            assert_eq!(
                (names(&listing), listing.unreadable),
                (vec!["first", "last"], invalid.len()),
                "{format:?}"
            );
        }
    }

    #[test]
    fn one_odd_field_drops_no_entry_in_any_format() {
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
        for format in Format::ALL {
            let (list, name, prefix) = keys(format);
            for field in fields {
                for value in &invalid {
                    let body = json!({ list: [{ name: format!("{prefix}m"), field: value }] });
                    let listing = read(format, &body).expect("a list");
                    assert_eq!((names(&listing), listing.unreadable), (vec!["m"], 0), "{format:?} {body}");
                }
            }
        }
    }

    #[test]
    fn all_names_of_the_context_may_stand_side_by_side() {
        let of = |entry: Value| {
            let body = json!({ "data": [entry] });
            read(Format::ChatCompletions, &body).expect("a list").models.remove(0).context_tokens
        };
        let (long, served) = (Some(131_072), Some(4096));
        assert_eq!(of(json!({"id": "m", "context_length": 131_072, "max_model_len": 4096})), served);
        assert_eq!(of(json!({"id": "m", "max_model_len": null, "context_length": 131_072})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": "odd", "context_window": "131072"})), long);
        assert_eq!(of(json!({"id": "m", "max_model_len": 0, "context_length": 131_072.0})), long);
        assert_eq!(of(json!({"id": "m"})), None);
        let twice = br#"{"data":[{"id":"a","id":"m","context_length":1,"context_length":4096}],"data":
            [{"id":"a","id":"m","context_length":1,"context_length":4096}]}"#;
        let listing = Format::ChatCompletions.models(twice).expect("a list");
        assert_eq!((names(&listing), listing.models[0].context_tokens), (vec!["m"], served));
    }

    #[test]
    fn what_is_no_list_is_none_and_an_empty_one_is_empty() {
        for format in Format::ALL {
            let (list, ..) = keys(format);
            for none in [
                json!({ list: {} }),
                json!({ list: "x" }),
                json!({"error": {"code": 1}}),
                json!("x"),
                json!(null),
            ] {
                assert_eq!(read(format, &none), None, "{format:?} {none}");
            }
            assert_eq!(format.models(b"<html>"), None);
            for empty in [json!({ list: [] }), json!({ list: null }), json!({}), json!([])] {
                assert_eq!(read(format, &empty), Some(Listing::default()), "{format:?} {empty}");
            }
        }
        let bare = read(Format::ChatCompletions, &json!([{"id": "m"}])).expect("some servers send it so");
        assert_eq!(names(&bare), ["m"]);
    }
}
