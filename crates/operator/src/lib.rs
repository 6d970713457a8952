//! The commands of operators: over the socket of the running service, or on its data folder if none runs.
//!
//! A command is one module of `commands`, listed in `commands/mod.rs`: the arguments become a typed request, which the service or
//! this process carries out, and the typed reply is printed as JSON or for people.
//!
//! # Where to look
//!
//! - What a command, a request and a reply are: `command.rs`, `request.rs`; how a request reaches the service: `carry_out.rs`,
//!   `socket.rs`, `serving.rs`.
//! - The lock of the data folder: `data.rs`; codes of failures: `error.rs`; tables and lines: `output.rs`.
//! - Commands without a service: `config.rs`, `image_commands.rs`, `plugin_commands.rs`.

mod carry_out;
pub mod checks;
mod command;
pub mod commands;
pub mod config;
pub mod data;
mod error;
pub mod image_commands;
pub mod image_options;
mod location;
pub mod output;
mod password_prompt;
mod passwords;
pub mod plugin_commands;
mod request;
mod serving;
mod socket;
mod times;

pub use command::Located;
pub use commands::OperatorCommands;
pub use error::CliError;
pub use location::{Where, become_owner, location_arguments};
pub use request::{HostChecks, ServiceFacts};
pub use serving::serve_admin_socket;
pub use socket::bind_admin_socket;
