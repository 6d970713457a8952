//! The launcher: a second, single-threaded run of the service's program, which creates one machine and exits.
//!
//! ```text
//! service ── launcher ── maker (enters the namespaces) ── init (pid 1 inside) ── agent
//!              │            exits with the launcher         keeps running after the commit
//!              └ writes the id maps, stores the identity, commits, exits
//! ```
//! Until the commit each of them dies with the one before it, so an interrupted launch leaves no process behind, regardless of a
//! kernel or a program inside: the launcher sees the service's end of its output close, the maker waits on a pipe that closes
//! with the launcher, the kernel kills the init process when the maker exits, and with it everything in its namespace. The lock
//! on the machine's folder passes to the init process, which holds it for the machine's lifetime.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, flock, mknodat};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use rustix::thread::{CapabilitySet, UnshareFlags};

use super::identity;
use super::jail::{self, LaunchPlan};
use super::jail_layout::descriptor;
use super::kvm;
use super::launch_pipe::{HeldFiles, await_word, read_failure, word};
use super::own_kernel::OwnKernel;
use super::root::{self, MountSources, clone_mount};
use super::spec::{
    KVM, LOCK, LOG, LaunchReport, LaunchTask, MachineIdentity, SPEC_MAX_BYTES, STATE, Spec, TOOLS_ID, UserIds,
};
use super::sys::{self, ForkSide, LaunchErrorContext, LaunchFailure};
use super::template::TemplateFiles;
use super::{KILL_TIMEOUT, Kernel, MachineImage};

/// Runs a launch to its end: reads a spec from standard input and writes a report to standard output. The process
/// must have a single thread.
pub fn launch_main() -> ! {
    let mut arguments = std::env::args_os().skip(2);
    let done = match (arguments.next(), arguments.next()) {
        (Some(word), Some(qemu)) if word == kvm::CREATE_ARGUMENT => create_machine(Path::new(&qemu)),
        _ => run_launch_task(),
    };
    let code = match done {
        Ok(()) => 0,
        Err(LaunchRefusal::Busy) => send_report(&LaunchReport::Busy),
        Err(LaunchRefusal::Failure(failure)) => {
            send_report(&LaunchReport::Failed { reason: explain_failure(&failure) })
        }
    };
    sys::exit_now(code)
}

enum LaunchRefusal {
    Busy,
    Failure(LaunchFailure),
}

impl From<LaunchFailure> for LaunchRefusal {
    fn from(failure: LaunchFailure) -> Self {
        Self::Failure(failure)
    }
}

fn send_report(report: &LaunchReport) -> i32 {
    i32::from(write_report(report).is_err()) + 1
}

fn write_report(report: &LaunchReport) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

fn create_machine(qemu: &Path) -> Result<(), LaunchRefusal> {
    sys::close_from(3).with_context("closing what was inherited")?;
    kvm::run_kvm_trial(qemu)?;
    write_report(&LaunchReport::Checked).with_context("reporting")?;
    Ok(())
}

fn run_launch_task() -> Result<(), LaunchRefusal> {
    sys::close_from(3).with_context("closing what was inherited")?;
    sys::reserve_numbers(descriptor::MEMORY).with_context("opening /dev/null")?;
    let mut text = Vec::new();
    io::stdin().take(SPEC_MAX_BYTES as u64).read_to_end(&mut text).with_context("reading the spec")?;
    let spec: Spec = serde_json::from_slice(&text).with_context("reading the spec")?;
    rustix::process::umask(Mode::from_bits_truncate(0o077));
    rustix::process::chdir(&spec.machine).with_context("entering the machine's folder")?;
    match spec.task {
        LaunchTask::Clear => {
            // No machine may start on an index that is being removed.
            let _lock = hold_lock()?;
            empty_index(&spec)?;
            write_report(&LaunchReport::Cleared).with_context("reporting")?;
        }
        LaunchTask::Check => {
            try_machine(&spec)?;
            write_report(&LaunchReport::Checked).with_context("reporting")?;
        }
        LaunchTask::Save => {
            try_machine(&spec)?;
            write_report(&LaunchReport::Saved).with_context("reporting")?;
        }
        LaunchTask::Run => run_machine(&spec)?,
    }
    Ok(())
}

