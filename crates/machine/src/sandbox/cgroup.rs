//! Control groups: limits on all processes of a machine together, if the service may create groups.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::spec::MachineLimits;

/// The prefix of the name of a machine's group.
pub(crate) const GROUP_PREFIX: &str = "causerie-";
/// The age from which a group without processes cannot belong to a machine that is being started.
const ABANDONED_AFTER: Duration = Duration::from_secs(600);

/// The mechanism of the limits beyond the limits of each process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitsKind {
    /// Control groups, version 2.
    Cgroup2,
    /// Control groups, version 1.
    Cgroup1,
    /// No groups: each process has its limits, and only the number of processes is limited in total.
    Rlimit,
}

impl LimitsKind {
    /// Returns the name for logs and operators.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup2 => "cgroup2",
            Self::Cgroup1 => "cgroup1",
            Self::Rlimit => "rlimit",
        }
    }
}

/// The files with the memory of a group in bytes, for versions 2 and 1.
const MEMORY: [&str; 2] = ["memory.current", "memory.usage_in_bytes"];

/// Returns the memory of a group in bytes, without cached contents of files, which the host reclaims when needed; `None`
/// if the group does not count memory.
pub(crate) fn group_memory(group: &Path) -> Option<u64> {
    let used = MEMORY.iter().find_map(|file| fs::read_to_string(group.join(file)).ok());
    let used: u64 = used?.trim().parse().ok()?;
    let statistics = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = statistics.lines().filter_map(|line| match line.split_once(' ')? {
        ("inactive_file" | "active_file", bytes) => bytes.parse::<u64>().ok(),
        _ => None,
    });
    Some(used.saturating_sub(cached.sum()))
}

/// The location in which the service may create control groups.
#[derive(Debug, Clone)]
pub(crate) enum Cgroups {
    /// One folder for all controllers.
    Unified(PathBuf),
    /// A folder for each controller.
    Split {
        memory: PathBuf,
        pids: PathBuf,
        cpu: Option<PathBuf>,
    },
    None,
}

impl Cgroups {
    /// Finds a location by creating a group there.
    pub(crate) fn find_location() -> Self {
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let split = |controller| split_base(&own, &mounts, controller).filter(|base| can_make_in(base));
        if let (Some(memory), Some(pids)) = (split("memory"), split("pids")) {
            return Self::Split { memory, pids, cpu: split("cpu") };
        }
        unified_base(&own, &mounts).map_or(Self::None, Self::Unified)
    }

    pub(crate) const fn limits_kind(&self) -> LimitsKind {
        match self {
            Self::Unified(_) => LimitsKind::Cgroup2,
            Self::Split { .. } => LimitsKind::Cgroup1,
            Self::None => LimitsKind::Rlimit,
        }
    }

    /// Returns true if control groups share the processors between machines.
    pub(crate) fn bounds_cpu(&self) -> bool {
        match self {
            Self::Unified(base) => fs::read_to_string(base.join("cgroup.subtree_control"))
                .is_ok_and(|controllers| controllers.split_whitespace().any(|name| name == "cpu")),
            Self::Split { cpu, .. } => cpu.is_some(),
            Self::None => false,
        }
    }

    /// Returns the folders of a machine's groups, whether or not they exist.
    pub(crate) fn group_folders(&self, name: &str) -> Vec<PathBuf> {
        self.base_folders().into_iter().map(|base| base.join(name)).collect()
    }

    /// Removes the groups of machines that ended unnoticed, because their folder was removed.
    pub(crate) fn remove_abandoned(&self) {
        let before = SystemTime::now().checked_sub(ABANDONED_AFTER);
        for base in self.base_folders() {
            for entry in fs::read_dir(base).into_iter().flatten().flatten() {
                let is_group = entry.file_name().to_string_lossy().starts_with(GROUP_PREFIX);
                let made = entry.metadata().and_then(|metadata| metadata.modified()).ok();
                if is_group && made < before {
                    // The kernel keeps one that has processes.
                    let _ = fs::remove_dir(entry.path());
                }
            }
        }
    }

