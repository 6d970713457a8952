//! Tests that launches are bounded, and that nothing of them is left: with kernels and a QEMU that never answer, ignore
//! signals and fork.

use std::fs;
use std::future::ready;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::time::Duration;

use machine::{
    Driver, Kernel, OwnKernel, PendingSandbox, Sandbox, SandboxConfig, UmlKernel, sweep_trials, try_kvm,
};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::{Instant, sleep, timeout};

use crate::available;
use crate::site::{DriverKind, JailSite, probe_agent_path, qemu_kernel, run_by, sandbox_config};

/// The time limit for certain events.
const PATIENCE: Duration = Duration::from_secs(60);
/// The limit of a trial: long enough to reach the point where it hangs.
const LIMIT: Duration = Duration::from_secs(2);

/// A configuration whose machines have a kernel that hangs because of this memory, and the argument by which its processes are recognized.
fn hanging_config(site: &JailSite, kind: DriverKind, mebibytes: u64) -> (SandboxConfig, String) {
    let mut config = sandbox_config(site.folder.path(), DriverKind::Sandbox);
    config.limits.memory_bytes = mebibytes << 20;
    let (kernel, argument) = match kind {
        DriverKind::Qemu => {
            (run_by("/agent".into(), &site.folder.path().join("boot")).unwrap(), format!("{mebibytes}M"))
        }
        _ => (
            OwnKernel::UserModeLinux(UmlKernel::find_all(Some(&probe_agent_path())).remove(0)),
            format!("mem={mebibytes}M"),
        ),
    };
    config.kernel = Some(kernel);
    (config, argument)
}

/// Returns the processes that have this argument, without zombies.
fn processes_with(argument: &str) -> Vec<i32> {
    let has_argument = |pid: &i32| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|byte| *byte == 0).any(|given| given == argument.as_bytes())
    };
    list_process_ids().filter(has_argument).collect()
}

/// Returns the processes of jails with mounts of this folder.
fn processes_in(folder: &Path) -> Vec<i32> {
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let shows = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|mounts| mounts.contains(&name))
    };
    list_process_ids().filter(shows).collect()
}

fn list_process_ids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until no process of the jails of this folder is left.
async fn none_is_left(folder: &Path) {
    wait_until("processes are left", || processes_in(folder).is_empty()).await;
}

fn entry_names(folder: &Path) -> Vec<std::ffi::OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

on_own_kernels!(a_start_that_is_dropped_leaves_nothing);

#[tokio::test]
async fn hanging_trial_ends_within_limit() {
    let site = JailSite::new(DriverKind::Sandbox);
    let (config, argument) = hanging_config(&site, DriverKind::Uml, 201);
    let sandbox = Sandbox::open_driver(config).unwrap();
    let failure = sandbox.try_out(LIMIT).await.expect_err("it hangs");
    assert!(failure.to_string().contains("not ready after 2.0s"), "{failure}");
    let folder = site.folder.path();
    assert!(processes_with(&argument).is_empty(), "the kernel is left");
    // The process that made the jail was killed, too, but nobody waits for it.
    none_is_left(folder).await;
    assert!(
        entry_names(&folder.join("machines")).is_empty()
            && entry_names(&folder.join("workspaces")).is_empty()
    );
}

#[tokio::test]
async fn dropped_save_template_leaves_nothing() {
    if !available::can_run(DriverKind::Qemu) {
        return;
    }
    let site = JailSite::new(DriverKind::Qemu);
    let mut config = sandbox_config(site.folder.path(), DriverKind::Qemu);
    config.limits.memory_bytes = 202 << 20;
    // A separate folder, without a saved machine.
    config.kernel = Some(qemu_kernel(&site.folder.path().join("boot")).unwrap());
    let (sandbox, argument) = (Sandbox::open_driver(config).unwrap(), "202M");
    tokio::select! {
        saved = sandbox.save_template() => panic!("{saved:?}"),
        () = wait_until("QEMU runs", || !processes_with(argument).is_empty()) => {}
    }
    none_is_left(site.folder.path()).await;
    sweep_trials(&site.folder.path().join("machines"), &site.folder.path().join("workspaces")).await;
    assert!(entry_names(&site.folder.path().join("machines")).is_empty());
}

async fn a_start_that_is_dropped_leaves_nothing(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (config, argument) = hanging_config(&site, kind, 211 + kind as u64);
    let sandbox = Sandbox::open_driver(config).unwrap();
    let home = site.home();
    tokio::select! {
        started = sandbox.start_machine(&home) => panic!("{started:?}"),
        () = wait_until("the kernel runs", || !processes_with(&argument).is_empty()) => {}
    }
    none_is_left(site.folder.path()).await;
    sandbox.stop_machine(home.account).await.unwrap();
}

