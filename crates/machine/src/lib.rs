//! The `machine` crate.
