//! The drivers `sandbox`, `uml` and `qemu`: run the agent in its own namespaces on the host of the service, on the host's
//! kernel or on a kernel of its own (see [`kernel`]): User Mode Linux, or one in a virtual machine of QEMU.
//!
//! The service starts a machine through a launcher (see [`launch_main`]); the machine then runs without it. The folder
//! `machines/<account>` in the data folder holds the agent's socket, a lock that the machine holds while it runs, the
//! identity by which a later service finds it, the log and the index.

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
mod kernel;
mod kvm;
mod launch;
mod lease;
mod monitor;
mod privileges;
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
mod uml;
mod uml_kernel;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use domain::id::AccountId;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

pub use self::boot_files::BootSources;
pub use self::cgroup::LimitsKind;
pub use self::folders::{MachineDetails, MachineFolders, Memory, MemorySource};
pub use self::image::Image;
pub use self::kernel::OwnKernel;
pub use self::kvm::try_kvm;
pub use self::launch::launch_main;
pub use self::lease::{LeasePage, SUSPENDED_MAX};
pub use self::project::{DiskQuota, bound_disk, missing_disk_quota};
pub use self::qemu::{Accelerator, Qemu, find_qemu};
pub use self::running::SandboxMachine;
pub use self::spec::Limits;
pub use self::uml_kernel::UmlKernel;

use self::cgroup::Cgroups;
use self::spec::{REPORT_MAX_BYTES, Report, Spec, Task, UserIds};
use self::template::Template;
use crate::contract::{DriverError, Home};
use crate::documents;
use crate::limits::LimitStatus;

/// The first argument of a program that is to run [`launch_main`].
pub const LAUNCH_ARGUMENT: &str = "machine-launch";

/// The maximum duration of a launch, and of one that boots on an emulated processor.
const LAUNCH_TIMEOUT: Duration = Duration::from_secs(10);
const EMULATED_LAUNCH_TIMEOUT: Duration = Duration::from_secs(100);
/// The time between SIGTERM and SIGKILL.
const TERM_TIMEOUT: Duration = Duration::from_secs(2);
/// The maximum time for a killed machine to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval between attempts to take the lock of a dying process, and their total duration.
const LOCK_POLL: Duration = Duration::from_millis(10);
const LOCK_POLLS_MAX: u32 = 500;
/// The interval in which a machine looks whether its folder is still there.
const FOLDER_CHECK_INTERVAL: Duration = Duration::from_secs(60);
/// The file with the result of the last successful self-test.
const PROBED: &str = ".probed";
/// The first of the ids on the host that a root service assigns to machines, two for each account.
const IDS_FIRST: u32 = 0x7000_0000;
/// The most accounts of one root service.
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
    /// The kernel of its own on which each machine runs; `None` runs them on the host's.
    pub kernel: Option<OwnKernel>,
    /// The system that machines show; `None` shows programs and libraries of the host.
    pub image: Option<Image>,
    /// The limits of each machine.
    pub limits: Limits,
    /// The disk space of an account's workspace and index, where the kernel can enforce it.
    pub disk_quota: Option<DiskQuota>,
    /// The interval in which a machine looks whether its folder is still there; it ends when the folder is gone.
    pub folder_check_interval: Duration,
    /// The time for which a machine stays suspended after its service has gone; then it ends. `None` lets machines work
    /// without a service that moves their [`LeasePage`].
    pub suspended_max: Option<Duration>,
}

impl SandboxConfig {
    /// Creates a configuration in which the running program is its own launcher.
    #[must_use]
    pub fn new(machines: PathBuf, agent: PathBuf) -> Self {
        Self {
            machines,
            agent,
            plugins: None,
            kernel: None,
            image: None,
            launcher: PathBuf::from("/proc/self/exe"),
            limits: Limits::default(),
            disk_quota: None,
            folder_check_interval: FOLDER_CHECK_INTERVAL,
            suspended_max: None,
        }
    }
}

/// The sandbox driver.
#[derive(Debug)]
pub struct Sandbox {
    config: SandboxConfig,
    /// The machines' own kernel in words; it is read from the program once.
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
    pub fn described(self, limits: LimitsKind) -> String {
        format!("{} (limits: {})", self.driver_name(), limits.as_str())
    }

