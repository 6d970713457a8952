//! The drivers `sandbox`, `uml` and `qemu`: run the agent in its own namespaces on the host of the service, on the host's
//! kernel or on the machine's (see [`kernel`]): User Mode Linux, or one in a virtual machine of QEMU.
//!
//! The service starts a machine through a launcher (see [`launch_main`]); the machine then runs without it. The folder
//! `machines/<account>` in the data folder holds the agent's socket, a lock that the machine holds while it runs, the
//! identity by which a later service finds it, the log and the index.

mod agent_environment;
mod boot_files;
mod bridge;
mod carrier;
mod cgroup;
mod cpio;
mod folders;
mod identity;
mod image;
mod init;
mod jail;
mod jail_layout;
mod kernel;
mod kvm;
mod launch;
mod launch_pipe;
mod lease;
mod monitor;
mod own_kernel;
mod privileges;
mod programs;
mod project;
mod qemu;
mod report;
mod root;
mod running;
mod saving;
mod spec;
mod subordinate;
mod sys;
mod template;
mod trial;
mod uml;
mod uml_kernel;

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::id::AccountId;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub use self::boot_files::BootSources;
pub use self::cgroup::LimitsKind;
pub use self::folders::{MachineDetails, MachineFolders, MachineMemory, MemorySource};
pub use self::image::MachineImage;
pub use self::kvm::{open_kvm, try_kvm};
pub use self::launch::launch_main;
pub use self::lease::{LeasePage, SUSPENDED_MAX};
pub use self::own_kernel::{Accelerator, OwnKernel, Qemu};
pub use self::project::{DiskQuota, bound_disk, missing_disk_quota};
pub use self::qemu::find_qemu;
pub use self::running::SandboxMachine;
pub use self::spec::MachineLimits;
pub use self::trial::{TRIAL_TIMEOUT, TrialOutcome, TrialRecord, sweep_trials};
pub use self::uml_kernel::UmlKernel;

use self::cgroup::Cgroups;
use self::folders::{private_folder, public_folder, remove_folder};
use self::spec::{LaunchReport, LaunchTask, REPORT_MAX_BYTES, Spec, UserIds};
use self::template::Template;
use crate::contract::{DriverError, MachineHome};
use crate::documents;
use crate::limits::LimitStatus;

/// The first argument of a program that must run [`launch_main`].
pub const LAUNCH_ARGUMENT: &str = "machine-launch";

/// The maximum duration of a launch, and of one that boots on an emulated processor.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);
const EMULATED_LAUNCH_TIMEOUT: Duration = Duration::from_secs(100);
/// The time between SIGTERM and SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time in which a killed machine must disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between attempts to take the lock of a dying process, and their total duration.
const LOCK_POLL: Duration = Duration::from_millis(10);
const LOCK_POLLS_MAX: u32 = 500;
/// The interval in which a machine checks that its folder exists.
const FOLDER_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The first of the ids on the host that a root service assigns to machines, two for each account.
const IDS_FIRST: u32 = 0x7000_0000;
/// The maximum number of accounts of one root service.
const ORDINALS_MAX: u32 = 0x0400_0000;

/// The configuration of a sandbox driver.
#[derive(Debug, Clone)]
pub struct SandboxConfig {
    /// The folder with a subfolder for each machine.
    pub machines: PathBuf,
    /// The agent's program, unpacked. Everyone may read and execute it.
    pub agent: PathBuf,
    /// The folder of the skills' files, which every machine sees read-only and always current at `/plugins`; created
    /// if it is missing. It must not contain secrets.
    pub plugins: Option<PathBuf>,
    /// A program that runs [`launch_main`] when called with [`LAUNCH_ARGUMENT`]; the service's own.
    pub launcher: PathBuf,
    /// The kernel that each machine boots; `None` runs machines on the host's.
    pub kernel: Option<OwnKernel>,
    /// The system that machines show; `None` shows programs and libraries of the host.
    pub image: Option<MachineImage>,
    /// The limits of each machine.
    pub limits: MachineLimits,
    /// The disk space of an account's workspace and index, where the kernel can enforce it.
    pub disk_quota: Option<DiskQuota>,
    /// The folder on the file system of the workspaces in which a trial briefly creates its folder.
    pub trial_workspaces: PathBuf,
    /// The interval in which a machine checks its folder; it ends when the folder was removed.
    pub folder_check_interval: Duration,
    /// The time for which a machine stays suspended after its service has gone; then it ends. `None` permits machines
    /// to work without a service that extends their [`LeasePage`].
    pub suspended_max: Option<Duration>,
}

