//! The words and the rules of Causerie.
//!
//! Nothing here does I/O, reads a clock, draws a random number or is serialisable: time, identifiers and
//! randomness are handed in, and each edge (wire, store, machine, vendor) has its own form of these types.
//! What must always hold of an answer, of the machine and of credits is decided here, in pure functions
//! from (state, event) to (state, effects), and is simulated in `tests/simulation`.

pub mod account;
pub mod agent;
pub mod answer;
pub mod catalog;
pub mod citation;
pub mod credits;
pub mod excerpt;
pub mod id;
pub mod image;
pub mod job;
pub mod key;
pub mod limits;
pub mod machine;
pub mod scope;
pub mod skill;
pub mod step;
pub mod time;
pub mod turn;
pub mod unread;
