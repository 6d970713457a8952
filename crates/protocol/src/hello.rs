//! `GET /hello`: who answers at the other end.

use serde::{Deserialize, Serialize};

/// What an agent says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// The protocol version that it speaks: [`crate::VERSION`].
    pub version: u32,
    /// The life of this agent, drawn anew at each start: a UUID.
    pub instance: String,
}
