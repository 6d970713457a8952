//! Tests a kernel that its machine has taken over: an arbitrary program in place of User Mode Linux or QEMU.

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use machine::{GuestConnection, OwnKernel, Sandbox, UmlKernel};
use tokio::time::timeout;

use crate::available;
use crate::site::{DriverKind, ENDED_WITHIN, JailSite, as_tools, probe_agent_path, run_by, sandbox_config};

#[tokio::test]
async fn taken_over_uml_kernel_is_confined() {
    // The program in place of the kernel does not need a kernel.
    if !available::can_run(DriverKind::Sandbox) {
        return;
    }
    let site = JailSite::new(DriverKind::Sandbox);
    let mut config = sandbox_config(site.folder.path(), DriverKind::Sandbox);
    config.kernel = UmlKernel::find_all(Some(&probe_agent_path())).pop().map(OwnKernel::UserModeLinux);
    let sandbox = Sandbox::open_driver(config).unwrap();
    let machine = sandbox.start_machine(&site.home()).await.unwrap();
    got_nothing(&site);
    // It sends nothing that the service accepts as an agent, and can be stopped.
    let stream = Box::new(machine.connect_agent().await.unwrap());
    let greeted = timeout(Duration::from_millis(200), GuestConnection::connect_over_stream(stream)).await;
    assert!(!matches!(greeted, Ok(Ok(_))), "a flood is no agent");
    sandbox.stop_machine(site.home().account).await.unwrap();
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.unwrap();
}

#[tokio::test]
async fn taken_over_qemu_is_confined() {
    if !available::can_run(DriverKind::Qemu) {
        return;
    }
    let site = JailSite::new(DriverKind::Qemu);
    let mut config = sandbox_config(site.folder.path(), DriverKind::Qemu);
    config.kernel = Some(run_by("/agent".into(), &site.folder.path().join("boot")).unwrap());
    let sandbox = Sandbox::open_driver(config).unwrap();
    let failure = sandbox.start_machine(&site.home()).await.expect_err("what it sends is no machine");
    assert!(failure.to_string().contains("its link was closed: it runs on"), "{failure}");
    got_nothing(&site);
    sandbox.stop_machine(site.home().account).await.unwrap();
    assert!(sandbox.attach_machine(site.home().account).unwrap().is_none());
}

#[tokio::test]
async fn uml_programs_stay_on_one_processor() {
    if !available::can_run(DriverKind::Uml) {
        return;
    }
    let site = JailSite::new(DriverKind::Uml);
    let (machine, _link) = site.start_machine().await;
    let places: Vec<String> = machine
        .list_processes()
        .unwrap()
        .into_iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/status")).ok())
        // Beside the kernel's processes, whose names depend on its version, are the jail's processes.
        .filter(|status| !["causerie-vm", "machine-bridge"].contains(&status_field(status, "Name")))
        .map(|status| status_field(&status, "Cpus_allowed_list").to_owned())
        .collect();
    // The kernel, and one process for each address space.
    assert!(places.len() > 1, "{places:?}");
    assert!(places.iter().all(|place| *place == places[0] && place.parse::<u32>().is_ok()), "{places:?}");
}

#[tokio::test]
async fn uml_kernel_has_no_disk_filesystems() {
    if !available::can_run(DriverKind::Uml) {
        return;
    }
    let site = JailSite::new(DriverKind::Uml);
    let (_machine, link) = site.start_machine().await;
    let known = as_tools(&link, "cat /proc/filesystems").await;
    assert!(known.contains("hostfs"), "{known}");
    // They cost 7 MiB of each machine, and a root of the machine could mount a file as one.
    for unknown in ["jfs", "btrfs", "xfs", "reiserfs"] {
        assert!(!known.split_whitespace().any(|name| name == unknown), "{unknown} of {known}");
    }
}

/// Returns a field of `/proc/PID/status`.
fn status_field<'a>(status: &'a str, name: &str) -> &'a str {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

/// Asserts that each attempt was refused, and that no file is a set-id one.
fn got_nothing(site: &JailSite) {
    let workspace = site.folder.path().join("workspace");
    let report = std::fs::read_to_string(workspace.join("report.txt")).unwrap();
    assert!(report.lines().count() > 50, "{report}");
    for line in report.lines() {
        assert!(line.contains(": refused"), "{line}");
    }
    for entry in std::fs::read_dir(workspace).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().mode() & 0o6000, 0, "{:?}", entry.file_name());
    }
}
