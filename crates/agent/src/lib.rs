//! The agent.

pub mod documents;
