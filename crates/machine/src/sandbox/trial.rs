//! Trials of a driver: a machine is started, checked and ended; the outcome is stored.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::folders::{MachineFolders, private_folder, remove_folder};
use super::own_kernel::OwnKernel;
use super::spec::{LaunchReport, LaunchTask, Spec};
use super::{
    Kernel, MachineLimits, ORDINALS_MAX, Sandbox, SandboxConfig, files_stamp, identity, launch_timeout,
    unexpected_report,
};
use crate::contract::DriverError;

/// The time in which a virtual machine with KVM must show that it works: about ten times its boot.
pub const TRIAL_TIMEOUT: Duration = Duration::from_secs(4);
/// The age from which a temporary failure is forgotten.
const PASSING_MAX_AGE: Duration = Duration::from_secs(60);
/// The beginnings of the names of the folders that trials have in the machines' folder, for the time of a launch. Those of
/// the first kind also have one beside the workspaces.
const TRIAL: &str = ".trial";
pub(super) const SAVING: &str = ".saving";
/// The maximum number of bytes of a remembered trial, and of a failure in it.
const RECORD_MAX_BYTES: u64 = 64 * 1024;
/// System messages of temporary failures: the disk or the memory was full, or too many processes ran.
const PASSING: [&str; 5] = [
    "No space left on device",
    "Disk quota exceeded",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
    "Too many open files",
];

/// The folders of one trial.
pub(super) struct TrialFolder {
    machine: PathBuf,
    workspace: PathBuf,
    index: PathBuf,
}

impl TrialFolder {
    pub(super) fn new(config: &SandboxConfig, kind: &str) -> Self {
        let kernel = config.kernel.as_ref().map_or(Kernel::Host, OwnKernel::kernel_kind);
        let name = format!("{kind}-{}-{}", kernel.driver_name(), std::process::id());
        let machine = config.machines.join(&name);
        // A saved machine mounts no workspace.
        let workspace = if kind == TRIAL && config.trial_workspaces != config.machines {
            config.trial_workspaces.join(&name)
        } else {
            machine.join("workspace")
        };
        Self { index: machine.join(kernel.index_folder_name()), machine, workspace }
    }

    pub(super) fn create_folders(&self) -> Result<(), DriverError> {
        [&self.machine, &self.workspace, &self.index]
            .into_iter()
            .try_for_each(|folder| private_folder(folder))
    }
}

impl Sandbox {
    /// Saves a machine, if the driver can, and runs the self-test, both within this time on a processor that is not emulated.
    /// A trial leaves nothing behind, regardless of the kernel.
    ///
    /// # Errors
    /// [`DriverError::Refused`] with the feature that the host lacks, or the reason why no kernel boots.
    pub async fn try_out(&self, limit: Duration) -> Result<(), DriverError> {
        let kernel = self.config.kernel.as_ref();
        let limit = if kernel.is_some_and(OwnKernel::is_emulated) { launch_timeout(kernel) } else { limit };
        let ends_at = Instant::now() + limit;
        match self.save_template_within(limit).await {
            Err(error) if Instant::now() >= ends_at => return Err(failure_to_refusal(error)),
            Err(error) => {
                tracing::warn!(%error, "saving a virtual machine failed: each start boots");
            }
            Ok(()) => {}
        }
        self.probe_within(ends_at.saturating_duration_since(Instant::now())).await
    }

    /// Runs a self-test: creates a jail, checks it from inside, and removes it.
    ///
    /// # Errors
    /// [`DriverError::Refused`] with the feature that the kernel lacks.
    pub async fn probe_driver(&self) -> Result<(), DriverError> {
        self.probe_within(launch_timeout(self.config.kernel.as_ref())).await
    }

    async fn probe_within(&self, limit: Duration) -> Result<(), DriverError> {
        let trial = TrialFolder::new(&self.config, TRIAL);
        trial.create_folders()?;
        let mut spec = self.trial_spec(LaunchTask::Check, &trial);
        // If the saved machine does not continue, time for a boot remains.
        let outcome = self.launch_from_template_within([limit / 2, limit], &mut spec).await;
        self.remove_trial(trial).await;
        match outcome {
            Ok(LaunchReport::Checked) => Ok(()),
            Ok(other) => Err(unexpected_report(&other)),
            Err(error) => Err(failure_to_refusal(error)),
        }
    }

