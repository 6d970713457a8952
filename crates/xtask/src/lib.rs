//! `cargo xtask`: checks of the project's conventions.
//!
//! [`tidy`] checks the tree as text, and the manifests, and reports each violation. A test runs it too, so that
//! `make test` covers it.

pub mod tidy;
