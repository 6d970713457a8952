//! The use cases of the service, one module each. Every face calls them, and none of them knows HTTP.
//!
//! [`Authenticator`] turns a key into a [`Principal`]. [`QuestionService`], [`AnswerService`], [`Conversations`],
//! [`Catalogs`], [`FileService`] and [`Vm`] take a principal, require its permission, and fail with a [`UseCaseError`],
//! whose [`ErrorKind`] each face maps to its own statuses. [`Admin`] is for operators. Each is a cheap handle, so that
//! a handler gets the one that it needs. [`CauserieService`] starts and holds them all.
//!
//! # Where to look
//!
//! - Choices of a question: `question_choices.rs`; search of conversations: `history.rs`, `found_passage.rs`.
//! - Background jobs: `jobs.rs`, `jobs/run.rs`; a deleted account: `jobs/run/account.rs`.
//! - Sessions of browsers: `sessions.rs`; passwords and emails: `credentials.rs`; identity providers: `single_sign_on.rs`.
//! - Owners' keys and credits: `owner.rs`; pages of operators: `operators.rs`; their commands: `admin`.
//! - The deadline of machines without a service: `machine_lease.rs`; the folder of workspaces: `workspaces_marker.rs`.

pub mod access;
mod account_deletion;
pub mod admin;
pub mod answers;
pub mod api_keys;
mod ask_error;
pub mod backup;
pub mod catalogs;
pub mod client_histories;
pub mod conversations;
pub mod credentials;
pub mod data_folder;
mod denied_access;
pub mod disk_guard;
mod disk_reserve;
pub mod error;
pub mod files;
pub mod first_owner;
pub mod form_token;
mod found_passage;
pub mod health;
pub mod history;
mod jobs;
pub mod known_browser;
mod machine_lease;
pub mod operators;
mod orphans;
pub mod owner;
pub mod passwords;
pub mod plain_steps;
pub mod principal;
pub mod privileges;
pub mod provisioning;
mod question_choices;
mod question_place;
pub mod questions;
mod replies;
pub mod service;
pub mod sessions;
pub mod single_sign_on;
mod title;
pub mod usage;
pub mod vm;
mod workspaces_marker;

pub use access::Authenticator;
pub use account_deletion::RunningService;
pub use admin::Admin;
pub use answers::AnswerService;
pub use catalogs::Catalogs;
pub use client_histories::ClientHistories;
pub use conversations::Conversations;
pub use credentials::CredentialService;
pub use disk_reserve::{DiskReserve, DiskReserveConfig};
pub use egress::{Callback, OidcConfig};
pub use engine::{
    AnswerMetrics, DispatchLimits, EmbeddingMetrics, Plugins, PluginsConfig, ServiceEnvironment, environment,
    metrics, plugins_folder, templates,
};
pub use error::{ErrorKind, PublicCode, UseCaseError};
pub use files::FileService;
pub use first_owner::FirstOwner;
pub use health::{Check, CheckStatus};
pub use history::HistoryService;
pub use jobs::{JobKindMetrics, JobKindTotals, JobMetrics};
pub use models::{Catalog, ProbeError, VendorHealth};
pub use operators::Operators;
pub use owner::Owner;
pub use passwords::Passwords;
pub use plain_steps::PlainSteps;
pub use principal::Principal;
pub use questions::QuestionService;
pub use service::{CauserieService, ServiceConfig};
pub use sessions::SessionService;
pub use single_sign_on::{SingleSignOn, SingleSignOnConfig};
pub use store::{DatabaseUrl, StoreError};
pub use vm::Vm;
