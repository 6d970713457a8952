//! `GET /hello`: identifies the agent of a connection.

use serde::{Deserialize, Serialize};

/// An agent's version and instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// Its protocol version: [`crate::VERSION`].
    pub version: u32,
    /// The agent's instance, a new random UUID at each start.
    pub instance: String,
}
