//! OpenAI's Chat Completions format, which Ollama, vLLM, llama.cpp and many others speak too.

mod events;
mod request;

use serde::Deserialize;

use crate::provider::Discovered;
pub(crate) use events::Fold;
pub(crate) use request::{Dialect, body};

/// The models of a server's list, in its order.
pub(crate) fn models(body: &[u8]) -> Option<Vec<Discovered>> {
    #[derive(Deserialize)]
    struct List {
        #[serde(default)]
        data: Vec<Listed>,
    }
    #[derive(Deserialize)]
    struct Listed {
        id: String,
        #[serde(default)]
        created: Option<f64>,
        #[serde(default, alias = "context_length", alias = "context_window")]
        max_model_len: Option<u32>,
    }
    let list: List = serde_json::from_slice(body).ok()?;
    let created = |listed: &Listed| {
        // A count of seconds since 1970 fits; a server's nonsense saturates.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        listed.created.map_or(0, |at| at as u64)
    };
    let models = list.data.into_iter().map(|model| Discovered {
        created: created(&model),
        context_tokens: model.max_model_len,
        name: model.id,
        ..Discovered::default()
    });
    Some(models.collect())
}
