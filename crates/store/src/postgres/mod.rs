//! The PostgreSQL engine: a pool of threads with a connection each.
//!
//! Writes run concurrently under READ COMMITTED; reads see a snapshot. `BEGIN` is sent together with the
//! first statement, and each connection prepares a statement once.
//!
//! # Lost connections
//! - Before `COMMIT` was sent nothing can be committed: the work runs again on a new connection.
//! - Afterwards the outcome is unknown. Therefore each thread has a row in `commits`, and every transaction
//!   first writes its number into it. The next connection reads that row, which waits until the old
//!   transaction has ended. If the number is there, the transaction was committed; otherwise the work runs
//!   again.
//! - While the server is unreachable, each thread tries again with growing pauses. Callers wait for at most
//!   [`OUTAGE_PATIENCE`] in total, then fail immediately.

mod address;
mod connection;
mod error;
mod exclusive_lock;
mod health;
mod migrate;
mod tls;
mod transaction;
mod value;
mod worker;

pub(crate) use address::PgAddress;
pub(crate) use connection::PgConnection;
pub(crate) use error::PgError;
pub(crate) use exclusive_lock::acquire_lock;
pub(crate) use health::ServerHealth;
pub(crate) use migrate::{MIGRATING, migrate_server, read_server_schema_version};
pub(crate) use worker::{Worker, read_loop, write_loop};

#[cfg(doc)]
use health::OUTAGE_PATIENCE;
