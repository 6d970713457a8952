//! The `api` crate.
