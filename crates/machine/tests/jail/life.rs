//! Tests that machines outlive services and leave nothing behind.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use domain::id::AccountId;
use domain::machine::{DesiredState, Rules};
use futures_util::future::BoxFuture;
use machine::{
    Driver, DriverError, GuestConnection, Kernel, LeasePage, MachineFolders, MachineHome, MachineRecord,
    MachineRecords, Machines, RecordsError, RunningMachine, Sandbox, SandboxConfig,
};
use tokio::time::timeout;

use crate::site::{DriverKind, ENDED_WITHIN, JailSite, as_agent, as_tools, probe_agent_path, sandbox_config};

/// The longest time in which a machine starts on a busy host, also on an emulated processor.
const STARTED_WITHIN: Duration = Duration::from_secs(120);
/// The maximum difference between a machine's clock and the host's.
const CLOCK_ERROR_MAX: Duration = Duration::from_secs(1);

on_each_driver!(
    a_host_is_tried_for_real,
    a_machine_outlives_its_service_and_is_taken_over,
    stopping_ends_every_process,
    a_machine_ends_with_its_agent,
    a_machine_ends_when_its_folder_is_removed,
    the_host_sees_what_a_machine_is,
    a_reset_removes_the_index_of_a_stopped_machine_alone,
    an_abandoned_start_leaves_nothing,
    an_agent_that_cannot_be_executed_fails_the_start_with_the_reason,
    a_jail_that_is_killed_is_started_again_for_a_turn,
    a_machine_is_suspended_without_its_service_and_goes_on_with_it,
    a_machine_ends_when_no_service_comes_back,
    a_suspended_machine_can_be_stopped,
);

on_qemu!(
    machines_continue_from_a_saved_one_and_differ,
    a_machine_boots_when_the_saved_one_does_not_continue,
    a_host_is_tried_for_real,
    a_machine_outlives_its_service_and_is_taken_over,
    stopping_ends_every_process,
    a_machine_ends_with_its_agent,
    the_host_sees_what_a_machine_is,
    a_machine_is_suspended_without_its_service_and_goes_on_with_it,
    a_workspace_is_the_same_on_both_sides,
    a_virtual_machine_has_what_it_was_given_and_no_more,
    a_crash_of_a_machine_s_kernel_is_seen,
);

/// The time limit for certain events.
const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the letter of the process's state, as in `ps`; `X` without a process.
fn state_of(pid: i32) -> char {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    line.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()).unwrap_or('X')
}

/// Returns true if the process runs. A zombie that the host's init process has not reaped yet does not count.
fn is_alive(pid: i32) -> bool {
    !matches!(state_of(pid), 'Z' | 'X')
}

async fn a_host_is_tried_for_real(kind: DriverKind) {
    let site = JailSite::new(kind);
    site.sandbox.probe_driver().await.unwrap();
    let left: Vec<_> = std::fs::read_dir(site.folder.path().join("machines")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

async fn a_machine_outlives_its_service_and_is_taken_over(kind: DriverKind) {
    let site = JailSite::new(kind);
    let mut service = Command::new(probe_agent_path())
        .arg("service")
        .arg(site.folder.path())
        .arg(site.home().account.to_string())
        .args(
            sandbox_config(site.folder.path(), kind)
                .kernel
                .map(|kernel| serde_json::to_string(&kernel).unwrap()),
        )
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "started\n");
    service.kill().unwrap();
    service.wait().unwrap();

    let machine = site.sandbox.attach_machine(site.home().account).unwrap().expect("it lives");
    let machine = RunningMachine::Sandbox(machine);
    let link = GuestConnection::connect_over_stream(machine.connect_agent().await.unwrap()).await.unwrap();
    assert_eq!(as_tools(&link, "echo alive").await, "alive");
    // A second service finds the same run of the agent, and cannot start another machine beside it.
    let other = Sandbox::open_driver(sandbox_config(site.folder.path(), kind)).unwrap();
    let again = RunningMachine::Sandbox(other.attach_machine(site.home().account).unwrap().unwrap());
    assert_eq!(
        GuestConnection::connect_over_stream(again.connect_agent().await.unwrap()).await.unwrap().instance(),
        link.instance()
    );
    assert!(matches!(other.start_machine(&site.home()).await, Err(DriverError::Busy)));
}

/// A site whose machines work while the page permits it, and end `suspended_max` after that.
fn site_with_lease(kind: DriverKind, suspended_max: Duration) -> (JailSite, LeasePage) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("workspace")).unwrap();
    let config = SandboxConfig { suspended_max: Some(suspended_max), ..sandbox_config(folder.path(), kind) };
    let sandbox = Sandbox::open_driver(config).unwrap();
    let page = sandbox.lease_page().unwrap().unwrap();
    page.extend_for(PATIENCE * 10).unwrap();
    (JailSite { folder, sandbox }, page)
}

