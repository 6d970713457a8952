//! Limits on the host resources that a machine can use.

/// Says of one resource of the host what keeps a machine from taking more than its part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStatus {
    /// The resource, by a name that stays the same: `memory`, `kernel_memory`, `processes`, `cpu`, `disk_bytes`,
    /// `disk_files`, `file_size`, `temporary_files`, `epoll_watches`, `inotify_watches`, `ipc`.
    pub limit: &'static str,
    /// The mechanism that enforces it on this host.
    pub enforced_by: Enforcement,
    /// The mechanism; where it is not the kernel, also the reason and the operator's remedy.
    pub detail: String,
}

/// The mechanism that enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enforcement {
    /// The kernel: the limit cannot be passed.
    Kernel,
    /// The agent, which ends what passes the limit: it can be passed for a moment.
    Watch,
    /// Nobody.
    Nothing,
}

impl Enforcement {
    /// Returns a word for logs and programs: `kernel`, `watch`, `nothing`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Watch => "watch",
            Self::Nothing => "nothing",
        }
    }
}
