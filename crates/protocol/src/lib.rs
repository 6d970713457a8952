//! The protocol between the host and the agent program in an account's machine.
//!
//! The host is always the HTTP/2 client and the agent the server, over the byte stream of the machine's driver. [`hello`]
//! is the first exchange of a connection, [`session`] runs the calls of an answer, [`tool`] defines the tools and their
//! arguments, [`mcp`] lists the tools of MCP servers in the machine, [`index`] reports the states of documents,
//! [`embedding`] exchanges vectors of passages, [`preview`] shows documents to their owner. A host supports agents of the
//! same version and of the previous one ([`v1`]).

pub mod embedding;
pub mod hello;
pub mod index;
pub mod link;
pub mod mcp;
pub mod preview;
pub mod session;
pub mod tool;
pub mod v1;

/// The version of this protocol. It increases when the meaning of a frame changes.
pub const VERSION: u32 = 2;