/// Starts a machine that ends as soon as it is ready. From its lock and its identity, the next service finds its
/// leftovers.
fn try_machine(spec: &Spec) -> Result<(), LaunchRefusal> {
    let lock = hold_lock()?;
    start_machine(spec, HeldFiles { lock: Some(lock), ..HeldFiles::default() })?.kill_machine()?;
    Ok(())
}

fn run_machine(spec: &Spec) -> Result<(), LaunchRefusal> {
    let lock = hold_lock()?;
    for group in &spec.cgroups {
        fs::write(group.join("cgroup.procs"), "0").with_context("joining the machine's control group")?;
    }
    let held = lock.try_clone().with_context("keeping the machine's lock")?;
    let image =
        spec.image.as_ref().map(MachineImage::lock_image).transpose().with_context("opening the image")?;
    let page = spec.lease.as_ref().map(|lease| fs::File::open(&lease.page)).transpose();
    let page = page.with_context("opening the service's lease page")?;
    let mut launched =
        start_machine(spec, HeldFiles { lock: Some(held), image_lock: image, lease_page: page })?;
    let identity = machine_identity(launched.pid, spec)?;
    save_identity(&identity).with_context("keeping the machine's identity")?;
    // Without a service to read this report, the machine could not be taken over, so it ends.
    write_report(&LaunchReport::Running(identity)).with_context("reporting")?;
    launched.commit.write_all(b"c").with_context("committing")?;
    // The first process closes the pipe once it no longer dies with this one.
    let _ = launched.up.read(&mut [0]).with_context("waiting for the first process")?;
    Ok(())
}

fn machine_identity(pid: i32, spec: &Spec) -> Result<MachineIdentity, LaunchFailure> {
    Ok(MachineIdentity {
        pid,
        start_time: identity::start_time(pid).with_context("reading the machine's start time")?,
        boot_id: identity::boot_id().with_context("reading the boot id")?,
        cgroups: spec.cgroups.clone(),
        kernel: Some(spec.kernel.as_ref().map_or(Kernel::Host, OwnKernel::kernel_kind)),
    })
}

/// Takes the lock on the machine's folder.
fn hold_lock() -> Result<fs::File, LaunchRefusal> {
    let lock = open_private(LOCK).with_context("opening the machine's lock")?;
    match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(lock),
        Err(error) if error == rustix::io::Errno::WOULDBLOCK => Err(LaunchRefusal::Busy),
        Err(error) => Err(LaunchFailure::new("locking the machine's folder", error).into()),
    }
}

fn save_identity(identity: &MachineIdentity) -> io::Result<()> {
    let fresh = format!("{STATE}.new");
    fs::write(&fresh, serde_json::to_vec(identity)?)?;
    fs::rename(&fresh, STATE)
}

fn open_private(name: &str) -> io::Result<fs::File> {
    fs::OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(name)
}

/// A complete machine that waits for the commit. Dropping it ends the machine.
struct Launched {
    pid: i32,
    process: OwnedFd,
    up: PipeReader,
    commit: PipeWriter,
    /// The maker exits when this is closed.
    _down: PipeWriter,
}

impl Launched {
    fn kill_machine(self) -> Result<(), LaunchFailure> {
        kill_first_process(&self.process).with_context("ending the machine")
    }
}

/// Kills the first process of a machine and waits until all processes in its namespace have ended.
fn kill_first_process(process: &OwnedFd) -> io::Result<()> {
    // It may have exited already.
    let _ = pidfd_send_signal(process, Signal::KILL);
    let limit = Timespec::try_from(KILL_TIMEOUT).map_err(io::Error::other)?;
    match retry_on_intr(|| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&limit)))? {
        0 => Err(io::Error::other("its processes do not exit")),
        _ => Ok(()),
    }
}

