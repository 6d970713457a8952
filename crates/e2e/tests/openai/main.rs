//! The interface `/v1`, called with the JSON that programs for OpenAI send.

mod chat;
mod conversations;
mod files;
mod frame;
mod histories;
mod leaving;
mod plain;
mod plain_responses;
mod response_events;
mod responses;
mod stage;