    fn base_folders(&self) -> Vec<&Path> {
        match self {
            Self::None => Vec::new(),
            Self::Unified(base) => vec![base],
            Self::Split { memory, pids, cpu } => {
                [Some(memory), Some(pids), cpu.as_ref()].into_iter().flatten().map(PathBuf::as_path).collect()
            }
        }
    }

    /// Creates a machine's groups and sets their limits. Returns their folders; removes them on failure.
    pub(crate) fn create_groups(&self, name: &str, limits: &MachineLimits) -> io::Result<Vec<PathBuf>> {
        let groups = self.machine_groups(name, limits);
        let folders: Vec<PathBuf> = groups.iter().map(|group| group.folder.clone()).collect();
        for group in groups {
            if let Err(error) = group.create_group() {
                remove_groups(&folders);
                return Err(error);
            }
        }
        Ok(folders)
    }

    fn machine_groups(&self, name: &str, limits: &MachineLimits) -> Vec<MachineCgroup> {
        /// The period of processor quotas, in microseconds.
        const PERIOD_MICROS: u64 = 100_000;
        let quota = limits.cpu_percent.saturating_mul(PERIOD_MICROS / 100);
        let memory_bytes = limits.memory_bytes.to_string();
        let processes = limits.processes.to_string();
        match self {
            Self::None => Vec::new(),
            Self::Unified(base) => vec![MachineCgroup {
                folder: base.join(name),
                needed: vec![("memory.max", memory_bytes), ("pids.max", processes)],
                wanted: vec![
                    ("memory.swap.max", "0".into()),
                    ("cpu.max", format!("{quota} {PERIOD_MICROS}")),
                ],
            }],
            Self::Split { memory, pids, cpu } => {
                let mut groups = vec![
                    MachineCgroup {
                        folder: memory.join(name),
                        needed: vec![("memory.limit_in_bytes", memory_bytes.clone())],
                        wanted: vec![("memory.memsw.limit_in_bytes", memory_bytes)],
                    },
                    MachineCgroup {
                        folder: pids.join(name),
                        needed: vec![("pids.max", processes)],
                        wanted: Vec::new(),
                    },
                ];
                groups.extend(cpu.as_ref().map(|cpu| MachineCgroup {
                    folder: cpu.join(name),
                    needed: Vec::new(),
                    wanted: vec![
                        ("cpu.cfs_period_us", PERIOD_MICROS.to_string()),
                        ("cpu.cfs_quota_us", quota.to_string()),
                    ],
                }));
                groups
            }
        }
    }
}

/// A group of one machine, and the values of its files.
struct MachineCgroup {
    folder: PathBuf,
    needed: Vec<(&'static str, String)>,
    /// Optional limits, which some kernels do not support.
    wanted: Vec<(&'static str, String)>,
}

impl MachineCgroup {
    fn create_group(&self) -> io::Result<()> {
        match fs::create_dir(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        for (file, value) in &self.needed {
            fs::write(self.folder.join(file), value)?;
        }
        for (file, value) in &self.wanted {
            let _ = fs::write(self.folder.join(file), value);
        }
        Ok(())
    }
}

/// Removes a machine's groups. A group that still has a process stays, and the next start uses it again.
pub(crate) fn remove_groups(folders: &[PathBuf]) {
    for folder in folders {
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::debug!(folder = %folder.display(), %error, "removing a control group failed");
            }
            Ok(()) | Err(_) => {}
        }
    }
}

fn split_base(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        controllers.split(',').any(|name| name == controller).then_some(path)
    })?;
    let (root, at) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let is_cgroup = kind.next()? == "cgroup";
        let has_it = kind.nth(1)?.split(',').any(|option| option == controller);
        let mut mount = mount.split(' ').skip(3);
        (is_cgroup && has_it).then_some((mount.next()?, mount.next()?))
    })?;
    Some(host_folder(root, at, path))
}

