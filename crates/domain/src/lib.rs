//! The domain types and rules of Causerie.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and has no serialization. Callers pass in
//! time, identifiers and randomness, and each edge (wire, store, machine, vendor) has its own form of these
//! types. The invariants of answers, machines and credits are kept by pure functions from (state, event) to
//! (state, effects), which `tests/simulation` exercises.

pub mod account;
pub mod agent;
pub mod answer;
pub mod audit;
pub mod catalog;
pub mod citation;
pub mod credits;
pub mod embedding;
pub mod excerpt;
pub mod hex;
pub mod id;
pub mod image;
pub mod indexing;
pub mod job;
pub mod key;
pub mod limits;
pub mod machine;
pub mod outgoing;
pub mod retry_after;
pub mod scope;
pub mod secret;
pub mod shown_name;
pub mod skill;
pub mod step;
pub mod step_note;
pub mod text_format;
pub mod time;
pub mod tool;
pub mod turn;
pub mod unread;
