//! The program in the account's machine: it executes tools, reads documents and keeps the index of the workspace.
//!
//! # Where to look
//!
//! - The time of indexing and the states of files: `index/activity.rs`, `index/states.rs`; reports are in `protocol`.
//! - Results of a search: `index/candidates.rs`, `index/rank.rs`, `index/answer.rs`; vectors: `index/vectors.rs`.
//! - Damage of the index: `index/integrity.rs`.
//! - Files inside archives: `documents/archived_files.rs`, `documents/container.rs`; those that a program unpacks:
//!   `documents/unpacked.rs`; messages: `documents/mail.rs`; signed files: `documents/signed.rs`.
//! - Images inside documents: `documents/embedded_images.rs`, `documents/pdf_images.rs`, `index/images.rs`;
//!   recognition: `tools/ocr.rs`.
//! - A file that ends its reader: `tools/library.rs`.
//! - Pictures of pages: `tools/preview.rs` for people, `tools/view.rs` for models.
//! - The system inside a machine with its own kernel: `boot.rs`, `initramfs.rs`, `port.rs`; MCP servers: `mcp`.

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
