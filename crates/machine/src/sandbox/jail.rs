//! The steps of a launch inside the namespaces: the maker enters them, then the init process prepares the agent.

use std::fs;
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use protocol::link::{PORT_READY, encode_frame};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, WaitOptions, WaitStatus, set_parent_process_death_signal, waitpid};
use rustix::thread::{Gid, Uid, UnshareFlags};

use super::agent_environment::agent_environment;
use super::bridge;
use super::carrier::KernelLink;
use super::init::{self, FolderLock, Processes, WatchedFiles};
use super::jail_layout::LISTENER;
use super::kernel::{self, Inheritance, InheritedTemplate};
use super::launch_pipe::{HeldFiles, die_with_parent, encode_failure, word};
use super::lease::LeaseWatch;
use super::monitor::Monitor;
use super::own_kernel::OwnKernel;
use super::privileges;
use super::root::{self, MountSources, clone_mount};
use super::spec::{LaunchTask, MachineLimits, SOCKET, Spec, TOOLS_ID};
use super::sys::{self, ForkSide, LaunchErrorContext, LaunchFailure};

/// The longest boot of a kernel that will be saved.
const SAVED_BOOT_TIMEOUT: Duration = Duration::from_secs(90);

/// The parameters that the launcher passes to the maker.
pub(crate) struct LaunchPlan<'a> {
    pub(crate) spec: &'a Spec,
    pub(crate) prepared: Option<MountSources>,
    pub(crate) log: fs::File,
    /// The files that the init process holds for its lifetime.
    pub(crate) held: HeldFiles,
    /// The memory and the state of the spec's template.
    pub(crate) template: Option<[fs::File; 2]>,
    pub(crate) up: PipeWriter,
    pub(crate) down: PipeReader,
    pub(crate) commit: PipeReader,
}

/// Enters the namespaces and starts the init process there, which dies with this process before the commit; exits
/// with the launcher.
pub(crate) fn run_maker(mut plan: LaunchPlan<'_>) -> ! {
    let entered = enter_namespaces(&mut plan).and_then(|entered| {
        let (alive, alive_here) = io::pipe().with_context("making a pipe")?;
        Ok((entered, alive, alive_here))
    });
    match entered {
        Ok(((listener, sources), alive, alive_here)) => match sys::fork_process() {
            Ok(ForkSide::Child) => {
                drop(alive_here);
                run_init(plan, &listener, &sources, &alive)
            }
            Ok(ForkSide::Parent(pid)) => {
                let [a, b, c, d] = pid.as_raw_nonzero().get().to_le_bytes();
                let sent = plan.up.write_all(&[word::PID, a, b, c, d]);
                // The launcher must notice when the others close their ends.
                let alone = sys::close_all_but(&[plan.down.as_raw_fd(), alive_here.as_raw_fd()]);
                if sent.is_ok() && alone.is_ok() {
                    // Without events, it returns when the launcher has closed its end.
                    let mut down = [PollFd::new(&plan.down, PollFlags::empty())];
                    let _ = retry_on_intr(|| poll(&mut down, None));
                }
                sys::exit_now(0)
            }
            Err(error) => exit_with_failure(&mut plan.up, &LaunchFailure::new("forking", error)),
        },
        Err(failure) => exit_with_failure(&mut plan.up, &failure),
    }
}

fn exit_with_failure(up: &mut PipeWriter, failure: &LaunchFailure) -> ! {
    // No other process could receive an error.
    let _ = up.write_all(&encode_failure(failure));
    sys::exit_now(1)
}

