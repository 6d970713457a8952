//! Checks that resumable uploads survive what ends a process, within their bounds, whatever the machine does to them.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::id::AccountId;
use workspace::{
    AnnouncedUpload, AppendOutcome, Quota, UNFINISHED_IDLE_MAX, UNFINISHED_MAX, Usage, WorkspaceError,
    Workspaces,
};

use crate::Host;

fn announced(name: &str, size: u64) -> AnnouncedUpload {
    AnnouncedUpload {
        name: name.to_owned(),
        folder: None,
        size,
        modified: None,
        digest: None,
        keeps_both: false,
    }
}

impl Host {
    /// Opens the same workspace as another process would.
    fn reopened(self) -> Self {
        let quota = Quota { disk_free_min_bytes: 0, ..Quota::default() };
        let workspaces = Workspaces::new(self.root.path().join("all"), quota).unwrap();
        Self { workspace: workspaces.of(AccountId::from_random(1)), root: self.root }
    }

    async fn begin(&self, announced: AnnouncedUpload) -> String {
        self.workspace.begin_resumable(announced).await.unwrap().id
    }

    async fn append(&self, id: &str, offset: u64, piece: &str) -> AppendOutcome {
        let piece = Bytes::copy_from_slice(piece.as_bytes());
        self.workspace.append(id, offset, piece).await.unwrap()
    }

    async fn received(&self, id: &str) -> Option<u64> {
        self.workspace.resumable_received(id).await.unwrap()
    }

    fn content(&self, id: &str) -> PathBuf {
        self.at(&format!(".upload-{id}"))
    }

    fn record(&self, id: &str) -> PathBuf {
        let account = AccountId::from_random(1).to_string();
        self.root.path().join("all/.uploads").join(account).join(id)
    }

    fn unused_for(&self, id: &str, time: Duration) {
        let file = File::options().write(true).open(self.record(id)).unwrap();
        file.set_modified(SystemTime::now() - time).unwrap();
    }
}

#[tokio::test]
async fn an_upload_goes_on_in_another_process_at_the_byte_that_was_acknowledged() {
    let host = Host::new().await;
    let id = host.begin(announced("large.txt", 10)).await;
    assert!(matches!(host.append(&id, 0, "abcd").await, AppendOutcome::Received(4)));
    for offset in [0, 5] {
        assert!(matches!(host.append(&id, offset, "x").await, AppendOutcome::Conflict { received: 4 }));
    }
    // The process ended in the middle of the next piece.
    File::options().append(true).open(host.content(&id)).unwrap().write_all(b"torn").unwrap();
    let host = host.reopened();
    assert_eq!(host.received(&id).await, Some(4));
    assert!(matches!(host.append(&id, 4, "ef").await, AppendOutcome::Received(6)));
    assert_eq!(std::fs::read(host.content(&id)).unwrap(), b"abcdef");
    assert!(!host.at("uploads/large.txt").exists(), "nothing is there before all is");
    let host = host.reopened();
    let AppendOutcome::Stored(stored) = host.append(&id, 6, "ghij").await else { panic!("it is complete") };
    assert_eq!((stored.path.to_string().as_str(), stored.size), ("/uploads/large.txt", 10));
    assert_eq!(host.read("/uploads/large.txt").await.unwrap(), b"abcdefghij");
    let mode = host.at("uploads/large.txt").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(host.received(&id).await, None);
    assert_eq!(host.names_at_home(), ["uploads"]);
    assert!(!host.record(&id).exists());
    assert_eq!(host.workspace.usage().await.unwrap(), Usage { bytes: 10, files: 2 });
}

#[tokio::test]
async fn an_upload_that_was_complete_when_its_process_ended_is_placed_by_an_empty_piece() {
    let host = Host::new().await;
    let id = host.begin(announced("x.txt", 4)).await;
    host.append(&id, 0, "abc").await;
    std::fs::write(host.content(&id), "abcd").unwrap();
    let record = std::fs::read_to_string(host.record(&id)).unwrap();
    std::fs::write(host.record(&id), record.replacen("03\n", "04\n", 1)).unwrap();
    assert_eq!(host.received(&id).await, Some(4));
    assert!(matches!(host.append(&id, 4, "").await, AppendOutcome::Stored(_)));
    assert_eq!(host.read("/uploads/x.txt").await.unwrap(), b"abcd");
}

#[tokio::test]
async fn the_same_file_announced_again_goes_on() {
    let host = Host::new().await;
    let digest = Some("d1".to_owned());
    let file = AnnouncedUpload { modified: Some(7), digest, ..announced("x", 9) };
    let id = host.begin(file.clone()).await;
    host.append(&id, 0, "abc").await;
    let again = host.workspace.begin_resumable(file.clone()).await.unwrap();
    assert_eq!((again.id, again.received), (id.clone(), 3));
    for other in [
        AnnouncedUpload { modified: Some(8), ..file.clone() },
        AnnouncedUpload { modified: None, ..file.clone() },
        AnnouncedUpload { digest: Some("d2".to_owned()), ..file.clone() },
        AnnouncedUpload { digest: None, ..file.clone() },
        AnnouncedUpload { size: 8, ..file.clone() },
        AnnouncedUpload { name: "y".to_owned(), ..file.clone() },
        AnnouncedUpload { folder: Some("/uploads".to_owned()), ..file.clone() },
    ] {
        assert_ne!(host.begin(other.clone()).await, id, "{other:?}");
    }
}