impl SandboxConfig {
    /// Creates a configuration in which the running program is its own launcher.
    #[must_use]
    pub fn new(machines: PathBuf, agent: PathBuf) -> Self {
        Self {
            trial_workspaces: machines.clone(),
            machines,
            agent,
            plugins: None,
            kernel: None,
            image: None,
            launcher: PathBuf::from("/proc/self/exe"),
            limits: MachineLimits::default(),
            disk_quota: None,
            folder_check_interval: FOLDER_CHECK_INTERVAL,
            suspended_max: None,
        }
    }
}

#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    /// The description of the machines' kernel, read from the program once.
    kernel_description: Option<String>,
    /// The lock on the image of new machines.
    _image: Option<fs::File>,
    users: Users,
    cgroups: Cgroups,
    /// The saved virtual machine from which others continue.
    template: Mutex<Option<Arc<Template>>>,
}

/// The kernel that a machine runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// The kernel of the host, shared with it.
    Host,
    /// A kernel for each machine, as a process of the host (User Mode Linux).
    UserModeLinux,
    /// A kernel for each machine, in a virtual machine (QEMU).
    Qemu,
}

impl Kernel {
    /// Returns the name of the driver for operators.
    #[must_use]
    pub const fn driver_name(self) -> &'static str {
        match self {
            Self::Host => "sandbox",
            Self::UserModeLinux => "uml",
            Self::Qemu => "qemu",
        }
    }

    /// The driver and the kind of limits, as operators see them.
    #[must_use]
    pub fn describe_driver(self, limits: LimitsKind) -> String {
        format!("{} (limits: {})", self.driver_name(), limits.as_str())
    }

    /// Describes the isolation of a machine on this kernel for operators.
    #[must_use]
    pub const fn describe_isolation(self) -> &'static str {
        match self {
            Self::Host => {
                "a sandbox on the host's kernel: namespaces, a private root, an allowlist of system calls, limits"
            }
            Self::UserModeLinux => {
                "a separate Linux kernel, an unprivileged process inside a sandbox on the host"
            }
            Self::Qemu => "a virtual machine, whose process is unprivileged inside a sandbox on the host",
        }
    }

    /// Returns the name of the index folder in a machine's folder. Each kind of kernel has its own: on the host's
    /// kernel it belongs to the agent's user, otherwise to the user that runs the kernel.
    const fn index_folder_name(self) -> &'static str {
        match self {
            Self::Host => "index",
            Self::UserModeLinux => "index-uml",
            Self::Qemu => "index-qemu",
        }
    }
}

/// The source of the two users of a machine.
#[derive(Debug, Clone, Copy)]
enum Users {
    /// The service is root and assigns ids from its own range.
    Root,
    /// The service is an ordinary user, who is also the tools' user. The agent's user comes from the subordinate ids.
    Ordinary { own: (u32, u32), users: subordinate::Range, groups: subordinate::Range },
}

impl Sandbox {
    /// Prepares the driver: creates the folder of machines, and finds the ids and control groups.
    ///
    /// # Errors
    /// [`DriverError::Refused`] when the service's user cannot have a second user for the tools.
    pub fn open_driver(mut config: SandboxConfig) -> Result<Self, DriverError> {
        for folder in [&config.machines, &config.trial_workspaces] {
            private_folder(folder)?;
        }
        if let Some(plugins) = &config.plugins {
            public_folder(plugins)?;
        }
        let paths = [&mut config.machines, &mut config.trial_workspaces, &mut config.agent];
        for path in paths.into_iter().chain(&mut config.plugins) {
            *path = path
                .canonicalize()
                .map_err(|error| driver_failure(&format!("finding {}", path.display()), error))?;
        }
        let image = config.image.as_ref().map(|image| {
            image.lock_image().map_err(|error| {
                driver_failure(&format!("opening the image {}", image.tree.display()), error)
            })
        });
        let image = image.transpose()?;
        let users = find_users()?;
        let cgroups = Cgroups::find_location();
        cgroups.remove_abandoned();
        let kernel_description = config.kernel.as_ref().map(ToString::to_string);
        Ok(Self { config, kernel_description, _image: image, users, cgroups, template: Mutex::default() })
    }

