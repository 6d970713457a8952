//! Processes that tests leave behind.

use std::fs;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};

/// Kills the processes that were started on this folder: processes whose command line names it, and machines, whose
/// mount namespace contains a mount from it. The caller is spared. Returns how many there were.
pub fn kill_processes_in_folder(folder: &Path) -> usize {
    let folder = folder.as_os_str().as_encoded_bytes();
    let Ok(processes) = fs::read_dir("/proc") else { return 0 };
    let mut found = 0;
    for process in processes.flatten() {
        let Some(id) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let names_it = ["cmdline", "mountinfo"].iter().any(|file| {
            let content = fs::read(process.path().join(file)).unwrap_or_default();
            content.windows(folder.len()).any(|window| window == folder)
        });
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| names_it && id != std::process::id()) {
            // It may have ended by itself.
            let _ = kill_process(pid, Signal::KILL);
            found += 1;
        }
    }
    found
}
