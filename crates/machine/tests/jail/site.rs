//! A folder with a driver; all its machines end when it is dropped.

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use domain::id::AccountId;
use http::Request;
use http_body_util::{BodyExt, Full};
use machine::{
    BootSources, GuestConnection, MachineHome, MachineLimits, OwnKernel, RunningMachine, Sandbox,
    SandboxConfig, UmlKernel, find_qemu,
};

/// The kernels that machines run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriverKind {
    Sandbox,
    /// A User Mode Linux kernel for each.
    Uml,
    /// A virtual machine of QEMU for each, on an emulated processor.
    Qemu,
}

impl DriverKind {
    /// Returns the name of the driver.
    pub(crate) const fn driver_name(self) -> &'static str {
        match self {
            Self::Sandbox => "sandbox",
            Self::Uml => "uml",
            Self::Qemu => "qemu",
        }
    }
}

/// Makes a module with each of these tests on one kind of machine, if this host can run it.
macro_rules! on_kind {
    ($module:ident, $kind:ident: $($name:ident),*) => {
        mod $module {
            $(#[tokio::test] async fn $name() {
                if crate::available::can_run(crate::site::DriverKind::$kind) {
                    super::$name(crate::site::DriverKind::$kind).await;
                }
            })*
        }
    };
}

/// Runs each of these tests on each kind of machine.
macro_rules! on_each_driver {
    ($($name:ident),* $(,)?) => {
        on_kind!(sandbox, Sandbox: $($name),*);
        on_kind!(uml, Uml: $($name),*);
    };
}

/// Runs each of these tests on each kind of machine, virtual machines included.
macro_rules! on_all_drivers {
    ($($name:ident),* $(,)?) => {
        on_each_driver!($($name),*);
        on_qemu!($($name),*);
    };
}

/// Runs each of these tests on each kind of machine with a separate kernel.
macro_rules! on_own_kernels {
    ($($name:ident),* $(,)?) => {
        on_kind!(uml, Uml: $($name),*);
        on_qemu!($($name),*);
    };
}

/// Runs each of these tests on virtual machines, too.
macro_rules! on_qemu {
    ($($name:ident),* $(,)?) => {
        on_kind!(qemu, Qemu: $($name),*);
    };
}

/// The longest time in which the end of a machine or of its link is seen on a busy host.
pub(crate) const ENDED_WITHIN: Duration = Duration::from_secs(30);

/// The longest time of a command in a machine on a busy host, also on an emulated processor.
const ANSWERED_WITHIN: Duration = Duration::from_secs(300);

pub(crate) struct JailSite {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) sandbox: Sandbox,
}

/// Returns the program of the tests' agent and launcher, beside the test programs.
pub(crate) fn probe_agent_path() -> PathBuf {
    if let Some(path) = std::env::var_os("PROBE_AGENT") {
        return path.into();
    }
    let tests = std::env::current_exe().unwrap();
    tests.parent().and_then(Path::parent).unwrap().join("examples/probe_agent")
}

pub(crate) fn machine_home(folder: &Path) -> MachineHome {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    MachineHome {
        account: AccountId::from_random(hasher.finish().into()),
        ordinal: 0,
        workspace: folder.join("workspace"),
    }
}

pub(crate) fn sandbox_config(folder: &Path, kind: DriverKind) -> SandboxConfig {
    let limits = MachineLimits {
        memory_bytes: 192 << 20,
        processes: 40,
        temporary_bytes: 16 << 20,
        file_bytes: 64 << 20,
        ..MachineLimits::default()
    };
    SandboxConfig {
        machines: folder.join("machines"),
        trial_workspaces: folder.join("workspaces"),
        agent: probe_agent_path(),
        launcher: probe_agent_path(),
        limits,
        plugins: Some(folder.join("plugins")),
        kernel: find_kernel(kind).unwrap(),
        image: None,
        disk_quota: None,
        folder_check_interval: Duration::from_millis(100),
        suspended_max: None,
    }
}

