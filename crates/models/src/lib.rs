//! The `models` crate.
