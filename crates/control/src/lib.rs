//! The `control` crate.