fn unified_base(own: &str, mounts: &str) -> Option<PathBuf> {
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let (root, at) = mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut mount = mount.split(' ').skip(3);
        kind.starts_with("cgroup2 ").then_some((mount.next()?, mount.next()?))
    })?;
    let mine = host_folder(root, at, path);
    // A group with processes cannot delegate controllers to child groups. A service with its own group (a systemd
    // unit with Delegate=yes) moves itself into a leaf; otherwise root uses a group at the top.
    if alone_in(&mine) && own_leaf(&mine).is_ok() && hands_down(&mine) {
        return Some(mine);
    }
    let top = Path::new(at).join("causerie");
    let taken = fs::create_dir(&top).or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    });
    (taken.is_ok() && hands_down(Path::new(at)) && hands_down(&top)).then_some(top)
}

/// Returns the host's folder of the group `path` in a hierarchy whose subtree `root` is mounted at `at`.
fn host_folder(root: &str, at: &str, path: &str) -> PathBuf {
    let inner = Path::new(path).strip_prefix(root).unwrap_or(Path::new(""));
    Path::new(at).join(inner)
}

fn can_make_in(base: &Path) -> bool {
    let trial = base.join(format!("causerie-trial-{}", std::process::id()));
    fs::create_dir(&trial).and_then(|()| fs::remove_dir(&trial)).is_ok()
}

fn alone_in(group: &Path) -> bool {
    let me = std::process::id().to_string();
    fs::read_to_string(group.join("cgroup.procs"))
        .is_ok_and(|processes| processes.lines().all(|pid| pid == me))
}

fn own_leaf(group: &Path) -> io::Result<()> {
    let leaf = group.join("service");
    match fs::create_dir(&leaf) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        Ok(()) | Err(_) => {}
    }
    fs::write(leaf.join("cgroup.procs"), "0")
}

fn hands_down(group: &Path) -> bool {
    let control = group.join("cgroup.subtree_control");
    // Without the processor controller the other limits still work.
    let _ = fs::write(&control, "+cpu");
    fs::write(&control, "+memory +pids").is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "4:memory:/box/a\n8:pids:/\n1:cpu,cpuacct:/\n0::/user.slice/me\n";
    const MOUNTS: &str = "30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        31 25 0:27 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n\
        32 25 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn split_base_finds_own_groups() {
        assert_eq!(split_base(OWN, MOUNTS, "memory"), Some("/sys/fs/cgroup/memory/box/a".into()));
        assert_eq!(split_base(OWN, MOUNTS, "pids"), Some("/sys/fs/cgroup/pids".into()));
        assert_eq!(split_base(OWN, MOUNTS, "cpu"), Some("/sys/fs/cgroup/cpu,cpuacct".into()));
        assert_eq!(split_base(OWN, MOUNTS, "freezer"), None);
        assert_eq!(host_folder("/docker/x", "/sys/fs/cgroup", "/docker/x/y"), Path::new("/sys/fs/cgroup/y"));
    }

    #[test]
    fn remove_abandoned_spares_other_groups() {
        let base = tempfile::tempdir().unwrap();
        let made = |name: &str, old: bool| {
            let folder = base.path().join(name);
            fs::create_dir(&folder).unwrap();
            if old {
                let before = SystemTime::now() - 2 * ABANDONED_AFTER;
                fs::File::open(&folder).unwrap().set_modified(before).unwrap();
            }
            folder
        };
        let (abandoned, starting) = (made("causerie-1", true), made("causerie-2", false));
        let other = made("service", true);
        Cgroups::Unified(base.path().to_owned()).remove_abandoned();
        assert!(!abandoned.exists() && starting.exists() && other.exists());
    }
}
