//! Calls that are denied for some arguments, or with an `errno` other than `ENOSYS`.

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use crate::{SeccompProfile, allowlist};

#[cfg(target_arch = "x86_64")]
const ARCH: TargetArch = TargetArch::x86_64;
#[cfg(target_arch = "aarch64")]
const ARCH: TargetArch = TargetArch::aarch64;

type Rules = Vec<(i64, Vec<SeccompRule>)>;

/// Builds one program for each error code.
pub(crate) fn build_condition_programs(profile: SeccompProfile) -> Result<Vec<BpfProgram>, BackendError> {
    let mut forbidden = unconditional_rules(allowlist::FORBIDDEN);
    forbidden.push((libc::SYS_clone, namespace_rules()?));
    match profile {
        SeccompProfile::UserModeLinux { .. } => {
            forbidden.push((libc::SYS_personality, personality_rules(KERNEL_PERSONALITIES)?))
        }
        _ => {
            forbidden.push((libc::SYS_personality, personality_rules(PERSONALITIES)?));
            forbidden.extend(unconditional_rules(allowlist::TRACING));
        }
    }
    forbidden.extend(set_id_modes()?);
    let mut programs = vec![
        refuse_calls(forbidden, libc::EPERM)?,
        refuse_calls(unconditional_rules(ATTRIBUTES), libc::EOPNOTSUPP)?,
        refuse_calls(vec![(libc::SYS_ioctl, terminal_rules()?)], libc::EPERM)?,
        refuse_calls(vec![(libc::SYS_ioctl, file_flags()?)], libc::ENOTTY)?,
    ];
    match profile {
        SeccompProfile::Agent { counted: true }
        | SeccompProfile::UserModeLinux { counted: true }
        | SeccompProfile::Qemu { counted: true } => {
            programs.push(refuse_calls(socket_rules()?, libc::EAFNOSUPPORT)?)
        }
        SeccompProfile::Agent { counted: false }
        | SeccompProfile::UserModeLinux { counted: false }
        | SeccompProfile::Qemu { counted: false } => {
            programs.push(refuse_calls(socket_rules()?, libc::EAFNOSUPPORT)?);
            programs.push(refuse_calls(vec![(libc::SYS_mmap, shared_memory()?)], libc::ENOMEM)?);
        }
        SeccompProfile::Program => {
            programs.push(refuse_calls(socket_rules()?, libc::EAFNOSUPPORT)?);
            programs.push(refuse_calls(unconditional_rules(allowlist::FALLOCATE), libc::EOPNOTSUPP)?);
        }
        SeccompProfile::Worker => {
            programs.push(refuse_calls(
                unconditional_rules(&[libc::SYS_socket, libc::SYS_socketpair]),
                libc::EAFNOSUPPORT,
            )?);
            programs.push(refuse_calls(unconditional_rules(allowlist::STARTING_PROCESSES), libc::EPERM)?);
        }
    }
    Ok(programs)
}

/// Extended attributes, especially access lists: one that names a group changes the meaning of the group's mode bits.
const ATTRIBUTES: &[i64] = &[
    libc::SYS_fremovexattr,
    libc::SYS_fsetxattr,
    libc::SYS_lremovexattr,
    libc::SYS_lsetxattr,
    libc::SYS_removexattr,
    libc::SYS_setxattr,
];

fn refuse_calls(rules: Rules, error: i32) -> Result<BpfProgram, BackendError> {
    let answer = SeccompAction::Errno(error.unsigned_abs());
    SeccompFilter::new(rules.into_iter().collect(), SeccompAction::Allow, answer, ARCH)?.try_into()
}

fn unconditional_rules(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// Builds a rule that holds when all conditions do; each compares the lower half of an argument.
fn build_rule(conditions: &[(u8, SeccompCmpOp, u32)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions.iter().map(|(argument, operator, value)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, operator.clone(), u64::from(*value))
    });
    SeccompRule::new(conditions.collect::<Result<_, _>>()?)
}

/// Compares the bits of an argument that `mask` selects.
fn masked_condition(argument: u8, mask: u32, value: u32) -> (u8, SeccompCmpOp, u32) {
    (argument, SeccompCmpOp::MaskedEq(u64::from(mask)), value)
}

fn has_bits(argument: u8, bits: i32) -> (u8, SeccompCmpOp, u32) {
    masked_condition(argument, bits.cast_unsigned(), bits.cast_unsigned())
}

/// Matches `clone` with any flag that creates a namespace.
fn namespace_rules() -> Result<Vec<SeccompRule>, BackendError> {
    const CLONE_NEWTIME: i32 = 0x80;
    let flags = [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWUTS,
        libc::CLONE_NEWCGROUP,
        CLONE_NEWTIME,
    ];
    flags.into_iter().map(|flag| build_rule(&[has_bits(0, flag)])).collect()
}

