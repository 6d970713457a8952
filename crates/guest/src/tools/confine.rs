//! Confines a tool's process before it handles untrusted input: user, privileges, memory, system calls, and access
//! to files outside the workspace.
#![expect(unsafe_code, reason = "forking, and closing descriptors by number, have no safe form")]

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
    path_beneath_rules,
};
use rustix::process::{Pid, Resource, Rlimit, getgroups, getrlimit, getuid, setrlimit, setsid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, set_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccomp::SeccompProfile;
use serde::{Deserialize, Serialize};

use super::{ToolLimits, kill, watch};
use crate::memory_group::join_tool_group;

/// The address space per byte of memory that commands may reserve; programs reserve far more addresses than they
/// use.
const ADDRESSES_PER_MEMORY: u64 = 64;
/// The maximum number of open files per process.
const OPEN_FILES_MAX: u64 = 1024;
/// The CPU time of an MCP server, in seconds; the kernel kills it afterwards and it is restarted.
const SERVER_CPU_SECONDS: u64 = 3600;
/// Devices that commands may write to.
const DEVICES: [&str; 7] =
    ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/shm"];
/// The sources of random bytes for a static program; ciphers of documents need them.
const RANDOM: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// The resources and rights of a tool's process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Confinement {
    user: Option<(u32, u32)>,
    memory_bytes: u64,
    address_bytes: u64,
    processes: u64,
    file_bytes: u64,
    cpu_seconds: u64,
    readable: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    /// True if it may start processes and execute programs.
    may_start: bool,
}

impl Confinement {
    /// Creates the confinement of a worker: it sees only the workspace and random bytes.
    pub(super) fn of_worker(limits: &ToolLimits, time_max: Duration, writes: bool) -> Self {
        Self {
            user: limits.tools_user,
            memory_bytes: limits.memory_bytes,
            address_bytes: limits.memory_bytes,
            processes: limits.processes,
            file_bytes: limits.file_bytes,
            cpu_seconds: time_max.as_secs(),
            readable: RANDOM.into_iter().map(PathBuf::from).chain([limits.workspace.clone()]).collect(),
            writable: if writes { vec![limits.workspace.clone()] } else { Vec::new() },
            may_start: false,
        }
    }

    /// Creates the confinement of a program that reads a document: like a command's, but without write access.
    pub(super) fn of_program(limits: &ToolLimits, time_max: Duration) -> Self {
        Self { writable: vec![PathBuf::from("/dev/null")], ..Self::of_shell(limits, time_max) }
    }

    /// Creates the confinement of an MCP server: like a command's, but for a long-lived process.
    pub(crate) fn of_server(limits: &ToolLimits) -> Self {
        Self {
            cpu_seconds: SERVER_CPU_SECONDS,
            file_bytes: limits.file_bytes,
            ..Self::of_shell(limits, Duration::ZERO)
        }
    }

    /// Creates the confinement of a command, which may execute the machine's programs.
    pub(super) fn of_shell(limits: &ToolLimits, time_max: Duration) -> Self {
        // Other processes of the agent's user count towards the same limit.
        let others = if limits.tools_user.is_none() { kill::count_user(getuid().as_raw()) } else { 0 };
        let mut writable = vec![limits.workspace.clone(), limits.temp.clone()];
        writable.extend(DEVICES.into_iter().map(PathBuf::from));
        Self {
            user: limits.tools_user,
            memory_bytes: limits.memory_bytes,
            address_bytes: limits.memory_bytes.saturating_mul(ADDRESSES_PER_MEMORY),
            processes: limits.processes.saturating_add(others),
            file_bytes: watch::file_bytes(limits),
            cpu_seconds: time_max.as_secs().saturating_add(1),
            readable: vec![PathBuf::from("/")],
            writable,
            may_start: true,
        }
    }
}

/// The reason why a process could not be confined; it must exit.
#[derive(Debug, thiserror::Error)]
#[error("the tool cannot be confined: {doing}: {source}")]
pub(crate) struct ConfineError {
    doing: &'static str,
    source: io::Error,
}

