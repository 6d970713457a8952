//! What the host and the agent in an account's machine say to each other.
//!
//! The host is always the HTTP/2 client and the agent the server, over whatever byte stream the machine's
//! driver gives. [`tool`] has the tools and their arguments, [`turn`] the frames of a turn, [`hello`] the
//! first exchange of a connection, [`mcp`] what is said of MCP servers in the machine. A host speaks with agents of its own version and of the one before.

pub mod hello;
pub mod mcp;
pub mod tool;
pub mod turn;

/// The version of this protocol. It rises when a frame changes its meaning.
pub const VERSION: u32 = 1;
