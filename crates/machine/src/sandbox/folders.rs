//! The folders of machines, from which a machine is found and stopped with and without a service.

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use domain::id::AccountId;
use domain::machine::ChangeReason;
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::cgroup;
use super::spec::{LOCK, LOG, MachineIdentity, REASON, SOCKET, STATE};
use super::{
    KILL_TIMEOUT, Kernel, LOCK_POLL, LOCK_POLLS_MAX, LimitsKind, SandboxMachine, TERM_TIMEOUT, driver_failure,
};
use crate::contract::DriverError;

/// The maximum number of bytes of a machine's log that are read: more than it grows to.
const LOG_READ_MAX_BYTES: u64 = 1024 * 1024 + 64 * 1024;

/// The folder that holds a folder for each machine. Cheap to clone.
#[derive(Debug, Clone)]
pub struct MachineFolders {
    pub(super) machines: PathBuf,
}

/// The host's data about a machine.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MachineDetails {
    /// The kernel that the machine runs on and the kind of its limits; `None` if no machine runs.
    pub driver: Option<(Kernel, LimitsKind)>,
    /// The host's numbers of its processes; empty if no machine runs.
    pub pids: Vec<i32>,
    /// The time of its start.
    pub started_at: Option<SystemTime>,
    /// The memory of its processes.
    pub memory: Option<MachineMemory>,
    /// The path of its log, which may not exist.
    pub log: PathBuf,
}

/// The memory of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineMemory {
    pub bytes: u64,
    pub source: MemorySource,
}

/// The origin of a figure of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemorySource {
    /// The control group of the machine.
    ControlGroup,
    /// The sum of the proportional shares of its processes.
    ProportionalShares,
    /// The sum of the resident pages of its processes; shared pages are counted more than once.
    ResidentPages,
}

impl MemorySource {
    /// Returns the word for operators.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ControlGroup => "cgroup",
            Self::ProportionalShares => "pss",
            Self::ResidentPages => "rss",
        }
    }
}

/// The number of lines at the end of a log that are searched for a kernel's panic.
const PANIC_LINES_MAX: usize = 100;

impl MachineFolders {
    /// Names the folder that holds a folder for each machine; it need not exist.
    #[must_use]
    pub const fn new(machines: PathBuf) -> Self {
        Self { machines }
    }

    /// Returns the accounts that have a folder, with or without a machine.
    #[must_use]
    pub fn list_accounts(&self) -> Vec<AccountId> {
        let folders = fs::read_dir(&self.machines).into_iter().flatten().flatten();
        folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    }

    /// Returns the accounts whose machines left an identity behind, running or not.
    #[must_use]
    pub fn left_over(&self) -> Vec<AccountId> {
        let mut accounts = self.list_accounts();
        accounts.retain(|account| self.machine_folder(*account).join(STATE).exists());
        accounts
    }

    /// Returns the account's machine, if one runs.
    ///
    /// # Errors
    /// Fails if the machine's folder or the kernel cannot be read.
    pub fn attach_machine(&self, account: AccountId) -> Result<Option<SandboxMachine>, DriverError> {
        let folder = self.machine_folder(account);
        match read_identity(&folder)? {
            Some(identity) => SandboxMachine::from_identity(&folder, identity),
            None => Ok(None),
        }
    }

    /// Returns the host's data about the account's machine.
    ///
    /// # Errors
    /// Fails if the machine's folder or the kernel cannot be read.
    pub fn machine_details(&self, account: AccountId) -> Result<MachineDetails, DriverError> {
        let folder = self.machine_folder(account);
        let log = folder.join(LOG);
        let Some(identity) = read_identity(&folder)? else {
            return Ok(MachineDetails { log, ..MachineDetails::default() });
        };
        let Some(machine) = SandboxMachine::from_identity(&folder, identity.clone())? else {
            return Ok(MachineDetails { log, ..MachineDetails::default() });
        };
        let pids = machine
            .list_processes()
            .map_err(|error| driver_failure("listing the machine's processes", error))?;
        let kind = match identity.cgroups.len() {
            0 => LimitsKind::Rlimit,
            1 => LimitsKind::Cgroup2,
            _ => LimitsKind::Cgroup1,
        };
        Ok(MachineDetails {
            driver: identity.kernel.map(|kernel| (kernel, kind)),
            // The identity is written once, at the start.
            started_at: fs::metadata(folder.join(STATE)).and_then(|metadata| metadata.modified()).ok(),
            memory: measure_memory(&identity, &pids),
            pids,
            log,
        })
    }

    /// Returns the end of the machine's log, which may hold any bytes; empty if it is missing.
    ///
    /// # Errors
    /// Fails if it cannot be read.
    pub fn read_log(&self, account: AccountId) -> io::Result<Vec<u8>> {
        let mut log = match fs::File::open(self.machine_folder(account).join(LOG)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            opened => opened?,
        };
        let length = log.metadata()?.len();
        log.seek(SeekFrom::Start(length.saturating_sub(LOG_READ_MAX_BYTES)))?;
        let mut read = Vec::new();
        log.take(LOG_READ_MAX_BYTES).read_to_end(&mut read)?;
        Ok(read)
    }

    /// Returns the last line of the machine's log, in which a kernel or an agent reports why it ended; `None` if the log
    /// is empty. Without control characters, because a tool may have written it.
    #[must_use]
    pub fn last_words(&self, account: AccountId) -> Option<String> {
        const SHOWN_MAX: usize = 200;
        let log = self.read_log(account).ok()?;
        let log = String::from_utf8_lossy(&log);
        let panic =
            log.lines().rev().take(PANIC_LINES_MAX).find_map(|line| line.split_once("Kernel panic - "));
        let line = panic
            .map(|(_, words)| words)
            .or_else(|| log.lines().rev().find(|line| !line.trim().is_empty()))?;
        Some(line.trim().chars().filter(|letter| !letter.is_control()).take(SHOWN_MAX).collect())
    }

