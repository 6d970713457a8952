//! The machine drivers that this host can run, for tests that need a certain one.
//!
//! A driver is tried by a program, once in a run of all tests: each test is a separate process, so the outcome is kept in
//! a file. A test whose driver cannot run here reports that, is recorded for the [`summarize_skipped_tests`], and returns. Where the
//! driver is expected ([`EXPECTED`]), the test fails instead.
//!
//! The files are in `drivers` of the target folder, or in the folder that [`FOLDER`] names: `tried-*` with outcomes, and
//! `not-run` with a line for each test.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::processes;

/// The variable that lists the drivers that must run here, such as `sandbox,uml,qemu`.
pub const EXPECTED: &str = "CAUSERIE_EXPECT_DRIVERS";
/// The variable that names another folder for the files.
pub const FOLDER: &str = "CAUSERIE_DRIVERS_FOLDER";

/// The longest trial: enough for a kernel to boot on a busy host.
const TRIAL_MAX: Duration = Duration::from_secs(30);
/// The same on a processor that is emulated.
const EMULATED_TRIAL_MAX: Duration = Duration::from_secs(150);
/// The longest time for killed processes to end.
const KILL_MAX: Duration = Duration::from_secs(10);
/// The interval in which a trial is checked.
const POLL: Duration = Duration::from_millis(10);
/// Limits the reason of a failed trial, in characters.
const REASON_MAX_CHARACTERS: usize = 600;

/// The trial that determines whether a driver runs here.
#[derive(Debug)]
pub struct DriverTrial<'a> {
    pub driver: &'a str,
    /// Distinguishes trials of the same driver by different programs.
    pub by: &'a str,
    /// Creates the command of the program in a new folder; or the reason why the driver cannot run.
    pub program: fn(&str, &Path) -> Result<Command, String>,
    /// Reads the program's output; the reason if the driver does not run.
    pub outcome: fn(&Output) -> Result<(), String>,
}

/// Returns true if a test can run on the driver. If it cannot, prints the reason on standard error and records the test.
///
/// # Panics
/// Panics if the driver is expected and does not run.
#[must_use]
pub fn can_run(trial: &DriverTrial) -> bool {
    DriverTestRun::from_environment().can_run(trial, &test_name())
}

/// Tries the driver, unless that was done before.
///
/// A success is remembered until the host boots again or a program changes; a failure, for one run of the tests.
///
/// # Errors
/// The reason why the driver does not run here.
///
/// # Panics
/// Panics if the outcome cannot be kept.
pub fn check_availability(trial: &DriverTrial) -> Result<(), String> {
    DriverTestRun::from_environment().check_availability(trial)
}

/// Reports that a test is not run because its driver is missing, and records it.
///
/// # Panics
/// Panics if the driver is expected, or the record cannot be written.
pub fn record_skipped_test(driver: &str, reason: &str, test: &str) {
    DriverTestRun::from_environment().record_skipped_test(driver, reason, test);
}

/// Takes over the records of another folder; the names of its tests get this prefix.
///
/// # Panics
/// Panics if a record cannot be written.
pub fn adopt_records(other: &Path, prefix: &str) {
    let run = DriverTestRun::from_environment();
    for (driver, test, reason) in parse_skip_records(&read_or_empty(&other.join(NOT_RUN))) {
        run.record_skipped_test(driver, reason, &format!("{prefix}{test}"));
    }
}

/// Returns a line for each missing driver, with the number of its tests that were not run.
#[must_use]
pub fn summarize_skipped_tests() -> Vec<String> {
    DriverTestRun::from_environment().summarize_skipped_tests()
}

/// The file of the tests that were not run: driver, test and reason.
const NOT_RUN: &str = "not-run";
/// The outcome of a trial of a driver that runs.
const RUNS: &str = "runs";

/// A run of tests.
#[derive(Debug, Clone)]
struct DriverTestRun {
    /// The folder of the files.
    folder: PathBuf,
    /// The drivers that must run, separated by commas.
    expected: String,
    /// nextest's id of the run, or else the id of this process.
    id: String,
}

