//! Checks that a machine's changes to its own workspace hide nothing from the count and the backup, and lock nobody
//! out.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FallocateFlags, Mode, OFlags, fallocate, mkdirat, openat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use workspace::{BackupContent, Destination, DiskUsage, FileName, Quota, WorkspaceError, Workspaces};

use crate::{WorkspaceHost, asked_path, content_chunks};

/// Deeper than a walk keeps folders open, and than a path can name.
const DEEP: usize = 300;
const NAME: &str = "twenty bytes of name";

/// Makes this thread and its children subject to permissions, like a service that is not root.
fn obey_permissions() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).unwrap();
}

fn eager_quota() -> Quota {
    Quota { disk_free_min_bytes: 0, recount_after: Duration::ZERO, ..Quota::default() }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn read_mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Creates nested folders and returns the deepest.
fn create_nested(top: &Path, times: usize) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..times {
        mkdirat(&at, NAME, Mode::RWXU).unwrap();
        at = openat(&at, NAME, flags, Mode::empty()).unwrap();
    }
    at
}

fn write_file(folder: &OwnedFd, name: &str, content: &[u8]) {
    let file = openat(folder, name, OFlags::WRONLY | OFlags::CREATE, Mode::RUSR | Mode::WUSR).unwrap();
    File::from(file).write_all_at(content, 0).unwrap();
}

#[tokio::test]
async fn home_without_permissions_is_restored() {
    obey_permissions();
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    for taken in [0o000, 0o444, 0o555] {
        host.upload_text("/", "file", "content").await.unwrap();
        set_mode(&host.workspace.host_dir(), taken);
        assert_eq!(host.read_file("/file").await.unwrap(), b"content");
        set_mode(&host.workspace.host_dir(), taken);
        assert_eq!(host.workspace.list_folder(&asked_path("/")).await.unwrap().entries.len(), 2);
        set_mode(&host.workspace.host_dir(), taken);
        host.workspace.repair_permissions().await.unwrap();
        assert_eq!(read_mode(&host.workspace.host_dir()), 0o755);
    }
    set_mode(&host.host_path("uploads"), 0);
    let name = FileName::from_upload("again").unwrap();
    host.workspace.upload_file(&Destination::Uploads, &name, content_chunks("content")).await.unwrap();
    assert_eq!(host.read_file("/uploads/again").await.unwrap(), b"content");
}

#[tokio::test]
async fn what_is_deep_or_shut_counts() {
    obey_permissions();
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    write_file(&create_nested(&host.workspace.host_dir(), DEEP), "deep", &[b'x'; 500]);
    // Entries after a deep tree are visited as well.
    write_file(&create_nested(&host.host_path("uploads"), DEEP), "deep", &[b'x'; 500]);
    for (taken, name) in [(0o000, "shut"), (0o444, "unsearchable"), (0o300, "unreadable")] {
        std::fs::create_dir(host.host_path(name)).unwrap();
        std::fs::write(host.host_path(name).join("file"), [b'x'; 500]).unwrap();
        set_mode(&host.host_path(name), taken);
    }
    let counted = host.workspace.usage().await.unwrap();
    assert_eq!(counted, DiskUsage { bytes: 5 * 500, files: 1 + 2 * (DEEP as u64 + 1) + 3 * 2 });
}

#[tokio::test]
async fn files_count_for_what_they_take() {
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    File::create(host.host_path("holes")).unwrap().set_len(1 << 40).unwrap();
    assert_eq!(host.workspace.usage().await.unwrap().bytes, 0);
    let allocated = File::create(host.host_path("kept")).unwrap();
    fallocate(&allocated, FallocateFlags::KEEP_SIZE, 0, 8 << 20).unwrap();
    assert!(host.workspace.usage().await.unwrap().bytes >= 8 << 20);
}

#[tokio::test]
async fn folder_counts_its_former_names() {
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    let names: Vec<_> = (0..2_000).map(|n| host.host_path(&format!("uploads/{n:0>250}"))).collect();
    names.iter().for_each(|name| drop(File::create(name).unwrap()));
    names.iter().for_each(|name| std::fs::remove_file(name).unwrap());
    let taken = std::fs::metadata(host.host_path("uploads")).unwrap().blocks() * 512;
    let counted = host.workspace.usage().await.unwrap();
    // File systems that release the space count nothing.
    assert_eq!(counted, DiskUsage { bytes: taken.saturating_sub(16 * 1024), files: 1 });
}

#[tokio::test]
async fn a_tree_without_permissions_is_deleted() {
    obey_permissions();
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    for (n, taken) in [0o000, 0o444, 0o555, 0o300].into_iter().enumerate() {
        let top = host.host_path(&format!("tree/{n}"));
        std::fs::create_dir_all(top.join("in/deeper")).unwrap();
        std::fs::write(top.join("in/deeper/file"), "x").unwrap();
        for path in [top.join("in/deeper"), top.join("in"), top] {
            set_mode(&path, taken);
        }
    }
    set_mode(&host.host_path("tree"), 0);
    host.workspace.delete_path(&asked_path("/tree"), true).await.unwrap();
    assert_eq!(host.names_at_home(), ["uploads"]);
}

