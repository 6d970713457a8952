//! Checks that the quota holds for all writers.

use std::time::Duration;

use futures_util::future::join_all;
use workspace::{AnnouncedUpload, DiskUsage, Quota, SpaceShortage, WorkspaceError};

use crate::{WorkspaceHost, asked_path};

fn small_quota(bytes_max: u64, files_max: u64) -> Quota {
    Quota { bytes_max, files_max, disk_free_min_bytes: 0, ..Quota::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parallel_uploads_never_pass_quota() {
    for (quota, room) in [(small_quota(10_000, 1_000), 10), (small_quota(1 << 20, 1 + 7), 7)] {
        let host = WorkspaceHost::with_quota(quota).await;
        let content = "x".repeat(1_000);
        let names: Vec<_> = (0..64).map(|name| name.to_string()).collect();
        let done = join_all(names.iter().map(|name| host.upload_text("/uploads", name, &content))).await;
        let refused =
            done.iter().filter(|done| matches!(done, Err(WorkspaceError::QuotaExceeded(_)))).count();
        assert_eq!((done.iter().flatten().count(), refused), (room, 64 - room));
        let there = std::fs::read_dir(host.host_path("uploads")).unwrap().count();
        assert_eq!(there, room);
        // A rejected upload has released its reservation.
        host.workspace.delete_path(&asked_path("/uploads"), true).await.unwrap();
        host.workspace.create_folder(&asked_path("/uploads")).await.unwrap();
        host.upload_text("/uploads", "again", &content).await.unwrap();
    }
}

#[tokio::test]
async fn machine_writes_count_against_quota() {
    let host =
        WorkspaceHost::with_quota(Quota { recount_after: Duration::ZERO, ..small_quota(1_000, 100) }).await;
    std::fs::create_dir_all(host.host_path("deep/in")).unwrap();
    std::fs::write(host.host_path("deep/in/file"), "x".repeat(900)).unwrap();
    host.create_link("deep/in/file", "link");
    assert_eq!(host.workspace.usage().await.unwrap(), DiskUsage { bytes: 900, files: 5 });
    let refused = host.upload_text("/", "a", &"x".repeat(101)).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    host.upload_text("/", "a", &"x".repeat(100)).await.unwrap();
    std::fs::remove_file(host.host_path("deep/in/file")).unwrap();
    host.upload_text("/", "b", &"x".repeat(900)).await.unwrap();
}

#[tokio::test]
async fn replaced_file_frees_quota() {
    let host = WorkspaceHost::with_quota(small_quota(1_000, 3)).await;
    for _ in 0..5 {
        host.upload_text("/", "a", &"x".repeat(400)).await.unwrap();
    }
    assert_eq!(host.workspace.usage().await.unwrap(), DiskUsage { bytes: 400, files: 2 });
    host.workspace.delete_path(&asked_path("/a"), false).await.unwrap();
    assert_eq!(host.workspace.usage().await.unwrap(), DiskUsage { bytes: 0, files: 1 });
}

#[tokio::test]
async fn a_refusal_names_the_limit() {
    let host = WorkspaceHost::with_quota(small_quota(1_000, 4)).await;
    let refused = async |name: &str, size: usize| match host.upload_text("/", name, &"x".repeat(size)).await {
        Err(WorkspaceError::QuotaExceeded(shortage)) => Some(shortage),
        _ => None,
    };
    assert_eq!(refused("a", 1_001).await, Some(SpaceShortage::FileTooLarge(1_000)));
    assert_eq!(refused("a", 900).await, None);
    assert_eq!(refused("b", 101).await, Some(SpaceShortage::Bytes(1_000)));
    assert_eq!(refused("b", 1).await, None);
    assert_eq!(refused("c", 1).await, None);
    assert_eq!(refused("d", 1).await, Some(SpaceShortage::Files(4)));
    let announced = AnnouncedUpload {
        folder: None,
        name: "e".to_owned(),
        size: 1_001,
        modified: None,
        digest: None,
        keeps_both: false,
    };
    let begun = host.workspace.begin_resumable(announced).await;
    assert!(
        matches!(begun, Err(WorkspaceError::QuotaExceeded(SpaceShortage::FileTooLarge(1_000)))),
        "{begun:?}"
    );
    let host =
        WorkspaceHost::with_quota(Quota { disk_free_min_bytes: u64::MAX / 2, ..small_quota(1_000, 100) })
            .await;
    let refused = host.upload_text("/", "a", "x").await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(SpaceShortage::Disk))), "{refused:?}");
}

#[tokio::test]
async fn file_and_folder_count_is_bounded() {
    let host = WorkspaceHost::with_quota(small_quota(1_000, 3)).await;
    host.workspace.create_folder(&asked_path("/a")).await.unwrap();
    host.workspace.create_folder(&asked_path("/b")).await.unwrap();
    let refused = host.workspace.create_folder(&asked_path("/c")).await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    assert!(matches!(host.upload_text("/", "c", "x").await, Err(WorkspaceError::QuotaExceeded(_))));
    assert_eq!(host.names_at_home(), ["a", "b", "uploads"]);
}

#[tokio::test]
async fn the_disk_keeps_its_floor() {
    let host =
        WorkspaceHost::with_quota(Quota { disk_free_min_bytes: u64::MAX / 2, ..small_quota(1_000, 100) })
            .await;
    let refused = host.upload_text("/", "a", "x").await;
    assert!(matches!(refused, Err(WorkspaceError::QuotaExceeded(_))), "{refused:?}");
    assert_eq!(host.names_at_home(), ["uploads"]);
}
