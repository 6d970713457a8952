//! OpenAI's Chat Completions format, which Ollama, vLLM, llama.cpp and many others also speak.

mod events;
mod request;
mod thoughts;

use serde_json::Value;

use crate::lenient;
use crate::listing::{self, Discovered, ModelListing};
pub(crate) use events::CompletionsFold;
pub(crate) use request::{CompletionsDialect, build_body};

/// Reads a server's list of models, in its order.
pub(crate) fn parse_models(body: &[u8]) -> Option<ModelListing> {
    ModelListing::parse_body(body, &["data", "models"], |model, name| {
        can_chat(model).then(|| Discovered {
            created: lenient::count_of(&model["created"]).unwrap_or(0),
            // A server's configured limit precedes the model's own.
            context_tokens: listing::token_count(
                model,
                &["max_model_len", "context_length", "context_window"],
            ),
            name: name.to_owned(),
            ..Discovered::default()
        })
    })
}

/// Returns false for a model that the list itself says not to chat.
fn can_chat(model: &Value) -> bool {
    let kind = [&model["type"], &model["task"]].into_iter().find_map(Value::as_str).unwrap_or_default();
    let is_other = ["embed", "rerank", "image", "audio", "moderation", "transcri", "speech"]
        .iter()
        .any(|other| kind.to_lowercase().starts_with(other));
    let capabilities = model["capabilities"].as_object();
    let completes = capabilities.and_then(|of| of.get("completion_chat")).and_then(Value::as_bool);
    let modalities = model["architecture"]["output_modalities"].as_array();
    let writes = modalities.is_none_or(|of| of.is_empty() || of.iter().any(|modality| modality == "text"));
    !is_other && completes != Some(false) && writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_models_skips_non_chat_models() {
        let body = r#"{"data":[{"id":"a","type":"embeddings"},{"id":"b","type":"llm"},
            {"id":"c","capabilities":{"completion_chat":false}},{"id":"d","capabilities":["completion"]},
            {"id":"e","architecture":{"output_modalities":["image"]}},{"id":"f","type":null}]}"#;
        let models = parse_models(body.as_bytes()).unwrap().models;
        let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
        assert_eq!(names, ["b", "d", "f"]);
    }
}
