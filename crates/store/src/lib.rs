//! Durable state of the service, except the files of the workspaces.
//!
//! Each operation is a synchronous function over [`Sql`], written once for both engines. It runs inside
//! [`Store::write`] or [`Store::read`]:
//!
//! ```text
//! let accepted = store.write(move |tx| questions::ask_question(tx, &question)).await?;
//! ```
//!
//! # Invariants
//! - Locks are taken in one order: account, conversation, answer.
//! - A race between two callers is decided by one conditional statement (`UPDATE … WHERE … RETURNING`, `ON
//!   CONFLICT … RETURNING`), never by a read followed by a write. No operation continues after a constraint
//!   violation.
//! - Time and identifiers are arguments, because work may run again and must then do the same.
//! - An operation that must read first locks the rows it reads ([`Sql::lock_rows`]), usually the account.
//! - Every operation that a user can reach takes the account and finds only that account's rows.
//! - The ledger is append-only, and the balance in the account's row is its sum.

mod abort;
pub mod accounts;
pub mod audit;
pub mod client_histories;
mod codec;
mod confirmation;
pub mod conversations;
mod copy;
pub mod credits;
pub mod embeddings;
mod error;
pub mod identities;
mod job;
pub mod jobs;
pub mod keys;
pub mod machines;
mod metrics;
mod migrations;
mod options;
pub mod plain_steps;
#[cfg(feature = "postgres")]
mod postgres;
pub mod questions;
mod queue;
pub mod search;
pub mod serving;
pub mod sessions;
pub mod skills;
mod sql;
mod sqlite;
mod store;
pub mod succession;
pub mod turns;
mod url;
pub mod usage;

pub use copy::{ChunkSink, DatabaseExporter, Importer};
pub use error::StoreError;
pub use metrics::{QueueDepths, StoreMetrics};
pub use migrations::SchemaVersion;
pub use options::StoreOptions;
pub use sql::{Result, RowExt, Sql, SqlExt, SqlRow, SqlValue};
pub use store::{ExclusiveLock, Store};
pub use url::DatabaseUrl;