/// Waits until `look` returns a value.
async fn wait_for_value<T>(mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let found = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, found).await.unwrap()
}

/// Returns true if the machine's log has this line.
fn log_contains(site: &JailSite, line: &str) -> bool {
    let log = site.sandbox.machine_folders().read_log(site.home().account).unwrap();
    String::from_utf8_lossy(&log).contains(line)
}

/// Returns true if the process is stopped by a signal.
fn is_stopped(pid: i32) -> bool {
    state_of(pid) == 'T'
}

async fn a_machine_is_suspended_without_its_service_and_goes_on_with_it(kind: DriverKind) {
    let (site, page) = site_with_lease(kind, PATIENCE * 10);
    let (machine, link) = site.start_machine().await;
    let RunningMachine::Sandbox(machine) = &machine else { panic!("another driver") };
    as_tools(&link, "(while :; do echo x >> ticks; sleep 0.01; done) > /dev/null 2>&1 & echo begun").await;
    let ticks = site.folder.path().join("workspace/ticks");
    let length = || std::fs::metadata(&ticks).map_or(0, |file| file.len());
    wait_for_value(async || (length() > 0).then_some(())).await;
    page.extend_for(Duration::ZERO).unwrap();
    wait_for_value(async || log_contains(&site, "suspended").then_some(())).await;
    match kind {
        // All but the first process, which does not suspend itself.
        DriverKind::Sandbox => {
            wait_for_value(async || {
                // A process that ended while its parent was being suspended waits for that, and a process that forked
                // by `vfork` waits (`D`) until its stopped child runs its program.
                let rests = |pid: &i32| matches!(state_of(*pid), 'T' | 'D' | 'Z' | 'X');
                machine.list_processes().unwrap()[1..].iter().all(rests).then_some(())
            })
            .await;
        }
        // The kernel, which does all reads and writes inside.
        DriverKind::Uml | DriverKind::Qemu => {
            wait_for_value(async || {
                machine.list_processes().unwrap()[1..].iter().any(|pid| is_stopped(*pid)).then_some(())
            })
            .await;
        }
    }
    let left_off = length();
    page.extend_for(PATIENCE * 10).unwrap();
    wait_for_value(async || (length() > left_off).then_some(())).await;
    assert_eq!(as_tools(&link, "echo alive").await, "alive");
}

async fn a_machine_ends_when_no_service_comes_back(kind: DriverKind) {
    let (site, page) = site_with_lease(kind, Duration::from_millis(200));
    let (machine, link) = site.start_machine().await;
    as_tools(&link, "sleep 600 > /dev/null 2>&1 & echo begun").await;
    let RunningMachine::Sandbox(sandboxed) = &machine else { panic!("another driver") };
    let pids = sandboxed.list_processes().unwrap();
    page.extend_for(Duration::ZERO).unwrap();
    timeout(PATIENCE, machine.wait_until_ended()).await.unwrap();
    wait_for_value(async || pids.iter().all(|pid| !is_alive(*pid)).then_some(())).await;
    assert!(log_contains(&site, "ended: no service came back"));
}

async fn a_suspended_machine_can_be_stopped(kind: DriverKind) {
    let (site, page) = site_with_lease(kind, PATIENCE * 10);
    let (_machine, _link) = site.start_machine().await;
    page.extend_for(Duration::ZERO).unwrap();
    wait_for_value(async || log_contains(&site, "suspended").then_some(())).await;
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    assert!(log_contains(&site, "stopped while it was suspended"), "it need not be killed");
    assert!(site.sandbox.attach_machine(site.home().account).unwrap().is_none());
}

