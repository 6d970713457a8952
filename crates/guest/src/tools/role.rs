//! The roles of the processes that the agent starts from its program.

/// The role of a process that the agent starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ProcessRole {
    /// Handles one request of a tool.
    Worker,
    Command,
    /// Supervises an MCP server.
    Server,
}

impl ProcessRole {
    pub(crate) const ALL: [Self; 3] = [Self::Worker, Self::Command, Self::Server];

    /// Returns the program's first argument.
    pub(crate) const fn program_argument(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Command => "command",
            Self::Server => "server",
        }
    }
}