fn start_machine(spec: &Spec, held: HeldFiles) -> Result<Launched, LaunchFailure> {
    // Makes the host's out-of-memory killer choose a machine first. Some kernels do not permit this.
    let _ = fs::write("/proc/self/oom_score_adj", "300");
    let prepared = if spec.privileged { Some(privileged_sources(spec)?) } else { None };
    let log = open_private(LOG).with_context("opening the machine's log")?;
    let template = spec
        .template
        .as_ref()
        .map(TemplateFiles::open_files)
        .transpose()
        .with_context("opening a saved machine")?;
    let (mut up, up_inside) = io::pipe().with_context("making a pipe")?;
    let (down_inside, mut down) = io::pipe().with_context("making a pipe")?;
    let (commit_inside, commit) = io::pipe().with_context("making a pipe")?;
    let maker = match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            drop((up, down, commit));
            let plan = LaunchPlan {
                spec,
                prepared,
                log,
                held,
                template,
                up: up_inside,
                down: down_inside,
                commit: commit_inside,
            };
            jail::run_maker(plan)
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((up_inside, down_inside, commit_inside, prepared));
    let mut first = None;
    let outcome = wait_until_ready(&mut up, &mut down, maker, spec, &mut first);
    match (outcome, first) {
        (Ok(()), Some((pid, process))) => Ok(Launched { pid, process, up, commit, _down: down }),
        (Ok(()), None) => Err(LaunchFailure::from_reason(
            "starting the machine",
            "the launcher did not report its first process",
        )),
        (Err(failure), first) => {
            if let Some((_, process)) = first {
                // The original failure is more informative.
                let _ = kill_first_process(&process);
            }
            Err(failure)
        }
    }
}

/// Reads messages until everything is ready.
fn wait_until_ready(
    up: &mut PipeReader,
    down: &mut PipeWriter,
    maker: Pid,
    spec: &Spec,
    first: &mut Option<(i32, OwnedFd)>,
) -> Result<(), LaunchFailure> {
    /// `UNSHARED`, `PID` and `READY`.
    const WORDS_MAX: usize = 3;
    for _ in 0..WORDS_MAX {
        let mut word = [0];
        await_word(up).with_context("following the machine's start")?;
        up.read_exact(&mut word).with_context("following the machine's start")?;
        match word[0] {
            word::UNSHARED => {
                map_ids(maker, spec)?;
                down.write_all(b"m").with_context("telling the maker that ids are mapped")?;
            }
            word::PID => {
                let mut pid = [0; 4];
                up.read_exact(&mut pid).with_context("reading the first process's number")?;
                let pid = i32::from_le_bytes(pid);
                let process = Pid::from_raw(pid)
                    .ok_or(rustix::io::Errno::SRCH)
                    .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()))
                    .with_context("opening the first process")?;
                *first = Some((pid, process));
                if spec.task != LaunchTask::Run {
                    save_identity(&machine_identity(pid, spec)?)
                        .with_context("keeping the trial's identity")?;
                }
                down.write_all(b"p").with_context("telling the first process that it is known")?;
            }
            word::READY => return Ok(()),
            _ => return Err(read_failure(up)),
        }
    }
    Err(LaunchFailure::from_reason("starting the machine", "its processes reported too much"))
}

fn map_ids(process: Pid, spec: &Spec) -> Result<(), LaunchFailure> {
    let UserIds { agent_uid, agent_gid, tools_uid, tools_gid } = spec.ids;
    let pid = process.as_raw_nonzero();
    if spec.privileged {
        let map = |agent, tools| format!("0 {agent} 1\n{TOOLS_ID} {tools} 1\n");
        fs::write(format!("/proc/{pid}/uid_map"), map(agent_uid, tools_uid)).with_context("mapping users")?;
        return fs::write(format!("/proc/{pid}/gid_map"), map(agent_gid, tools_gid))
            .with_context("mapping groups");
    }
    for (program, agent, tools) in [("newuidmap", agent_uid, tools_uid), ("newgidmap", agent_gid, tools_gid)]
    {
        let arguments = [pid.to_string(), "0".into(), agent.to_string(), "1".into(), TOOLS_ID.to_string()];
        let output = Command::new(Path::new("/usr/bin").join(program))
            .args(arguments)
            .args([tools.to_string(), "1".into()])
            .output()
            .with_context(&format!("running {program} (Debian package uidmap)"))?;
        if !output.status.success() {
            return Err(LaunchFailure::from_reason(
                format!("running {program}"),
                String::from_utf8_lossy(&output.stderr).trim(),
            ));
        }
    }
    Ok(())
}

