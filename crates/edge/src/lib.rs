//! The `edge` crate.