#[tokio::test]
async fn an_upload_that_keeps_both_gets_a_number_unless_the_file_is_the_same() {
    let host = Host::new().await;
    let placed = async |content: &str| {
        let size = content.len() as u64;
        let id = host.begin(AnnouncedUpload { keeps_both: true, ..announced("a.txt", size) }).await;
        match host.append(&id, 0, content).await {
            AppendOutcome::Stored(stored) => stored.path.to_string(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(placed("one").await, "/uploads/a.txt");
    assert_eq!(placed("two").await, "/uploads/a (2).txt");
    let used = host.workspace.usage().await.unwrap();
    assert_eq!(placed("one").await, "/uploads/a.txt");
    assert_eq!(host.workspace.usage().await.unwrap(), used);
    assert_eq!(host.names_at_home(), ["uploads"], "nothing is left over");
}

#[tokio::test]
async fn unfinished_uploads_are_bounded_in_number_bytes_and_age() {
    let quota =
        Quota { bytes_max: 100, disk_free_min_bytes: 0, recount_after: Duration::ZERO, ..Quota::default() };
    let host = Host::with(quota).await;
    let refused = host.workspace.begin_resumable(announced("x", 101)).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    let mut ids = Vec::new();
    for number in 0..=UNFINISHED_MAX as u64 {
        let id = host.begin(announced("x", 60)).await;
        host.unused_for(&id, Duration::from_secs(60 - number));
        ids.push(id);
    }
    assert_eq!(host.received(&ids[0]).await, None, "the one that was not used for the longest time ends");
    assert!(!host.content(&ids[0]).exists());
    assert_eq!(host.received(&ids[1]).await, Some(0));
    assert!(matches!(host.append(&ids[1], 0, &"x".repeat(59)).await, AppendOutcome::Received(59)));
    assert_eq!(host.workspace.usage().await.unwrap(), Usage { bytes: 59, files: 1 + UNFINISHED_MAX as u64 });
    let refused = host.workspace.append(&ids[2], 0, Bytes::from(vec![b'x'; 42])).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    assert_eq!(host.received(&ids[2]).await, None, "its bytes are free again");
    let repeated = host.append(&ids[1], 0, &"x".repeat(59)).await;
    assert!(matches!(repeated, AppendOutcome::Conflict { received: 59 }), "it is not too much: {repeated:?}");
    assert!(matches!(host.append(&ids[3], 0, &"x".repeat(41)).await, AppendOutcome::Received(41)));
    let workspaces = Workspaces::new(host.root.path().join("all"), quota).unwrap();
    host.unused_for(&ids[1], UNFINISHED_IDLE_MAX + Duration::from_secs(9));
    std::fs::write(host.record(&ids[4]), "").unwrap();
    host.unused_for(&ids[4], UNFINISHED_IDLE_MAX + Duration::from_secs(9));
    // The content is older than leftovers may be, but its upload goes on.
    host.unused_for(&ids[5], UNFINISHED_IDLE_MAX - Duration::from_secs(9));
    let content = File::options().write(true).open(host.content(&ids[5])).unwrap();
    content.set_modified(SystemTime::now() - Duration::from_secs(9000)).unwrap();
    assert_eq!(workspaces.remove_stale_uploads().await.unwrap(), 2);
    for (id, received) in [(&ids[1], None), (&ids[4], None), (&ids[5], Some(0))] {
        assert_eq!(host.received(id).await, received);
        assert_eq!(host.content(id).exists(), received.is_some());
    }
    workspaces.remove(AccountId::from_random(1)).await.unwrap();
    assert!(!host.record(&ids[5]).parent().unwrap().exists(), "nothing is left of a deleted account");
}

#[tokio::test]
async fn a_refused_place_ends_the_upload() {
    let host = Host::new().await;
    std::fs::create_dir(host.at("folder")).unwrap();
    let into_folder = AnnouncedUpload { folder: Some("/folder".to_owned()), ..announced("x", 1) };
    let id = host.begin(into_folder).await;
    std::fs::remove_dir(host.at("folder")).unwrap();
    let refused = host.workspace.append(&id, 0, Bytes::from_static(b"x")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotFound)), "{refused:?}");
    assert_eq!(host.received(&id).await, None);
    assert_eq!(host.names_at_home(), ["uploads"]);
    let id = host.begin(announced("x", 3)).await;
    host.append(&id, 0, "ab").await;
    assert!(matches!(host.append(&id, 2, "cd").await, AppendOutcome::TooLong));
    assert_eq!(host.received(&id).await, None);
    let long = format!("{}x", "a/".repeat(10_000));
    for bad in ["", "..", "x/", &long] {
        let refused = host.workspace.begin_resumable(announced(bad, 1)).await;
        assert!(matches!(refused, Err(WorkspaceError::InvalidName(_))), "{refused:?}");
    }
    for unknown in ["", "../x", &"0".repeat(32), &"z".repeat(32)] {
        assert_eq!(host.received(unknown).await, None);
        assert!(matches!(host.append(unknown, 0, "x").await, AppendOutcome::Unknown));
    }
}

#[tokio::test]
async fn a_cancelled_upload_leaves_nothing_behind() {
    let host = Host::new().await;
    let before = host.workspace.usage().await.unwrap();
    let id = host.begin(announced("large.txt", 10)).await;
    assert!(matches!(host.append(&id, 0, "abcd").await, AppendOutcome::Received(4)));
    assert!(host.workspace.cancel_resumable(&id).await.unwrap());
    assert_eq!(host.received(&id).await, None);
    assert!(matches!(host.append(&id, 4, "ef").await, AppendOutcome::Unknown), "a piece that comes later");
    assert!(!host.workspace.cancel_resumable(&id).await.unwrap(), "it is gone");
    assert!(!host.content(&id).exists() && !host.record(&id).exists());
    assert_eq!(host.names_at_home(), ["uploads"]);
    assert_eq!(host.workspace.usage().await.unwrap(), before);
    let id = host.begin(announced("large.txt", 2)).await;
    assert!(matches!(host.append(&id, 0, "ab").await, AppendOutcome::Stored(_)));
    assert!(!host.workspace.cancel_resumable(&id).await.unwrap(), "it is complete");
    assert_eq!(host.read("/uploads/large.txt").await.unwrap(), b"ab");
    for unknown in ["", "../x", &"0".repeat(32)] {
        assert!(!host.workspace.cancel_resumable(unknown).await.unwrap());
    }
}

#[tokio::test]
async fn a_cancellation_waits_for_the_piece_that_is_being_written() {
    let host = Host::new().await;
    let id = host.begin(announced("large.txt", 10)).await;
    // Another process writes a piece.
    let writer = File::options().write(true).open(host.record(&id)).unwrap();
    writer.lock().unwrap();
    let workspace = host.workspace.clone();
    let cancelled = id.clone();
    let cancelling = tokio::spawn(async move { workspace.cancel_resumable(&cancelled).await });
    tokio::task::yield_now().await;
    assert!(host.content(&id).exists());
    // That piece was the last one.
    std::fs::rename(host.content(&id), host.at("uploads/large.txt")).unwrap();
    std::fs::remove_file(host.record(&id)).unwrap();
    writer.unlock().unwrap();
    assert!(!cancelling.await.unwrap().unwrap(), "it is complete");
    assert!(host.at("uploads/large.txt").exists());
}

/// The machine writes to the home folder, in which the content is.
#[tokio::test]
async fn content_that_the_machine_has_replaced_is_not_written_to() {
    let host = Host::new().await;
    std::fs::write(host.at("own"), "own").unwrap();
    let replacements: [(&str, &dyn Fn(PathBuf)); 6] = [
        ("link out", &|at| std::os::unix::fs::symlink("../../secret", at).unwrap()),
        ("link", &|at| std::os::unix::fs::symlink("own", at).unwrap()),
        ("second name", &|at| std::fs::hard_link(host.at("own"), at).unwrap()),
        ("folder", &|at| std::fs::create_dir(at).unwrap()),
        ("pipe", &|at| {
            rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                .unwrap();
        }),
        ("nothing", &|_| {}),
    ];
    for (name, replace) in replacements {
        let id = host.begin(announced("x", 10)).await;
        host.append(&id, 0, "abc").await;
        std::fs::remove_file(host.content(&id)).unwrap();
        replace(host.content(&id));
        assert_eq!(host.received(&id).await, None, "{name}");
        assert!(matches!(host.append(&id, 3, "defghij").await, AppendOutcome::Unknown), "{name}");
        assert!(!host.record(&id).exists(), "{name}");
    }
    let id = host.begin(announced("x", 10)).await;
    host.append(&id, 0, "abc").await;
    File::options().write(true).open(host.content(&id)).unwrap().set_len(1).unwrap();
    assert_eq!(host.received(&id).await, None, "acknowledged bytes are gone");
    assert_eq!(std::fs::read(host.root.path().join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read(host.at("own")).unwrap(), b"own");
}

#[tokio::test]
async fn backups_leave_unfinished_uploads_out() {
    let host = Host::new().await;
    let id = host.begin(announced("x", 10)).await;
    host.append(&id, 0, "abc").await;
    let workspaces = Workspaces::new(host.root.path().join("all"), Quota::default()).unwrap();
    let mut paths = Vec::new();
    let walked = workspaces.walk_all(&mut |entry| {
        paths.push(entry.path.display().to_string());
        Ok(())
    });
    walked.unwrap();
    let account = AccountId::from_random(1);
    assert_eq!(paths, [format!("{account}"), format!("{account}/uploads")]);
}
