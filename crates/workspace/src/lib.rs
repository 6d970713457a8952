//! The `workspace` crate.