    /// How a machine on this kernel is isolated, in words for operators.
    #[must_use]
    pub const fn isolation(self) -> &'static str {
        match self {
            Self::Host => {
                "a sandbox on the host's kernel: namespaces, a private root, an allowlist of system calls, limits"
            }
            Self::UserModeLinux => {
                "a Linux kernel of its own, an unprivileged process inside a sandbox on the host"
            }
            Self::Qemu => "a virtual machine, whose process is unprivileged inside a sandbox on the host",
        }
    }

    /// Returns the name of the index folder in a machine's folder. Each kind of kernel has its own: on the host's
    /// kernel it belongs to the agent's user, otherwise to the user that runs the kernel.
    const fn index(self) -> &'static str {
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
    pub fn open(mut config: SandboxConfig) -> Result<Self, DriverError> {
        private_folder(&config.machines)?;
        if let Some(plugins) = &config.plugins {
            public_folder(plugins)?;
        }
        for path in [&mut config.machines, &mut config.agent].into_iter().chain(&mut config.plugins) {
            *path =
                path.canonicalize().map_err(|error| failed(&format!("finding {}", path.display()), error))?;
        }
        let image = config.image.as_ref().map(|image| {
            image
                .hold()
                .map_err(|error| failed(&format!("opening the image {}", image.tree.display()), error))
        });
        let image = image.transpose()?;
        let users = find_users()?;
        let cgroups = Cgroups::find();
        cgroups.remove_abandoned();
        let kernel_description = config.kernel.as_ref().map(ToString::to_string);
        Ok(Self { config, kernel_description, _image: image, users, cgroups, template: Mutex::default() })
    }

    /// Returns the kind of kernel that machines run on.
    #[must_use]
    pub const fn kernel(&self) -> Kernel {
        match &self.config.kernel {
            Some(kernel) => kernel.kind(),
            None => Kernel::Host,
        }
    }

    /// Describes the machines' own kernel: release, path, origin. `None` if they run on the host's.
    #[must_use]
    pub fn kernel_description(&self) -> Option<&str> {
        self.kernel_description.as_deref()
    }

    /// Returns the mechanism of the limits of a machine as a whole.
    #[must_use]
    pub const fn limits_kind(&self) -> LimitsKind {
        self.cgroups.kind()
    }

    /// Lists the limits of machines and the mechanism that enforces each on this host.
    #[must_use]
    pub fn limits_report(&self) -> Vec<LimitStatus> {
        report::limits(self.kernel(), &self.cgroups, self.users, self.no_disk_quota().as_deref())
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
    async fn bound_disk(&self, home: &Home, index: &Path) {
        let Some(quota) = self.config.disk_quota.filter(|_| self.no_disk_quota().is_none()) else { return };
        let (ordinal, workspace, index) = (home.ordinal, home.workspace.clone(), index.to_owned());
        let bounding = spawn_blocking(move || bound_disk(ordinal, &workspace, &index, quota)).await;
        if let Err(error) = bounding.map_err(io::Error::other).and_then(|outcome| outcome) {
            tracing::warn!(account = %home.account, %error, "project quota not set");
        }
    }

    /// Runs [`Self::probe`] unless it has succeeded before with the same boot of the host, kernel, agent and user.
    /// Booting a kernel takes some tenths of a second.
    ///
    /// # Errors
    /// As [`Self::probe`].
    pub async fn probe_once(&self) -> Result<(), DriverError> {
        let Some(kernel) = &self.config.kernel else { return self.probe().await };
        let image = self.config.image.as_ref().map(|image| image.lock.as_path());
        let programs: Vec<&Path> =
            kernel.programs().into_iter().chain([&*self.config.agent]).chain(image).collect();
        let stamp = probe_stamp(kernel, &programs);
        let stamp = stamp.map_err(|error| failed("reading the kernel and the agent", error))?;
        let remembered = self.config.machines.join(format!("{PROBED}-{}", kernel.kind().driver_name()));
        if fs::read_to_string(&remembered).is_ok_and(|text| text == stamp) {
            return Ok(());
        }
        self.probe().await?;
        // If this fails, the next start runs the self-test again.
        let _ = fs::write(&remembered, stamp);
        Ok(())
    }

    /// Runs a self-test: creates a jail, checks it from inside, and removes it.
    ///
    /// # Errors
    /// [`DriverError::Refused`] with the feature that the kernel lacks.
    pub async fn probe(&self) -> Result<(), DriverError> {
        let trial = self.config.machines.join(format!(".trial-{}", std::process::id()));
        let (workspace, index) = (trial.join("workspace"), trial.join(self.kernel().index()));
        for folder in [&trial, &workspace, &index] {
            private_folder(folder)?;
        }
        let spec = |task| self.spec(task, &trial, &index, &workspace);
        let outcome = self.launch_from_template(&mut spec(Task::Check)).await;
        // For an ordinary user, the index of the self-test belongs to another user by now.
        let _ = self.launch(&spec(Task::Clear)).await;
        let _ = remove_folder(trial).await;
        match outcome {
            Ok(Report::Checked) => Ok(()),
            Ok(other) => Err(unexpected(&other)),
            Err(DriverError::Failed(reason)) => Err(DriverError::Refused(reason)),
            Err(error) => Err(error),
        }
    }

    /// Starts the account's machine. Dropping the future abandons the start and leaves nothing behind.
    ///
    /// # Errors
    /// [`DriverError::Busy`] when the machine runs already, otherwise the launcher's reason.
    pub async fn start(&self, home: &Home) -> Result<SandboxMachine, DriverError> {
        if home.ordinal >= ORDINALS_MAX {
            return Err(DriverError::Refused("there are no more ids for this many accounts".into()));
        }
        let folder = self.folder(home.account);
        let index = folder.join(self.kernel().index());
        private_folder(&folder)?;
        if !index.exists() {
            private_folder(&index)?;
        }
        self.bound_disk(home, &index).await;
        let mut spec =
            Spec { ids: self.ids(home.ordinal), ..self.spec(Task::Run, &folder, &index, &home.workspace) };
        let cgroups = self.cgroups.make(&group_name(home.account), &spec.host_limits());
        spec.cgroups = cgroups.map_err(|error| failed("making control groups", error))?;
        match self.launch_from_template(&mut spec).await {
            Ok(Report::Running(identity)) => SandboxMachine::open(&folder, identity)?
                .ok_or_else(|| DriverError::Failed("the machine ended as soon as it had started".into())),
            Ok(other) => Err(unexpected(&other)),
            Err(error) => {
                if !matches!(error, DriverError::Busy) {
                    cgroup::remove(&spec.cgroups);
                }
                Err(error)
            }
        }
    }

    /// Returns the account's machine if one runs that this or an earlier service started.
    ///
    /// # Errors
    /// When the machine's folder or the kernel cannot be read.
    pub fn attach(&self, account: AccountId) -> Result<Option<SandboxMachine>, DriverError> {
        self.folders().attach(account)
    }

    /// Returns the accounts whose machines left an identity file, running or not.
    #[must_use]
    pub fn folders(&self) -> MachineFolders {
        MachineFolders::new(self.config.machines.clone())
    }

    /// Stops the account's machine if there is one: asks the agent to exit, then kills all processes. Returns when
    /// all of them are gone. May be called at any time, also after an abandoned start.
    ///
    /// # Errors
    /// When a process does not exit.
    pub async fn stop(&self, account: AccountId) -> Result<(), DriverError> {
        self.folders().stop(account).await?;
        // The groups of an abandoned start, and those of another configuration.
        cgroup::remove(&self.cgroups.folders(&group_name(account)));
        Ok(())
    }

    /// Removes the index of an account whose machine is stopped; the next start reads the workspace anew.
    ///
    /// # Errors
    /// [`DriverError::Busy`] if the machine runs, or when something of the index is left.
    pub async fn reset(&self, account: AccountId) -> Result<(), DriverError> {
        let folder = self.folder(account);
        for kernel in [Kernel::Qemu, Kernel::UserModeLinux, Kernel::Host] {
            let index = folder.join(kernel.index());
            if index.exists() {
                self.clear(&folder, &index).await?;
                fs::remove_dir(&index).map_err(|error| failed("removing the index", error))?;
            }
        }
        documents::remove(&folder).map_err(|error| failed("removing the report of documents", error))
    }

    /// Removes everything that the driver stores for an account with a stopped machine, in particular the index.
    ///
    /// # Errors
    /// When something of it is left.
    pub async fn remove(&self, account: AccountId) -> Result<(), DriverError> {
        let folder = self.folder(account);
        let index = folder.join(Kernel::Host.index());
        if index.exists() {
            self.clear(&folder, &index).await?;
        }
        remove_folder(folder).await.map_err(|error| failed("removing the machine's folder", error))
    }

    /// Empties an index, as the user that it belongs to.
    async fn clear(&self, folder: &Path, index: &Path) -> Result<(), DriverError> {
        let owner = fs::metadata(index).map_err(|error| failed("finding the index", error))?;
        let ids = self.ids(0);
        let ids = match self.users {
            Users::Root => ids,
            // Files of the service's own user need no other one.
            Users::Ordinary { own, .. } if owner.uid() == own.0 => ids,
            Users::Ordinary { .. } => UserIds { agent_uid: owner.uid(), agent_gid: owner.gid(), ..ids },
        };
        let spec =
            Spec { kernel: None, image: None, ids, ..self.spec(Task::Clear, folder, index, Path::new("")) };
        match self.launch(&spec).await? {
            Report::Cleared => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    /// A launch of the machine of that folder, without control groups.
    fn spec(&self, task: Task, folder: &Path, index: &Path, workspace: &Path) -> Spec {
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
            ids: self.ids(0),
            limits: self.config.limits.clone(),
            cgroups: Vec::new(),
            folder_check_ms: u64::try_from(self.config.folder_check_interval.as_millis()).unwrap_or(u64::MAX),
            lease: self.lease_terms(),
        }
    }

    /// Returns the memory of the account's machine, in bytes.
    pub(crate) async fn memory(&self, account: AccountId) -> Option<u64> {
        let folders = self.folders();
        let details = spawn_blocking(move || folders.details(account)).await.ok()?.ok()?;
        Some(details.memory?.bytes)
    }

    fn folder(&self, account: AccountId) -> PathBuf {
        self.config.machines.join(account.to_string())
    }

    const fn ids(&self, ordinal: u32) -> UserIds {
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

    /// Runs a launcher to its end. Dropping the future kills it.
    async fn launch(&self, spec: &Spec) -> Result<Report, DriverError> {
        let text = serde_json::to_vec(spec).map_err(|error| failed("writing the spec", error))?;
        let mut launcher = tokio::process::Command::new(&self.config.launcher)
            .arg(OsString::from(LAUNCH_ARGUMENT))
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| failed("starting the launcher", error))?;
        let (input, output) = (launcher.stdin.take(), launcher.stdout.take());
        let exchange = async {
            if let Some(mut input) = input {
                input.write_all(&text).await?;
            }
            let mut report = Vec::new();
            if let Some(output) = output {
                output.take(REPORT_MAX_BYTES as u64).read_to_end(&mut report).await?;
            }
            let status = launcher.wait().await?;
            Ok::<_, io::Error>((report, status))
        };
        let limit = if spec.kernel.as_ref().is_some_and(OwnKernel::is_emulated) {
            EMULATED_LAUNCH_TIMEOUT
        } else {
            LAUNCH_TIMEOUT
        };
        let (report, status) = timeout(limit, exchange)
            .await
            .map_err(|_| DriverError::Failed("the launcher took too long".into()))?
            .map_err(|error| failed("running the launcher", error))?;
        match serde_json::from_slice(&report) {
            Ok(Report::Failed { reason }) => Err(DriverError::Failed(reason)),
            Ok(Report::Busy) => Err(DriverError::Busy),
            Ok(report) if status.success() => Ok(report),
            Ok(_) => Err(DriverError::Failed("the launcher could not finish".into())),
            Err(_) => Err(DriverError::Failed(format!("the launcher ended without a report: {status}"))),
        }
    }
}

/// Returns an identifier of this boot of the host, the user, the kernel and these programs.
fn probe_stamp(kernel: &OwnKernel, programs: &[&Path]) -> io::Result<String> {
    let (boot, user) = (identity::boot_id()?, rustix::process::geteuid().as_raw());
    Ok(format!("{boot} {user} {kernel:?}{}", stamp(programs)?))
}

/// Returns an identifier of these files and their state.
fn stamp(files: &[&Path]) -> io::Result<String> {
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

fn failed(what: &str, error: impl Into<io::Error>) -> DriverError {
    DriverError::Failed(format!("{what}: {}", error.into()))
}

fn unexpected(report: &Report) -> DriverError {
    DriverError::Failed(format!("the launcher answered something else: {report:?}"))
}

fn private_folder(path: &Path) -> Result<(), DriverError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o700)))
        .map_err(|error| failed(&format!("making {}", path.display()), error))
}

/// Creates a folder that machines' users may read, unless it exists.
fn public_folder(path: &Path) -> Result<(), DriverError> {
    if path.is_dir() {
        return Ok(());
    }
    let made = fs::create_dir_all(path);
    made.and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(0o755)))
        .map_err(|error| failed(&format!("making {}", path.display()), error))
}

/// Removes a machine's folder, whose index is already empty. The index may belong to the agent's user, so that no
/// other user can read it.
async fn remove_folder(folder: PathBuf) -> io::Result<()> {
    let gone = |outcome: io::Result<()>| match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    let removing = spawn_blocking(move || {
        gone(fs::remove_dir(folder.join(Kernel::Host.index())))?;
        gone(fs::remove_dir_all(folder))
    });
    removing.await.map_err(io::Error::other)?
}

fn find_users() -> Result<Users, DriverError> {
    let own = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if own.0 == 0 {
        let range = subordinate::Range { first: IDS_FIRST, count: 2 * ORDINALS_MAX };
        subordinate::check_free(range).map_err(DriverError::Refused)?;
        return Ok(Users::Root);
    }
    let (users, groups) = subordinate::find(own.0).map_err(DriverError::Refused)?;
    Ok(Users::Ordinary { own, users, groups })
}