fn enter_namespaces(plan: &mut LaunchPlan<'_>) -> Result<(UnixListener, MountSources), LaunchFailure> {
    let namespaces = UnshareFlags::NEWUSER
        | UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    sys::unshare_namespaces(namespaces).with_context("making namespaces")?;
    plan.up.write_all(&[word::UNSHARED]).with_context("asking for the id maps")?;
    plan.down.read_exact(&mut [0]).with_context("waiting for the id maps")?;
    // Created here, so that the socket belongs to the inner network namespace, while this process still has the
    // service's user, who owns the folder of the socket.
    let listener = bind_agent_socket().with_context("making the agent's socket")?;
    let sources = match plan.prepared.take() {
        Some(sources) => sources,
        None => MountSources {
            workspace: clone_mount(&plan.spec.workspace, false)?,
            index: clone_mount(&plan.spec.index, false)?,
            agent: clone_mount(&plan.spec.agent, false)?,
            kernel: root::kernel_files(plan.spec)?,
            kvm: match &plan.spec.kernel {
                Some(kernel) if kernel.needs_kvm() => Some(clone_mount("/dev/kvm", false)?),
                _ => None,
            },
            image: plan.spec.image.as_ref().map(|image| clone_mount(&image.tree, false)).transpose()?,
            plugins: plan.spec.plugins.as_ref().map(|plugins| clone_mount(plugins, false)).transpose()?,
        },
    };
    rustix::thread::set_thread_groups(&[]).with_context("leaving the service's groups")?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)
        .with_context("becoming the agent's group")?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
        .with_context("becoming the agent's user")?;
    Ok((listener, sources))
}

fn bind_agent_socket() -> io::Result<UnixListener> {
    match fs::remove_file(SOCKET) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    UnixListener::bind(SOCKET)
}

/// Runs the init process.
fn run_init(
    mut plan: LaunchPlan<'_>,
    listener: &UnixListener,
    sources: &MountSources,
    maker: &PipeReader,
) -> ! {
    // No process inside can outlive this one.
    if let Err(error) = die_with_parent(maker) {
        exit_with_failure(
            &mut plan.up,
            &LaunchFailure::new("binding the first process to its launch", error),
        );
    }
    let (processes, output) = match prepare_machine(&mut plan, listener, sources) {
        Ok(started) => started,
        Err(failure) => exit_with_failure(&mut plan.up, &failure),
    };
    let committed = plan.up.write_all(&[word::READY]).is_ok()
        && plan.commit.read_exact(&mut [0]).is_ok()
        && set_parent_process_death_signal(None).is_ok();
    // From here on only these are used, and the process exits without running destructors.
    let HeldFiles { lock, image_lock, lease_page } = plan.held;
    let held = [&lock, &image_lock, &lease_page].into_iter().flatten().map(AsRawFd::as_raw_fd);
    let retained: Vec<_> = [output.as_raw_fd(), plan.log.as_raw_fd()].into_iter().chain(held).collect();
    if !committed || sys::close_all_but(&retained).is_err() {
        sys::exit_now(1);
    }
    let check_interval = Duration::from_millis(plan.spec.folder_check_ms);
    let lock = lock.map(|file| FolderLock { file, check_interval });
    let lease = lease_page
        .zip(plan.spec.lease.as_ref())
        .map(|(page, terms)| LeaseWatch::new(page, Duration::from_millis(terms.suspended_max_ms)));
    sys::exit_now(init::watch_machine(processes, output, plan.log, WatchedFiles { lock, lease }))
}