trait ConfineErrorContext<T> {
    fn with_context(self, doing: &'static str) -> Result<T, ConfineError>;
}

impl<T, E: Into<io::Error>> ConfineErrorContext<T> for Result<T, E> {
    fn with_context(self, doing: &'static str) -> Result<T, ConfineError> {
        self.map_err(|error| ConfineError { doing, source: error.into() })
    }
}

/// Confines the calling process and all its descendants. The process must have a single thread. Descriptors above
/// standard error are closed on exec.
///
/// # Errors
/// Fails if any layer but Landlock, which not every kernel supports, is unavailable.
pub(crate) fn confine_process(confinement: &Confinement) -> Result<(), ConfineError> {
    close_on_exec().with_context("closing descriptors")?;
    // A forked process may already lead a session.
    let _ = setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    // When memory runs out, the kernel kills tools before the agent.
    let _ = std::fs::write("/proc/self/oom_score_adj", "1000");
    join_tool_group();
    limit_resources(confinement)?;
    if let Some((user, group)) = confinement.user {
        become_user(user, group)?;
    }
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).with_context("giving up capabilities")?;
    set_no_new_privs(true).with_context("giving up new privileges")?;
    let _ = restrict_files(confinement);
    let profile = if confinement.may_start { SeccompProfile::Program } else { SeccompProfile::Worker };
    seccomp::apply_profile(profile).with_context("filtering system calls")
}

/// Confines the calling process further, as a worker, once it has run the program that it was confined for.
///
/// # Errors
/// Fails if a layer but Landlock is unavailable.
pub(super) fn narrow_to_worker(confinement: &Confinement) -> Result<(), ConfineError> {
    limit_resources(confinement)?;
    let _ = restrict_files(confinement);
    seccomp::apply_profile(SeccompProfile::Worker).with_context("filtering system calls")
}

fn limit_resources(confinement: &Confinement) -> Result<(), ConfineError> {
    let bounds = [
        (Resource::Core, 0),
        (Resource::Data, confinement.memory_bytes),
        (Resource::As, confinement.address_bytes),
        (Resource::Nproc, confinement.processes),
        (Resource::Fsize, confinement.file_bytes),
        (Resource::Cpu, confinement.cpu_seconds),
        (Resource::Nofile, OPEN_FILES_MAX),
    ];
    for (resource, bound) in bounds {
        let bound = getrlimit(resource).maximum.map_or(bound, |maximum| maximum.min(bound));
        setrlimit(resource, Rlimit { current: Some(bound), maximum: Some(bound) })
            .with_context("limiting resources")?;
    }
    Ok(())
}

fn become_user(user: u32, group: u32) -> Result<(), ConfineError> {
    let (user, group) = (rustix::process::Uid::from_raw(user), rustix::process::Gid::from_raw(group));
    if let Err(error) = set_thread_groups(&[]) {
        // Without permission to set groups, the process must have none.
        if !getgroups().with_context("reading groups")?.is_empty() {
            return Err(error).with_context("leaving groups");
        }
    }
    set_thread_res_gid(group, group, group).with_context("changing the group")?;
    set_thread_res_uid(user, user, user).with_context("changing the user")?;
    if getuid() != user || rustix::process::getgid() != group {
        return Err(io::Error::other("the user ID did not change")).with_context("changing the user");
    }
    Ok(())
}

/// Restricts file access with Landlock, best effort: kernels without it rely on the other layers.
fn restrict_files(confinement: &Confinement) -> Result<(), RulesetError> {
    const KNOWN: ABI = ABI::V7;
    let every = AccessFs::from_all(KNOWN);
    Ruleset::default()
        .handle_access(every)?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(&confinement.readable, AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(&confinement.writable, every))?
        .restrict_self()?;
    Ok(())
}

fn close_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call takes three integers and only sets a flag on descriptors of this process.
    let done =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The return of [`fork_process`] in each of the two processes.
pub(super) enum ForkedProcess {
    Parent(Pid),
    Child,
}

/// Forks the calling process, which must have a single thread.
///
/// # Errors
/// Fails if the process limit is reached.
pub(super) fn fork_process() -> io::Result<ForkedProcess> {
    // SAFETY: the process has a single thread, so the child may do anything that its parent may; each continues
    // with its own memory.
    match unsafe { libc::fork() } {
        0 => Ok(ForkedProcess::Child),
        pid => Pid::from_raw(pid)
            .filter(|_| pid > 0)
            .map(ForkedProcess::Parent)
            .ok_or_else(io::Error::last_os_error),
    }
}
