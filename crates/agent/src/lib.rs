//! The agent.

pub mod documents;
pub mod index;
pub mod tools;
pub mod worker;
