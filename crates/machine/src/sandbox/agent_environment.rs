//! The environment of the agent's program in a machine.

use super::jail_layout::LISTENER;
use super::spec::{MachineLimits, TOOLS_ID};

/// Returns the variables. `memory_counted` is true if the memory of all processes together has a limit.
pub(crate) fn agent_environment(limits: &MachineLimits, memory_counted: bool) -> Vec<String> {
    let MachineLimits {
        memory_bytes,
        processes,
        workspace_bytes,
        file_bytes,
        temporary_bytes,
        cpu_percent: _,
        open_files: _,
    } = limits;
    vec![
        "PATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin".into(),
        "LANG=C.UTF-8".into(),
        "HOME=/tmp".into(),
        format!("CAUSERIE_LISTEN_FD={LISTENER}"),
        format!("CAUSERIE_TOOLS_UID={TOOLS_ID}"),
        format!("CAUSERIE_TOOLS_GID={TOOLS_ID}"),
        "CAUSERIE_WORKSPACE=/workspace".into(),
        "CAUSERIE_INDEX=/index".into(),
        format!("CAUSERIE_MEMORY_BYTES={memory_bytes}"),
        format!("CAUSERIE_MEMORY_COUNTED={}", u8::from(memory_counted)),
        format!("CAUSERIE_PROCESSES={processes}"),
        format!("CAUSERIE_WORKSPACE_BYTES={workspace_bytes}"),
        format!("CAUSERIE_FILE_BYTES={file_bytes}"),
        format!("CAUSERIE_TEMPORARY_BYTES={temporary_bytes}"),
    ]
}