/// As root, the account's folders are opened here, with the host's permissions: inside, no folder on the path to them
/// is accessible. Their owner on disk, the service, is mapped to the tools' user, and the owner of the index to the
/// agent's user.
fn privileged_sources(spec: &Spec) -> Result<MountSources, LaunchFailure> {
    let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let shown = |path: &Path, uid: u32, gid: u32| -> Result<OwnedFd, LaunchFailure> {
        let mount = clone_mount(path, false)?;
        let owners = create_user_namespace(owner, (uid, gid))?;
        sys::mount_setattr(mount.as_fd(), false, 0, Some(owners.as_fd())).map_err(|error| {
            let what = format!(
                "mapping the owner of {}: its file system must support idmapped mounts (ext4, xfs, btrfs, tmpfs do), \
                 or the service must run as an ordinary user",
                path.display()
            );
            LaunchFailure::new(what, error)
        })?;
        Ok(mount)
    };
    Ok(MountSources {
        workspace: shown(&spec.workspace, spec.ids.tools_uid, spec.ids.tools_gid)?,
        index: match spec.kernel {
            Some(_) => shown(&spec.index, spec.ids.tools_uid, spec.ids.tools_gid)?,
            None => shown(&spec.index, spec.ids.agent_uid, spec.ids.agent_gid)?,
        },
        agent: clone_mount(&spec.agent, false)?,
        kernel: root::kernel_files(spec)?,
        kvm: create_kvm_device(spec)?,
        image: spec.image.as_ref().map(|image| clone_mount(&image.tree, false)).transpose()?,
        plugins: spec.plugins.as_ref().map(|plugins| clone_mount(plugins, false)).transpose()?,
    })
}

/// Makes the device of the processor's virtualisation available to the machine's user alone: the host's belongs to root
/// and a group without members inside.
fn create_kvm_device(spec: &Spec) -> Result<Option<OwnedFd>, LaunchFailure> {
    if !spec.kernel.as_ref().is_some_and(OwnKernel::needs_kvm) {
        return Ok(None);
    }
    let number = fs::metadata("/dev/kvm").with_context("looking at /dev/kvm")?.rdev();
    match fs::remove_file(KVM) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(error).with_context("removing the machine's device");
        }
        Ok(()) | Err(_) => {}
    }
    mknodat(CWD, KVM, FileType::CharacterDevice, Mode::RUSR | Mode::WUSR, number)
        .with_context("making the machine's device")?;
    chown(KVM, Some(spec.ids.tools_uid), Some(spec.ids.tools_gid))
        .with_context("giving the machine its device")?;
    clone_mount(KVM, false).map(Some)
}

/// Creates a user namespace that maps one user and group to others.
fn create_user_namespace(on_disk: (u32, u32), shown: (u32, u32)) -> Result<OwnedFd, LaunchFailure> {
    let (mut ready, mut ready_inside) = io::pipe().with_context("making a pipe")?;
    let (mut done_inside, done) = io::pipe().with_context("making a pipe")?;
    let child = match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            drop((ready, done));
            let mut ended = [0];
            if enter_user_namespace(&mut ready_inside).is_ok() {
                // Ends when the launcher closes its end of the pipe.
                let _ = done_inside.read(&mut ended);
            }
            sys::exit_now(0)
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((ready_inside, done_inside));
    let namespace = await_user_namespace(&mut ready).and_then(|()| {
        let proc = format!("/proc/{}", child.as_raw_nonzero());
        fs::write(format!("{proc}/uid_map"), format!("{} {} 1\n", on_disk.0, shown.0))
            .with_context("mapping an owner")?;
        fs::write(format!("{proc}/gid_map"), format!("{} {} 1\n", on_disk.1, shown.1))
            .with_context("mapping a group")?;
        fs::File::open(format!("{proc}/ns/user")).with_context("opening a user namespace")
    });
    drop(done);
    waitpid(Some(child), WaitOptions::empty()).with_context("waiting for a process")?;
    namespace.map(Into::into)
}

