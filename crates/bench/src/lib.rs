//! The `bench` crate.