    /// Remembers the reason of the last change of the machine's state, for [`Self::last_change_reason`].
    ///
    /// # Errors
    /// Fails if it cannot be written.
    pub fn keep_reason(&self, account: AccountId, reason: &ChangeReason) -> io::Result<()> {
        let folder = self.machine_folder(account);
        let fresh = folder.join(format!("{REASON}.new"));
        fs::write(&fresh, reason.to_string())?;
        fs::rename(fresh, folder.join(REASON))
    }

    /// Returns the reason of the last change of the machine's state; `None` if its state never changed.
    #[must_use]
    pub fn last_change_reason(&self, account: AccountId) -> Option<ChangeReason> {
        fs::read_to_string(self.machine_folder(account).join(REASON))
            .ok()
            .map(|text| ChangeReason::parse(&text))
    }

    /// Stops the account's machine, if any: asks the agent to end, then kills all processes. Returns when none of them is
    /// left.
    ///
    /// # Errors
    /// Fails if one of its processes does not exit.
    pub async fn stop_machine(&self, account: AccountId) -> Result<(), DriverError> {
        let folder = self.machine_folder(account);
        let identity = read_identity(&folder)?;
        if let Some(machine) = self.attach_machine(account)? {
            machine.send_signal(Signal::TERM)?;
            if timeout(TERM_TIMEOUT, machine.wait_until_ended()).await.is_err() {
                machine.send_signal(Signal::KILL)?;
                timeout(KILL_TIMEOUT, machine.wait_until_ended())
                    .await
                    .map_err(|_| DriverError::Failed("the machine's processes do not exit".into()))?;
            }
        }
        wait_until_unlocked(&folder).await?;
        // The groups of another configuration.
        if let Some(identity) = identity {
            cgroup::remove_groups(&identity.cgroups);
        }
        for name in [STATE, SOCKET] {
            match fs::remove_file(folder.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(driver_failure("clearing up", error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Kills the machine of a trial that an earlier service has left in this folder, if any.
    ///
    /// # Errors
    /// Fails if one of its processes does not exit.
    pub(super) async fn kill_in(folder: &Path) -> Result<(), DriverError> {
        if let Some(identity) = read_identity(folder)?
            && let Some(machine) = SandboxMachine::from_identity(folder, identity)?
        {
            machine.send_signal(Signal::KILL)?;
            // The lock is free only then.
            let _ = timeout(KILL_TIMEOUT, machine.wait_until_ended()).await;
        }
        wait_until_unlocked(folder).await
    }

    pub(crate) fn machine_folder(&self, account: AccountId) -> PathBuf {
        self.machines.join(account.to_string())
    }
}

fn measure_memory(identity: &MachineIdentity, pids: &[i32]) -> Option<MachineMemory> {
    if let Some(bytes) = identity.cgroups.iter().find_map(|group| cgroup::group_memory(group)) {
        return Some(MachineMemory { bytes, source: MemorySource::ControlGroup });
    }
    let shares: Option<Vec<u64>> =
        pids.iter().map(|pid| read_proc_bytes(*pid, "smaps_rollup", "Pss:")).collect();
    if let Some(shares) = shares {
        return Some(MachineMemory { bytes: shares.iter().sum(), source: MemorySource::ProportionalShares });
    }
    let bytes = pids.iter().filter_map(|pid| read_proc_bytes(*pid, "status", "VmRSS:")).sum();
    Some(MachineMemory { bytes, source: MemorySource::ResidentPages })
}

/// Returns the bytes of a figure that the kernel gives for a process in units of 1,024.
fn read_proc_bytes(pid: i32, file: &str, name: &str) -> Option<u64> {
    let figures = fs::read_to_string(format!("/proc/{pid}/{file}")).ok()?;
    let line = figures.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok()?.checked_mul(1024)
}

fn read_identity(folder: &Path) -> Result<Option<MachineIdentity>, DriverError> {
    match fs::read(folder.join(STATE)) {
        // An unreadable identity names no process; the lock still guards against a second machine.
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(driver_failure("reading the machine's identity", error)),
    }
}

/// Waits until no process holds the machine's lock: by then, the processes of an abandoned start have ended too.
pub(super) async fn wait_until_unlocked(folder: &Path) -> Result<(), DriverError> {
    let lock = match fs::File::open(folder.join(LOCK)) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(driver_failure("opening the machine's lock", error)),
    };
    for _ in 0..LOCK_POLLS_MAX {
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::WOULDBLOCK) => sleep(LOCK_POLL).await,
            Err(error) => return Err(driver_failure("trying the machine's lock", error)),
        }
    }
    Err(DriverError::Failed("the machine is locked by another process".into()))
}

/// Creates a folder that only the service may read, and takes it from others if it exists.
pub(super) fn private_folder(path: &Path) -> Result<(), DriverError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .map_err(|error| driver_failure(&format!("making {}", path.display()), error))
}

/// Creates a folder that machines' users may read, unless it exists.
pub(super) fn public_folder(path: &Path) -> Result<(), DriverError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = fs::create_dir_all(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| driver_failure(&format!("making {}", path.display()), error))
}

/// Removes a machine's folder, whose index is already empty. The index may belong to the agent's user, so that no
/// other user can read it.
pub(super) async fn remove_folder(folder: PathBuf) -> io::Result<()> {
    let gone = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    let removing = spawn_blocking(move || {
        gone(fs::remove_dir(folder.join(Kernel::Host.index_folder_name())))?;
        gone(fs::remove_dir_all(folder))
    });
    removing.await.map_err(io::Error::other)?
}
