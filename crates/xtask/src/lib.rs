//! `cargo xtask`: what a tool can hold of the habits of this project.
//!
//! [`tidy`] looks at the tree as text and at its manifests, and tells each place that breaks a rule. It is a
//! test besides, so that nothing untidy passes `make test`.

pub mod tidy;
