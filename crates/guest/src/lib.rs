//! The agent: its loop, its tools and their documents, in the account's machine.

pub mod documents;
pub mod index;
pub mod init;
pub mod mcp;
pub mod port;
pub mod serve;
pub mod tools;
pub mod turns;
pub mod worker;
