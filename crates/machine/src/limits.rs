//! Limits on the host resources that a machine can use.

/// The mechanism that bounds a machine's use of one resource of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStatus {
    /// The stable name of the resource: `memory`, `kernel_memory`, `processes`, `cpu`, `disk_bytes`,
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
    /// The kernel: the limit cannot be exceeded.
    Kernel,
    /// The agent, which ends processes that exceed the limit: it can be exceeded briefly.
    Watch,
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
