//! Backups contain every file that can be stored, name the omitted files, and can be restored for any content of a
//! workspace.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::ServiceEnvironment;
use control::backup::{self, BackupError, BackupReport, OpenAnswers, RestoreReport, write_backup};
use control::data_folder::{DATABASE, StartError, open_store, open_workspaces};
use control::provisioning::open_data;
use domain::id::AccountId;
use domain::time::Timestamp;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use store::Store;
use workspace::{Quota, Workspaces};

/// The length of a name in a deep tree.
const DEEP_NAME: usize = 254;
/// The number of nested folders: 4,080 bytes, which the interface accepts, but longer than a single path may be with
/// the prefix.
const DEEP: usize = 16;
const DEEPER: usize = 30;

async fn restore_into(
    from: &Path,
    data: &Path,
    database: Option<&control::DatabaseUrl>,
) -> Result<RestoreReport, BackupError> {
    backup::restore_backup(from, data, database, OpenAnswers::End, &ServiceEnvironment::system()).await
}

/// A data folder with one account, and a place for its backups.
struct BackupSource {
    root: tempfile::TempDir,
    store: Store,
    workspaces: Workspaces,
    home: PathBuf,
}

impl BackupSource {
    async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        fs::create_dir(&data).unwrap();
        let store = open_store(&data, None, Duration::ZERO).await.unwrap();
        let workspaces = open_workspaces(&data, Quota::default()).unwrap();
        let home = workspaces.provision(AccountId::from_random(1), None).await.unwrap().host_dir();
        Self { root, store, workspaces, home }
    }

    fn write_archive(&self) -> Result<BackupReport, BackupError> {
        write_backup(
            &self.store.exporter(),
            &self.workspaces,
            &self.archive_path(),
            Timestamp::from_micros(0),
        )
    }

    fn archive_path(&self) -> PathBuf {
        self.root.path().join("backup.tar.zst")
    }

    /// Returns the account's home folder after a restore to [`Self::restore_target`].
    fn restored_home(&self) -> PathBuf {
        self.restore_target().join("workspaces").join(self.home.file_name().unwrap())
    }

    fn restore_target(&self) -> PathBuf {
        self.root.path().join("restored")
    }
}

/// Creates nested folders, deeper than one path can name, and returns the deepest.
fn create_nested(top: &Path, name: &str, times: usize) -> OwnedFd {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let mut at = openat(CWD, top, flags, Mode::empty()).unwrap();
    for _ in 0..times {
        let _ = mkdirat(&at, name, Mode::RWXU);
        at = openat(&at, name, flags, Mode::empty()).unwrap();
    }
    at
}

fn write_file(folder: &OwnedFd, name: &str, content: &[u8]) {
    let flags = OFlags::WRONLY | OFlags::CREATE;
    let file = File::from(openat(folder, name, flags, Mode::RUSR | Mode::WUSR).unwrap());
    file.write_all_at(content, 0).unwrap();
}

fn read_nested(top: &Path, name: &str, times: usize, file: &str) -> String {
    let folder = create_nested(top, name, times);
    let file = File::from(openat(&folder, file, OFlags::RDONLY, Mode::empty()).unwrap());
    std::io::read_to_string(file).unwrap()
}

#[tokio::test]
async fn deep_tree_survives_backup() {
    let source = BackupSource::new().await;
    let name = "d".repeat(DEEP_NAME);
    write_file(&create_nested(&source.home, &name, DEEP), "deep", b"deep");
    write_file(&create_nested(&source.home, &name, DEEPER), "deeper", b"deeper");
    source.write_archive().unwrap();
    restore_into(&source.archive_path(), &source.restore_target(), None).await.unwrap();
    assert_eq!(read_nested(&source.restored_home(), &name, DEEP, "deep"), "deep");
    assert_eq!(read_nested(&source.restored_home(), &name, DEEPER, "deeper"), "deeper");
}

#[tokio::test]
async fn links_come_back_as_they_were() {
    let source = BackupSource::new().await;
    let long = "l/".repeat(2_000);
    for (name, target) in [("a", "uploads//b"), ("b", "./uploads/./b/"), ("c", "/etc/../x"), ("d", &long)] {
        symlink(target, source.home.join(name)).unwrap();
    }
    source.write_archive().unwrap();
    restore_into(&source.archive_path(), &source.restore_target(), None).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        let link = |home: &Path| fs::read_link(home.join(name)).unwrap().into_os_string();
        assert_eq!(link(&source.restored_home()), link(&source.home));
    }
}

#[tokio::test]
async fn holes_stay_holes() {
    const SIZE: u64 = 8 << 40;
    let source = BackupSource::new().await;
    let file = File::create(source.home.join("holes")).unwrap();
    file.set_len(SIZE).unwrap();
    file.write_all_at(b"middle", SIZE / 2).unwrap();
    source.write_archive().unwrap();
    restore_into(&source.archive_path(), &source.restore_target(), None).await.unwrap();
    let restored = File::open(source.restored_home().join("holes")).unwrap();
    assert_eq!(restored.metadata().unwrap().len(), SIZE);
    assert!(restored.metadata().unwrap().blocks() * 512 < 1 << 20);
    let mut middle = [0; 6];
    restored.read_exact_at(&mut middle, SIZE / 2).unwrap();
    assert_eq!(&middle, b"middle");
}