async fn a_workspace_is_the_same_on_both_sides(kind: DriverKind) {
    let site = JailSite::new(kind);
    let workspace = site.folder.path().join("workspace");
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "echo one > notes.txt; mkdir -p a/b; mv notes.txt a/b/; ls").await, "a");
    assert_eq!(std::fs::read_to_string(workspace.join("a/b/notes.txt")).unwrap(), "one\n");
    // A file that the machine has read is changed, grows, is replaced and removed on the host.
    for content in ["two\n".to_owned(), "longer\n".repeat(10_000), "3\n".to_owned()] {
        std::fs::write(workspace.join("a/b/notes.txt"), &content).unwrap();
        let read = as_tools(&link, "cat a/b/notes.txt").await;
        assert_eq!(read, content.trim());
        std::fs::write(workspace.join("new"), &content).unwrap();
        std::fs::rename(workspace.join("new"), workspace.join("a/b/notes.txt")).unwrap();
    }
    std::fs::remove_dir_all(workspace.join("a")).unwrap();
    assert_eq!(as_tools(&link, "test -e a/b/notes.txt || echo gone; ls -A").await, "gone");
    as_tools(&link, "echo host-owned > from-machine; chmod 4755 from-machine").await;
    let owner =
        |path: &std::path::Path| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).unwrap());
    let written = workspace.join("from-machine");
    assert_eq!(owner(&written), owner(&workspace));
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&written).unwrap());
    assert_eq!(mode & 0o6000, 0, "a machine makes no set-id file");
    // The system and the plugins can only be read.
    for path in ["/usr/x", "/plugins/x", "/etc/x"] {
        assert_eq!(as_agent(&link, &format!("touch {path} 2>/dev/null || echo refused")).await, "refused");
    }
}

async fn a_virtual_machine_has_what_it_was_given_and_no_more(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    let kibibytes = as_tools(&link, "awk '/MemTotal/ {print $2}' /proc/meminfo").await;
    let kibibytes: u64 = kibibytes.parse().expect("a number");
    assert!(
        kibibytes <= sandbox_config(site.folder.path(), kind).limits.memory_bytes >> 10,
        "{kibibytes} KiB"
    );
    let interfaces = as_tools(&link, "sed 1,2d /proc/net/dev | cut -d: -f1 | tr -d ' '").await;
    assert_eq!(interfaces, "lo", "the link exists for process 1 alone");
    assert_eq!(as_tools(&link, "cat /proc/partitions").await, "", "there is no disk");
    assert_eq!(as_tools(&link, "cat /proc/sys/kernel/modules_disabled; hostname").await, "1\nmachine");
    // More processes than its limit.
    let started = as_tools(&link, "for i in $(seq 60); do sleep 5 & done 2>&1 | grep -c fork").await;
    assert_ne!(started, "0");
    // The host's clock, within the delay of its transfer on a busy host; the saved machine's is older.
    let now = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let before = now();
    let millis = as_tools(&link, "date +%s%3N").await.parse().expect("a number");
    let (clock, error) = (Duration::from_millis(millis), CLOCK_ERROR_MAX);
    let (earliest, latest) = (before - error, now() + error);
    assert!((earliest..=latest).contains(&clock), "{clock:?} in the machine, {before:?} outside");
}

/// Two machines that continue from the same saved one: each with separate random numbers, a separate clock and workspace.
async fn machines_continue_from_a_saved_one_and_differ(kind: DriverKind) {
    let (one, two) = (JailSite::new(kind), JailSite::new(kind));
    let ((first, one_link), (second, two_link)) = (one.start_machine().await, two.start_machine().await);
    for machine in [&first, &second] {
        assert!(continues_from_template(machine), "it booted");
    }
    let random = "head -c 32 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid";
    let (ours, theirs) = (as_tools(&one_link, random).await, as_tools(&two_link, random).await);
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        assert_ne!(ours, theirs, "machines of one template return the same random numbers");
    }
    assert_ne!(one_link.instance(), two_link.instance());
    as_tools(&one_link, "echo mine > mine").await;
    assert_eq!(as_tools(&two_link, "ls -A").await, "");
    assert_eq!(std::fs::read_to_string(one.folder.path().join("workspace/mine")).unwrap(), "mine\n");
}

/// Returns true if the machine's QEMU was started to continue from a saved machine.
fn continues_from_template(machine: &RunningMachine) -> bool {
    let commands = machine.list_processes().unwrap().into_iter();
    let mut commands =
        commands.map(|pid| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default());
    commands.any(|command| command.contains("\0-incoming\0"))
}

async fn a_machine_boots_when_the_saved_one_does_not_continue(kind: DriverKind) {
    let site = JailSite::new(kind);
    let folder = tempfile::tempdir().unwrap();
    let mut config = sandbox_config(site.folder.path(), kind);
    config.kernel = Some(crate::site::qemu_kernel(folder.path()).unwrap());
    let sandbox = Sandbox::open_driver(config.clone()).unwrap();
    sandbox.save_template().await.unwrap();
    // A later service finds its current state.
    let state = folder.path().join("saved-state");
    let length = std::fs::metadata(&state).unwrap().len();
    std::fs::File::options().write(true).open(&state).unwrap().set_len(length / 2).unwrap();
    let sandbox = Sandbox::open_driver(config).unwrap();
    sandbox.save_template().await.unwrap();
    let machine = RunningMachine::Sandbox(sandbox.start_machine(&site.home()).await.unwrap());
    assert!(!continues_from_template(&machine));
    let link = GuestConnection::connect_over_stream(machine.connect_agent().await.unwrap()).await.unwrap();
    assert_eq!(as_tools(&link, "echo here").await, "here");
    assert!(!folder.path().join("saved-stamp").exists(), "it is not tried again");
}