/// Sets up the machine and starts the agent in it, or the kernel that runs the agent. Returns the processes and their
/// output.
fn prepare_machine(
    plan: &mut LaunchPlan<'_>,
    listener: &UnixListener,
    sources: &MountSources,
) -> Result<(Processes, PipeReader), LaunchFailure> {
    // The launcher must have this process under control before it makes lasting changes.
    plan.down.read_exact(&mut [0]).with_context("waiting for the launcher")?;
    rustix::process::setsid().with_context("leaving the service's session")?;
    sys::set_name(c"causerie-vm").with_context("naming the first process")?;
    rustix::system::sethostname(b"machine").with_context("naming the machine")?;
    let null =
        fs::File::options().read(true).write(true).open("/dev/null").with_context("opening /dev/null")?;
    for number in 0..3 {
        sys::inherit_as(null.as_fd(), number).with_context("closing the service's standard streams")?;
    }
    rustix::process::umask(rustix::fs::Mode::from_bits_truncate(0o022));
    root::enter_root(sources, plan.spec)?;
    privileges::set_resource_limits(plan.spec)?;
    privileges::reduce_privileges()?;

    let (output, output_inside) = io::pipe().with_context("making a pipe")?;
    let (mut executed, mut executed_inside) = io::pipe().with_context("making a pipe")?;
    let template = plan.template.take();
    let connected = match &plan.spec.kernel {
        Some(kernel) => Some((connect_kernel(plan.spec, kernel, listener, template)?, kernel)),
        None => None,
    };
    let agent = match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            let failure = match &connected {
                Some(((inheritance, _), kernel)) => {
                    kernel::exec_kernel(plan.spec, kernel, inheritance, &output_inside)
                }
                None => become_agent(plan.spec, listener, &output_inside),
            };
            // The init process reads this, or the end of the pipe.
            let _ = executed_inside.write_all(format!("{}\n{}", failure.what, failure.source).as_bytes());
            sys::exit_now(127)
        }
        ForkSide::Parent(pid) => pid,
    };
    drop((executed_inside, output_inside));
    privileges::renounce_but_kill(plan.spec.has_cgroups())?;
    let mut text = String::new();
    executed.read_to_string(&mut text).with_context("waiting for the agent")?;
    if !text.is_empty() {
        let (what, why) = text.split_once('\n').unwrap_or((&text, ""));
        return Err(LaunchFailure::from_reason(what, why));
    }
    let Some(((inheritance, kernel_ends), _)) = connected else {
        if plan.spec.task == LaunchTask::Check {
            check_agent_exit(agent)?;
        }
        return Ok((Processes { agent, bridge: None }, output));
    };
    drop(inheritance);
    match kernel_ends.await_machine(agent) {
        Ok(bridge) => Ok((Processes { agent, bridge }, output)),
        Err(failure) => Err(LaunchFailure::from_reason(failure.to_string(), &boot_failure(agent, output))),
    }
}

/// The jail's ends of the connections with a kernel.
enum KernelEnds {
    Boots(BridgeProcess),
    /// The kernel continues when QEMU has read the saved one.
    Continues(BridgeProcess, Saving),
    /// The kernel boots to be saved.
    IsSaved {
        link: OwnedFd,
        saving: Saving,
    },
}

/// A connection to QEMU, and the file of the saved state.
struct Saving {
    monitor: OwnedFd,
    state: fs::File,
}

/// The process that connects the kernel with the service, and the pipe on which it reports that the machine is ready.
struct BridgeProcess {
    pid: Pid,
    ready: PipeReader,
}

/// Connects the jail with a kernel before its start.
fn connect_kernel(
    spec: &Spec,
    kernel: &OwnKernel,
    listener: &UnixListener,
    template: Option<[fs::File; 2]>,
) -> Result<(Inheritance, KernelEnds), LaunchFailure> {
    let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
    let kind = match kernel {
        OwnKernel::UserModeLinux(_) => SocketType::SEQPACKET,
        OwnKernel::Qemu(_) => SocketType::STREAM,
    };
    let (our_link, link) = pair(kind).with_context("making the kernel's link")?;
    let Some([memory, state]) = template else {
        let bridge = start_bridge(spec, kernel, listener, our_link)?;
        return Ok((Inheritance { link, template: None }, KernelEnds::Boots(bridge)));
    };
    let (our_monitor, monitor) = pair(SocketType::STREAM).with_context("making a connection to QEMU")?;
    let saving = Saving { monitor: our_monitor, state };
    let ends = match spec.task {
        LaunchTask::Save => KernelEnds::IsSaved { link: our_link, saving },
        LaunchTask::Run | LaunchTask::Check | LaunchTask::Clear => {
            KernelEnds::Continues(start_bridge(spec, kernel, listener, our_link)?, saving)
        }
    };
    Ok((Inheritance { link, template: Some(InheritedTemplate { monitor, memory }) }, ends))
}

