//! A trial of the host's processor: can it run virtual machines?
//!
//! QEMU runs in a separate process namespace, whose first process dies with the launcher: every process that QEMU starts ends
//! with the trial.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::process::{WaitOptions, geteuid, waitpid};
use rustix::thread::UnshareFlags;

use super::launch_pipe::{await_word, die_with_parent};
use super::run_launcher;
use super::spec::LaunchReport;
use super::sys::{self, ForkSide, LaunchErrorContext, LaunchFailure};
use crate::contract::DriverError;

/// The second argument of a launcher that must call [`run_kvm_trial`] with the third.
pub(super) const CREATE_ARGUMENT: &str = "try-kvm";
/// The maximum number of bytes of QEMU's output that are read, and that are passed on.
const WORDS_READ_MAX: usize = 64 * 1024;
const WORDS_MAX: usize = 200;

/// Opens the device of the processor's virtualisation.
///
/// # Errors
/// Returns the reason if this process may not use it, or if it is missing.
pub fn open_kvm() -> io::Result<()> {
    File::options().read(true).write(true).open("/dev/kvm").map(drop)
}

/// Has QEMU create a machine on the processor's virtualisation, and end, within this time. Nothing runs in it; so success
/// does not prove that a kernel boots, but a failure costs little. `launcher` is a program that runs [`super::launch_main`].
///
/// # Errors
/// The reason, for the operator.
pub async fn try_kvm(launcher: &Path, qemu: &Path, limit: Duration) -> Result<(), String> {
    let arguments = [OsStr::new(CREATE_ARGUMENT), qemu.as_os_str()];
    match run_launcher(launcher, &arguments, &[], limit).await {
        Ok(Some(LaunchReport::Checked)) => Ok(()),
        Ok(Some(other)) => Err(format!("the launcher answered something else: {other:?}")),
        Ok(None) => Err(format!("QEMU created no machine with KVM within {limit:.1?}")),
        Err(DriverError::Failed(reason)) => Err(reason),
        Err(error) => Err(error.to_string()),
    }
}

/// Runs QEMU for [`try_kvm`], in a launcher.
pub(super) fn run_kvm_trial(qemu: &Path) -> Result<(), LaunchFailure> {
    let mut namespaces = UnshareFlags::NEWPID;
    if !geteuid().is_root() {
        namespaces |= UnshareFlags::NEWUSER;
    }
    sys::unshare_namespaces(namespaces).with_context("making a process namespace for QEMU")?;
    let (words, words_inside) = io::pipe().with_context("making a pipe")?;
    let (alive, alive_here) = io::pipe().with_context("making a pipe")?;
    let first = match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            drop((words, alive_here));
            let code = match die_with_parent(&alive) {
                Ok(()) => run_qemu(qemu, &words_inside).unwrap_or(1),
                Err(_) => 1,
            };
            sys::exit_now(code)
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((words_inside, alive));
    let said = read_words(words).with_context("reading QEMU's words")?;
    let ended = waitpid(Some(first), WaitOptions::empty()).with_context("waiting for QEMU")?;
    if ended.and_then(|(_, status)| status.exit_status()) == Some(0) {
        return Ok(());
    }
    let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("no reason given");
    let line: String = line.chars().filter(|letter| !letter.is_control()).take(WORDS_MAX).collect();
    Err(LaunchFailure::from_reason("creating a machine with KVM", &line))
}

/// Reads until QEMU ends, or nobody waits for the report any longer.
fn read_words(mut words: PipeReader) -> io::Result<String> {
    let mut said = Vec::new();
    let mut piece = [0; 4096];
    while said.len() < WORDS_READ_MAX {
        await_word(&words)?;
        match words.read(&mut piece)? {
            0 => break,
            length => said.extend_from_slice(piece.get(..length).unwrap_or_default()),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// Runs QEMU as a child of the first process. Returns its exit code.
fn run_qemu(qemu: &Path, words: &impl AsFd) -> Result<i32, LaunchFailure> {
    const ARGUMENTS: &str =
        "-S -M microvm -accel kvm -cpu max -m 64M -nodefaults -no-user-config -display none -monitor stdio";
    let (commands, mut commands_here) = io::pipe().with_context("making a pipe")?;
    commands_here.write_all(b"quit\n").with_context("writing a command")?;
    drop(commands_here);
    let program =
        qemu.to_str().ok_or_else(|| LaunchFailure::from_reason("running QEMU", "its path is not UTF-8"))?;
    match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            let prepared = || -> Result<(), LaunchFailure> {
                sys::inherit_as(commands.as_fd(), 0).with_context("handing over standard input")?;
                let null = File::options().write(true).open("/dev/null").with_context("opening /dev/null")?;
                sys::inherit_as(null.as_fd(), 1).with_context("closing standard output")?;
                sys::inherit_as(words.as_fd(), 2).with_context("handing over standard error")?;
                sys::reset_signals().with_context("resetting signals")
            };
            let failure = prepared().err().unwrap_or_else(|| {
                let arguments: Vec<&str> = ARGUMENTS.split(' ').collect();
                let environment = ["PATH=/usr/bin:/bin".to_owned()];
                LaunchFailure::new("executing QEMU", sys::exec_program(program, &arguments, &environment))
            });
            write_failure(words, &failure);
            sys::exit_now(127)
        }
        ForkSide::Parent(pid) => {
            let ended = waitpid(Some(pid), WaitOptions::empty()).with_context("waiting for QEMU")?;
            Ok(ended.and_then(|(_, status)| status.exit_status()).unwrap_or(1))
        }
    }
}

/// Reports a failure in the same way as QEMU.
fn write_failure(words: &impl AsFd, failure: &LaunchFailure) {
    // Without a reader, the report is not needed.
    let _ = rustix::io::write(words, failure.to_string().as_bytes());
}
