//! The PostgreSQL engine: threads that each have a connection of their own.
//!
//! Writes run beside each other under READ COMMITTED, reads see the database as it stood at one moment. `BEGIN`
//! travels with the first statement, statements are prepared once for each connection.
//!
//! # When a connection breaks
//! - Before `COMMIT` was sent nothing can have been committed: the work runs again on a new connection.
//! - Afterwards nobody knows by itself. So each thread has a row in `commits`, into which every transaction first
//!   writes its number. The next connection asks for that row and thereby waits until the old transaction has
//!   ended, one way or the other: if it left its number, it was committed; otherwise the work runs again.
//! - While the server can't be reached, each thread tries again, less and less often. Callers wait for
//!   [`OUTAGE_PATIENCE`] altogether, then they are told at once.

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

pub(crate) use address::Address;
pub(crate) use connection::PgConnection;
pub(crate) use error::PgError;
pub(crate) use exclusive_lock::acquire_lock;
pub(crate) use health::ServerHealth;
pub(crate) use migrate::{MIGRATING, migrate};
pub(crate) use worker::{Worker, read_loop, write_loop};

#[cfg(doc)]
use health::OUTAGE_PATIENCE;