impl KernelEnds {
    /// Waits until the machine is ready, or saved. Returns the bridge's process.
    fn await_machine(self, kernel: Pid) -> Result<Option<Pid>, LaunchFailure> {
        let bridge = match self {
            Self::Boots(bridge) => bridge,
            Self::Continues(bridge, Saving { monitor, state }) => {
                Monitor::open_monitor(monitor)?.restore_machine(&state)?;
                bridge
            }
            Self::IsSaved { link, saving: Saving { monitor, state } } => {
                // The machine must not see it closed before it is saved.
                let _connected = await_port(link)?;
                Monitor::open_monitor(monitor)?.save_machine(&state)?;
                // Until then it may write to the saved files.
                waitpid(Some(kernel), WaitOptions::empty()).with_context("waiting for QEMU's end")?;
                return Ok(None);
            }
        };
        let BridgeProcess { pid, mut ready } = bridge;
        // The bridge exits when the kernel does.
        match ready.read(&mut [0]).with_context("waiting for the kernel")? {
            0 => Err(LaunchFailure::from_reason("booting the machine's kernel", "its link was closed")),
            _ => Ok(Some(pid)),
        }
    }
}

/// Waits for the first frame of a machine that will be saved, and does not answer it. Returns the link.
fn await_port(link: OwnedFd) -> Result<UnixStream, LaunchFailure> {
    let (mut link, expected) = (UnixStream::from(link), encode_frame(PORT_READY));
    let mut received = vec![0; expected.len()];
    link.set_read_timeout(Some(SAVED_BOOT_TIMEOUT))
        .and_then(|()| link.read_exact(&mut received))
        .with_context("waiting for the kernel that is to be saved")?;
    if received == expected {
        Ok(link)
    } else {
        Err(LaunchFailure::from_reason("saving the machine", "its first frame is wrong"))
    }
}

fn start_bridge(
    spec: &Spec,
    kernel: &OwnKernel,
    listener: &UnixListener,
    link: OwnedFd,
) -> Result<BridgeProcess, LaunchFailure> {
    let (ready, ready_inside) = io::pipe().with_context("making a pipe")?;
    match sys::fork_process().with_context("forking")? {
        ForkSide::Child => {
            drop(ready);
            let served =
                sys::close_all_but(&[listener.as_raw_fd(), link.as_raw_fd(), ready_inside.as_raw_fd()])
                    .with_context("closing descriptors")
                    .and_then(|()| sys::set_name(c"machine-bridge").with_context("naming the bridge"))
                    .and_then(|()| privileges::renounce_privileges(spec.has_cgroups()))
                    .and_then(|()| open_link(spec, kernel, link).with_context("preparing the link"))
                    .and_then(|link| {
                        bridge::run_bridge(listener.as_fd(), link, ready_inside).with_context("bridging")
                    });
            sys::exit_now(i32::from(served.is_err()))
        }
        ForkSide::Parent(pid) => Ok(BridgeProcess { pid, ready }),
    }
}

fn open_link(spec: &Spec, kernel: &OwnKernel, socket: OwnedFd) -> io::Result<KernelLink> {
    match kernel {
        OwnKernel::UserModeLinux(_) => KernelLink::from_ethernet(socket),
        OwnKernel::Qemu(_) if spec.template.is_some() => KernelLink::saved_port(socket),
        OwnKernel::Qemu(_) => KernelLink::from_serial_port(socket),
    }
}

/// Waits a moment for the end of a kernel that has failed. Returns its status; `None` if it keeps running, as a
/// compromised one does. It ends with the jail.
fn await_end(kernel: Pid) -> Option<WaitStatus> {
    const ENDS_WITHIN: Duration = Duration::from_secs(2);
    let (signals, began) = (sys::open_signal_fd().ok()?, Instant::now());
    loop {
        if let Ok(Some((_, status))) = waitpid(Some(kernel), WaitOptions::NOHANG) {
            return Some(status);
        }
        let left = ENDS_WITHIN.checked_sub(began.elapsed())?;
        // The exit of a child raises a signal.
        poll(&mut [PollFd::new(&signals, PollFlags::IN)], Timespec::try_from(left).ok().as_ref()).ok()?;
        sys::received_term(&signals);
    }
}