#[tokio::test]
async fn hard_linked_file_stored_once() {
    let source = BackupSource::new().await;
    let mut content = vec![0; 1 << 20];
    getrandom::fill(&mut content).unwrap();
    fs::write(source.home.join("first"), &content).unwrap();
    fs::create_dir(source.home.join("folder")).unwrap();
    for n in 0..40 {
        fs::hard_link(source.home.join("first"), source.home.join(format!("folder/{n}"))).unwrap();
    }
    let written = source.write_archive().unwrap();
    assert_eq!(written.summary.bytes, content.len() as u64);
    assert!(source.archive_path().metadata().unwrap().len() < 2 << 20);
    restore_into(&source.archive_path(), &source.restore_target(), None).await.unwrap();
    assert_eq!(fs::read(source.restored_home().join("folder/39")).unwrap(), content);
    assert_eq!(source.restored_home().join("first").metadata().unwrap().nlink(), 41);
}

#[tokio::test]
async fn what_is_left_out_is_named() {
    let source = BackupSource::new().await;
    rustix::fs::mknodat(CWD, source.home.join("pipe"), rustix::fs::FileType::Fifo, Mode::RWXU, 0).unwrap();
    let written = source.write_archive().unwrap();
    assert_eq!(written.summary.left_out, 1);
    let [left_out] = &written.left_out_files[..] else { panic!("{written:?}") };
    assert!(left_out.path.ends_with("/pipe") && left_out.reason == "it is a pipe", "{left_out:?}");
}

#[tokio::test]
async fn concurrent_backups_write_one_file() {
    let source = BackupSource::new().await;
    fs::write(source.home.join("file"), "content").unwrap();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let writing: Vec<_> = (0..4).map(|_| scope.spawn(|| source.write_archive())).collect();
        writing.into_iter().map(|writing| writing.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    let taken = outcomes.iter().filter(|outcome| matches!(outcome, Err(BackupError::Taken(_)))).count();
    assert_eq!(taken, 3, "{outcomes:?}");
    restore_into(&source.archive_path(), &source.restore_target(), None).await.unwrap();
    assert_eq!(fs::read(source.restored_home().join("file")).unwrap(), b"content");
    let mut names: Vec<_> =
        fs::read_dir(source.root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["backup.tar.zst", "data", "restored"], "nothing is left over");
}

/// Makes this thread and its children subject to permissions, like a service that is not root.
fn obey_permissions() {
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH);
    set_capabilities(None, sets).unwrap();
}

#[tokio::test]
async fn restore_needs_no_writable_parent() {
    obey_permissions();
    let source = BackupSource::new().await;
    fs::write(source.home.join("file"), "content").unwrap();
    source.write_archive().unwrap();
    let shut = source.root.path().join("shut");
    let data = shut.join("data");
    // As on a separate disk.
    fs::create_dir_all(data.join("lost+found")).unwrap();
    fs::set_permissions(&shut, PermissionsExt::from_mode(0o555)).unwrap();
    let restored = restore_into(&source.archive_path(), &data, None).await;
    fs::set_permissions(&shut, PermissionsExt::from_mode(0o755)).unwrap();
    assert_eq!(restored.unwrap().skipped, 0);
    let home = data.join("workspaces").join(source.home.file_name().unwrap());
    assert_eq!(fs::read(home.join("file")).unwrap(), b"content");
    let mut names: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [DATABASE, "lost+found", "workspaces"]);
}

#[tokio::test]
async fn restore_creates_missing_folders() {
    let source = BackupSource::new().await;
    source.write_archive().unwrap();
    let data = source.root.path().join("not/there/yet");
    restore_into(&source.archive_path(), &data, None).await.unwrap();
    assert!(data.join(DATABASE).is_file());
    assert_eq!(data.metadata().unwrap().mode() & 0o777, 0o700);
    let again = restore_into(&source.archive_path(), &data, None).await;
    assert!(matches!(again, Err(BackupError::NotEmpty(_))), "{again:?}");
}

#[tokio::test]
async fn restore_accepts_new_home_folder() {
    let source = BackupSource::new().await;
    source.write_archive().unwrap();
    let home = source.restore_target();
    fs::create_dir(&home).unwrap();
    for name in [".bash_logout", ".bashrc", ".profile"] {
        fs::write(home.join(name), "of /etc/skel").unwrap();
    }
    restore_into(&source.archive_path(), &home, None).await.unwrap();
    assert!(home.join(DATABASE).is_file() && home.join(".bashrc").is_file());
}

#[tokio::test]
async fn interrupted_restore_not_served_or_overwritten() {
    let source = BackupSource::new().await;
    source.write_archive().unwrap();
    let target = source.restore_target();
    let beside = target.with_file_name(format!("{}.restoring", target.file_name().unwrap().display()));
    for left in [beside, target.join(".restoring")] {
        fs::create_dir_all(&left).unwrap();
        let restored = restore_into(&source.archive_path(), &target, None).await;
        assert!(matches!(&restored, Err(BackupError::Interrupted(path)) if *path == left), "{restored:?}");
        let opened =
            open_data(&target, None, true, Duration::ZERO, Quota::default(), &ServiceEnvironment::system())
                .await;
        assert!(matches!(opened, Err(StartError::RestoreInterrupted(path)) if path == left));
        fs::remove_dir(left).unwrap();
    }
    restore_into(&source.archive_path(), &target, None).await.unwrap();
    open_data(&target, None, true, Duration::ZERO, Quota::default(), &ServiceEnvironment::system())
        .await
        .map(drop)
        .unwrap();
}

#[tokio::test]
async fn a_restore_that_fails_leaves_nothing() {
    let source = BackupSource::new().await;
    source.write_archive().unwrap();
    fs::create_dir(source.restore_target()).unwrap();
    let database = control::DatabaseUrl::from("postgres://nobody@127.0.0.1:1/none".to_owned());
    restore_into(&source.archive_path(), &source.restore_target(), Some(&database)).await.unwrap_err();
    assert_eq!(fs::read_dir(source.restore_target()).unwrap().count(), 0);
}
