//! Tests the creation and deletion of folders and files.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use domain::id::AccountId;
use workspace::{AskedPath, Quota, WorkspaceError, Workspaces};

use crate::{Host, asked, chunks};

#[tokio::test]
async fn a_folder_is_made_in_a_parent_that_exists() {
    let host = Host::new().await;
    assert_eq!(host.workspace.create_folder(&asked("/a%20b/")).await.unwrap().to_string(), "/a b");
    host.upload("/a b", "x", "x").await.unwrap();
    let again = host.workspace.create_folder(&asked("/a b")).await;
    assert!(matches!(again, Err(WorkspaceError::AlreadyExists)), "{again:?}");
    let home = host.workspace.create_folder(&asked("/")).await;
    assert!(matches!(home, Err(WorkspaceError::AlreadyExists)), "{home:?}");
    for orphan in ["/none/x", "/a b/x/y"] {
        let made = host.workspace.create_folder(&asked(orphan)).await;
        assert!(matches!(made, Err(WorkspaceError::NotFound)), "{orphan}: {made:?}");
    }
    let long = host.workspace.create_folder(&asked(&"x".repeat(256))).await;
    assert!(matches!(long, Err(WorkspaceError::InvalidName(_))), "{long:?}");
}

#[tokio::test]
async fn only_recursive_deletes_what_is_not_empty() {
    let host = Host::new().await;
    std::fs::create_dir_all(host.at("a/b/c")).unwrap();
    std::fs::write(host.at("a/b/file"), "x").unwrap();
    let refused = host.workspace.delete(&asked("/a"), false).await;
    assert!(matches!(refused, Err(WorkspaceError::NotEmpty)), "{refused:?}");
    assert!(host.at("a/b/file").exists());
    let refused = host.workspace.delete_empty_folder(&asked("/a/b")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotEmpty)), "{refused:?}");
    let refused = host.workspace.delete_empty_folder(&asked("/a/b/file")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotAFolder)), "{refused:?}");
    assert!(host.at("a/b/file").exists());
    std::fs::create_dir(host.at("a/b/d")).unwrap();
    host.workspace.delete(&asked("/a/b/c"), false).await.unwrap();
    host.workspace.delete_empty_folder(&asked("/a/b/d")).await.unwrap();
    assert!(!host.at("a/b/c").exists() && !host.at("a/b/d").exists());
    host.workspace.delete(&asked("/a"), true).await.unwrap();
    let result = host.workspace.delete(&asked("/a"), true).await;
    assert!(matches!(result, Err(WorkspaceError::NotFound)), "{result:?}");
    let home = host.workspace.delete(&asked("/x/.."), true).await;
    assert!(matches!(home, Err(WorkspaceError::HomeFolder)), "{home:?}");
    assert_eq!(host.workspace.usage().await.unwrap(), workspace::Usage { bytes: 0, files: 1 });
}

#[tokio::test]
async fn nothing_is_deleted_by_a_path_that_two_entries_can_be_meant_by() {
    let host = Host::new().await;
    for name in ["a b", "a%20b"] {
        host.upload("/uploads", name, name).await.unwrap();
    }
    let refused = host.workspace.delete(&asked("/uploads/a%20b"), true).await;
    assert!(matches!(refused, Err(WorkspaceError::AmbiguousPath)), "{refused:?}");
    assert!(host.at("uploads/a b").exists() && host.at("uploads/a%20b").exists());
    // Encoded to the last byte, it is the one; encoded once more, the other.
    host.workspace.delete(&asked("/uploads/%61%20%62"), false).await.unwrap();
    assert!(!host.at("uploads/a b").exists() && host.at("uploads/a%20b").exists());
    host.upload("/uploads", "a b", "a b").await.unwrap();
    host.workspace.delete(&asked("/uploads/a%2520b"), false).await.unwrap();
    assert!(host.at("uploads/a b").exists() && !host.at("uploads/a%20b").exists());
    // A field of a body is what it says.
    let gone = host.workspace.delete(&AskedPath::from_text("/uploads/a%20b"), true).await;
    assert!(matches!(gone, Err(WorkspaceError::NotFound)), "{gone:?}");
    host.workspace.delete(&asked("/uploads/a%20b"), false).await.unwrap();
}

