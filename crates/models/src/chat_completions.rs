//! OpenAI's Chat Completions format, which Ollama, vLLM, llama.cpp and many others also speak.

mod events;
mod request;
mod thoughts;

use crate::lenient;
use crate::listing::{self, Discovered, Listing};
pub(crate) use events::Fold;
pub(crate) use request::{Dialect, body};

/// Reads a server's list of models, in its order.
pub(crate) fn models(body: &[u8]) -> Option<Listing> {
    Listing::read(body, &["data", "models"], |model, name| {
        Some(Discovered {
            created: lenient::count_of(&model["created"]).unwrap_or(0),
            // A server's configured limit precedes the model's own.
            context_tokens: listing::tokens(model, &["max_model_len", "context_length", "context_window"]),
            name: name.to_owned(),
            ..Discovered::default()
        })
    })
}