#[tokio::test]
async fn killed_service_leaves_no_trial_process() {
    let site = JailSite::new(DriverKind::Sandbox);
    let (config, argument) = hanging_config(&site, DriverKind::Uml, 221);
    let kernel = serde_json::to_string(&config.kernel.unwrap()).unwrap();
    let mut service = Command::new(probe_agent_path())
        .arg("try")
        .args([site.folder.path().as_os_str(), kernel.as_ref()])
        .arg("221")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the kernel runs", || !processes_with(&argument).is_empty()).await;
    service.kill().unwrap();
    service.wait().unwrap();
    none_is_left(site.folder.path()).await;
    let machines = site.folder.path().join("machines");
    assert_eq!(entry_names(&machines).len(), 1, "its folder is left");
    sweep_trials(&machines, &site.folder.path().join("workspaces")).await;
    assert!(entry_names(&machines).is_empty());
}

#[tokio::test]
async fn killed_launcher_ends_whole_trial() {
    let site = JailSite::new(DriverKind::Sandbox);
    let (config, argument) = hanging_config(&site, DriverKind::Uml, 222);
    let sandbox = Sandbox::open_driver(config).unwrap();
    let kill = async {
        wait_until("the kernel runs", || !processes_with(&argument).is_empty()).await;
        for launcher in processes_with(machine::sandbox::LAUNCH_ARGUMENT) {
            // Others' launchers are in the folders of other machines.
            let folder = fs::read_link(format!("/proc/{launcher}/cwd")).unwrap_or_default();
            if folder == site.machine_folder() {
                kill_process(Pid::from_raw(launcher).unwrap(), Signal::KILL).unwrap();
            }
        }
    };
    let home = site.home();
    let (started, ()) = tokio::join!(sandbox.start_machine(&home), kill);
    assert!(started.is_err());
    none_is_left(site.folder.path()).await;
    sandbox.stop_machine(home.account).await.unwrap();
}

#[tokio::test]
async fn hanging_try_kvm_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu-that-hangs");
    let path = qemu.display();
    // Its processes leave their session, too.
    let loops = "trap '' TERM INT HUP; while :; do sleep 1; done";
    let script = format!(
        "#!/bin/sh\nsetsid sh -c \"{loops}\" {path} >/dev/null 2>&1 </dev/null &\n(sh -c \"{loops}\" {path} &)\n{loops}\n"
    );
    fs::write(&qemu, script).unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    let argument = qemu.to_str().unwrap();
    let reason = try_kvm(&probe_agent_path(), &qemu, LIMIT).await.expect_err("it hangs");
    assert!(reason.contains("within 2.0s"), "{reason}");
    wait_until("processes are left", || processes_with(argument).is_empty()).await;
    let dropped = timeout(LIMIT, try_kvm(&probe_agent_path(), &qemu, PATIENCE)).await;
    assert!(dropped.is_err());
    wait_until("processes are left", || processes_with(argument).is_empty()).await;
}

#[tokio::test]
async fn refused_try_kvm_quotes_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu");
    fs::write(&qemu, "#!/bin/sh\necho 'no such accelerator' >&2\necho more >&2\nexit 1\n").unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    let reason = try_kvm(&probe_agent_path(), &qemu, PATIENCE).await.expect_err("it refuses");
    assert_eq!(reason, "creating a machine with KVM: no such accelerator");
    fs::write(&qemu, "#!/bin/sh\nread command\ntest \"$command\" = quit\n").unwrap();
    try_kvm(&probe_agent_path(), &qemu, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn pending_driver_starts_once_chosen() {
    let site = JailSite::new(DriverKind::Sandbox);
    let pending = PendingSandbox::new(site.folder.path().join("machines"));
    let (driver, home) = (Driver::Pending(pending.clone()), site.home());
    assert_eq!((driver.kernel(), driver.to_string()), (None, "pending (drivers are being tried)".to_owned()));
    assert!(driver.attach_machine(home.account).unwrap().is_none(), "others' machines are still looked for");
    let mut start = pin!(driver.start_machine(&home));
    tokio::select! {
        biased;
        started = &mut start => panic!("{started:?}"),
        () = ready(()) => {}
    }
    pending.choose_driver(
        Sandbox::open_driver(sandbox_config(site.folder.path(), DriverKind::Sandbox)).unwrap(),
    );
    let machine = start.await.unwrap();
    assert_eq!(driver.kernel(), Some(Kernel::Host));
    driver.stop_machine(home.account).await.unwrap();
    timeout(PATIENCE, machine.wait_until_ended()).await.unwrap();
}
