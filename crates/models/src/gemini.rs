//! Google's `streamGenerateContent` format.

mod events;
mod grounding;
mod request;

use serde::Deserialize;

use crate::provider::Discovered;
pub(crate) use events::Fold;
pub(crate) use request::{Dialect, body};

/// What stands before the names of models.
const PREFIX: &str = "models/";

/// The models of the vendor's list that write content, in its order.
pub(crate) fn models(body: &[u8]) -> Option<Vec<Discovered>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        models: Vec<Listed>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Listed {
        name: String,
        #[serde(default)]
        display_name: Option<String>,
        #[serde(default)]
        input_token_limit: Option<u32>,
        #[serde(default)]
        output_token_limit: Option<u32>,
        #[serde(default)]
        supported_generation_methods: Vec<String>,
        #[serde(default)]
        thinking: Option<bool>,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    let writes = |model: &Listed| {
        let methods = &model.supported_generation_methods;
        methods.is_empty() || methods.iter().any(|method| method == "generateContent")
    };
    let models = list.models.into_iter().filter(writes).map(|model| Discovered {
        context_tokens: model.input_token_limit,
        output_max_tokens: model.output_token_limit,
        label: model.display_name,
        reasons: model.thinking,
        deprecated: false,
        created: 0,
        name: model.name.strip_prefix(PREFIX).unwrap_or(&model.name).to_owned(),
    });
    Some(models.collect())
}

/// The path of a step of this model.
pub(crate) fn step_path(model: &str) -> String {
    format!("/{PREFIX}{model}:streamGenerateContent")
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
        let models = models(body.as_bytes()).unwrap();
        assert_eq!((models.len(), models[0].name.as_str()), (1, "gemini-3-pro"));
        assert_eq!((models[0].context_tokens, models[0].reasons), (Some(1_048_576), Some(true)));
        assert_eq!(step_path("m"), "/models/m:streamGenerateContent");
    }
}
