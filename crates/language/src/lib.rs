//! The `language` crate.
