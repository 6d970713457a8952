//! The SQLite engine: one thread that writes, several that read.
//!
//! The writer takes what has queued up, runs each job in a savepoint of its own, commits once for all and
//! only then answers, refusals included: a refusal may rest on what another job of the batch wrote. When
//! the batch as a whole fails, it is rolled back and its jobs run again one by one, each in a transaction of
//! its own, so that the one at fault fails alone.

mod connection;
mod preallocation;
mod transaction;
mod writer;

pub(crate) use connection::{engine, open_reader, open_writer};
pub(crate) use preallocation::PreallocatedSpace;
#[cfg(test)]
pub(crate) use transaction::Transaction;
pub(crate) use writer::{read_loop, write_loop};
