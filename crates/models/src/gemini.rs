//! Google's `streamGenerateContent` format.

mod events;
mod grounding;
mod request;

use serde_json::Value;

use crate::listing::{self, Discovered, ModelListing};
pub(crate) use events::GeminiFold;
pub(crate) use request::{GeminiDialect, build_body};

/// The prefix of model names.
const PREFIX: &str = "models/";

/// Reads the models of the vendor's list that generate content, in its order.
pub(crate) fn parse_models(body: &[u8]) -> Option<ModelListing> {
    ModelListing::parse_body(body, &["models"], |model, name| {
        let methods = model["supportedGenerationMethods"].as_array().map_or(&[][..], Vec::as_slice);
        let mut methods = methods.iter().filter_map(Value::as_str).peekable();
        let writes = methods.peek().is_none() || methods.any(|method| method == "generateContent");
        writes.then(|| Discovered {
            context_tokens: listing::token_count(model, &["inputTokenLimit"]),
            output_max_tokens: listing::token_count(model, &["outputTokenLimit"]),
            label: listing::display_name(model, "displayName"),
            reasons: model["thinking"].as_bool(),
            deprecated: false,
            created: 0,
            name: name.strip_prefix(PREFIX).unwrap_or(name).to_owned(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_tells_what_models_take() {
        let body = r#"{"models":[
            {"name":"models/gemini-3-pro","displayName":"Gemini 3 Pro","inputTokenLimit":1048576,
             "outputTokenLimit":65536,"supportedGenerationMethods":["generateContent"],"thinking":true},
            {"name":"models/text-embedding-004","supportedGenerationMethods":["embedContent"]}]}"#;
        let models = parse_models(body.as_bytes()).unwrap().models;
        assert_eq!((models.len(), models[0].name.as_str()), (1, "gemini-3-pro"));
        assert_eq!((models[0].context_tokens, models[0].reasons), (Some(1_048_576), Some(true)));
    }
}