/// Returns what a backup would contain: paths in the workspace, and their content.
fn backed_up(host: &WorkspaceHost) -> BTreeMap<String, String> {
    let workspaces = Workspaces::new(host.root.path().join("all"), eager_quota()).unwrap();
    let mut found = BTreeMap::new();
    let visited = workspaces.walk_all(&mut |entry| {
        let path: Vec<_> = entry.path.to_str().unwrap().split('/').skip(1).collect();
        let content = match entry.content {
            BackupContent::File(file) => {
                let mut content = vec![0; file.size as usize];
                file.file.read_exact_at(&mut content, 0)?;
                String::from_utf8(content).unwrap()
            }
            BackupContent::Folder => "folder".to_owned(),
            BackupContent::Link(target) => format!("to {}", target.display()),
            BackupContent::LeftOut(reason) => reason,
        };
        found.insert(path.join("/"), format!("{content} {:o}", entry.mode));
        Ok(())
    });
    visited.unwrap();
    found
}

#[tokio::test]
async fn backup_sees_deep_and_closed_folders() {
    obey_permissions();
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    write_file(&create_nested(&host.workspace.host_dir(), DEEP), "deep", b"deep");
    std::fs::write(host.host_path("shut"), "shut").unwrap();
    set_mode(&host.host_path("shut"), 0);
    std::fs::create_dir(host.host_path("folder")).unwrap();
    std::fs::write(host.host_path("folder/file"), "in it").unwrap();
    set_mode(&host.host_path("folder"), 0);
    host.create_link("nowhere", "link");
    let _socket = std::os::unix::net::UnixListener::bind(host.host_path("socket")).unwrap();
    let found = backed_up(&host);
    let deep = format!("{}deep", format!("{NAME}/").repeat(DEEP));
    assert_eq!(found.get(&deep).map(String::as_str), Some("deep 600"));
    assert_eq!(found["shut"], "shut 0");
    assert_eq!(read_mode(&host.host_path("shut")), 0, "a file keeps its permissions");
    assert_eq!(found["folder/file"], "in it 644");
    assert_eq!(found["link"], "to nowhere 777");
    assert!(found["socket"].starts_with("it is a socket"));
}

#[tokio::test]
async fn backup_names_overlong_path_and_continues() {
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    write_file(&create_nested(&host.workspace.host_dir(), 500), "deep", b"deep");
    host.upload_text("/", "zzz", "after").await.unwrap();
    let found = backed_up(&host);
    let left_out: Vec<_> = found.values().filter(|content| content.contains("its path has more")).collect();
    assert_eq!(left_out.len(), 1);
    assert_eq!(found["zzz"], "after 644");
}

/// Holds a lease on a file, as a program in a machine can.
struct Leased(Child);

impl Leased {
    /// `yields` makes it release the lease when it is notified.
    fn hold_lease(path: &Path, yields: bool) -> Self {
        const PROGRAM: &str = "
import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR)
give_up = lambda *_: fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
signal.signal(signal.SIGIO, give_up if sys.argv[2] == 'True' else signal.SIG_IGN)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('held', flush=True)
sys.stdin.read()
";
        let mut command = Command::new("python3");
        command.args(["-c", PROGRAM]).arg(path).arg(if yields { "True" } else { "False" });
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }
}

impl Drop for Leased {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(start_paused = true)]
async fn leased_file_wait_is_bounded() {
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    host.upload_text("/", "polite", "content").await.unwrap();
    host.upload_text("/", "stubborn", "content").await.unwrap();
    let _polite = Leased::hold_lease(&host.host_path("polite"), true);
    let _stubborn = Leased::hold_lease(&host.host_path("stubborn"), false);
    let refused = host.read_file("/stubborn").await;
    assert!(matches!(refused, Err(WorkspaceError::Leased)), "{refused:?}");
    tokio::time::resume();
    assert_eq!(host.read_file("/polite").await.unwrap(), b"content");
}

#[tokio::test]
async fn backup_waits_for_leased_file() {
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    host.upload_text("/", "polite", "content").await.unwrap();
    let _polite = Leased::hold_lease(&host.host_path("polite"), true);
    assert_eq!(backed_up(&host)["polite"], "content 644");
}

#[tokio::test]
async fn search_passes_over_unreadable_folders() {
    obey_permissions();
    let host = WorkspaceHost::with_quota(eager_quota()).await;
    for (taken, name) in [(0o755, "1"), (0o000, "2"), (0o444, "3"), (0o300, "4"), (0o755, "5")] {
        std::fs::create_dir(host.host_path(name)).unwrap();
        std::fs::write(host.host_path(name).join("lease"), "x").unwrap();
        set_mode(&host.host_path(name), taken);
    }
    let found = host.workspace.search_entries(&asked_path("/"), "lease").await.unwrap();
    let paths: Vec<_> = found.listing.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(paths, ["/1/lease", "/5/lease"]);
    assert!(found.is_cut, "there may be more in the others");
}
