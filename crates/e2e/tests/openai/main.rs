//! The interface `/v1`, called with the JSON that programs for OpenAI send.

mod frame;
mod stage;