#[tokio::test]
async fn encoded_dots_are_a_name_where_there_is_one() {
    let host = Host::new().await;
    for name in ["%2e%2e", "%2E"] {
        std::fs::write(host.at("uploads").join(name), name).unwrap();
        assert_eq!(host.read(&format!("/uploads/{name}")).await.unwrap(), name.as_bytes());
        let refused = host.workspace.delete(&asked(&format!("/uploads/{name}")), true).await;
        assert!(matches!(refused, Err(WorkspaceError::AmbiguousPath)), "{refused:?}");
        host.workspace.delete(&asked(&format!("/uploads/{}", name.replace('%', "%25"))), true).await.unwrap();
    }
    std::fs::write(host.at("%2e%2e"), "x").unwrap();
    assert_eq!(host.read("/%2e%2e").await.unwrap(), b"x");
    assert!(matches!(host.read("/%2e%2e/x").await, Err(WorkspaceError::Outside)));
    let refused = host.workspace.create_folder(&asked("/%2e%2e/x")).await;
    assert!(matches!(refused, Err(WorkspaceError::Outside)), "{refused:?}");
}

#[tokio::test]
async fn provisioning_again_changes_nothing_and_a_sweep_removes_what_a_crash_left() {
    let host = Host::new().await;
    host.upload("/uploads", "kept", "x").await.unwrap();
    let (old, new) = (format!(".upload-{:032x}", 1), format!(".upload-{:032x}", 2));
    for name in [&old, &new, ".upload-short"] {
        std::fs::write(host.at(name), "x").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(host.at(&old)).unwrap().set_modified(long_ago).unwrap();
    let workspaces = Workspaces::new(host.root.path().join("all"), Quota::default()).unwrap();
    workspaces.provision(AccountId::from_random(1), None).await.unwrap();
    assert_eq!(host.names_at_home(), [&old, &new, ".upload-short", "uploads"]);
    assert_eq!(workspaces.remove_stale_uploads().await.unwrap(), 1);
    assert_eq!(host.names_at_home(), [&new, ".upload-short", "uploads"]);
    assert_eq!(host.read("/uploads/kept").await.unwrap(), b"x");
}

#[tokio::test]
async fn what_is_made_belongs_to_the_owner_of_the_home() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::new(root.path(), Quota::default()).unwrap();
    // Only root can give files away; otherwise they belong to the service's user.
    let own = rustix::process::geteuid();
    let owner = if own.is_root() { 54_321 } else { own.as_raw() };
    let workspace = workspaces.provision(AccountId::from_random(1), Some((owner, owner))).await.unwrap();
    workspace.create_folder(&asked("/made")).await.unwrap();
    let name = workspace::FileName::from_upload("file").unwrap();
    let up = workspace.upload(&workspace::Destination::Temporary, &name, chunks("x")).await.unwrap();
    let up = up.path.to_string();
    let folder = up.trim_end_matches("/file");
    for (path, mode) in [("", 0o755), ("uploads", 0o755), ("made", 0o755), (folder, 0o755), (&*up, 0o644)] {
        let meta = std::fs::metadata(workspace.host_dir().join(path.trim_start_matches('/'))).unwrap();
        assert_eq!((meta.uid(), meta.permissions().mode() & 0o7777), (owner, mode), "{path}");
    }
}

/// A machine may give files any mode, and change the mode of its home.
#[tokio::test]
async fn nobody_else_on_the_host_may_enter_what_machines_write_to() {
    let root = tempfile::tempdir().unwrap();
    let all = root.path().join("workspaces");
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    for earlier in [None, Some(0o711), Some(0o777)] {
        if let Some(earlier) = earlier {
            std::fs::set_permissions(&all, PermissionsExt::from_mode(earlier)).unwrap();
        }
        let workspaces = Workspaces::new(&all, Quota::default()).unwrap();
        workspaces.provision(AccountId::from_random(1), None).await.unwrap();
        assert_eq!(mode(&all), 0o700, "{earlier:?}");
    }
}

#[tokio::test]
async fn the_folder_of_an_account_is_removed_with_all_that_is_in_it_and_no_more() {
    let host = Host::new().await;
    let workspaces = Workspaces::new(host.root.path().join("all"), Quota::default()).unwrap();
    let other = workspaces.provision(AccountId::from_random(2), None).await.unwrap();
    host.upload("/uploads", "a.txt", "a").await.unwrap();
    std::fs::create_dir_all(host.at("deep/.hidden/closed")).unwrap();
    std::fs::write(host.at("deep/.hidden/closed/x"), "x").unwrap();
    std::fs::set_permissions(host.at("deep/.hidden"), PermissionsExt::from_mode(0o000)).unwrap();
    host.link("../../secret", "out");
    host.link("..", "up");
    workspaces.remove(AccountId::from_random(1)).await.unwrap();
    assert!(!host.workspace.host_dir().exists());
    assert!(other.host_dir().join("uploads").is_dir());
    assert_eq!(std::fs::read(host.root.path().join("secret")).unwrap(), b"secret");
    workspaces.remove(AccountId::from_random(1)).await.unwrap();
}
