//! The agent's process in a virtual machine, as process 1 starts it: with no more privileges than it needs, before anything
//! that belongs to an account is in the machine.
#![expect(unsafe_code, reason = "the agent is started with fewer privileges")]

use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use protocol::link;
use rustix::process::{Pid, Resource, Rlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::listener::{LISTEN_FD, WAITS_ARGUMENT};

/// The capabilities of the agent: it runs tools as another user, ends them, reads the index, whose files the kernel shows
/// as the tools' user's, and reopens a workspace that a tool has closed.
const AGENT_CAPABILITIES: CapabilitySet = CapabilitySet::KILL
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER);
/// Environment of the largest file, in bytes, and of the maximum number of processes.
const FILE_BYTES: &str = "CAUSERIE_FILE_BYTES";
const PROCESSES: &str = "CAUSERIE_PROCESSES";

#[derive(Debug)]
pub(crate) struct AgentProcess {
    pid: Pid,
    /// The other end of its standard input, if it waits.
    waits: Option<UnixStream>,
}

impl AgentProcess {
    /// Starts the agent with the listener. This process must have a single thread.
    pub(crate) fn start(listener: &TcpListener) -> io::Result<Self> {
        let pid = spawn_agent(serve_command(), listener)?;
        Ok(Self { pid, waits: None })
    }

    /// Starts the agent, which then waits for the signal to continue. This process must have a single thread.
    pub(crate) fn start_waiting(listener: &TcpListener) -> io::Result<Self> {
        let (mut ours, its) = UnixStream::pair()?;
        let mut command = serve_command();
        command.arg(WAITS_ARGUMENT).stdin(OwnedFd::from(its));
        let pid = spawn_agent(command, listener)?;
        ours.read_exact(&mut [0])?;
        Ok(Self { pid, waits: Some(ours) })
    }

    /// Tells the agent to continue, if it waits. Returns its process.
    pub(crate) fn resume_process(self) -> io::Result<Pid> {
        if let Some(mut waits) = self.waits {
            waits.write_all(&[1])?;
        }
        Ok(self.pid)
    }
}

/// A limit that the host put into the environment.
pub(crate) fn limit_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn serve_command() -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("serve").env("CAUSERIE_INDEX", link::INDEX);
    command
}

fn spawn_agent(mut command: Command, listener: &TcpListener) -> io::Result<Pid> {
    let listener = OwnedFd::from(listener.try_clone()?);
    rustix::io::fcntl_setfd(&listener, rustix::io::FdFlags::empty())?;
    command.env(LISTEN_FD, listener.as_raw_fd().to_string());
    // When memory runs out, the kernel kills tools, which raise this number for themselves, but never the agent.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let bounds = [
        (Resource::Core, Some(0)),
        (Resource::Fsize, limit_from_environment(FILE_BYTES)),
        (Resource::Nproc, limit_from_environment(PROCESSES)),
    ];
    let confine = move || {
        for (resource, bound) in bounds {
            if bound.is_some() {
                setrlimit(resource, Rlimit { current: bound, maximum: bound })?;
            }
        }
        reduce_privileges()
    };
    // SAFETY: the closure makes system calls only, in a process with a single thread.
    unsafe { command.pre_exec(confine) };
    command.spawn().map(|agent| Pid::from_child(&agent))
}

fn reduce_privileges() -> io::Result<()> {
    for capability in CapabilitySet::all().difference(AGENT_CAPABILITIES).iter() {
        match remove_capability_from_bounding_set(capability) {
            // A kernel that does not support it does not grant it either.
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let sets = CapabilitySets {
        effective: AGENT_CAPABILITIES,
        permitted: AGENT_CAPABILITIES,
        inheritable: CapabilitySet::empty(),
    };
    set_no_new_privs(true)?;
    set_capabilities(None, sets)?;
    seccomp::apply_profile(seccomp::SeccompProfile::Agent { counted: true })
}