    /// A launch of a trial. No account has its ids, because accounts' machines may run meanwhile.
    pub(super) fn trial_spec(&self, task: LaunchTask, trial: &TrialFolder) -> Spec {
        let TrialFolder { machine, workspace, index } = trial;
        Spec { ids: self.user_ids(ORDINALS_MAX - 1), ..self.launch_spec(task, machine, index, workspace) }
    }

    pub(super) async fn remove_trial(&self, trial: TrialFolder) {
        // For an ordinary user, the index of the trial belongs to another user by now.
        let clear = Spec { kernel: None, image: None, ..self.trial_spec(LaunchTask::Clear, &trial) };
        let _ = self.run_launch(&clear).await;
        let _ = fs::remove_dir_all(&trial.workspace);
        // The next start removes leftovers.
        let _ = remove_folder(trial.machine).await;
    }
}

fn failure_to_refusal(error: DriverError) -> DriverError {
    match error {
        DriverError::Failed(reason) => DriverError::Refused(reason),
        other => other,
    }
}

/// Ends leftover machines of earlier services' trials, and removes their folders. No trial of this process may run.
pub async fn sweep_trials(machines: &Path, trial_workspaces: &Path) {
    for folder in trials_in(machines) {
        let swept = match MachineFolders::kill_in(&folder).await {
            Ok(()) => remove_folder(folder.clone()).await.map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match swept {
            Ok(()) => tracing::info!(folder = %folder.display(), "leftover sandbox self-test removed"),
            Err(error) => {
                tracing::warn!(folder = %folder.display(), error, "removing a leftover sandbox self-test failed");
            }
        }
    }
    for folder in trials_in(trial_workspaces) {
        if let Err(error) = fs::remove_dir_all(&folder) {
            tracing::warn!(folder = %folder.display(), %error, "removing a leftover sandbox self-test failed");
        }
    }
}

fn trials_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_trial = |name: &str| {
        [TRIAL, SAVING].iter().any(|kind| name.strip_prefix(kind).is_some_and(|rest| rest.starts_with('-')))
    };
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_trial))
        .map(|entry| entry.path())
        .collect()
}

/// The file that remembers the last trial of a driver, for one state of the host: its boot, the service's user, the programs.
#[derive(Debug, Clone)]
pub struct TrialRecord {
    file: PathBuf,
    stamp: String,
}

/// The outcome of a trial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialOutcome {
    /// The reason why the driver does not work; `None` if it works.
    pub failure: Option<String>,
    /// The time since the trial.
    pub age: Duration,
}

#[derive(Serialize, Deserialize)]
struct StoredTrial {
    stamp: String,
    /// Seconds since 1970.
    tried_at: u64,
    failure: Option<String>,
}

impl TrialRecord {
    /// Names the record of this driver in this folder of machines, for these files of the host and limits.
    ///
    /// # Errors
    /// Fails if one of the files cannot be found.
    pub fn new(machines: &Path, driver: &str, files: &[&Path], limits: &MachineLimits) -> io::Result<Self> {
        let (boot, user) = (identity::boot_id()?, rustix::process::geteuid().as_raw());
        let stamp = format!("{boot} {user} {}{}", limits.memory_bytes, files_stamp(files)?);
        Ok(Self { file: machines.join(format!(".probed-{driver}")), stamp })
    }

    /// Returns the last trial on a host in this state, unless it failed for a temporary reason that has expired.
    #[must_use]
    pub fn last_trial(&self) -> Option<TrialOutcome> {
        self.recall_at(SystemTime::now())
    }

    fn recall_at(&self, now: SystemTime) -> Option<TrialOutcome> {
        let is_bounded = fs::metadata(&self.file).ok()?.len() <= RECORD_MAX_BYTES;
        let text = if is_bounded { fs::read(&self.file).ok()? } else { return None };
        let StoredTrial { stamp, tried_at, failure } = serde_json::from_slice(&text).ok()?;
        // If the clock was set back, the record counts as expired.
        let tried_at = SystemTime::UNIX_EPOCH + Duration::from_secs(tried_at);
        let age = now.duration_since(tried_at).unwrap_or(Duration::MAX);
        let has_passed = failure.as_deref().is_some_and(may_pass) && age >= PASSING_MAX_AGE;
        (stamp == self.stamp && !has_passed).then_some(TrialOutcome { failure, age })
    }

