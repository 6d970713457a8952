//! Tests moves, renames and the search for names.

use workspace::{FileName, WorkspaceError};

use crate::{WorkspaceHost, asked_path};

fn file_name(text: &str) -> FileName {
    FileName::from_upload(text).unwrap()
}

#[tokio::test]
async fn move_replaces_no_entry() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir_all(host.host_path("a/b")).unwrap();
    std::fs::create_dir_all(host.host_path("c/empty")).unwrap();
    std::fs::write(host.host_path("a/x"), "x").unwrap();
    std::fs::write(host.host_path("c/x"), "other").unwrap();
    let before = host.workspace.usage().await.unwrap();
    let moved = host.workspace.move_entry(&asked_path("/a/x"), &asked_path("/c"), None).await;
    assert!(matches!(moved, Err(WorkspaceError::AlreadyExists)), "{moved:?}");
    let onto =
        host.workspace.move_entry(&asked_path("/a/x"), &asked_path("/c"), Some(&file_name("empty"))).await;
    assert!(matches!(onto, Err(WorkspaceError::AlreadyExists)), "{onto:?}");
    let folder =
        host.workspace.move_entry(&asked_path("/a/b"), &asked_path("/c"), Some(&file_name("empty"))).await;
    assert!(matches!(folder, Err(WorkspaceError::AlreadyExists)), "{folder:?}");
    let moved = host
        .workspace
        .move_entry(&asked_path("/a/x"), &asked_path("/c"), Some(&file_name("y")))
        .await
        .unwrap();
    assert_eq!(moved.to_string(), "/c/y");
    assert_eq!(std::fs::read_to_string(host.host_path("c/y")).unwrap(), "x");
    assert_eq!(std::fs::read_to_string(host.host_path("c/x")).unwrap(), "other");
    let moved = host.workspace.move_entry(&asked_path("/c"), &asked_path("/a/b"), None).await.unwrap();
    assert_eq!(moved.to_string(), "/a/b/c");
    assert!(host.host_path("a/b/c/empty").is_dir());
    let same = host.workspace.move_entry(&asked_path("/a/b/c"), &asked_path("/a/b"), None).await.unwrap();
    assert_eq!(same.to_string(), "/a/b/c");
    assert_eq!(host.workspace.usage().await.unwrap(), before);
}

#[tokio::test]
async fn folder_cannot_move_into_itself() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir_all(host.host_path("a/b")).unwrap();
    std::os::unix::fs::symlink("a/b", host.host_path("link")).unwrap();
    for folder in ["/a", "/a/b", "/link"] {
        let moved = host.workspace.move_entry(&asked_path("/a"), &asked_path(folder), None).await;
        assert!(matches!(moved, Err(WorkspaceError::IntoItself)), "{folder}: {moved:?}");
    }
    let home = host.workspace.move_entry(&asked_path("/"), &asked_path("/a"), None).await;
    assert!(matches!(home, Err(WorkspaceError::HomeFolder)), "{home:?}");
    assert!(host.host_path("a/b").is_dir());
}

#[tokio::test]
async fn move_takes_links_themselves() {
    let host = WorkspaceHost::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(host.host_path("x"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), host.host_path("out")).unwrap();
    for folder in ["/out", "/.."] {
        let moved = host.workspace.move_entry(&asked_path("/x"), &asked_path(folder), None).await;
        assert!(matches!(moved, Err(WorkspaceError::Outside)), "{folder}: {moved:?}");
    }
    std::fs::create_dir(host.host_path("a")).unwrap();
    host.workspace.move_entry(&asked_path("/out"), &asked_path("/a"), None).await.unwrap();
    assert!(host.host_path("a/out").is_symlink() && outside.path().exists());
    let into_file = host.workspace.move_entry(&asked_path("/a"), &asked_path("/x"), None).await;
    assert!(matches!(into_file, Err(WorkspaceError::NotAFolder)), "{into_file:?}");
    let reserved =
        host.workspace.move_entry(&asked_path("/x"), &asked_path("/uploads"), Some(&file_name(".tmp"))).await;
    assert!(matches!(reserved, Err(WorkspaceError::InvalidName(_))), "{reserved:?}");
}

#[tokio::test]
async fn move_treats_forms_as_same_name() {
    let host = WorkspaceHost::new().await;
    std::fs::write(host.host_path("\u{e1}"), "composed").unwrap();
    std::fs::write(host.host_path("x"), "x").unwrap();
    let moved =
        host.workspace.move_entry(&asked_path("/x"), &asked_path("/"), Some(&file_name("a\u{301}"))).await;
    assert!(matches!(moved, Err(WorkspaceError::AlreadyExists)), "{moved:?}");
    host.workspace
        .move_entry(&asked_path("/\u{e1}"), &asked_path("/"), Some(&file_name("a\u{301}")))
        .await
        .unwrap();
    assert_eq!(std::fs::read_to_string(host.host_path("a\u{301}")).unwrap(), "composed");
}

#[tokio::test]
async fn search_skips_links_and_hidden_names() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir_all(host.host_path("a/Lease")).unwrap();
    for file in ["a/Lease/lease 2024.pdf", "a/.lease", "lease.txt", "other.txt"] {
        std::fs::write(host.host_path(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("a", host.host_path("link")).unwrap();
    let names = async |folder: &str, words: &str| {
        let found = host.workspace.search_entries(&asked_path(folder), words).await.unwrap();
        assert!(!found.is_cut);
        found.listing.entries.into_iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("/", "LEASE").await, ["/a/Lease", "/a/Lease/lease 2024.pdf", "/lease.txt"]);
    assert_eq!(names("/a", "2024 lease").await, ["/a/Lease/lease 2024.pdf"]);
    assert!(names("/", "2025").await.is_empty());
    let missing = host.workspace.search_entries(&asked_path("/none"), "x").await;
    assert!(matches!(missing, Err(WorkspaceError::NotFound)), "{missing:?}");
}
