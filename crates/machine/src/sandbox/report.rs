//! Reports which sandbox limits the kernel enforces on this host.

use super::cgroup::{Cgroups, LimitsKind};
use super::{Kernel, Users};
use crate::limits::{Enforcement, LimitStatus};

/// Lists every limit.
///
/// `no_disk_quota` is the reason for the absence of project quotas.
pub(super) fn list_limits(
    kernel: Kernel,
    cgroups: &Cgroups,
    users: Users,
    no_disk_quota: Option<&str>,
) -> Vec<LimitStatus> {
    let kind = cgroups.limits_kind();
    let counted = kind != LimitsKind::Rlimit;
    let by_kernel = |limit, detail: &str| limit_status(limit, Enforcement::Kernel, detail);
    let group = format!("control group ({})", kind.as_str());
    let delegate = "let the service make control groups (systemd: Delegate=yes)";
    let grouped = |limit, otherwise: LimitStatus| if counted { by_kernel(limit, &group) } else { otherwise };
    let cpu = if cgroups.bounds_cpu() {
        by_kernel("cpu", &group)
    } else {
        let detail = format!("machines run at a lower priority than the service; {delegate}");
        limit_status("cpu", Enforcement::Nothing, &detail)
    };
    let own_kernel = kernel != Kernel::Host;
    let by_own_kernel = |limit, otherwise: LimitStatus| {
        if own_kernel { by_kernel(limit, "the machine's own kernel") } else { otherwise }
    };
    let epoll = match users {
        Users::Root => by_kernel("epoll_watches", "each machine has separate users"),
        Users::Ordinary { .. } => limit_status(
            "epoll_watches",
            Enforcement::Watch,
            "tools have the service's user, and the watches of each program are limited; as root, each machine has \
             separate users",
        ),
    };
    let disk = |limit| match no_disk_quota {
        None => by_kernel(limit, "project quota"),
        Some(why) => {
            let detail = format!("{why}; command lines end before the disk is full");
            limit_status(limit, Enforcement::Watch, &detail)
        }
    };
    vec![
        by_own_kernel(
            "memory",
            grouped(
                "memory",
                limit_status(
                    "memory",
                    Enforcement::Watch,
                    &format!(
                        "each process has a limit, memory without a process is refused, and command lines end that \
                         use twice the limit together; {delegate}"
                    ),
                ),
            ),
        ),
        by_own_kernel(
            "kernel_memory",
            grouped(
                "kernel_memory",
                limit_status(
                    "kernel_memory",
                    Enforcement::Watch,
                    &format!("sockets are counted, pipes and files bounded for each process; {delegate}"),
                ),
            ),
        ),
        by_kernel("processes", if counted { &group } else { "RLIMIT_NPROC" }),
        cpu,
        disk("disk_bytes"),
        disk("disk_files"),
        by_kernel("file_size", "RLIMIT_FSIZE"),
        by_kernel("temporary_files", "size of tmpfs"),
        by_own_kernel("epoll_watches", epoll),
        by_own_kernel("inotify_watches", by_kernel("inotify_watches", "user namespace")),
        by_kernel("ipc", "refused by the filter of system calls"),
    ]
}

fn limit_status(limit: &'static str, enforced_by: Enforcement, detail: &str) -> LimitStatus {
    LimitStatus { limit, enforced_by, detail: detail.to_owned() }
}