async fn a_crash_of_a_machine_s_kernel_is_seen(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (machine, link) = site.start_machine().await;
    let crash = async {
        // This gets no response.
        let body = http_body_util::Full::new(bytes::Bytes::from("echo c > /proc/sysrq-trigger"));
        let body = http_body_util::BodyExt::map_err(body, |never| match never {});
        let request =
            http::Request::post("/agent").body(http_body_util::BodyExt::boxed_unsync(body)).unwrap();
        let _ = timeout(ENDED_WITHIN, link.send_request(request)).await;
    };
    let (ended, ()) = tokio::join!(timeout(ENDED_WITHIN, machine.wait_until_ended()), crash);
    ended.expect("its end is seen");
    let words = site.sandbox.machine_folders().last_words(site.home().account).unwrap();
    assert!(words.contains("sysrq triggered crash"), "{words}");
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "echo here again").await, "here again");
}

async fn stopping_ends_every_process(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (machine, link) = site.start_machine().await;
    as_tools(
        &link,
        "(setsid sleep 600; true) >/dev/null 2>&1 & (trap '' TERM; sleep 600) >/dev/null 2>&1 & true",
    )
    .await;
    let processes = machine.list_processes().unwrap();
    // The processes of a virtual machine are not visible on its host.
    let least = if kind == DriverKind::Qemu { 3 } else { 4 };
    assert!(processes.len() >= least, "{processes:?}");
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    assert!(processes.iter().all(|pid| !is_alive(*pid)), "{processes:?}");
    assert!(site.sandbox.attach_machine(site.home().account).unwrap().is_none());
    timeout(ENDED_WITHIN, link.wait_until_closed()).await.unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "echo again").await, "again");
}

async fn a_machine_ends_with_its_agent(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (machine, link) = site.start_machine().await;
    as_tools(&link, "sleep 600 >/dev/null 2>&1 &").await;
    let processes = machine.list_processes().unwrap();
    let request = http::Request::post("/exit").body(machine::Body::default()).unwrap();
    assert!(link.send_request(request).await.is_err());
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.unwrap();
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    assert!(processes.iter().all(|pid| !is_alive(*pid)), "{processes:?}");
    let log = std::fs::read_to_string(site.machine_folder().join("agent.log")).unwrap();
    assert!(log.contains("the agent ended"), "{log}");
}

async fn a_machine_ends_when_its_folder_is_removed(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (machine, _link) = site.start_machine().await;
    let processes = machine.list_processes().unwrap();
    // The index may belong to another user, so that part of the folder stays.
    std::fs::remove_file(site.machine_folder().join("lock")).unwrap();
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.unwrap();
    site.sandbox.stop_machine(site.home().account).await.unwrap();
    assert!(processes.iter().all(|pid| !is_alive(*pid)), "{processes:?}");
    let log = std::fs::read_to_string(site.machine_folder().join("agent.log")).unwrap();
    assert!(log.contains("the machine's folder was removed"), "{log}");
}

async fn the_host_sees_what_a_machine_is(kind: DriverKind) {
    let site = JailSite::new(kind);
    let account = site.home().account;
    let folders = MachineFolders::new(site.folder.path().join("machines"));
    assert!(folders.machine_details(account).unwrap().pids.is_empty());
    let (machine, _link) = site.start_machine().await;
    let details = folders.machine_details(account).unwrap();
    assert_eq!(details.pids, machine.list_processes().unwrap());
    let kernel = match kind {
        DriverKind::Sandbox => Kernel::Host,
        DriverKind::Uml => Kernel::UserModeLinux,
        DriverKind::Qemu => Kernel::Qemu,
    };
    assert_eq!(details.driver, Some((kernel, site.sandbox.limits_kind())));
    assert!(details.started_at.unwrap().elapsed().unwrap() < Duration::from_secs(60));
    assert!(details.memory.unwrap().bytes > 100_000, "{details:?}");
    let name = std::fs::read_to_string(format!("/proc/{}/comm", details.pids[0])).unwrap();
    assert_eq!(name, "causerie-vm\n");
    // Anyone with the folder can stop the machine, with a driver or without.
    folders.stop_machine(account).await.unwrap();
    timeout(ENDED_WITHIN, machine.wait_until_ended()).await.unwrap();
    assert_eq!(folders.machine_details(account).unwrap().driver, None);
    assert_eq!((folders.list_accounts(), folders.left_over()), (vec![account], vec![]));
}

