//! The seccomp filters of the processes in a machine, built from one allowlist.
//!
//! Two layers use them. The machine driver filters the agent and all its descendants ([`SeccompProfile::Agent`]); the agent
//! filters each tool again ([`SeccompProfile::Program`], [`SeccompProfile::Worker`]). A call that is not listed fails with `ENOSYS`,
//! as on a kernel without it, so that libraries fall back. Known but forbidden calls fail with `EPERM`.
//!
//! The list follows the default profile of container engines, without the calls that affect other users of the host
//! (see [`allowlist`]). Calls that take their arguments from memory, which a filter cannot read, are excluded:
//! `clone3`,
//! `openat2`, `fchmodat2`, `io_uring_setup`.

pub mod allowlist;
mod conditions;

use std::io;

use seccompiler::{BackendError, BpfProgram, sock_filter};

/// Names the processes that a filter is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeccompProfile {
    /// The agent and everything in its machine. Memory without an owning process is allowed only if a control group
    /// accounts for it.
    Agent {
        /// True if a control group accounts the memory of the whole machine.
        counted: bool,
    },
    /// A User Mode Linux kernel, which traces the processes of its machine: what [`SeccompProfile::Agent`] allows, and
    /// `ptrace`.
    UserModeLinux {
        /// As for the agent.
        counted: bool,
    },
    /// QEMU, which runs the kernel of its machine: the system calls of a process without children that inherits its
    /// sockets.
    Qemu {
        /// As for the agent.
        counted: bool,
    },
    /// A shell command or another program on behalf of a model.
    Program,
    /// A process that reads or writes one document: starts nothing and opens no socket.
    Worker,
}

/// Permanently filters the system calls of the calling process and its children. The process must be single-threaded
/// and have `no_new_privs` set.
///
/// # Errors
/// Fails when the kernel rejects a filter.
pub fn apply_profile(profile: SeccompProfile) -> io::Result<()> {
    // When several filters deny a call with different errors, the last applied one determines the result.
    for program in build_programs(profile).map_err(io::Error::other)? {
        seccompiler::apply_filter(&program).map_err(io::Error::other)?;
    }
    Ok(())
}

fn build_programs(profile: SeccompProfile) -> Result<Vec<BpfProgram>, BackendError> {
    let mut allowed = allowlist::ALWAYS.to_vec();
    match profile {
        SeccompProfile::Worker => {}
        SeccompProfile::Qemu { .. } => allowed.extend(allowlist::EMULATOR),
        _ => allowed.extend(allowlist::STARTING),
    }
    if !matches!(profile, SeccompProfile::Program) {
        allowed.extend(allowlist::FALLOCATE);
    }
    let uncounted = matches!(
        profile,
        SeccompProfile::Agent { counted: false }
            | SeccompProfile::UserModeLinux { counted: false }
            | SeccompProfile::Qemu { counted: false }
    );
    if !uncounted {
        allowed.extend(allowlist::MEMFD);
    }
    if matches!(profile, SeccompProfile::UserModeLinux { .. }) {
        allowed.extend(allowlist::TRACING);
    }
    let mut programs = vec![allow_calls(allowed)];
    programs.extend(conditions::build_condition_programs(profile)?);
    Ok(programs)
}

/// Builds a program that allows these calls and answers all others with `ENOSYS`, including calls of the x32 interface,
/// which has the same architecture value. A call of another architecture kills the process.
fn allow_calls(mut calls: Vec<i64>) -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const JUMP_IF_GREATER: u16 = 0x25;
    const RETURN: u16 = 0x06;
    const OFFSET_OF_NUMBER: u32 = 0;
    const OFFSET_OF_ARCH: u32 = 4;
    #[cfg(target_arch = "x86_64")]
    const ARCH: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCH: u32 = 0xc000_00b7;

    let instruction = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    let refuse = instruction(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs());
    let mut program = vec![
        instruction(LOAD_WORD, 0, 0, OFFSET_OF_ARCH),
        instruction(JUMP_IF_EQUAL, 1, 0, ARCH),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        instruction(LOAD_WORD, 0, 0, OFFSET_OF_NUMBER),
    ];
    calls.sort_unstable();
    calls.dedup();
    let numbers: Vec<u32> = calls.into_iter().filter_map(|call| u32::try_from(call).ok()).collect();
    for range in numbers.chunk_by(|one, next| one + 1 == *next) {
        if let (Some(first), Some(last)) = (range.first(), range.last()) {
            program.push(instruction(JUMP_IF_AT_LEAST, 1, 0, *first));
            program.push(refuse.clone());
            program.push(instruction(JUMP_IF_GREATER, 1, 0, *last));
            program.push(instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
        }
    }
    program.push(refuse);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: [SeccompProfile; 8] = [
        SeccompProfile::Qemu { counted: true },
        SeccompProfile::Qemu { counted: false },
        SeccompProfile::Agent { counted: true },
        SeccompProfile::Agent { counted: false },
        SeccompProfile::UserModeLinux { counted: true },
        SeccompProfile::UserModeLinux { counted: false },
        SeccompProfile::Program,
        SeccompProfile::Worker,
    ];

    /// Interprets a program of [`allow`] for one call.
    fn evaluate_program(program: &[sock_filter], arch: u32, number: u32) -> u32 {
        let (mut at, mut word) = (0, 0);
        loop {
            let sock_filter { code, jt, jf, k } = program[at].clone();
            let jump = |taken: bool| usize::from(if taken { jt } else { jf });
            at += 1;
            match code {
                0x20 => word = if k == 4 { arch } else { number },
                0x15 => at += jump(word == k),
                0x35 => at += jump(word >= k),
                0x25 => at += jump(word > k),
                0x06 => return k,
                other => unreachable!("{other}"),
            }
        }
    }

    #[test]
    fn the_filters_compile_and_fit() {
        for profile in PROFILES {
            let programs = build_programs(profile).unwrap();
            assert!(programs.iter().all(|program| program.len() < 4096), "{profile:?}");
        }
    }

    #[test]
    fn only_what_is_listed_is_allowed() {
        let arch = if cfg!(target_arch = "x86_64") { 0xc000_003e } else { 0xc000_00b7 };
        let refused = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
        let program = allow_calls(allowlist::ALWAYS.to_vec());
        for number in 0..1024 {
            let listed = allowlist::ALWAYS.contains(&i64::from(number));
            let expected = if listed { libc::SECCOMP_RET_ALLOW } else { refused };
            assert_eq!(evaluate_program(&program, arch, number), expected, "{number}");
        }
        let read = u32::try_from(libc::SYS_read).unwrap();
        assert_eq!(evaluate_program(&program, arch, 0x4000_0000 + read), refused, "x32");
        assert_eq!(evaluate_program(&program, 0x4000_0003, read), libc::SECCOMP_RET_KILL_PROCESS, "32 bits");
    }

    #[test]
    fn no_list_names_what_another_handles() {
        let lists = [
            allowlist::ALWAYS,
            allowlist::STARTING,
            allowlist::FALLOCATE,
            allowlist::MEMFD,
            allowlist::TRACING,
            allowlist::FORBIDDEN,
        ];
        let all: Vec<i64> = lists.concat();
        let mut once = all.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), all.len());
    }
}
