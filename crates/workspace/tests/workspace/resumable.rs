//! Checks that resumable uploads survive the end of a process, within their bounds, and changes by the machine.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use domain::id::AccountId;
use workspace::{
    AnnouncedUpload, AppendOutcome, DiskUsage, Quota, UNFINISHED_IDLE_MAX, UNFINISHED_MAX, WorkspaceError,
    Workspaces,
};

use crate::WorkspaceHost;

fn new_announcement(name: &str, size: u64) -> AnnouncedUpload {
    AnnouncedUpload {
        name: name.to_owned(),
        folder: None,
        size,
        modified: None,
        digest: None,
        keeps_both: false,
    }
}

impl WorkspaceHost {
    /// Opens the same workspace as another process would.
    fn reopen_workspace(self) -> Self {
        let quota = Quota { disk_free_min_bytes: 0, ..Quota::default() };
        let workspaces = Workspaces::new(self.root.path().join("all"), quota).unwrap();
        Self { workspace: workspaces.workspace_for(AccountId::from_random(1)), root: self.root }
    }

    async fn begin_upload(&self, announced: AnnouncedUpload) -> String {
        self.workspace.begin_resumable(announced).await.unwrap().id
    }

    async fn append_text(&self, id: &str, offset: u64, piece: &str) -> AppendOutcome {
        let piece = Bytes::copy_from_slice(piece.as_bytes());
        self.workspace.append_piece(id, offset, piece).await.unwrap()
    }

    async fn received_bytes(&self, id: &str) -> Option<u64> {
        self.workspace.resumable_received(id).await.unwrap()
    }

    fn content_path(&self, id: &str) -> PathBuf {
        self.host_path(&format!(".upload-{id}"))
    }

    fn record_path(&self, id: &str) -> PathBuf {
        let account = AccountId::from_random(1).to_string();
        self.root.path().join("all/.uploads").join(account).join(id)
    }

    fn unused_for(&self, id: &str, time: Duration) {
        let file = File::options().write(true).open(self.record_path(id)).unwrap();
        file.set_modified(SystemTime::now() - time).unwrap();
    }
}

#[tokio::test]
async fn resumable_upload_continues_at_acknowledged_byte() {
    let host = WorkspaceHost::new().await;
    let id = host.begin_upload(new_announcement("large.txt", 10)).await;
    assert!(matches!(host.append_text(&id, 0, "abcd").await, AppendOutcome::Received(4)));
    for offset in [0, 5] {
        assert!(matches!(host.append_text(&id, offset, "x").await, AppendOutcome::Conflict { received: 4 }));
    }
    // The process ended in the middle of the next piece.
    File::options().append(true).open(host.content_path(&id)).unwrap().write_all(b"torn").unwrap();
    let host = host.reopen_workspace();
    assert_eq!(host.received_bytes(&id).await, Some(4));
    assert!(matches!(host.append_text(&id, 4, "ef").await, AppendOutcome::Received(6)));
    assert_eq!(std::fs::read(host.content_path(&id)).unwrap(), b"abcdef");
    assert!(!host.host_path("uploads/large.txt").exists(), "nothing is there before all is");
    let host = host.reopen_workspace();
    let AppendOutcome::Stored(stored) = host.append_text(&id, 6, "ghij").await else {
        panic!("it is complete")
    };
    assert_eq!((stored.path.to_string().as_str(), stored.size), ("/uploads/large.txt", 10));
    assert_eq!(host.read_file("/uploads/large.txt").await.unwrap(), b"abcdefghij");
    let mode = host.host_path("uploads/large.txt").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    assert_eq!(host.received_bytes(&id).await, None);
    assert_eq!(host.names_at_home(), ["uploads"]);
    assert!(!host.record_path(&id).exists());
    assert_eq!(host.workspace.usage().await.unwrap(), DiskUsage { bytes: 10, files: 2 });
}

#[tokio::test]
async fn empty_piece_places_complete_upload() {
    let host = WorkspaceHost::new().await;
    let id = host.begin_upload(new_announcement("x.txt", 4)).await;
    host.append_text(&id, 0, "abc").await;
    std::fs::write(host.content_path(&id), "abcd").unwrap();
    let record = std::fs::read_to_string(host.record_path(&id)).unwrap();
    std::fs::write(host.record_path(&id), record.replacen("03\n", "04\n", 1)).unwrap();
    assert_eq!(host.received_bytes(&id).await, Some(4));
    assert!(matches!(host.append_text(&id, 4, "").await, AppendOutcome::Stored(_)));
    assert_eq!(host.read_file("/uploads/x.txt").await.unwrap(), b"abcd");
}