    /// Returns the kind of kernel that machines run on.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        match &self.config.kernel {
            Some(kernel) => kernel.kernel_kind(),
            None => Kernel::Host,
        }
    }

    /// Describes the machines' kernel: release, path, origin. `None` if they run on the host's.
    #[must_use]
    pub fn kernel_description(&self) -> Option<&str> {
        self.kernel_description.as_deref()
    }

    /// Returns the mechanism of the limits of a machine as a whole.
    #[must_use]
    pub const fn limits_kind(&self) -> LimitsKind {
        self.cgroups.limits_kind()
    }

    /// Lists the limits of machines and the mechanism that enforces each on this host.
    #[must_use]
    pub fn limits_report(&self) -> Vec<LimitStatus> {
        report::list_limits(self.kernel(), &self.cgroups, self.users, self.no_disk_quota().as_deref())
    }

    /// Returns the reason why the kernel does not limit the disk space of accounts; `None` when it does.
    fn no_disk_quota(&self) -> Option<String> {
        match (self.users, self.config.disk_quota) {
            (Users::Ordinary { .. }, _) => Some("only root may set project quotas".to_owned()),
            (Users::Root, None) => Some("no quota is set".to_owned()),
            (Users::Root, Some(_)) => missing_disk_quota(&self.config.machines),
        }
    }

    /// Limits the disk space of the account if the kernel supports it.
    async fn bound_disk(&self, home: &MachineHome, index: &Path) {
        let Some(quota) = self.config.disk_quota.filter(|_| self.no_disk_quota().is_none()) else { return };
        let (ordinal, workspace, index) = (home.ordinal, home.workspace.clone(), index.to_owned());
        let bounding = spawn_blocking(move || bound_disk(ordinal, &workspace, &index, quota)).await;
        if let Err(error) = bounding.map_err(io::Error::other).and_then(|outcome| outcome) {
            tracing::warn!(account = %home.account, %error, "setting the project quota failed");
        }
    }

    /// Starts the account's machine. Dropping the future abandons the start and leaves nothing behind.
    ///
    /// # Errors
    /// [`DriverError::Busy`] when the machine runs already, otherwise the launcher's reason.
    pub async fn start_machine(&self, home: &MachineHome) -> Result<SandboxMachine, DriverError> {
        if home.ordinal >= ORDINALS_MAX {
            return Err(DriverError::Refused("no user ids are left for another account".into()));
        }
        let folder = self.machine_folder(home.account);
        let index = folder.join(self.kernel().index_folder_name());
        private_folder(&folder)?;
        if !index.exists() {
            private_folder(&index)?;
        }
        self.bound_disk(home, &index).await;
        let mut spec = Spec {
            ids: self.user_ids(home.ordinal),
            ..self.launch_spec(LaunchTask::Run, &folder, &index, &home.workspace)
        };
        let cgroups = self.cgroups.create_groups(&group_name(home.account), &spec.host_limits());
        spec.cgroups = cgroups.map_err(|error| driver_failure("making control groups", error))?;
        match self.launch_from_template(&mut spec).await {
            Ok(LaunchReport::Running(identity)) => SandboxMachine::from_identity(&folder, identity)?
                .ok_or_else(|| DriverError::Failed("the machine ended as soon as it had started".into())),
            Ok(other) => Err(unexpected_report(&other)),
            Err(error) => {
                if !matches!(error, DriverError::Busy) {
                    cgroup::remove_groups(&spec.cgroups);
                }
                Err(error)
            }
        }
    }

    /// Returns the account's machine if one runs that this or an earlier service started.
    ///
    /// # Errors
    /// Fails if the machine's folder or the kernel cannot be read.
    pub fn attach_machine(&self, account: AccountId) -> Result<Option<SandboxMachine>, DriverError> {
        self.machine_folders().attach_machine(account)
    }

    /// Returns the accounts whose machines left an identity file, running or not.
    #[must_use]
    pub fn machine_folders(&self) -> MachineFolders {
        MachineFolders::new(self.config.machines.clone())
    }

    /// Stops the account's machine, if any: asks the agent to exit, then kills all processes. Returns when all of
    /// them have ended. May be called at any time, also after an abandoned start.
    ///
    /// # Errors
    /// Fails if a process does not exit.
    pub async fn stop_machine(&self, account: AccountId) -> Result<(), DriverError> {
        self.machine_folders().stop_machine(account).await?;
        // The groups of an abandoned start, and of another configuration.
        cgroup::remove_groups(&self.cgroups.group_folders(&group_name(account)));
        Ok(())
    }

    /// Removes the index of an account whose machine is stopped; the next start reads the whole workspace again.
    ///
    /// # Errors
    /// [`DriverError::Busy`] if the machine runs, or if part of the index is left.
    pub async fn remove_index(&self, account: AccountId) -> Result<(), DriverError> {
        let folder = self.machine_folder(account);
        for kernel in [Kernel::Qemu, Kernel::UserModeLinux, Kernel::Host] {
            let index = folder.join(kernel.index_folder_name());
            if index.exists() {
                self.empty_index(&folder, &index).await?;
                fs::remove_dir(&index).map_err(|error| driver_failure("removing the index", error))?;
            }
        }
        documents::remove_report(&folder)
            .map_err(|error| driver_failure("removing the report of documents", error))
    }

    /// Removes everything that the driver stores for an account with a stopped machine, in particular the index.
    ///
    /// # Errors
    /// Fails if part of it is left.
    pub async fn remove_account(&self, account: AccountId) -> Result<(), DriverError> {
        let folder = self.machine_folder(account);
        let index = folder.join(Kernel::Host.index_folder_name());
        if index.exists() {
            self.empty_index(&folder, &index).await?;
        }
        remove_folder(folder).await.map_err(|error| driver_failure("removing the machine's folder", error))
    }

    /// Empties an index, as the user that it belongs to.
    async fn empty_index(&self, folder: &Path, index: &Path) -> Result<(), DriverError> {
        let owner = fs::metadata(index).map_err(|error| driver_failure("finding the index", error))?;
        let ids = self.user_ids(0);
        let ids = match self.users {
            Users::Root => ids,
            // Files of the service's user need no other user.
            Users::Ordinary { own, .. } if owner.uid() == own.0 => ids,
            Users::Ordinary { .. } => UserIds { agent_uid: owner.uid(), agent_gid: owner.gid(), ..ids },
        };
        let spec = Spec {
            kernel: None,
            image: None,
            ids,
            ..self.launch_spec(LaunchTask::Clear, folder, index, Path::new(""))
        };
        match self.run_launch(&spec).await? {
            LaunchReport::Cleared => Ok(()),
            other => Err(unexpected_report(&other)),
        }
    }

    /// A launch of the machine of that folder, without control groups.
    fn launch_spec(&self, task: LaunchTask, folder: &Path, index: &Path, workspace: &Path) -> Spec {
        Spec {
            task,
            machine: folder.to_owned(),
            workspace: workspace.to_owned(),
            index: index.to_owned(),
            agent: self.config.agent.clone(),
            kernel: self.config.kernel.clone(),
            template: None,
            image: self.config.image.clone(),
            plugins: self.config.plugins.clone(),
            privileged: matches!(self.users, Users::Root),
            ids: self.user_ids(0),
            limits: self.config.limits.clone(),
            cgroups: Vec::new(),
            folder_check_ms: u64::try_from(self.config.folder_check_interval.as_millis()).unwrap_or(u64::MAX),
            lease: self.lease_terms(),
        }
    }

    /// Returns the memory of the account's machine, in bytes.
    pub(crate) async fn machine_memory(&self, account: AccountId) -> Option<u64> {
        let folders = self.machine_folders();
        let details = spawn_blocking(move || folders.machine_details(account)).await.ok()?.ok()?;
        Some(details.memory?.bytes)
    }

    fn machine_folder(&self, account: AccountId) -> PathBuf {
        self.config.machines.join(account.to_string())
    }

    const fn user_ids(&self, ordinal: u32) -> UserIds {
        match self.users {
            Users::Root => {
                let agent = IDS_FIRST + 2 * ordinal;
                UserIds { agent_uid: agent, agent_gid: agent, tools_uid: agent + 1, tools_gid: agent + 1 }
            }
            Users::Ordinary { own: (uid, gid), users, groups } => UserIds {
                agent_uid: users.first + ordinal % users.count,
                agent_gid: groups.first + ordinal % groups.count,
                tools_uid: uid,
                tools_gid: gid,
            },
        }
    }

    /// Runs a launcher to its end. Dropping the future ends it with all processes that it has started.
    async fn run_launch(&self, spec: &Spec) -> Result<LaunchReport, DriverError> {
        self.launch_within(launch_timeout(spec.kernel.as_ref()), spec).await
    }

    /// Runs a launcher within a time limit. A failure leaves none of its processes behind.
    async fn launch_within(&self, limit: Duration, spec: &Spec) -> Result<LaunchReport, DriverError> {
        let text = serde_json::to_vec(spec).map_err(|error| driver_failure("writing the spec", error))?;
        let report = run_launcher(&self.config.launcher, &[], &text, limit).await?;
        if report.is_none() {
            // The kernel frees the lock of a killed process before it ends the rest of its namespace.
            MachineFolders::kill_in(&spec.machine).await?;
        }
        report.ok_or_else(|| DriverError::Failed(format!("the machine was not ready after {limit:.1?}")))
    }
}