impl DriverTestRun {
    fn from_environment() -> Self {
        Self {
            folder: env::var_os(FOLDER).map_or_else(usual_folder, PathBuf::from),
            expected: env::var(EXPECTED).unwrap_or_default(),
            id: env::var("NEXTEST_RUN_ID").unwrap_or_else(|_| std::process::id().to_string()),
        }
    }

    fn can_run(&self, trial: &DriverTrial, test: &str) -> bool {
        match self.check_availability(trial) {
            Ok(()) => true,
            Err(reason) => {
                self.record_skipped_test(trial.driver, &reason, test);
                false
            }
        }
    }

    fn check_availability(&self, trial: &DriverTrial) -> Result<(), String> {
        let home = tempfile::Builder::new().prefix("driver-trial-").tempdir().expect("a temporary folder");
        // Machines run as other users, who must be able to traverse the folder.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o711)).expect("a folder of one's own");
        let program = (trial.program)(trial.driver, home.path()).map_err(|reason| one_line(&reason))?;
        let user = rustix::process::geteuid().as_raw();
        let mut kept = self.open_record_file(&format!("tried-{}-{}-{user}", trial.driver, trial.by));
        // Other tests wait here for the first one.
        kept.lock().expect("the outcome is locked");
        let stamp = compute_stamp(&program, home.path());
        let mut text = String::new();
        kept.read_to_string(&mut text).expect("an outcome can be read");
        if let Some(outcome) = self.known_outcome(&text, &stamp) {
            return outcome;
        }
        let limit = if trial.driver == "qemu" { EMULATED_TRIAL_MAX } else { TRIAL_MAX };
        let outcome = run_within(program, home.path(), limit).and_then(|output| (trial.outcome)(&output));
        let outcome = outcome.map_err(|reason| one_line(&reason));
        let text = match &outcome {
            Ok(()) => format!("{stamp}\n{RUNS}"),
            Err(reason) => format!("{stamp}\n{}\n{reason}", self.id),
        };
        kept.set_len(0).and_then(|()| kept.rewind()).expect("the outcome is replaced");
        kept.write_all(text.as_bytes()).expect("the outcome is kept");
        outcome
    }

    fn known_outcome(&self, text: &str, stamp: &str) -> Option<Result<(), String>> {
        let mut lines = text.lines();
        if lines.next() != Some(stamp) {
            return None;
        }
        match (lines.next()?, lines.next()) {
            (RUNS, None) => Some(Ok(())),
            (run, Some(reason)) if run == self.id => Some(Err(reason.to_owned())),
            _ => None,
        }
    }

    fn record_skipped_test(&self, driver: &str, reason: &str, test: &str) {
        assert!(
            !self.expected.split(',').any(|name| name.trim() == driver),
            "{driver} does not run here: {reason}; {EXPECTED} names it, so its tests must run"
        );
        // Tests print to standard error, which may be collected.
        let _ = writeln!(io::stderr(), "{test}: not run here: {driver}, because {reason}");
        let line = format!("{driver}\t{test}\t{}\n", one_line(reason));
        // One write, so that lines of other processes do not mix with it.
        self.open_record_file(NOT_RUN)
            .write_all(line.as_bytes())
            .expect("a test that is not run is recorded");
    }

    fn summarize_skipped_tests(&self) -> Vec<String> {
        let records = read_or_empty(&self.folder.join(NOT_RUN));
        let mut tests: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for (driver, test, reason) in parse_skip_records(&records) {
            tests.entry((driver, reason)).or_default().insert(test);
        }
        let line = |((driver, reason), tests): (&(&str, &str), &BTreeSet<&str>)| {
            let count = tests.len();
            let noun = if count == 1 { "test" } else { "tests" };
            format!("not run here: {driver}, because {reason}: {count} {noun}")
        };
        tests.iter().map(line).collect()
    }

    /// Opens one of the files, to read it or to append.
    fn open_record_file(&self, name: &str) -> File {
        fs::create_dir_all(&self.folder).expect("a folder for the drivers' files");
        let file = OpenOptions::new().read(true).append(true).create(true).open(self.folder.join(name));
        file.expect("a file for the drivers")
    }
}

