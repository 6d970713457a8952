//! The `client` crate.
