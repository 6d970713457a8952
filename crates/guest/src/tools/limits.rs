//! The limits of tools, as configured by the machine's driver.

use std::path::PathBuf;
use std::str::FromStr;

use protocol::tool::WORKSPACE;
use search_index::DocumentLibrary;

use super::{Readers, Recognition, Spares};

/// The limits of tools and the folders that they work in.
#[derive(Debug, Clone)]
pub struct ToolLimits {
    /// The memory of each process, in bytes.
    pub memory_bytes: u64,
    /// True if a control group limits the memory of all processes together.
    pub memory_counted: bool,
    /// The number of processes and threads of the tools' user, over all calls.
    pub processes: u64,
    /// The number of sockets that commands may open together where no control group counts memory; each may hold
    /// some hundred KiB of kernel memory. Counts the sockets of the machine's network namespace.
    pub sockets: u64,
    /// The maximum time of a command, in seconds; a call may set a shorter one.
    pub shell_seconds: u32,
    /// The maximum size of the workspace, in bytes.
    pub workspace_bytes: u64,
    /// The largest file that a tool may write, in bytes.
    pub file_bytes: u64,
    /// The space on the workspace's disk that must stay free, in bytes.
    pub disk_free_floor_bytes: u64,
    /// The user and group of tools. `None` runs them as the agent's user, for tests and hosts without alternatives.
    pub tools_user: Option<(u32, u32)>,
    /// The folder of the workspace.
    pub workspace: PathBuf,
    /// The folder of temporary files.
    pub temp: PathBuf,
    /// The index for `search`.
    pub library: Option<DocumentLibrary>,
    /// The agent's program, which workers execute; `/proc/self/exe` by default.
    pub program: Option<PathBuf>,
    /// The processes that wait for a call.
    pub spares: Spares,
    /// The processes that read documents for the index.
    pub readers: Readers,
    /// The text recognition of the machine.
    pub recognition: Recognition,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            memory_counted: false,
            processes: 256,
            sockets: 2048,
            shell_seconds: 600,
            workspace_bytes: 10 << 30,
            file_bytes: 2 << 30,
            disk_free_floor_bytes: 512 << 20,
            tools_user: None,
            workspace: PathBuf::from(WORKSPACE),
            temp: PathBuf::from("/tmp"),
            library: None,
            program: None,
            spares: Spares::default(),
            readers: Readers::default(),
            recognition: Recognition::default(),
        }
    }
}

impl ToolLimits {
    /// Reads the limits from the environment that the machine's driver set, each with a default:
    /// `CAUSERIE_TOOLS_UID` and `CAUSERIE_TOOLS_GID`, `CAUSERIE_WORKSPACE`, `CAUSERIE_INDEX`,
    /// `CAUSERIE_MEMORY_BYTES`, `CAUSERIE_MEMORY_COUNTED` (1 or 0), `CAUSERIE_PROCESSES`,
    /// `CAUSERIE_WORKSPACE_BYTES`, `CAUSERIE_FILE_BYTES`, `CAUSERIE_DISK_FREE_BYTES`, `CAUSERIE_SHELL_SECONDS`.
    #[must_use]
    pub fn from_environment() -> Self {
        let default = Self::default();
        let workspace = env_text("CAUSERIE_WORKSPACE").map_or(default.workspace, PathBuf::from);
        let user = env_value("CAUSERIE_TOOLS_UID").zip(env_value("CAUSERIE_TOOLS_GID"));
        let library =
            env_text("CAUSERIE_INDEX").map(|index| DocumentLibrary::new(&workspace, index.as_ref()));
        Self {
            memory_bytes: env_value("CAUSERIE_MEMORY_BYTES").unwrap_or(default.memory_bytes),
            memory_counted: env_value("CAUSERIE_MEMORY_COUNTED")
                .map_or(default.memory_counted, |counted: u8| counted == 1),
            processes: env_value("CAUSERIE_PROCESSES").unwrap_or(default.processes),
            sockets: default.sockets,
            shell_seconds: env_value("CAUSERIE_SHELL_SECONDS").unwrap_or(default.shell_seconds),
            workspace_bytes: env_value("CAUSERIE_WORKSPACE_BYTES").unwrap_or(default.workspace_bytes),
            file_bytes: env_value("CAUSERIE_FILE_BYTES").unwrap_or(default.file_bytes),
            disk_free_floor_bytes: env_value("CAUSERIE_DISK_FREE_BYTES")
                .unwrap_or(default.disk_free_floor_bytes),
            tools_user: user,
            workspace,
            temp: default.temp,
            library,
            program: None,
            spares: Spares::default(),
            readers: Readers::default(),
            recognition: Recognition::default(),
        }
    }
}

fn env_text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

fn env_value<T: FromStr>(name: &str) -> Option<T> {
    env_text(name)?.parse().ok()
}
