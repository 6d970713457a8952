//! The system calls that nothing in a machine may make.
//!
//! The filter names what is denied: ways to namespaces, mounts, other processes' memory, kernel objects that
//! have had the most flaws, the clock, and sockets of families that a network namespace does not hold back
//! (vsock above all). Programs see the error that a kernel without the feature gives.

use std::io;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, sock_filter,
};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

/// Applies the filters to the calling process and all that it starts. It must have given up new privileges before.
pub(crate) fn apply() -> io::Result<()> {
    // The last one goes first: it may still use what the others deny.
    for program in programs().map_err(io::Error::other)? {
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn programs() -> Result<Vec<BpfProgram>, seccompiler::BackendError> {
    let filter = |rules: Vec<(i64, Vec<SeccompRule>)>, errno: i32| -> Result<BpfProgram, _> {
        let denied = SeccompAction::Errno(errno.unsigned_abs());
        SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, denied, ARCH)?.try_into()
    };
    let always = |calls: &[i64]| calls.iter().map(|call| (*call, Vec::new())).collect::<Vec<_>>();
    let mut forbidden = always(FORBIDDEN);
    forbidden.extend(conditional()?);
    Ok(vec![
        filter(always(UNKNOWN), libc::ENOSYS)?,
        filter(socket_families()?, libc::EAFNOSUPPORT)?,
        filter(forbidden, libc::EPERM)?,
        without_foreign_calls(),
    ])
}

/// Calls whose arguments lie in memory, where a filter can't look; programs fall back to the older form.
const UNKNOWN: &[i64] = &[libc::SYS_clone3, libc::SYS_fchmodat2, libc::SYS_io_uring_setup];

const FORBIDDEN: &[i64] = &[
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    // Parts of the kernel that no tool needs.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_vmsplice,
    // The host as a whole.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
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
    libc::SYS_nfsservctl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
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

fn all_of(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let conditions = conditions
        .iter()
        .map(|(argument, operator, value)| {
            SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()?;
    SeccompRule::new(conditions)
}

fn bits(bits: u32) -> (SeccompCmpOp, u64) {
    (SeccompCmpOp::MaskedEq(u64::from(bits)), u64::from(bits))
}

fn conditional() -> Result<Vec<(i64, Vec<SeccompRule>)>, seccompiler::BackendError> {
    const NAMESPACES: [i32; 8] = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        0x80,
    ];
    /// The bits that let a program run as its file's owner or group. Such a file would be real on the host.
    const SET_ID: [u32; 2] = [libc::S_ISUID, libc::S_ISGID];

    let mut rules = Vec::new();
    let clone = NAMESPACES
        .iter()
        .map(|flag| {
            let (operator, value) = bits(flag.cast_unsigned());
            all_of(&[(0, operator, value)])
        })
        .collect::<Result<Vec<_>, _>>()?;
    rules.push((libc::SYS_clone, clone));

    let with_mode = |argument: u8, creating: Option<u8>| {
        SET_ID
            .iter()
            .map(|bit| {
                let (operator, value) = bits(*bit);
                let mut conditions = vec![(argument, operator, value)];
                if let Some(flags) = creating {
                    let (operator, value) = bits(libc::O_CREAT.cast_unsigned());
                    conditions.push((flags, operator, value));
                }
                all_of(&conditions)
            })
            .collect::<Result<Vec<_>, _>>()
    };
    rules.push((libc::SYS_fchmod, with_mode(1, None)?));
    rules.push((libc::SYS_fchmodat, with_mode(2, None)?));
    rules.push((libc::SYS_openat, with_mode(3, Some(2))?));
    rules.push((libc::SYS_mknodat, with_mode(2, None)?));
    #[cfg(target_arch = "x86_64")]
    {
        rules.push((libc::SYS_chmod, with_mode(1, None)?));
        rules.push((libc::SYS_open, with_mode(2, Some(1))?));
        rules.push((libc::SYS_creat, with_mode(1, None)?));
        rules.push((libc::SYS_mknod, with_mode(1, None)?));
    }
    // Typing into a terminal that is somebody else's.
    let ioctl = [libc::TIOCSTI, 0x541C].iter().map(|request| all_of(&[(1, SeccompCmpOp::Eq, *request)]));
    rules.push((libc::SYS_ioctl, ioctl.collect::<Result<Vec<_>, _>>()?));
    Ok(rules)
}

/// Sockets of any family but Unix and the internet's, whose network namespace holds nothing.
fn socket_families() -> Result<Vec<(i64, Vec<SeccompRule>)>, seccompiler::BackendError> {
    let conditions: Vec<_> = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6]
        .iter()
        .map(|family| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs())))
        .collect();
    Ok(vec![(libc::SYS_socket, vec![all_of(&conditions)?])])
}

/// Denies the numbers of the x32 interface, which share the architecture's mark but not its table.
fn without_foreign_calls() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    const ALLOW: u32 = 0x7fff_0000;
    const ERRNO: u32 = 0x0005_0000;
    vec![
        sock_filter { code: LOAD_WORD, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32 },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ERRNO | libc::ENOSYS.unsigned_abs() },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: ALLOW },
    ]
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_filters_compile() {
        let programs = super::programs().expect("valid rules");
        assert!(programs.iter().all(|program| program.len() < 4096), "the kernel takes 4,096 instructions");
    }
}
