//! The domain types and rules of Causerie.
//!
//! This crate does no I/O, reads no clock, draws no random numbers and has no serialization. Callers pass in
//! time, identifiers and randomness, and each edge (wire, store, machine, vendor) has its own form of these
//! types. The invariants of answers, machines and credits are kept by pure functions from (state, event) to
//! (state, effects), which `tests/simulation` exercises.
//!
//! # Where to look
//!
//! - The context of a model and its bounds: `turn/host/transcript.rs`, `turn/host/token_budget.rs`; calls:
//!   `turn/host/calls.rs`, and `turn/executor.rs` in the machine.
//! - Marks of citations: `citation/mark.rs`; sources of a part: `answer/sources.rs`.
//! - Times of background work: `job.rs`; the arithmetic of prices: `credits.rs`; bounds that crates share: `limits.rs`.
//! - Proxies and authorities of outgoing connections: `outgoing.rs`.

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
pub mod pause;
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