/// Returns the maximum duration of a launch.
fn launch_timeout(kernel: Option<&OwnKernel>) -> Duration {
    if kernel.is_some_and(OwnKernel::is_emulated) { EMULATED_LAUNCH_TIMEOUT } else { LAUNCH_TIMEOUT }
}

/// Runs a launcher with this input; returns `None` if it took longer, and was killed. Dropping the future kills it, too.
async fn run_launcher(
    launcher: &Path,
    arguments: &[&OsStr],
    input: &[u8],
    limit: Duration,
) -> Result<Option<LaunchReport>, DriverError> {
    let mut launcher = tokio::process::Command::new(launcher)
        .arg(LAUNCH_ARGUMENT)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| driver_failure("starting the launcher", error))?;
    let group = ProcessGroup::from_launcher(&launcher);
    let (stdin, stdout) = (launcher.stdin.take(), launcher.stdout.take());
    let exchange = async {
        if let Some(mut stdin) = stdin {
            stdin.write_all(input).await?;
        }
        let mut report = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(REPORT_MAX_BYTES as u64).read_to_end(&mut report).await?;
        }
        let status = launcher.wait().await?;
        Ok::<_, io::Error>((report, status))
    };
    let Ok(exchanged) = timeout(limit, exchange).await else { return Ok(None) };
    let (report, status) = exchanged.map_err(|error| driver_failure("running the launcher", error))?;
    group.disarm();
    match serde_json::from_slice(&report) {
        Ok(LaunchReport::Failed { reason }) => Err(DriverError::Failed(reason)),
        Ok(LaunchReport::Busy) => Err(DriverError::Busy),
        Ok(report) if status.success() => Ok(Some(report)),
        Ok(_) => Err(DriverError::Failed("the launcher could not finish".into())),
        Err(_) => Err(DriverError::Failed(format!("the launcher ended without a report: {status}"))),
    }
}

