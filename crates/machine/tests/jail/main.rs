//! Tests real machines on this host, on its kernel, on User Mode Linux and in virtual machines of QEMU: processes try to
//! escape, and services are killed.
//!
//! The tests run as the current user; root runs the tests without QEMU a second time as an ordinary user, whose
//! subordinate ids are defined in a separate mount namespace. Requires the package `uidmap`. A test whose kind of
//! machine this host cannot run reports that and returns; see [`available`].
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

#[macro_use]
mod site;

mod attacks;
mod available;
mod escape;
mod guest_root;
mod kernel;
mod life;
mod ordinary;
mod trial;