/// Returns the kernel's last output and its exit status, for the report of a failed start.
fn boot_failure(kernel: Pid, output: PipeReader) -> String {
    /// The maximum length of the report, in bytes.
    const SHOWN_MAX: usize = 512;
    const READ_MAX: u64 = 64 * 1024;
    let ended = match await_end(kernel).map(|status| (status.exit_status(), status.terminating_signal())) {
        Some((Some(code), _)) => format!("it ended with status {code}"),
        Some((None, Some(signal))) => format!("it ended by signal {signal}"),
        _ => "it runs on".to_owned(),
    };
    let mut text = Vec::new();
    // Reports the output until a read fails, and does not wait for more.
    let _ = rustix::io::ioctl_fionbio(&output, true);
    let _ = output.take(READ_MAX).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    // A panicking kernel prints the reason, then the place, which is not needed.
    let panic = text.find("Kernel panic - ").and_then(|at| text.get(..at + text.get(at..)?.find('\n')?));
    let words = panic.unwrap_or(&text).trim();
    let start = words.len().saturating_sub(SHOWN_MAX);
    let words: String =
        words.char_indices().filter(|(at, _)| *at >= start).map(|(_, letter)| letter).collect();
    if words.is_empty() { ended } else { format!("{ended}: {words}") }
}

/// Becomes the agent. Returns only after a failure.
fn become_agent(spec: &Spec, listener: &UnixListener, output: &PipeWriter) -> LaunchFailure {
    let prepared = || -> Result<(), LaunchFailure> {
        sys::inherit_as(listener.as_fd(), LISTENER).with_context("handing over the socket")?;
        sys::inherit_as(output.as_fd(), 1).with_context("handing over standard output")?;
        sys::inherit_as(output.as_fd(), 2).with_context("handing over standard error")?;
        sys::reset_signals().with_context("resetting signals")?;
        privileges::filter_system_calls(spec.has_cgroups())
    };
    if let Err(failure) = prepared() {
        return failure;
    }
    match spec.task {
        LaunchTask::Check => check_as_tools(spec),
        LaunchTask::Run | LaunchTask::Save | LaunchTask::Clear => LaunchFailure::new(
            "executing the agent",
            sys::exec_program("/agent", &[], &agent_environment(&spec.limits, spec.has_cgroups())),
        ),
    }
}

/// Takes the place of the agent in the self-test: becomes the tools' user, as the agent does for every tool, and runs
/// a program of the host or of the image.
fn check_as_tools(spec: &Spec) -> LaunchFailure {
    let (uid, gid) = (Uid::from_raw(TOOLS_ID), Gid::from_raw(TOOLS_ID));
    let changed = rustix::thread::set_thread_groups(&[])
        .and_then(|()| rustix::thread::set_thread_res_gid(gid, gid, gid))
        .and_then(|()| rustix::thread::set_thread_res_uid(uid, uid, uid));
    // An image may have a home folder.
    let check = if spec.image.is_some() { CHECK.to_owned() } else { format!("{CHECK} && ! test -e /home") };
    match changed {
        Ok(()) => LaunchFailure::new(
            "running /bin/sh inside",
            sys::exec_program(
                "/bin/sh",
                &["-c", &check],
                &agent_environment(&MachineLimits::default(), false),
            ),
        ),
        Err(error) => LaunchFailure::new("becoming the tools' user", error),
    }
}

/// The self-test of the sandbox, run by a shell inside: the right user, a writable workspace, a read-only system, and
/// nothing of the host.
const CHECK: &str = "test \"$(id -u)\" = 1000 && : > /workspace/.causerie-check && rm /workspace/.causerie-check \
    && ! test -e /sys && ! test -w /usr && ! test -r /index && test -r /proc/self/status";

fn check_agent_exit(agent: Pid) -> Result<(), LaunchFailure> {
    let ended = waitpid(Some(agent), WaitOptions::empty()).with_context("waiting for the trial")?;
    match ended.and_then(|(_, status)| status.exit_status()) {
        Some(0) => Ok(()),
        _ => Err(LaunchFailure::from_reason("trying the jail", "what must hold inside does not")),
    }
}

/// Removes the contents of a folder.
pub(crate) fn empty_folder(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