/// Enters a new user namespace, in a child process, and reports the outcome to the parent.
fn enter_user_namespace(parent: &mut PipeWriter) -> io::Result<()> {
    let entered = sys::unshare_namespaces(UnshareFlags::NEWUSER);
    let errno = entered.as_ref().err().and_then(io::Error::raw_os_error).unwrap_or_default();
    parent.write_all(&errno.to_ne_bytes())?;
    entered
}

/// Waits until a child process has tried to enter a new user namespace.
fn await_user_namespace(child: &mut PipeReader) -> Result<(), LaunchFailure> {
    let mut errno = 0_i32.to_ne_bytes();
    let entered = child.read_exact(&mut errno).and_then(|()| match i32::from_ne_bytes(errno) {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    });
    entered.with_context("making a user namespace")
}

/// Empties the index. Its files belong to the agent's user, so this runs inside a user namespace with that user.
fn empty_index(spec: &Spec) -> Result<(), LaunchFailure> {
    if spec.privileged {
        return jail::empty_folder(&spec.index).with_context("emptying the index");
    }
    let (mut up, mut up_inside) = io::pipe().with_context("making a pipe")?;
    let (mut down_inside, mut down) = io::pipe().with_context("making a pipe")?;
    let child = match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            drop((up, down));
            let outcome = enter_user_namespace(&mut up_inside)
                .and_then(|()| down_inside.read_exact(&mut [0]))
                .and_then(|()| jail::empty_folder(&spec.index));
            sys::exit_now(i32::from(outcome.is_err()))
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((up_inside, down_inside));
    await_user_namespace(&mut up)?;
    map_ids(child, spec)?;
    down.write_all(b"m").with_context("telling that ids are mapped")?;
    let ended = waitpid(Some(child), WaitOptions::empty()).with_context("waiting for a process")?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(LaunchFailure::from_reason("emptying the index", "some of its files could not be removed")),
    }
}

/// Describes the failure and how the operator can fix it.
fn explain_failure(failure: &LaunchFailure) -> String {
    let hints = [
        (
            "/proc/sys/kernel/unprivileged_userns_clone",
            "0",
            "user namespaces are off: set kernel.unprivileged_userns_clone=1",
        ),
        (
            "/proc/sys/user/max_user_namespaces",
            "0",
            "user namespaces are off: raise user.max_user_namespaces",
        ),
        (
            "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "AppArmor restricts user namespaces: add a profile that allows `userns` for this program, or set \
             kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ];
    let mut text = failure.to_string();
    let denied = failure.source.kind() == io::ErrorKind::PermissionDenied;
    for (path, value, hint) in hints {
        if fs::read_to_string(path).is_ok_and(|content| content.trim() == value) {
            text.push_str("; ");
            text.push_str(hint);
        }
    }
    if denied && !has_capability(CapabilitySet::SYS_ADMIN) && rustix::process::geteuid().is_root() {
        text.push_str("; root has no CAP_SYS_ADMIN here, as inside a container: start the container with --cap-add SYS_ADMIN \
             --security-opt unmask=ALL --security-opt seccomp=unconfined, or with --privileged");
    }
    if failure.source.raw_os_error() == Some(rustix::io::Errno::NOSYS.raw_os_error()) {
        text.push_str("; a filter of system calls denies it, as a container's does: start the container with --security-opt seccomp=unconfined");
    }
    if denied && failure.what.contains("/proc") {
        text.push_str("; parts of this host's /proc are masked, as inside a container, so the kernel refuses to mount a new one");
    }
    text
}

/// Reports whether this process has a capability.
fn has_capability(capability: CapabilitySet) -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(capability))
}
