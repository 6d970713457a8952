//! The engine: works on accepted answers under leases until they are complete.
//!
//! The store is the source of truth, with a row for each answer in progress. This node claims unleased rows, runs a task
//! for each ([`turn`]), renews its leases and receives stops from use cases. A missed notification is harmless: the next
//! poll of the store shows the same.
//!
//! # Where to look
//!
//! - The effects of a turn: `turn/runner.rs`; calls of the model: `turn/model_call.rs`; sessions with the machine:
//!   `turn/session.rs`; the lease around them: `turn.rs`; what they work with: `turn_context.rs`.
//! - Tools on the host: `turn/calls.rs`; subagents: `turn/subagent.rs`; the web: `web.rs`; tools of machines:
//!   `machine_tools.rs`.
//! - Images that a model is shown: `images.rs`; credits of vectors: `embeddings.rs`; spans of traces: `spans.rs`.

mod agent_session;
mod answer_records;
mod background_tasks;
mod control_signal;
mod dispatch;
mod embeddings;
pub mod environment;
mod give_up;
mod images;
mod left_answers;
mod local_calls;
mod machine_tools;
pub mod metrics;
mod outside_calls;
mod parts;
mod plugin_library;
mod prompt_context;
mod settle;
mod setup;
mod spans;
mod subagent_output;
pub mod templates;
mod tool_selection;
mod turn;
mod turn_context;
mod turn_input;
mod turn_store;
mod web;
mod workspace_instructions;

pub use background_tasks::BackgroundTasks;
pub use dispatch::Dispatch;
pub use embeddings::{EmbeddingMetrics, EmbeddingService, release_left_over};
pub use environment::ServiceEnvironment;
pub use give_up::end_open_answers;
pub use left_answers::LeaveReason;
pub use metrics::AnswerMetrics;
pub use outside_calls::{FunctionError, check_functions};
pub use parts::{DispatchLimits, EngineParts};
pub use plugin_library::{Plugins, PluginsConfig, PluginsError, plugins_folder};
pub use prompt_context::PromptOptions;
pub use settle::settle_surely;
pub use setup::first_reservation;
pub use spans::start_accept_span;
pub use templates::PromptTemplates;
pub use web::{WebAccess, WebTools};
