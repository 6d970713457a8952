//! Everything that must outlive the process, but the files of the workspaces.
//!
//! Each operation is a synchronous function over [`Sql`], written once for every engine, and runs inside
//! [`Store::write`] or [`Store::read`]:
//!
//! ```text
//! let accepted = store.write(move |tx| questions::ask(tx, &question)).await?;
//! ```
//!
//! # What must hold
//! - An operation that wants several locks takes them in one order: account, conversation, answer.
//! - What two callers may race for is one conditional statement (`UPDATE … WHERE … RETURNING`, `ON CONFLICT …
//!   RETURNING`), never a look followed by a write. A broken constraint is never caught in order to go on.
//! - Time and identifiers are arguments: work may run again, and then must do the same.
//! - Where it has to look first, it locks what it looks at ([`Sql::lock`]), the account above all.
//! - Every operation that a user can reach takes the account, and finds nothing of another's.
//! - The ledger is only ever added to, and the purse in the account's row is its sum.

mod abort;
pub mod accounts;
pub mod audit;
mod codec;
pub mod conversations;
mod copy;
pub mod credits;
mod error;
mod job;
pub mod jobs;
pub mod keys;
pub mod machines;
mod metrics;
mod migrations;
mod options;
#[cfg(feature = "postgres")]
mod postgres;
pub mod questions;
mod queue;
pub mod skills;
mod sql;
mod sqlite;
mod store;
pub mod turns;
mod url;
pub mod usage;

pub use copy::{ChunkSink, Exporter, Importer};
pub use error::StoreError;
pub use metrics::{QueueDepths, StoreMetrics};
pub use options::Options;
pub use sql::{Result, Row, RowExt, Sql, SqlExt, Value};
pub use store::{ExclusiveLock, Store};
pub use url::DatabaseUrl;
