//! Tests moves, renames and the search for names.

use workspace::{FileName, WorkspaceError};

use crate::{Host, asked};

fn name(text: &str) -> FileName {
    FileName::from_upload(text).unwrap()
}

#[tokio::test]
async fn an_entry_is_moved_and_nothing_is_replaced() {
    let host = Host::new().await;
    std::fs::create_dir_all(host.at("a/b")).unwrap();
    std::fs::create_dir_all(host.at("c/empty")).unwrap();
    std::fs::write(host.at("a/x"), "x").unwrap();
    std::fs::write(host.at("c/x"), "other").unwrap();
    let before = host.workspace.usage().await.unwrap();
    let moved = host.workspace.move_entry(&asked("/a/x"), &asked("/c"), None).await;
    assert!(matches!(moved, Err(WorkspaceError::AlreadyExists)), "{moved:?}");
    let onto = host.workspace.move_entry(&asked("/a/x"), &asked("/c"), Some(&name("empty"))).await;
    assert!(matches!(onto, Err(WorkspaceError::AlreadyExists)), "{onto:?}");
    let folder = host.workspace.move_entry(&asked("/a/b"), &asked("/c"), Some(&name("empty"))).await;
    assert!(matches!(folder, Err(WorkspaceError::AlreadyExists)), "{folder:?}");
    let moved = host.workspace.move_entry(&asked("/a/x"), &asked("/c"), Some(&name("y"))).await.unwrap();
    assert_eq!(moved.to_string(), "/c/y");
    assert_eq!(std::fs::read_to_string(host.at("c/y")).unwrap(), "x");
    assert_eq!(std::fs::read_to_string(host.at("c/x")).unwrap(), "other");
    let moved = host.workspace.move_entry(&asked("/c"), &asked("/a/b"), None).await.unwrap();
    assert_eq!(moved.to_string(), "/a/b/c");
    assert!(host.at("a/b/c/empty").is_dir());
    let same = host.workspace.move_entry(&asked("/a/b/c"), &asked("/a/b"), None).await.unwrap();
    assert_eq!(same.to_string(), "/a/b/c");
    assert_eq!(host.workspace.usage().await.unwrap(), before);
}

#[tokio::test]
async fn a_folder_is_not_moved_into_itself() {
    let host = Host::new().await;
    std::fs::create_dir_all(host.at("a/b")).unwrap();
    std::os::unix::fs::symlink("a/b", host.at("link")).unwrap();
    for folder in ["/a", "/a/b", "/link"] {
        let moved = host.workspace.move_entry(&asked("/a"), &asked(folder), None).await;
        assert!(matches!(moved, Err(WorkspaceError::IntoItself)), "{folder}: {moved:?}");
    }
    let home = host.workspace.move_entry(&asked("/"), &asked("/a"), None).await;
    assert!(matches!(home, Err(WorkspaceError::HomeFolder)), "{home:?}");
    assert!(host.at("a/b").is_dir());
}

#[tokio::test]
async fn a_move_stays_in_the_workspace_and_takes_links_themselves() {
    let host = Host::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(host.at("x"), "x").unwrap();
    std::os::unix::fs::symlink(outside.path(), host.at("out")).unwrap();
    for folder in ["/out", "/.."] {
        let moved = host.workspace.move_entry(&asked("/x"), &asked(folder), None).await;
        assert!(matches!(moved, Err(WorkspaceError::Outside)), "{folder}: {moved:?}");
    }
    std::fs::create_dir(host.at("a")).unwrap();
    host.workspace.move_entry(&asked("/out"), &asked("/a"), None).await.unwrap();
    assert!(host.at("a/out").is_symlink() && outside.path().exists());
    let into_file = host.workspace.move_entry(&asked("/a"), &asked("/x"), None).await;
    assert!(matches!(into_file, Err(WorkspaceError::NotAFolder)), "{into_file:?}");
    let reserved = host.workspace.move_entry(&asked("/x"), &asked("/uploads"), Some(&name(".tmp"))).await;
    assert!(matches!(reserved, Err(WorkspaceError::InvalidName(_))), "{reserved:?}");
}

#[tokio::test]
async fn a_name_in_another_normal_form_is_the_same_name() {
    let host = Host::new().await;
    std::fs::write(host.at("\u{e1}"), "composed").unwrap();
    std::fs::write(host.at("x"), "x").unwrap();
    let moved = host.workspace.move_entry(&asked("/x"), &asked("/"), Some(&name("a\u{301}"))).await;
    assert!(matches!(moved, Err(WorkspaceError::AlreadyExists)), "{moved:?}");
    host.workspace.move_entry(&asked("/\u{e1}"), &asked("/"), Some(&name("a\u{301}"))).await.unwrap();
    assert_eq!(std::fs::read_to_string(host.at("a\u{301}")).unwrap(), "composed");
}

#[tokio::test]
async fn a_search_finds_names_below_without_links_and_hidden_ones() {
    let host = Host::new().await;
    std::fs::create_dir_all(host.at("a/Lease")).unwrap();
    for file in ["a/Lease/lease 2024.pdf", "a/.lease", "lease.txt", "other.txt"] {
        std::fs::write(host.at(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("a", host.at("link")).unwrap();
    let names = async |folder: &str, words: &str| {
        let found = host.workspace.search(&asked(folder), words).await.unwrap();
        assert!(!found.is_cut);
        found.listing.entries.into_iter().map(|entry| entry.path.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names("/", "LEASE").await, ["/a/Lease", "/a/Lease/lease 2024.pdf", "/lease.txt"]);
    assert_eq!(names("/a", "2024 lease").await, ["/a/Lease/lease 2024.pdf"]);
    assert!(names("/", "2025").await.is_empty());
    let missing = host.workspace.search(&asked("/none"), "x").await;
    assert!(matches!(missing, Err(WorkspaceError::NotFound)), "{missing:?}");
}