/// Returns driver, test and reason of each record.
fn parse_skip_records(records: &str) -> impl Iterator<Item = (&str, &str, &str)> {
    records.lines().filter_map(|line| {
        let (driver, rest) = line.split_once('\t')?;
        let (test, reason) = rest.split_once('\t')?;
        Some((driver, test, reason))
    })
}

fn read_or_empty(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Returns the folder beside the profiles: tests and examples are in `target/PROFILE/FOLDER`.
fn usual_folder() -> PathBuf {
    let program = env::current_exe().expect("a program knows its own path");
    program.ancestors().nth(3).expect("target/PROFILE/FOLDER").join("drivers")
}

/// Returns the name of the running test, which is its thread's name unless it runs on the first one.
fn test_name() -> String {
    let current = std::thread::current();
    match current.name() {
        Some(name) if name != "main" => name.to_owned(),
        _ => env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_else(|| "a test".to_owned()),
    }
}

/// Identifies the boot of the host, the program with its arguments and environment, and the files that these name.
fn compute_stamp(program: &Command, home: &Path) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let environment = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let words = std::iter::once(program.get_program()).chain(program.get_args());
    let mut words: Vec<_> = words.map(ToOwned::to_owned).collect();
    words.extend(environment.flat_map(|(name, value)| [name.to_owned(), value.to_owned()]));
    let mut stamp = boot.trim().to_owned();
    for word in words {
        let word = word.to_string_lossy().replace(&*home.to_string_lossy(), "").replace('\n', " ");
        stamp.push_str(&format!(" {word}"));
        if let Some(state) = fs::metadata(&word).ok().filter(fs::Metadata::is_file) {
            stamp.push_str(&format!("@{}.{}.{}", state.ino(), state.ctime(), state.ctime_nsec()));
        }
    }
    stamp
}

/// Runs a program to its end, within a time, and leaves no process of it.
fn run_within(mut program: Command, home: &Path, limit: Duration) -> Result<Output, String> {
    let files = [home.join("stdout"), home.join("stderr")];
    let make = |path: &PathBuf| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    program.stdin(Stdio::null()).stdout(make(&files[0])?).stderr(make(&files[1])?).process_group(0);
    let name = Path::new(program.get_program()).display().to_string();
    let mut child = program.spawn().map_err(|error| format!("{name}: {error}"))?;
    let ended = wait_within(&mut child, limit);
    let group = Pid::from_child(&child);
    if ended.is_none() {
        // The group has the child's id as long as the child is not waited for.
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait();
    }
    // A killed process may take a moment to end, or may just have started another one.
    let begun = Instant::now();
    while processes::kill_processes_in_folder(home) > 0 && begun.elapsed() < KILL_MAX {
        std::thread::sleep(POLL);
    }
    let [stdout, stderr] = files.map(|file| fs::read(file).unwrap_or_default());
    match ended {
        Some(status) => Ok(Output { status, stdout, stderr }),
        None => Err(format!("a trial did not end within {limit:?}")),
    }
}

fn wait_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().ok().flatten() {
            return Some(status);
        }
        if begun.elapsed() > limit {
            return None;
        }
        std::thread::sleep(POLL);
    }
}

/// Reads the output of a program that exits with 0 if the driver runs, and otherwise prints the reason in its last line.
///
/// # Errors
/// The last line.
pub fn by_status(output: &Output) -> Result<(), String> {
    if output.status.success() {
        return Ok(());
    }
    let text =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    Err(last.map_or_else(|| output.status.to_string(), ToOwned::to_owned))
}

