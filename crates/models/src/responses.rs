//! OpenAI's Responses format, for OpenAI's own server. The server stores nothing: reasoning is returned encrypted, and
//! sent back with the transcript.

mod calls;
mod events;
mod request;

pub(crate) use events::ResponsesFold;
pub(crate) use request::{ResponsesDialect, build_body};
