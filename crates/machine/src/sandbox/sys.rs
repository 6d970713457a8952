//! System calls that rustix does not wrap, or wraps as unsafe. Contains all unsafe code of this crate.
#![expect(unsafe_code, reason = "system calls without a safe wrapper; each block says why it is sound")]

use std::ffi::{CStr, CString};
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use rustix::thread::{CpuSet, UnshareFlags, sched_getcpu, sched_setaffinity};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A failed step of a launch, described for the operator.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub(crate) struct LaunchFailure {
    pub(crate) what: String,
    pub(crate) source: io::Error,
}

impl LaunchFailure {
    pub(crate) fn new(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self { what: what.into(), source: source.into() }
    }

    pub(crate) fn from_reason(what: impl Into<String>, why: &str) -> Self {
        Self::new(what, io::Error::other(why.to_owned()))
    }
}

/// Names the step in which an error occurred.
pub(crate) trait LaunchErrorContext<T> {
    fn with_context(self, what: &str) -> Result<T, LaunchFailure>;
}

impl<T, E: Into<io::Error>> LaunchErrorContext<T> for Result<T, E> {
    fn with_context(self, what: &str) -> Result<T, LaunchFailure> {
        self.map_err(|source| LaunchFailure::new(what, source))
    }
}

/// The side of a fork on which the caller continues.
pub(crate) enum ForkSide {
    Child,
    Parent(Pid),
}

/// Forks. Only the launcher calls this, which has a single thread.
pub(crate) fn fork_process() -> io::Result<ForkSide> {
    // SAFETY: the launcher has one thread, so that the child inherits no lock that another thread holds.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(ForkSide::Child),
        pid => Pid::from_raw(pid).map(ForkSide::Parent).ok_or_else(io::Error::last_os_error),
    }
}

/// Ends the process without running destructors or exit handlers, as a forked child must.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: ends the process; nothing of ours runs afterwards.
    unsafe { libc::_exit(code) }
}

/// Moves to new namespaces of the kinds in `flags`.
pub(crate) fn unshare_namespaces(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the callers never pass `FILES`, which alone would make descriptors of other threads invalid.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(Into::into)
}

/// Closes every descriptor from `first` on.
pub(crate) fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: the launcher calls this before it owns any descriptor above `first`.
    match unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Closes every descriptor above standard error except the ones in `retained`; their owners must not use them again.