fn one_line(reason: &str) -> String {
    let words: Vec<&str> = reason.split_whitespace().collect();
    words.join(" ").chars().take(REASON_MAX_CHARACTERS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test_run_in(folder: &Path, expected: &str, id: &str) -> DriverTestRun {
        DriverTestRun { folder: folder.to_owned(), expected: expected.to_owned(), id: id.to_owned() }
    }

    fn shell_command(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// Leaves a line in the file of its process at each trial, and fails.
    fn failing_command(_: &str, home: &Path) -> Result<Command, String> {
        let mut command = shell_command(
            "echo tried >>\"$0/driver-trials-$1\"; echo 'Kernel panic:\tno  floats' >&2; exit 3",
        );
        // The trial's folder is created again each time, its parent is not.
        command.arg(home.parent().expect("a folder")).arg(std::process::id().to_string());
        Ok(command)
    }

    #[test]
    fn driver_trial_runs_once_per_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let count = env::temp_dir().join(format!("driver-trials-{}", std::process::id()));
        let trials = || read_or_empty(&count).lines().count();
        let trial = DriverTrial { driver: "uml", by: "test", program: failing_command, outcome: by_status };
        let first = test_run_in(folder.path(), "sandbox,qemu", "one");
        for test in ["a::b", "a::c", "a::b"] {
            assert!(!first.can_run(&trial, test));
        }
        assert_eq!(trials(), 1);
        let line = "not run here: uml, because Kernel panic: no floats: 2 tests";
        assert_eq!(first.summarize_skipped_tests(), [line], "a test that two runs skip counts once");
        assert!(test_run_in(folder.path(), "", "two").check_availability(&trial).is_err());
        assert_eq!(trials(), 2, "the host may have been mended");
        fs::remove_file(count).expect("it is ours");
    }

    #[test]
    fn driver_success_remembered_until_change() {
        fn succeeding_command(_: &str, home: &Path) -> Result<Command, String> {
            let mut command = shell_command("test ! -e \"$1/never\" && exit \"$CODE\"");
            command.arg("sh").arg(home).env("CODE", "0");
            Ok(command)
        }
        fn changed_command(driver: &str, home: &Path) -> Result<Command, String> {
            let mut command = succeeding_command(driver, home)?;
            command.env("CODE", "1");
            Ok(command)
        }
        let folder = tempfile::tempdir().expect("a folder");
        let trial =
            DriverTrial { driver: "uml", by: "test", program: succeeding_command, outcome: by_status };
        assert_eq!(test_run_in(folder.path(), "uml", "one").check_availability(&trial), Ok(()));
        let broken = DriverTrial { outcome: |_| Err("tried again".to_owned()), ..trial };
        assert_eq!(
            test_run_in(folder.path(), "uml", "two").check_availability(&broken),
            Ok(()),
            "it is remembered"
        );
        let changed = DriverTrial { program: changed_command, ..broken };
        assert_eq!(
            test_run_in(folder.path(), "uml", "two").check_availability(&changed),
            Err("tried again".to_owned())
        );
    }

    #[test]
    fn expected_driver_unavailable_panics() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = |_: &str, _: &Path| Err("there is no program".to_owned());
        let trial = DriverTrial { driver: "uml", by: "test", program, outcome: by_status };
        let asked = || test_run_in(folder.path(), "sandbox, uml", "one").can_run(&trial, "a::b");
        let failure =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(asked)).expect_err("it is expected");
        let message = failure.downcast_ref::<String>().expect("a message");
        let expected = "uml does not run here: there is no program; CAUSERIE_EXPECT_DRIVERS names it";
        assert!(message.contains(expected), "{message}");
    }

    /// A trial that never answers, ignores signals and leaves its process group.
    #[test]
    fn trial_timeout_kills_its_processes() {
        let home = tempfile::tempdir().expect("a folder");
        let mut command = shell_command(
            "trap '' TERM INT HUP; setsid sh -c 'echo $$ >\"$1/pid\"; mkfifo \"$1/never\"; read _ <\"$1/never\"' \
             sh \"$1\" & while :; do wait; done",
        );
        command.arg("sh").arg(home.path());
        let pid = home.path().join("pid");
        let mut limit = Duration::from_millis(50);
        // On a busy host it takes longer until the other group exists.
        while !pid.exists() {
            let mut again = Command::new(command.get_program());
            again.args(command.get_args());
            let reason = run_within(again, home.path(), limit).expect_err("it does not end");
            assert!(reason.starts_with("a trial did not end within"), "{reason}");
            limit *= 2;
        }
        let pid = read_or_empty(&pid);
        let status = read_or_empty(&Path::new("/proc").join(pid.trim()).join("stat"));
        let state = status.rsplit_once(')').map_or("", |(_, rest)| rest.trim_start());
        assert!(state.is_empty() || state.starts_with(['Z', 'X']), "process {pid} is left: {state}");
    }
}
