//! The commands of operators: over the socket of the running service, or on its data folder if none runs.
//!
//! # Where to look
//!
//! - The command line: `commands.rs`; requests: `request.rs`; how they are carried out: `admin_requests.rs`, `machine_commands.rs`;
//!   output: `printers.rs`, `output.rs`.
//! - The socket: `socket.rs`; the lock of the data folder: `data.rs`; codes of failures: `error.rs`.
//! - `doctor`: `doctor.rs`, `checks.rs`. Commands without a service: `config.rs`, `image_commands.rs`, `plugin_commands.rs`.

pub mod admin;
pub mod admin_requests;
pub mod checks;
pub mod commands;
pub mod config;
pub mod confirmation;
pub mod console;
pub mod data;
pub mod doctor;
pub mod error;
pub mod examples;
pub mod image_commands;
pub mod image_options;
mod machine_commands;
pub mod model_commands;
mod model_list;
pub mod output;
mod password_prompt;
pub mod plugin_commands;
mod printers;
pub mod request;
pub mod socket;
mod usage;

pub use checks::HostChecks;