#[tokio::test]
async fn announced_again_upload_continues() {
    let host = WorkspaceHost::new().await;
    let digest = Some("d1".to_owned());
    let file = AnnouncedUpload { modified: Some(7), digest, ..new_announcement("x", 9) };
    let id = host.begin_upload(file.clone()).await;
    host.append_text(&id, 0, "abc").await;
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
        assert_ne!(host.begin_upload(other.clone()).await, id, "{other:?}");
    }
}

#[tokio::test]
async fn keeping_both_numbers_different_file() {
    let host = WorkspaceHost::new().await;
    let placed = async |content: &str| {
        let size = content.len() as u64;
        let id =
            host.begin_upload(AnnouncedUpload { keeps_both: true, ..new_announcement("a.txt", size) }).await;
        match host.append_text(&id, 0, content).await {
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
async fn unfinished_uploads_are_bounded() {
    let quota =
        Quota { bytes_max: 100, disk_free_min_bytes: 0, recount_after: Duration::ZERO, ..Quota::default() };
    let host = WorkspaceHost::with_quota(quota).await;
    let refused = host.workspace.begin_resumable(new_announcement("x", 101)).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    let mut ids = Vec::new();
    for number in 0..=UNFINISHED_MAX as u64 {
        let id = host.begin_upload(new_announcement("x", 60)).await;
        host.unused_for(&id, Duration::from_secs(60 - number));
        ids.push(id);
    }
    assert_eq!(
        host.received_bytes(&ids[0]).await,
        None,
        "the one that was not used for the longest time ends"
    );
    assert!(!host.content_path(&ids[0]).exists());
    assert_eq!(host.received_bytes(&ids[1]).await, Some(0));
    assert!(matches!(host.append_text(&ids[1], 0, &"x".repeat(59)).await, AppendOutcome::Received(59)));
    assert_eq!(
        host.workspace.usage().await.unwrap(),
        DiskUsage { bytes: 59, files: 1 + UNFINISHED_MAX as u64 }
    );
    let refused = host.workspace.append_piece(&ids[2], 0, Bytes::from(vec![b'x'; 42])).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    assert_eq!(host.received_bytes(&ids[2]).await, None, "its bytes are free again");
    let repeated = host.append_text(&ids[1], 0, &"x".repeat(59)).await;
    assert!(matches!(repeated, AppendOutcome::Conflict { received: 59 }), "it is not too much: {repeated:?}");
    assert!(matches!(host.append_text(&ids[3], 0, &"x".repeat(41)).await, AppendOutcome::Received(41)));
    let workspaces = Workspaces::new(host.root.path().join("all"), quota).unwrap();
    host.unused_for(&ids[1], UNFINISHED_IDLE_MAX + Duration::from_secs(9));
    std::fs::write(host.record_path(&ids[4]), "").unwrap();
    host.unused_for(&ids[4], UNFINISHED_IDLE_MAX + Duration::from_secs(9));
    // The content is older than leftovers may be, but its upload continues.
    host.unused_for(&ids[5], UNFINISHED_IDLE_MAX - Duration::from_secs(9));
    let content = File::options().write(true).open(host.content_path(&ids[5])).unwrap();
    content.set_modified(SystemTime::now() - Duration::from_secs(9000)).unwrap();
    assert_eq!(workspaces.remove_stale_uploads().await.unwrap(), 2);
    for (id, received) in [(&ids[1], None), (&ids[4], None), (&ids[5], Some(0))] {
        assert_eq!(host.received_bytes(id).await, received);
        assert_eq!(host.content_path(id).exists(), received.is_some());
    }
    workspaces.remove_account(AccountId::from_random(1)).await.unwrap();
    assert!(!host.record_path(&ids[5]).parent().unwrap().exists(), "nothing is left of a deleted account");
}

#[tokio::test]
async fn a_refused_place_ends_the_upload() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir(host.host_path("folder")).unwrap();
    let into_folder = AnnouncedUpload { folder: Some("/folder".to_owned()), ..new_announcement("x", 1) };
    let id = host.begin_upload(into_folder).await;
    std::fs::remove_dir(host.host_path("folder")).unwrap();
    let refused = host.workspace.append_piece(&id, 0, Bytes::from_static(b"x")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotFound)), "{refused:?}");
    assert_eq!(host.received_bytes(&id).await, None);
    assert_eq!(host.names_at_home(), ["uploads"]);
    let id = host.begin_upload(new_announcement("x", 3)).await;
    host.append_text(&id, 0, "ab").await;
    assert!(matches!(host.append_text(&id, 2, "cd").await, AppendOutcome::TooLong));
    assert_eq!(host.received_bytes(&id).await, None);
    let long = format!("{}x", "a/".repeat(10_000));
    for bad in ["", "..", "x/", &long] {
        let refused = host.workspace.begin_resumable(new_announcement(bad, 1)).await;
        assert!(matches!(refused, Err(WorkspaceError::InvalidName(_))), "{refused:?}");
    }
    for unknown in ["", "../x", &"0".repeat(32), &"z".repeat(32)] {
        assert_eq!(host.received_bytes(unknown).await, None);
        assert!(matches!(host.append_text(unknown, 0, "x").await, AppendOutcome::Unknown));
    }
}