/// The execution domains of usual programs: Linux, 32-bit Linux, an old kernel name, and a query.
const PERSONALITIES: &[u32] = &[0, 0x8, 0x2_0000, 0x2_0008, u32::MAX];
/// The execution domains of a User Mode Linux kernel, which must be loaded where it was linked (`ADDR_NO_RANDOMIZE`).
const KERNEL_PERSONALITIES: &[u32] = &[0, 0x4_0000, u32::MAX];

/// Matches all execution domains except these.
fn personality_rules(usual: &[u32]) -> Result<Vec<SeccompRule>, BackendError> {
    let others: Vec<_> = usual.iter().map(|value| (0, SeccompCmpOp::Ne, *value)).collect();
    Ok(vec![build_rule(&others)?])
}

/// Matches modes that would run a program as its file's owner or group. That has no effect within the machine, but the
/// file is real on the host.
fn set_id_modes() -> Result<Rules, BackendError> {
    /// The flag of `O_TMPFILE` that creates a file.
    const TMPFILE: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;
    let modes = [libc::S_ISUID, libc::S_ISGID].map(u32::cast_signed);
    let with = |argument: u8| -> Result<Vec<_>, BackendError> {
        modes.into_iter().map(|bit| build_rule(&[has_bits(argument, bit)])).collect()
    };
    // Without these flags the kernel ignores the mode argument, which may then have any value.
    let opening = |flags: u8, mode: u8| -> Result<Vec<_>, BackendError> {
        let each = [libc::O_CREAT, TMPFILE].into_iter().flat_map(|flag| modes.map(|bit| (flag, bit)));
        each.map(|(flag, bit)| build_rule(&[has_bits(flags, flag), has_bits(mode, bit)])).collect()
    };
    Ok(vec![
        (libc::SYS_fchmod, with(1)?),
        (libc::SYS_fchmodat, with(2)?),
        (libc::SYS_mkdirat, with(2)?),
        (libc::SYS_mknodat, with(2)?),
        (libc::SYS_openat, opening(2, 3)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_chmod, with(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_creat, with(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mkdir, with(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_mknod, with(1)?),
        #[cfg(target_arch = "x86_64")]
        (libc::SYS_open, opening(1, 2)?),
    ])
}

/// Matches the injection of input into a terminal.
fn terminal_rules() -> Result<Vec<SeccompRule>, BackendError> {
    const TIOCSTI: u32 = 0x5412;
    const TIOCLINUX: u32 = 0x541c;
    [TIOCSTI, TIOCLINUX].into_iter().map(|request| build_rule(&[(1, SeccompCmpOp::Eq, request)])).collect()
}

/// Matches file system operations besides reading and writing: flags, projects, encryption, snapshots. Clones of a
/// file's content are allowed.
fn file_flags() -> Result<Vec<SeccompRule>, BackendError> {
    const TYPE: u32 = 0xff00;
    const FICLONE: u32 = 0x4004_9409;
    const FICLONERANGE: u32 = 0x4020_940d;
    const FIDEDUPERANGE: u32 = 0xc018_9436;
    let other = |request| (1, SeccompCmpOp::Ne, request);
    Ok(vec![
        build_rule(&[masked_condition(1, TYPE, u32::from(b'f') << 8)])?,
        build_rule(&[masked_condition(1, TYPE, u32::from(b'X') << 8)])?,
        build_rule(&[
            masked_condition(1, TYPE, 0x9400),
            other(FICLONE),
            other(FICLONERANGE),
            other(FIDEDUPERANGE),
        ])?,
    ])
}

/// Matches sockets of all families except Unix.
fn socket_rules() -> Result<Rules, BackendError> {
    let other =
        || Ok::<_, BackendError>(vec![build_rule(&[(0, SeccompCmpOp::Ne, libc::AF_UNIX.unsigned_abs())])?]);
    Ok(vec![(libc::SYS_socket, other()?), (libc::SYS_socketpair, other()?)])
}

/// Matches shared memory without a file. The kernel does not attribute the rest of such a mapping to its process, even
/// after most of it was unmapped.
fn shared_memory() -> Result<Vec<SeccompRule>, BackendError> {
    const KIND: u32 = 0x0f;
    [libc::MAP_SHARED, libc::MAP_SHARED_VALIDATE]
        .into_iter()
        .map(|kind| {
            build_rule(&[has_bits(3, libc::MAP_ANONYMOUS), masked_condition(3, KIND, kind.cast_unsigned())])
        })
        .collect()
}