async fn a_reset_removes_the_index_of_a_stopped_machine_alone(kind: DriverKind) {
    let site = JailSite::new(kind);
    let account = site.home().account;
    let (_machine, link) = site.start_machine().await;
    as_agent(&link, "echo entry > /index/kept").await;
    assert!(matches!(site.sandbox.remove_index(account).await, Err(DriverError::Busy)), "it runs");
    assert_eq!(as_agent(&link, "cat /index/kept").await, "entry");
    site.sandbox.stop_machine(account).await.unwrap();
    site.sandbox.remove_index(account).await.unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_agent(&link, "test -e /index/kept || echo gone").await, "gone");
}

async fn an_abandoned_start_leaves_nothing(kind: DriverKind) {
    let site = JailSite::new(kind);
    // Cancels the launch at many points, from its beginning to past its end.
    for delay in 0..40 {
        let cut = timeout(Duration::from_millis(delay), site.sandbox.start_machine(&site.home())).await;
        site.sandbox.stop_machine(site.home().account).await.unwrap();
        if let Ok(Ok(machine)) = cut {
            timeout(ENDED_WITHIN, machine.wait_until_ended()).await.unwrap();
        }
        assert!(site.sandbox.attach_machine(site.home().account).unwrap().is_none(), "cut after {delay} ms");
    }
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "echo fine").await, "fine");
}

async fn an_agent_that_cannot_be_executed_fails_the_start_with_the_reason(kind: DriverKind) {
    let site = JailSite::new(kind);
    let broken = site.folder.path().join("broken");
    std::fs::write(&broken, "no program").unwrap();
    let mut config = sandbox_config(site.folder.path(), kind);
    config.agent = broken;
    let sandbox = Sandbox::open_driver(config).unwrap();
    let error = sandbox.start_machine(&site.home()).await.expect_err("it is no program");
    let reason = if kind == DriverKind::Uml { "Requested init /agent failed" } else { "executing the agent" };
    assert!(error.to_string().contains(reason), "{error}");
    sandbox.stop_machine(site.home().account).await.unwrap();
}

struct OneAccount(MachineHome);

impl MachineRecords for OneAccount {
    fn load_machine(&self, _: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
        Box::pin(async { Ok(Some(MachineRecord { home: self.0.clone(), desired: DesiredState::Running })) })
    }

    fn save_lapse(&self, _: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
        Box::pin(async { Ok(false) })
    }

    fn save_desired(&self, _: AccountId, _: DesiredState) -> BoxFuture<'_, Result<(), RecordsError>> {
        Box::pin(async { Ok(()) })
    }

    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
        Box::pin(async { Ok(vec![self.0.account]) })
    }
}

async fn a_jail_that_is_killed_is_started_again_for_a_turn(kind: DriverKind) {
    let site = JailSite::new(kind);
    let account = site.home().account;
    let driver = Driver::Sandbox(Sandbox::open_driver(sandbox_config(site.folder.path(), kind)).unwrap());
    let machines = Machines::new(driver, std::sync::Arc::new(OneAccount(site.home())), Rules::default());
    machines.resume_machines().await.unwrap();
    let _turn = machines.register_turn(account).await.unwrap();
    let link = timeout(STARTED_WITHIN, machines.when_running(account)).await.unwrap().unwrap();
    let processes = machines.list_processes(account).await.unwrap();
    let first = rustix::process::Pid::from_raw(processes[0]).unwrap();
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    timeout(ENDED_WITHIN, link.wait_until_closed()).await.unwrap();
    let again = timeout(STARTED_WITHIN, machines.when_running(account)).await.unwrap().unwrap();
    assert_ne!(again.instance(), link.instance());
    assert_eq!(as_tools(&again, "echo again").await, "again");
    let reason = machines.machine_view(account).await.unwrap().reason;
    machines.shutdown().await;
    assert_eq!(machines.driver().kept_reason(account).await, reason, "it is known after the service");
    assert!(site.sandbox.attach_machine(account).unwrap().is_some(), "it outlives the supervisor");
    assert_eq!(machines.driver().to_string().split(' ').next(), Some(kind.driver_name()));
}
