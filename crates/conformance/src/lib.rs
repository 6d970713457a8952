//! The `conformance` crate.