    /// Remembers a trial that has just ended.
    pub fn save_outcome(&self, failure: Option<&str>) {
        self.keep_at(SystemTime::now(), failure);
    }

    fn keep_at(&self, now: SystemTime, failure: Option<&str>) {
        let tried_at = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let record = StoredTrial { stamp: self.stamp.clone(), tried_at, failure: failure.map(str::to_owned) };
        let fresh = self.file.with_extension("new");
        let written = serde_json::to_vec(&record).map_err(io::Error::other);
        let written =
            written.and_then(|text| fs::write(&fresh, text)).and_then(|()| fs::rename(&fresh, &self.file));
        if let Err(error) = written {
            // The next start tries again.
            tracing::debug!(%error, "storing the self-test result of a machine driver failed");
        }
    }
}

/// Returns true if the same trial may succeed on the same host later.
fn may_pass(failure: &str) -> bool {
    PASSING.iter().any(|words| failure.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_record(folder: &Path) -> TrialRecord {
        let program = folder.join("program");
        if !program.exists() {
            fs::write(&program, "1").unwrap();
        }
        TrialRecord::new(folder, "uml", &[&program], &MachineLimits::default()).unwrap()
    }

    fn time_at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
    }

    #[test]
    fn last_trial_returns_saved_outcome() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(open_record(folder.path()).recall_at(time_at(0)), None);
        for failure in [None, Some("the kernel does not boot")] {
            open_record(folder.path()).keep_at(time_at(0), failure);
            let recalled = open_record(folder.path()).recall_at(time_at(86_400)).unwrap();
            assert_eq!(recalled.failure.as_deref(), failure);
            assert_eq!(recalled.age, Duration::from_secs(86_400));
        }
    }

    #[test]
    fn last_trial_requires_same_program_memory() {
        let folder = tempfile::tempdir().unwrap();
        open_record(folder.path()).keep_at(time_at(0), Some("no"));
        let limits = MachineLimits { memory_bytes: 1, ..MachineLimits::default() };
        let program = folder.path().join("program");
        let other = TrialRecord::new(folder.path(), "uml", &[&program], &limits).unwrap();
        assert_eq!(other.recall_at(time_at(1)), None);
        fs::write(&program, "changed").unwrap();
        assert_eq!(open_record(folder.path()).recall_at(time_at(1)), None);
    }

    #[test]
    fn last_trial_forgets_passing_failure_soon() {
        let folder = tempfile::tempdir().unwrap();
        for words in PASSING {
            open_record(folder.path())
                .keep_at(time_at(0), Some(&format!("making a folder: {words} (os error 28)")));
            assert!(open_record(folder.path()).recall_at(time_at(59)).is_some(), "{words}");
            assert_eq!(open_record(folder.path()).recall_at(time_at(60)), None, "{words}");
        }
        let back = SystemTime::UNIX_EPOCH;
        assert_eq!(open_record(folder.path()).recall_at(back), None, "the clock was set back");
    }

    #[test]
    fn last_trial_ignores_damaged_record() {
        let folder = tempfile::tempdir().unwrap();
        let record = open_record(folder.path());
        for text in [String::new(), "{\"stamp\":".to_owned(), " ".repeat(100_000)] {
            fs::write(&record.file, text).unwrap();
            assert_eq!(record.recall_at(time_at(0)), None);
        }
    }

    #[tokio::test]
    async fn sweep_trials_removes_only_trials() {
        let (machines, workspaces) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let make = |folder: &Path, name: &str| {
            fs::create_dir_all(folder.join(name).join("index/x")).unwrap();
            fs::write(folder.join(name).join("lock"), "").unwrap();
        };
        for name in [".trial-12", ".trial-uml-12", ".saving-qemu-1", ".trialled", "account"] {
            make(machines.path(), name);
            let _ = fs::remove_dir(machines.path().join(name).join("index/x"));
            make(workspaces.path(), name);
        }
        sweep_trials(machines.path(), workspaces.path()).await;
        for folder in [&machines, &workspaces] {
            let mut left: Vec<_> =
                fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            left.sort();
            assert_eq!(left, [".trialled", "account"]);
        }
    }
}
