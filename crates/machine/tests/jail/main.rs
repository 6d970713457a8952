//! Real machines on this host, on its kernel and on User Mode Linux: what is inside tries to get out, and services are
//! killed.
//!
//! The tests run as whoever runs them; as root they run a second time as an ordinary user, whose subordinate ids
//! are made up in a mount namespace of their own. Package `uidmap` must be there.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[macro_use]
mod site;

mod attacks;
mod escape;
mod kernel;
mod life;
mod ordinary;
