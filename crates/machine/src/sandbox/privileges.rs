//! Drops the privileges of processes in a machine: resource limits, capabilities, system calls, file access.

use landlock::{
    ABI, Access, AccessFs, AccessNet, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetError, Scope, path_beneath_rules,
};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getpriority_process, getrlimit, set_dumpable_behavior,
    setpriority_process, setrlimit,
};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, set_capabilities, set_capabilities_secure_bits,
    set_no_new_privs,
};
use seccomp::SeccompProfile;

use super::Kernel;
use super::spec::Spec;
use super::sys::{self, LaunchErrorContext, LaunchFailure};

/// The capabilities that the agent needs to run tools as another user and to kill them: CAP_KILL, CAP_SETGID,
/// CAP_SETUID.
const AGENT_CAPABILITIES: [u32; 3] = [5, 6, 7];
/// The priority of machines without a share of the processors; the service has 0.
const BEHIND_THE_SERVICE: i32 = 5;

/// Sets the limits of the calling process and its children. Without a control group, each process gets the memory
/// limit that otherwise applies to all together.
pub(crate) fn set_resource_limits(spec: &Spec) -> Result<(), LaunchFailure> {
    let (limits, grouped) = (spec.host_limits(), spec.has_cgroups());
    /// Programs reserve much more address space than they use.
    const ADDRESSES_PER_MEMORY: u64 = 64;
    let data = if grouped { limits.memory_bytes.saturating_mul(4) } else { limits.memory_bytes };
    let bounds = [
        (Resource::Core, 0),
        (Resource::Nproc, limits.processes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Data, data),
        (Resource::As, limits.memory_bytes.saturating_mul(ADDRESSES_PER_MEMORY)),
        (Resource::Stack, spec.stack_bytes()),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 64 << 10),
        (Resource::Sigpending, limits.processes.saturating_mul(4)),
        (Resource::Nice, 0),
        (Resource::Rtprio, 0),
    ];
    for (resource, bound) in bounds {
        // A hard limit of the service cannot be raised.
        let bound = getrlimit(resource).maximum.map_or(bound, |maximum| maximum.min(bound));
        let both = Rlimit { current: Some(bound), maximum: Some(bound) };
        setrlimit(resource, both).with_context("limiting resources")?;
    }
    if !grouped {
        // Without a control group for the processors, at least the service has a higher priority than machines. A
        // service that already runs at a lower priority need not lower it further, and may not raise it.
        let own = getpriority_process(None).with_context("asking for the priority")?;
        if own < BEHIND_THE_SERVICE {
            setpriority_process(None, BEHIND_THE_SERVICE).with_context("lowering the priority")?;
        }
    }
    Ok(())
}

/// Permanently drops all privileges except the agent's three capabilities.
pub(crate) fn reduce_privileges() -> Result<(), LaunchFailure> {
    set_no_new_privs(true).with_context("giving up new privileges")?;
    sys::bound_capabilities(&AGENT_CAPABILITIES).with_context("bounding capabilities")?;
    let secure = CapabilitiesSecureBits::NO_SETUID_FIXUP_LOCKED
        | CapabilitiesSecureBits::KEEP_CAPS_LOCKED
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE
        | CapabilitiesSecureBits::NO_CAP_AMBIENT_RAISE_LOCKED;
    set_capabilities_secure_bits(secure).with_context("locking capabilities")?;
    let retained = CapabilitySet::KILL | CapabilitySet::SETGID | CapabilitySet::SETUID;
    retain_capabilities(retained)?;
    // An additional layer, if the kernel supports it: even if others fail, files outside these folders cannot be
    // written and no connection can be opened. Older kernels do not have it.
    let _ = apply_landlock();
    Ok(())
}

/// Drops the remaining privileges, because the bridge needs no privileges.
pub(crate) fn renounce_privileges(grouped: bool) -> Result<(), LaunchFailure> {
    renounce_to(CapabilitySet::empty(), grouped)
}

/// Drops the remaining privileges except the one to signal the tools, which run as another user: once the agent runs, the
/// init process needs no other privilege.
pub(crate) fn renounce_but_kill(grouped: bool) -> Result<(), LaunchFailure> {
    renounce_to(CapabilitySet::KILL, grouped)
}

fn renounce_to(retained: CapabilitySet, grouped: bool) -> Result<(), LaunchFailure> {
    retain_capabilities(retained)?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable).with_context("closing the process to others")?;
    filter_system_calls(grouped)
}

/// Filters the system calls of the process that is a machine's kernel, or runs it.
pub(crate) fn filter_kernel(kernel: Kernel, grouped: bool) -> Result<(), LaunchFailure> {
    let profile = match kernel {
        Kernel::Host => SeccompProfile::Agent { counted: grouped },
        Kernel::UserModeLinux => SeccompProfile::UserModeLinux { counted: grouped },
        Kernel::Qemu => SeccompProfile::Qemu { counted: grouped },
    };
    seccomp::apply_profile(profile).with_context("filtering system calls")
}

/// Drops all capabilities of the calling process.
pub(crate) fn drop_capabilities() -> Result<(), LaunchFailure> {
    retain_capabilities(CapabilitySet::empty())
}

/// Filters system calls. Without a control group, refuses calls whose resources only a control group counts.
pub(crate) fn filter_system_calls(grouped: bool) -> Result<(), LaunchFailure> {
    seccomp::apply_profile(SeccompProfile::Agent { counted: grouped }).with_context("filtering system calls")
}

fn retain_capabilities(retained: CapabilitySet) -> Result<(), LaunchFailure> {
    let sets =
        CapabilitySets { effective: retained, permitted: retained, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets).with_context("giving up capabilities")
}

fn apply_landlock() -> Result<RestrictionStatus, RulesetError> {
    const KNOWN: ABI = ABI::V7;
    let every = AccessFs::from_all(KNOWN);
    let look = AccessFs::from_read(KNOWN);
    Ruleset::default()
        .handle_access(every)?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(["/"], look))?
        .add_rules(path_beneath_rules(
            ["/workspace", "/index", "/tmp", "/run/memory", "/dev", "/proc"],
            every,
        ))?
        .restrict_self()
}
