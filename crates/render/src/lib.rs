//! The `render` crate.
