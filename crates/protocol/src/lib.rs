//! The protocol between the host and the program in an account's machine.
//!
//! The host is always the HTTP/2 client and the machine's program the server, over whatever byte stream the machine's
//! driver gives. [`hello`] is the first exchange of a connection, [`session`] runs the calls of an answer, [`tool`] has
//! the tools and their arguments, [`mcp`] lists the tools of MCP servers in the machine. A host speaks with programs of
//! its own version and of the one before ([`v1`]).

pub mod hello;
pub mod link;
pub mod mcp;
pub mod session;
pub mod tool;
pub mod v1;

/// The version of this protocol. It rises when a frame changes its meaning.
pub const VERSION: u32 = 2;
