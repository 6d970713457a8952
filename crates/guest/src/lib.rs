//! The program in the account's machine: it executes tools, reads documents and keeps the index of the workspace.

mod agent;
pub mod boot;
pub mod calls;
pub mod documents;
mod handover;
pub mod index;
pub mod init;
pub mod initramfs;
mod link_interface;
pub mod listener;
pub mod mcp;
pub mod port;
pub mod serve;
pub mod tools;
pub mod worker;
