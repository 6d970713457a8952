//! The program in the account's machine: it executes tools, reads documents and keeps the index of the workspace.
//! `documents` extracts the text of files, here in worker processes; `search-index` keeps it and ranks its passages.
//!
//! # Where to look
//!
//! - Archives that a program unpacks: `tools/unpack.rs`.
//! - Recognition of scanned pages and of images inside documents: `tools/ocr.rs`.
//! - A file that ends its reader: `tools/library.rs`.
//! - Pictures of pages: `tools/preview.rs` for people, `tools/view.rs` for models.
//! - The system inside a machine with its own kernel: `boot.rs`, `initramfs.rs`, `port.rs`, `memory_group.rs`; MCP servers: `mcp`.

mod agent;
pub mod boot;
pub mod calls;
mod handover;
pub mod init;
pub mod initramfs;
mod link_interface;
pub mod listener;
pub mod mcp;
pub mod memory_group;
pub mod port;
pub mod serve;
pub mod tools;
pub mod worker;
