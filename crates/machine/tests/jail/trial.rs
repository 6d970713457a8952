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
use crate::site::{Kind, Site, config, program, qemu, run_by};

/// The longest time for what is certain to happen.
const PATIENCE: Duration = Duration::from_secs(60);
/// The limit of a trial: long enough for it to get to where it hangs.
const LIMIT: Duration = Duration::from_secs(2);

/// A configuration whose machines have a kernel that hangs because of this memory, and the argument by which its processes are recognized.
fn hanging(site: &Site, kind: Kind, mebibytes: u64) -> (SandboxConfig, String) {
    let mut config = config(site.folder.path(), Kind::Sandbox);
    config.limits.memory_bytes = mebibytes << 20;
    let (kernel, argument) = match kind {
        Kind::Qemu => {
            (run_by("/agent".into(), &site.folder.path().join("boot")).unwrap(), format!("{mebibytes}M"))
        }
        _ => (
            OwnKernel::UserModeLinux(UmlKernel::find_all(Some(&program())).remove(0)),
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
    processes().filter(has_argument).collect()
}

/// Returns the processes of jails that show something of this folder.
fn processes_in(folder: &Path) -> Vec<i32> {
    let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
    let shows = |pid: &i32| {
        fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|mounts| mounts.contains(&name))
    };
    processes().filter(shows).collect()
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until no process of the jails of this folder is left.
async fn none_is_left(folder: &Path) {
    until("processes are left", || processes_in(folder).is_empty()).await;
}

fn entries(folder: &Path) -> Vec<std::ffi::OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

on_own_kernels!(a_start_that_is_dropped_leaves_nothing);

#[tokio::test]
async fn a_trial_that_hangs_ends_in_time_and_leaves_nothing() {
    let site = Site::new(Kind::Sandbox);
    let (config, argument) = hanging(&site, Kind::Uml, 201);
    let sandbox = Sandbox::open(config).unwrap();
    let failure = sandbox.try_out(LIMIT).await.expect_err("it hangs");
    assert!(failure.to_string().contains("not ready after 2.0s"), "{failure}");
    let folder = site.folder.path();
    assert!(processes_with(&argument).is_empty() && processes_in(folder).is_empty(), "processes are left");
    assert!(entries(&folder.join("machines")).is_empty() && entries(&folder.join("workspaces")).is_empty());
}

#[tokio::test]
async fn a_machine_whose_saving_is_dropped_leaves_nothing() {
    if !available::can_run(Kind::Qemu) {
        return;
    }
    let site = Site::new(Kind::Qemu);
    let mut config = config(site.folder.path(), Kind::Qemu);
    config.limits.memory_bytes = 202 << 20;
    // Of its own, so that nobody has saved this machine before.
    config.kernel = Some(qemu(&site.folder.path().join("boot")).unwrap());
    let (sandbox, argument) = (Sandbox::open(config).unwrap(), "202M");
    tokio::select! {
        saved = sandbox.save_template() => panic!("{saved:?}"),
        () = until("QEMU runs", || !processes_with(argument).is_empty()) => {}
    }
    none_is_left(site.folder.path()).await;
    sweep_trials(&site.folder.path().join("machines"), &site.folder.path().join("workspaces")).await;
    assert!(entries(&site.folder.path().join("machines")).is_empty());
}

async fn a_start_that_is_dropped_leaves_nothing(kind: Kind) {
    let site = Site::new(kind);
    let (config, argument) = hanging(&site, kind, 211 + kind as u64);
    let sandbox = Sandbox::open(config).unwrap();
    let home = site.home();
    tokio::select! {
        started = sandbox.start(&home) => panic!("{started:?}"),
        () = until("the kernel runs", || !processes_with(&argument).is_empty()) => {}
    }
    none_is_left(site.folder.path()).await;
    sandbox.stop(home.account).await.unwrap();
}

#[tokio::test]
async fn a_trial_whose_service_is_killed_leaves_no_process() {
    let site = Site::new(Kind::Sandbox);
    let (config, argument) = hanging(&site, Kind::Uml, 221);
    let kernel = serde_json::to_string(&config.kernel.unwrap()).unwrap();
    let mut service = Command::new(program())
        .arg("try")
        .args([site.folder.path().as_os_str(), kernel.as_ref()])
        .arg("221")
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the kernel runs", || !processes_with(&argument).is_empty()).await;
    service.kill().unwrap();
    service.wait().unwrap();
    none_is_left(site.folder.path()).await;
    let machines = site.folder.path().join("machines");
    assert_eq!(entries(&machines).len(), 1, "its folder is left");
    sweep_trials(&machines, &site.folder.path().join("workspaces")).await;
    assert!(entries(&machines).is_empty());
}

#[tokio::test]
async fn a_launcher_that_is_killed_takes_everything_with_it() {
    let site = Site::new(Kind::Sandbox);
    let (config, argument) = hanging(&site, Kind::Uml, 222);
    let sandbox = Sandbox::open(config).unwrap();
    let kill = async {
        until("the kernel runs", || !processes_with(&argument).is_empty()).await;
        for launcher in processes_with(machine::sandbox::LAUNCH_ARGUMENT) {
            // Others' launchers are in the folders of other machines.
            let folder = fs::read_link(format!("/proc/{launcher}/cwd")).unwrap_or_default();
            if folder == site.machine_folder() {
                kill_process(Pid::from_raw(launcher).unwrap(), Signal::KILL).unwrap();
            }
        }
    };
    let home = site.home();
    let (started, ()) = tokio::join!(sandbox.start(&home), kill);
    assert!(started.is_err());
    none_is_left(site.folder.path()).await;
    sandbox.stop(home.account).await.unwrap();
}

#[tokio::test]
async fn a_qemu_that_hangs_as_it_tries_kvm_is_ended_whole() {
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
    let reason = try_kvm(&program(), &qemu, LIMIT).await.expect_err("it hangs");
    assert!(reason.contains("within 2.0s"), "{reason}");
    until("processes are left", || processes_with(argument).is_empty()).await;
    let dropped = timeout(LIMIT, try_kvm(&program(), &qemu, PATIENCE)).await;
    assert!(dropped.is_err());
    until("processes are left", || processes_with(argument).is_empty()).await;
}

#[tokio::test]
async fn a_qemu_that_refuses_kvm_is_quoted_by_its_first_line() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu");
    fs::write(&qemu, "#!/bin/sh\necho 'no such accelerator' >&2\necho more >&2\nexit 1\n").unwrap();
    fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755)).unwrap();
    let reason = try_kvm(&program(), &qemu, PATIENCE).await.expect_err("it refuses");
    assert_eq!(reason, "creating a machine with KVM: no such accelerator");
    fs::write(&qemu, "#!/bin/sh\nread command\ntest \"$command\" = quit\n").unwrap();
    try_kvm(&program(), &qemu, PATIENCE).await.unwrap();
}

#[tokio::test]
async fn a_machine_starts_once_its_driver_is_chosen() {
    let site = Site::new(Kind::Sandbox);
    let pending = PendingSandbox::new(site.folder.path().join("machines"));
    let (driver, home) = (Driver::Pending(pending.clone()), site.home());
    assert_eq!((driver.kernel(), driver.to_string()), (None, "pending (drivers are being tried)".to_owned()));
    assert!(driver.attach(home.account).unwrap().is_none(), "others' machines are looked for all the same");
    let mut start = pin!(driver.start(&home));
    tokio::select! {
        biased;
        started = &mut start => panic!("{started:?}"),
        () = ready(()) => {}
    }
    pending.choose(Sandbox::open(config(site.folder.path(), Kind::Sandbox)).unwrap());
    let machine = start.await.unwrap();
    assert_eq!(driver.kernel(), Some(Kernel::Host));
    driver.stop(home.account).await.unwrap();
    timeout(PATIENCE, machine.ended()).await.unwrap();
}
