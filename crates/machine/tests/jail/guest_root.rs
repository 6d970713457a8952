//! Tests attacks by root in a machine's kernel: on the host, on other machines, and on its machine.

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use machine::RunningMachine;
use tokio::time::timeout;

use crate::available;
use crate::site::{DriverKind, ENDED_WITHIN, JailSite, as_tools};

/// The processes on the host of a machine that may have 40: two for each, and the kernel's processes. A machine that
/// reaches its limit has at least the other number.
const PROCESSES_MAX: usize = 144;
const PROCESSES_EXPECTED: usize = 60;
/// The longest time in which it starts them on a busy host.
const STARTED_WITHIN: Duration = Duration::from_secs(60);

on_own_kernels!(
    root_of_a_machine_reaches_nothing_of_the_host,
    a_crash_of_a_machine_s_kernel_is_seen_and_the_machine_starts_again,
    a_machine_that_overwrites_its_kernel_harms_itself_alone,
    processes_of_a_machine_are_bounded_on_the_host,
);

/// A machine whose root makes this attack at its start.
fn site_with_attack(kind: DriverKind, attack: &str) -> JailSite {
    let site = JailSite::new(kind);
    let chosen = site.folder.path().join("workspace/guest-root");
    std::fs::create_dir(&chosen).unwrap();
    std::fs::write(chosen.join(attack), "").unwrap();
    site
}

/// Lets the attack begin.
fn release_attack(site: &JailSite) {
    std::fs::write(site.folder.path().join("workspace/guest-root/go"), "").unwrap();
}

async fn root_of_a_machine_reaches_nothing_of_the_host(kind: DriverKind) {
    let site = site_with_attack(kind, "attempts");
    let plugins = site.folder.path().join("plugins");
    std::fs::write(plugins.join("skill.txt"), "the operator's").unwrap();
    std::fs::write(site.folder.path().join("new"), "the service's").unwrap();
    let (_machine, link) = site.start_machine().await;
    let workspace = site.folder.path().join("workspace");
    let report = std::fs::read_to_string(workspace.join("guest-root/report")).unwrap();
    assert!(report.lines().count() > 45, "{report}");
    let got: Vec<_> = report.lines().filter(|line| !line.contains(": refused")).collect();
    assert!(got.is_empty(), "{got:#?}");
    assert_eq!(std::fs::read_to_string(plugins.join("skill.txt")).unwrap(), "the operator's");
    assert_eq!(std::fs::read_to_string(site.folder.path().join("new")).unwrap(), "the service's");
    let owner = std::fs::metadata(&workspace).unwrap().uid();
    for entry in std::fs::read_dir(&workspace).unwrap() {
        let entry = entry.unwrap();
        let metadata = entry.metadata().unwrap();
        assert_eq!((metadata.mode() & 0o6000, metadata.uid()), (0, owner), "{:?}", entry.file_name());
    }
    // After the flood of frames the link works.
    assert_eq!(as_tools(&link, "echo still here").await, "still here");
    let modules = as_tools(&link, "cat /proc/sys/kernel/modules_disabled 2>/dev/null || echo none").await;
    assert!(["1", "none"].contains(&modules.as_str()), "{modules}");
}

async fn a_crash_of_a_machine_s_kernel_is_seen_and_the_machine_starts_again(kind: DriverKind) {
    let site = site_with_attack(kind, "crash");
    let (machine, _) = site.start_machine().await;
    release_attack(&site);
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.expect("its end is seen");
    let words = site.sandbox.machine_folders().last_words(site.home().account).unwrap();
    let panics = ["sysrq triggered crash", "Attempted to kill init"];
    assert!(panics.iter().any(|panic| words.contains(panic)), "{words}");
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    std::fs::remove_dir_all(site.folder.path().join("workspace/guest-root")).unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "echo here again").await, "here again");
}

async fn a_machine_that_overwrites_its_kernel_harms_itself_alone(kind: DriverKind) {
    harms_itself_alone(kind, "memory").await;
}

#[tokio::test]
async fn qemu_guest_hardware_attack_contained() {
    if available::can_run(DriverKind::Qemu) {
        harms_itself_alone(DriverKind::Qemu, "hardware").await;
    }
}

/// The number of programs that a machine runs while another is attacked: few on an emulated processor, where each takes
/// a third of a second.
const fn looks_of(kind: DriverKind) -> usize {
    match kind {
        DriverKind::Qemu => 20,
        DriverKind::Sandbox | DriverKind::Uml => 100,
    }
}

/// Makes an attack in one machine while another answers. The attacked one may continue to run or not; it can be stopped.
async fn harms_itself_alone(kind: DriverKind, attack: &str) {
    let site = site_with_attack(kind, attack);
    let other = JailSite::new(kind);
    let (_other, link) = other.start_machine().await;
    let (machine, _) = site.start_machine().await;
    release_attack(&site);
    for _ in 0..looks_of(kind) {
        assert_eq!(as_tools(&link, "echo still here").await, "still here");
    }
    stop_within_limit(&site, &machine).await;
}

/// Each process of a User Mode Linux machine is one of the host.
async fn processes_of_a_machine_are_bounded_on_the_host(kind: DriverKind) {
    let site = site_with_attack(kind, "processes");
    let other = JailSite::new(kind);
    let (_other, link) = other.start_machine().await;
    let (machine, _) = site.start_machine().await;
    release_attack(&site);
    let expected = match kind {
        // The first one, the bridge and QEMU, regardless of the processes inside.
        DriverKind::Qemu => 3..=3,
        _ => PROCESSES_EXPECTED..=PROCESSES_MAX,
    };
    let (mut most, mut looks, begun) = (0, 0, Instant::now());
    // On a busy host they come slowly.
    while looks < looks_of(kind) || (most < *expected.start() && begun.elapsed() < STARTED_WITHIN) {
        most = most.max(machine.list_processes().map_or(0, |processes| processes.len()));
        assert_eq!(as_tools(&link, "echo still here").await, "still here");
        looks += 1;
    }
    assert!(expected.contains(&most), "{most} processes");
    stop_within_limit(&site, &machine).await;
}

async fn stop_within_limit(site: &JailSite, machine: &RunningMachine) {
    timeout(ENDED_WITHIN, site.sandbox.stop_machine(site.home().account)).await.expect("in time").unwrap();
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.expect("nothing runs on");
}
