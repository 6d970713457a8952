//! The driver `sandbox`, with real jails on this host: what is inside tries to get out, and services are killed.
//!
//! The tests run as whoever runs them; as root they run a second time as an ordinary user, whose subordinate ids
//! are made up in a mount namespace of their own. Package `uidmap` must be there.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod attacks;
mod escape;
mod life;
mod ordinary;
mod site;
