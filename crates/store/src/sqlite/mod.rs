//! The SQLite engine: one thread that writes, several that read.
//!
//! The writer takes all queued jobs, runs each in its own savepoint and commits once. It answers only then,
//! rejections included, because a rejection may depend on writes of other jobs in the batch. When the batch
//! fails as a whole, it is rolled back and the jobs run again one by one in their own transactions, so that
//! only the faulty one fails.

mod connection;
mod preallocation;
mod transaction;
mod writer;

pub(crate) use connection::{engine_error, open_reader, open_writer};
pub(crate) use preallocation::PreallocatedSpace;
#[cfg(test)]
pub(crate) use transaction::SqliteTransaction;
pub(crate) use writer::{read_loop, write_loop};
