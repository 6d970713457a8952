//! OpenAI's Responses format, for OpenAI's own server. Nothing is stored there: what the model thought comes back
//! encrypted, and is given back with the exchange.

mod events;
mod request;

pub(crate) use events::Fold;
pub(crate) use request::{Dialect, body};
