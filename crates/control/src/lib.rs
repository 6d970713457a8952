//! The use cases of the service: one module each, none of which knows HTTP.
//!
//! [`Questions`] accepts, [`dispatch`] works, [`live`] shows what is being written, [`Answers`] hands it to
//! readers; [`Conversations`], [`Catalogs`], [`Authenticator`], [`Vm`] and [`Admin`] are the rest of what the edges call. Each is
//! a cheap handle, so that an edge is given the one that it needs. [`Service`] puts them together.

pub mod access;
pub mod admin;
pub mod answers;
pub mod backup;
pub mod catalogs;
pub mod conversations;
mod denied_access;
pub mod disk_reserve;
pub mod health;
mod jobs;
pub mod passwords;
pub mod privileges;
pub mod provisioning;
pub mod questions;
pub mod service;
pub mod usage;
pub mod vm;

pub use access::Authenticator;
pub use admin::Admin;
pub use answers::Answers;
pub use catalogs::Catalogs;
pub use conversations::Conversations;
pub use disk_reserve::{DiskReserve, DiskReserveConfig};
pub use engine::{
    AnswerMetrics, DispatchLimits, Environment, Plugins, PluginsConfig, environment, metrics, plugins_folder,
    templates,
};
pub use health::{Check, CheckStatus};
pub use jobs::{JobCounts, JobKindMetrics, JobMetrics};
pub use live;
pub use models::{Catalog, ProbeError, VendorHealth};
pub use passwords::Passwords;
pub use questions::Questions;
pub use service::{Service, ServiceConfig};
pub use store::{DatabaseUrl, StoreError};
pub use vm::Vm;
