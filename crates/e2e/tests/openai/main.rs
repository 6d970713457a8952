//! The interface `/v1`, called with the JSON that programs for OpenAI send.

mod chat;
mod files;
mod frame;
mod histories;
mod leaving;
mod plain;
mod response_events;
mod responses;
mod stage;