#[tokio::test]
async fn a_cancelled_upload_leaves_nothing_behind() {
    let host = WorkspaceHost::new().await;
    let before = host.workspace.usage().await.unwrap();
    let id = host.begin_upload(new_announcement("large.txt", 10)).await;
    assert!(matches!(host.append_text(&id, 0, "abcd").await, AppendOutcome::Received(4)));
    assert!(host.workspace.cancel_resumable(&id).await.unwrap());
    assert_eq!(host.received_bytes(&id).await, None);
    assert!(
        matches!(host.append_text(&id, 4, "ef").await, AppendOutcome::Unknown),
        "a piece that comes later"
    );
    assert!(!host.workspace.cancel_resumable(&id).await.unwrap(), "it is gone");
    assert!(!host.content_path(&id).exists() && !host.record_path(&id).exists());
    assert_eq!(host.names_at_home(), ["uploads"]);
    assert_eq!(host.workspace.usage().await.unwrap(), before);
    let id = host.begin_upload(new_announcement("large.txt", 2)).await;
    assert!(matches!(host.append_text(&id, 0, "ab").await, AppendOutcome::Stored(_)));
    assert!(!host.workspace.cancel_resumable(&id).await.unwrap(), "it is complete");
    assert_eq!(host.read_file("/uploads/large.txt").await.unwrap(), b"ab");
    for unknown in ["", "../x", &"0".repeat(32)] {
        assert!(!host.workspace.cancel_resumable(unknown).await.unwrap());
    }
}

#[tokio::test]
async fn cancel_waits_for_written_piece() {
    let host = WorkspaceHost::new().await;
    let id = host.begin_upload(new_announcement("large.txt", 10)).await;
    // Another process writes a piece.
    let writer = File::options().write(true).open(host.record_path(&id)).unwrap();
    writer.lock().unwrap();
    let workspace = host.workspace.clone();
    let cancelled = id.clone();
    let cancelling = tokio::spawn(async move { workspace.cancel_resumable(&cancelled).await });
    tokio::task::yield_now().await;
    assert!(host.content_path(&id).exists());
    // That piece was the last one.
    std::fs::rename(host.content_path(&id), host.host_path("uploads/large.txt")).unwrap();
    std::fs::remove_file(host.record_path(&id)).unwrap();
    writer.unlock().unwrap();
    assert!(!cancelling.await.unwrap().unwrap(), "it is complete");
    assert!(host.host_path("uploads/large.txt").exists());
}

/// The machine writes to the home folder, in which the content is.
#[tokio::test]
async fn replaced_content_is_never_written() {
    let host = WorkspaceHost::new().await;
    std::fs::write(host.host_path("own"), "own").unwrap();
    let replacements: [(&str, &dyn Fn(PathBuf)); 6] = [
        ("link out", &|at| std::os::unix::fs::symlink("../../secret", at).unwrap()),
        ("link", &|at| std::os::unix::fs::symlink("own", at).unwrap()),
        ("second name", &|at| std::fs::hard_link(host.host_path("own"), at).unwrap()),
        ("folder", &|at| std::fs::create_dir(at).unwrap()),
        ("pipe", &|at| {
            rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
                .unwrap();
        }),
        ("nothing", &|_| {}),
    ];
    for (name, replace) in replacements {
        let id = host.begin_upload(new_announcement("x", 10)).await;
        host.append_text(&id, 0, "abc").await;
        std::fs::remove_file(host.content_path(&id)).unwrap();
        replace(host.content_path(&id));
        assert_eq!(host.received_bytes(&id).await, None, "{name}");
        assert!(matches!(host.append_text(&id, 3, "defghij").await, AppendOutcome::Unknown), "{name}");
        assert!(!host.record_path(&id).exists(), "{name}");
    }
    let id = host.begin_upload(new_announcement("x", 10)).await;
    host.append_text(&id, 0, "abc").await;
    File::options().write(true).open(host.content_path(&id)).unwrap().set_len(1).unwrap();
    assert_eq!(host.received_bytes(&id).await, None, "acknowledged bytes are gone");
    assert_eq!(std::fs::read(host.root.path().join("secret")).unwrap(), b"secret");
    assert_eq!(std::fs::read(host.host_path("own")).unwrap(), b"own");
}

#[tokio::test]
async fn backups_leave_unfinished_uploads_out() {
    let host = WorkspaceHost::new().await;
    let id = host.begin_upload(new_announcement("x", 10)).await;
    host.append_text(&id, 0, "abc").await;
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