/// Kills a launcher and the processes of its group when dropped; the first process inside dies with them.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The launcher must not have been waited for, so that its number is not reused.
    fn from_launcher(launcher: &tokio::process::Child) -> Self {
        Self(launcher.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0.take() {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns an identifier of these files and their state.
fn files_stamp(files: &[&Path]) -> io::Result<String> {
    let mut stamp = String::new();
    for file in files {
        let metadata = fs::metadata(file)?;
        let (changed, size, inode) = (metadata.ctime_nsec(), metadata.len(), metadata.ino());
        stamp.push_str(&format!("\n{} {inode} {size} {} {changed}", file.display(), metadata.ctime()));
    }
    Ok(stamp)
}

fn group_name(account: AccountId) -> String {
    format!("{}{account}", cgroup::GROUP_PREFIX)
}

fn driver_failure(what: &str, error: impl Into<io::Error>) -> DriverError {
    DriverError::Failed(format!("{what}: {}", error.into()))
}

fn unexpected_report(report: &LaunchReport) -> DriverError {
    DriverError::Failed(format!("the launcher answered something else: {report:?}"))
}

fn find_users() -> Result<Users, DriverError> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if own.0 == 0 {
        let range = subordinate::Range { first: IDS_FIRST, count: 2 * ORDINALS_MAX };
        subordinate::check_free(range).map_err(DriverError::Refused)?;
        return Ok(Users::Root);
    }
    let (users, groups) = subordinate::find_id_ranges(own.0).map_err(DriverError::Refused)?;
    Ok(Users::Ordinary { own, users, groups })
}