/// Returns the kernel of such machines, or the reason if this host has none.
pub(crate) fn find_kernel(kind: DriverKind) -> Result<Option<OwnKernel>, String> {
    match kind {
        DriverKind::Sandbox => Ok(None),
        DriverKind::Uml => {
            let named = std::env::var_os("CAUSERIE_MACHINE_KERNEL").map(PathBuf::from);
            let kernel = UmlKernel::find_all(named.as_deref()).into_iter().next();
            let kernel = kernel.ok_or("there is no User Mode Linux (Debian package user-mode-linux)")?;
            Ok(Some(OwnKernel::UserModeLinux(kernel)))
        }
        DriverKind::Qemu => Ok(Some(qemu_kernel(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("qemu"))?)),
    }
}

/// A virtual machine whose process 1 becomes the tests' agent once the system is mounted, with its files in this folder.
pub(crate) fn qemu_kernel(folder: &Path) -> Result<OwnKernel, String> {
    run_by(find_qemu(None).ok_or("there is no QEMU (Debian package qemu-system-x86)")?, folder)
}

/// A virtual machine that this program runs.
pub(crate) fn run_by(qemu: PathBuf, folder: &Path) -> Result<OwnKernel, String> {
    let named = std::env::var_os("CAUSERIE_MACHINE_QEMU_KERNEL").map(PathBuf::from);
    let guest = std::env::var_os("CAUSERIE_GUEST")
        .expect("CAUSERIE_GUEST: the guest program, as `make test` sets it");
    let mut sources = BootSources::find_sources(qemu, named.as_deref(), guest.into())?;
    sources.boots_agent = true;
    let prepared = sources.prepare_files(folder, true).map_err(|error| error.to_string())?;
    Ok(OwnKernel::Qemu(prepared))
}

impl JailSite {
    pub(crate) fn new(kind: DriverKind) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        let sandbox = Sandbox::open_driver(sandbox_config(folder.path(), kind)).unwrap();
        Self { folder, sandbox }
    }

    pub(crate) fn home(&self) -> MachineHome {
        machine_home(self.folder.path())
    }

    pub(crate) fn machine_folder(&self) -> PathBuf {
        self.folder.path().join("machines").join(self.home().account.to_string())
    }

    /// Starts the machine; a virtual one continues from a saved one.
    pub(crate) async fn start_machine(&self) -> (RunningMachine, GuestConnection) {
        self.sandbox.save_template().await.unwrap();
        let machine = match self.sandbox.start_machine(&self.home()).await {
            Ok(machine) => RunningMachine::Sandbox(machine),
            Err(error) => panic!("{error}"),
        };
        let link =
            GuestConnection::connect_over_stream(machine.connect_agent().await.unwrap()).await.unwrap();
        (machine, link)
    }
}

impl Drop for JailSite {
    fn drop(&mut self) {
        let log = std::fs::read(self.machine_folder().join("agent.log")).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let runtime = std::thread::scope(|scope| {
            let stop = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    self.sandbox.stop_machine(self.home().account).await?;
                    self.sandbox.remove_account(self.home().account).await
                })
            });
            stop.join()
        });
        if std::thread::panicking() {
            eprintln!("the machine's log:\n{log}");
        } else {
            runtime.unwrap().unwrap();
        }
    }
}

/// Runs a command inside and returns its output.
pub(crate) async fn run_command(link: &GuestConnection, path: &str, command: &str) -> String {
    let body = Full::new(Bytes::from(command.to_owned())).map_err(|never| match never {}).boxed_unsync();
    let request = Request::post(path).body(body).unwrap();
    let answered = async {
        let response = link.send_request(request).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    let bytes = tokio::time::timeout(ANSWERED_WITHIN, answered).await.unwrap();
    String::from_utf8_lossy(&bytes).trim().to_owned()
}

pub(crate) async fn as_tools(link: &GuestConnection, command: &str) -> String {
    run_command(link, "/tools", command).await
}

pub(crate) async fn as_agent(link: &GuestConnection, command: &str) -> String {
    run_command(link, "/agent", command).await
}
