//! Commands for background jobs.

pub(crate) mod list;
pub(crate) mod retry;