pub(crate) fn close_all_but(retained: &[RawFd]) -> io::Result<()> {
    let mut retained: Vec<u32> = retained.iter().filter_map(|fd| u32::try_from(*fd).ok()).collect();
    retained.sort_unstable();
    let mut first = 3;
    for fd in retained.into_iter().chain([u32::MAX]) {
        if first < fd {
            let last = if fd == u32::MAX { fd } else { fd - 1 };
            // SAFETY: only the init process of the jail calls this, once, and uses nothing but `retained` afterwards;
            // it exits by `_exit`, so that no destructor closes a reused descriptor number.
            if unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        first = fd.saturating_add(1);
    }
    Ok(())
}

/// Duplicates `fd` to the descriptor `number`, which the next executed program inherits.
pub(crate) fn inherit_as(fd: BorrowedFd<'_>, number: RawFd) -> io::Result<()> {
    // SAFETY: called in a forked child just before it executes; the previous descriptor `number` is not used again.
    let result = unsafe {
        if fd.as_raw_fd() == number {
            libc::fcntl(number, libc::F_SETFD, 0)
        } else {
            libc::dup2(fd.as_raw_fd(), number)
        }
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Changes the attributes of a mount, and with `recursive` also of the mounts below it.
pub(crate) fn mount_setattr(
    mount: BorrowedFd<'_>,
    recursive: bool,
    set: u64,
    owners: Option<BorrowedFd<'_>>,
) -> io::Result<()> {
    let owners_fd = match owners {
        Some(fd) => u64::try_from(fd.as_raw_fd()).map_err(io::Error::other)?,
        None => 0,
    };
    let idmap = if owners.is_some() { libc::MOUNT_ATTR_IDMAP } else { 0 };
    let attr = libc::mount_attr { attr_set: set | idmap, attr_clr: 0, propagation: 0, userns_fd: owners_fd };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is an empty C string, and `attr` with its size lives through the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Removes every capability except `retained` from the bounding set.
pub(crate) fn bound_capabilities(retained: &[u32]) -> io::Result<()> {
    /// The kernel's set has 64 bits.
    const CAPABILITIES_MAX: u32 = 64;
    for capability in (0..CAPABILITIES_MAX).filter(|capability| !retained.contains(capability)) {
        // SAFETY: a plain prctl with integer arguments.
        if unsafe { libc::prctl(libc::PR_CAPBSET_DROP, libc::c_ulong::from(capability), 0, 0, 0) } == -1 {
            let error = io::Error::last_os_error();
            // The kernel has no capability with this or a greater number.
            return if error.raw_os_error() == Some(libc::EINVAL) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// Blocks SIGTERM and SIGCHLD. Returns a descriptor that is readable when one of them was received.
pub(crate) fn open_signal_fd() -> io::Result<OwnedFd> {
    // SAFETY: the set lives on the stack through all calls; the descriptor that comes back is fresh and ours alone.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) == -1 {
            return Err(io::Error::last_os_error());
        }
        match libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
            -1 => Err(io::Error::last_os_error()),
            fd => Ok(OwnedFd::from_raw_fd(fd)),
        }
    }
}

/// Returns true if SIGTERM was received through the descriptor of [`open_signal_fd`].
pub(crate) fn received_term(signals: &OwnedFd) -> bool {
    /// The size of the kernel's `signalfd_siginfo`; its first four bytes are the signal's number.
    const RECORD: usize = 128;
    let mut records = [0; RECORD * 4];
    let length = rustix::io::read(signals, &mut records).unwrap_or(0);
    records
        .get(..length)
        .unwrap_or_default()
        .chunks_exact(RECORD)
        .any(|record| record.first_chunk().is_some_and(|number| i32::from_ne_bytes(*number) == libc::SIGTERM))
}

/// Resets signals to the defaults of a new program: none blocked, SIGPIPE terminates it.
pub(crate) fn reset_signals() -> io::Result<()> {
    // SAFETY: the set lives on the stack through the calls; the default action needs no handler.
    unsafe {
        let mut set: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        if libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Executes another program. Returns only after a failure, with its cause.
pub(crate) fn exec_program(program: &str, arguments: &[&str], environment: &[String]) -> io::Error {
    fn to_c_strings<'a>(texts: impl Iterator<Item = &'a str>) -> io::Result<Vec<CString>> {
        texts.map(|text| CString::new(text).map_err(io::Error::other)).collect()
    }
    let prepared = CString::new(program).map_err(io::Error::other).and_then(|path| {
        let arguments = to_c_strings(std::iter::once(program).chain(arguments.iter().copied()))?;
        Ok((path, arguments, to_c_strings(environment.iter().map(String::as_str))?))
    });
    let (path, arguments, environment) = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, envp) = (pointers(&arguments), pointers(&environment));
    // SAFETY: both arrays end with a null pointer, and their strings live through the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Binds the calling process and its children to the processor that the scheduler has chosen for it.
pub(crate) fn stay_on_processor() -> io::Result<()> {
    let (processor, mut processors) = (sched_getcpu(), CpuSet::new());
    if processor >= CpuSet::MAX_CPU {
        return Ok(());
    }
    processors.set(processor);
    Ok(sched_setaffinity(None, &processors)?)
}

/// Disables address randomization for the next executed program.
pub(crate) fn keep_addresses() -> io::Result<()> {
    let domain = libc::c_ulong::try_from(libc::ADDR_NO_RANDOMIZE).map_err(io::Error::other)?;
    // SAFETY: changes how later programs are laid out, and nothing of this one.
    if unsafe { libc::personality(domain) } == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Measures the frequency of the processor's time stamp counter, in kHz. Blocks for a fifth of a second.
pub(crate) fn measure_time_stamps() -> io::Result<u32> {
    const BETWEEN: Duration = Duration::from_millis(200);
    let (began, first) = time_stamp()?;
    std::thread::sleep(BETWEEN);
    let (ended, last) = time_stamp()?;
    let micros = ended.duration_since(began).as_nanos() / 1000;
    let khz = u128::from(last.saturating_sub(first)) * 1000 / micros.max(1);
    u32::try_from(khz)
        .ok()
        .filter(|khz| *khz > 0)
        .ok_or_else(|| io::Error::other("no time stamp counter found"))
}

/// Returns the time and the time stamp counter of the same moment.
#[cfg(target_arch = "x86_64")]
fn time_stamp() -> io::Result<(Instant, u64)> {
    const TRIALS: u32 = 100;
    // SAFETY: every processor of this architecture has the instruction; systems permit it.
    let read = || unsafe { std::arch::x86_64::_rdtsc() };
    let trials = (0..TRIALS).map(|_| {
        let (before, time, after) = (read(), Instant::now(), read());
        (after.saturating_sub(before), time, before.midpoint(after))
    });
    // The least interrupted one.
    let best = trials.min_by_key(|(took, ..)| *took);
    best.map(|(_, time, stamp)| (time, stamp))
        .ok_or_else(|| io::Error::other("the time stamp counter cannot be read"))
}

#[cfg(not(target_arch = "x86_64"))]
fn time_stamp() -> io::Result<(Instant, u64)> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Sets the name of the calling process in process lists, truncated to 15 bytes.
pub(crate) fn set_name(name: &CStr) -> io::Result<()> {
    rustix::thread::set_name(name).map_err(Into::into)
}

/// Occupies descriptor 3, so that no pipe gets the number of the agent's listener.
pub(crate) fn reserve_numbers(last: RawFd) -> io::Result<()> {
    loop {
        let null = rustix::fs::open(
            "/dev/null",
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )?;
        if null.as_raw_fd() > last {
            return Ok(());
        }
        mem::forget(null);
    }
}

/// Creates a descriptor of a process for waiting with tokio.
pub(crate) fn watch_process(process: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` names the same open descriptor for its whole life, and the `AsyncFd` owns it.
    unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }.map_err(Into::into)
}

/// The project of a file or folder, and its flags (`struct fsxattr`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileProject {
    pub(crate) flags: u32,
    pub(crate) project: u32,
}

/// `struct fsxattr` of the kernel.
#[repr(C)]
#[derive(Default)]
struct FsXattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    cow_extent_size: u32,
    padding: [u8; 8],
}

const FS_IOC_FSGETXATTR: libc::Ioctl = 0x801C_581F;
const FS_IOC_FSSETXATTR: libc::Ioctl = 0x401C_5820;

/// Returns the project of an open file.
pub(crate) fn file_project(file: BorrowedFd<'_>) -> io::Result<FileProject> {
    let attributes = read_attributes(file)?;
    Ok(FileProject { flags: attributes.flags, project: attributes.project })
}

/// Sets the project of an open file; its other attributes stay.
pub(crate) fn set_file_project(file: BorrowedFd<'_>, wanted: FileProject) -> io::Result<()> {
    let attributes = FsXattr { flags: wanted.flags, project: wanted.project, ..read_attributes(file)? };
    // SAFETY: the kernel reads a `struct fsxattr`, which lives through the call.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FSSETXATTR, &raw const attributes) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn read_attributes(file: BorrowedFd<'_>) -> io::Result<FsXattr> {
    let mut attributes = FsXattr::default();
    // SAFETY: the kernel writes a `struct fsxattr`, which this matches in size and layout.
    let outcome = unsafe { libc::ioctl(file.as_raw_fd(), FS_IOC_FSGETXATTR, &raw mut attributes) };
    if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

/// `QCMD(command, PRJQUOTA)` of the kernel.
const fn of_projects(command: u32) -> libc::c_uint {
    const PRJQUOTA: u32 = 2;
    (command << 8) | PRJQUOTA
}

/// Returns true if the file system of a folder enforces the limits of projects.
pub(crate) fn enforces_project_quotas(folder: BorrowedFd<'_>) -> io::Result<bool> {
    const Q_XGETQSTATV: u32 = 0x5808;
    const VERSION: u8 = 1;
    /// `FS_QUOTA_PDQ_ENFD`.
    const ENFORCED: u8 = 1 << 5;
    // `struct fs_quota_statv`, 168 bytes: its version, a byte of padding, 16 bits of flags, and unused fields.
    let mut state = [0_u64; 32];
    state[0] = u64::from_ne_bytes([VERSION, 0, 0, 0, 0, 0, 0, 0]);
    // SAFETY: the kernel writes no more than its structure, which fits and is suitably aligned.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            folder.as_raw_fd(),
            of_projects(Q_XGETQSTATV),
            0,
            state.as_mut_ptr(),
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    let bytes = state[0].to_ne_bytes();
    Ok(u16::from_ne_bytes([bytes[2], bytes[3]]) & u16::from(ENFORCED) != 0)
}

/// Sets the limits of a project on the file system of a folder. Requires root.
pub(crate) fn limit_project(
    folder: BorrowedFd<'_>,
    project: u32,
    bytes_max: u64,
    files_max: u64,
) -> io::Result<()> {
    /// `struct if_dqblk` of the kernel.
    #[repr(C)]
    #[derive(Default)]
    struct DiskQuotaBlock {
        blocks_max: u64,
        blocks_soft: u64,
        bytes: u64,
        files_max: u64,
        files_soft: u64,
        files: u64,
        blocks_time: u64,
        files_time: u64,
        valid: u32,
    }
    const Q_SETQUOTA: u32 = 0x0080_0008;
    const BLOCK_BYTES: u64 = 1024;
    /// `QIF_BLIMITS | QIF_ILIMITS`.
    const LIMITS: u32 = 1 | 4;
    let mut limits = DiskQuotaBlock {
        blocks_max: bytes_max.div_ceil(BLOCK_BYTES),
        files_max,
        valid: LIMITS,
        ..DiskQuotaBlock::default()
    };
    // SAFETY: the kernel reads a `struct if_dqblk`, which this matches in size and layout.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_quotactl_fd,
            folder.as_raw_fd(),
            of_projects(Q_SETQUOTA),
            project,
            &raw mut limits,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
