//! System calls that no tool may make. Programs see what a kernel without the feature would say.

use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, sock_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

type Rules = Vec<(i64, Vec<SeccompRule>)>;

/// Denied to every tool.
const NEVER: &[i64] = &[
    // Other processes' memory and files.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Corners of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_personality,
    libc::SYS_vmsplice,
    libc::SYS_memfd_secret,
    // The machine as a whole.
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_kexec_file_load,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_sysfs,
];

/// What only starts something new; a worker that reads documents has no use for it.
const STARTING: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_clone,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Calls that newer libraries try first and do without; their arguments lie in memory, where no filter looks.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_fchmodat2];

/// Filters the calls of this process and all that it will start.
///
/// # Errors
/// When the kernel does not take a filter.
pub(super) fn deny(may_start: bool) -> io::Result<()> {
    for program in programs(may_start).map_err(io::Error::other)? {
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn programs(may_start: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let mut denied = always(NEVER);
    let mut unknown = always(UNKNOWN);
    if may_start {
        // A mode given to it could make a set-id file. Workers, which start nothing, need it for their paths.
        unknown.extend(always(&[libc::SYS_openat2]));
        denied.push((libc::SYS_clone, namespaces()?));
    } else {
        denied.extend(always(STARTING));
    }
    denied.extend(set_id_modes()?);
    denied.push((libc::SYS_ioctl, terminals()?));
    let mut filters = vec![
        filter(unknown, libc::ENOSYS)?,
        filter(sockets(may_start)?, libc::EAFNOSUPPORT)?,
        filter(denied, libc::EPERM)?,
    ];
    if cfg!(target_arch = "x86_64") {
        filters.push(without_x32());
    }
    Ok(filters)
}

fn filter(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, answer, ARCH)?.try_into()
}

fn always(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// A rule that holds when all the bits are set in the argument.
fn has_bits(argument: u8, bits: u32) -> Result<SeccompCondition, BackendError> {
    let operator = SeccompCmpOp::MaskedEq(u64::from(bits));
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, u64::from(bits))
}

/// `clone` with any flag that makes a namespace.
fn namespaces() -> Result<Vec<SeccompRule>, BackendError> {
    const CLONE_NEWTIME: i32 = 0x80;
    [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        CLONE_NEWTIME,
    ]
    .into_iter()
    .map(|flag| SeccompRule::new(vec![has_bits(0, flag.cast_unsigned())?]))
    .collect()
}

/// Modes by which a program would run as its file's owner: within the machine that is of no use, but the file
/// is real on the host.
fn set_id_modes() -> Result<Rules, BackendError> {
    let rules = |argument: u8| -> Result<Vec<SeccompRule>, BackendError> {
        [libc::S_ISUID, libc::S_ISGID]
            .into_iter()
            .map(|bit| SeccompRule::new(vec![has_bits(argument, bit)?]))
            .collect()
    };
    let creating = |flags: u8, mode: u8| -> Result<Vec<SeccompRule>, BackendError> {
        [libc::S_ISUID, libc::S_ISGID]
            .into_iter()
            .map(|bit| {
                SeccompRule::new(vec![has_bits(flags, libc::O_CREAT.cast_unsigned())?, has_bits(mode, bit)?])
            })
            .collect()
    };
    Ok(vec![
        (libc::SYS_fchmod, rules(1)?),
        (libc::SYS_fchmodat, rules(2)?),
        (libc::SYS_mknodat, rules(2)?),
        (libc::SYS_openat, creating(2, 3)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, rules(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, rules(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, rules(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, creating(1, 2)?),
    ])
}

/// Typing into a terminal, and pasting into one.
fn terminals() -> Result<Vec<SeccompRule>, BackendError> {
    [libc::TIOCSTI, libc::TIOCLINUX]
        .into_iter()
        .map(|request| {
            let condition = SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, request)?;
            SeccompRule::new(vec![condition])
        })
        .collect()
}

/// Sockets of other families than Unix; to a worker any.
fn sockets(unix: bool) -> Result<Rules, BackendError> {
    if !unix {
        return Ok(always(&[libc::SYS_socket, libc::SYS_socketpair]));
    }
    let other = || {
        let family = u64::from(libc::AF_UNIX.unsigned_abs());
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, family)?;
        Ok::<_, BackendError>(vec![SeccompRule::new(vec![condition])?])
    };
    Ok(vec![(libc::SYS_socket, other()?), (libc::SYS_socketpair, other()?)])
}

/// Denies the numbers of the x32 interface: they bear the same mark of architecture as the others, which the
/// filters above would not know.
fn without_x32() -> BpfProgram {
    const LOAD_NUMBER: u16 = 0x20;
    const IF_AT_LEAST: u16 = 0x35;
    const ANSWER: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERROR: u32 = 0x0005_0000;
    vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: ANSWER, jt: 0, jf: 0, k: ERROR | libc::ENOSYS.unsigned_abs() },
        sock_filter { code: ANSWER, jt: 0, jf: 0, k: ALLOW },
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_filters_compile_and_fit() {
        for may_start in [false, true] {
            let programs = super::programs(may_start).unwrap();
            assert!(programs.iter().all(|program| program.len() < 4096));
        }
    }
}
