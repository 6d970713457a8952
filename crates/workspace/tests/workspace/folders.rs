//! Tests the creation and deletion of folders and files.

use std::os::unix::fs::{MetadataExt, PermissionsExt};

use domain::id::AccountId;
use workspace::{AskedPath, Quota, WorkspaceError, Workspaces};

use crate::{WorkspaceHost, asked_path, content_chunks};

#[tokio::test]
async fn create_folder_needs_existing_parent() {
    let host = WorkspaceHost::new().await;
    assert_eq!(host.workspace.create_folder(&asked_path("/a%20b/")).await.unwrap().to_string(), "/a b");
    host.upload_text("/a b", "x", "x").await.unwrap();
    let again = host.workspace.create_folder(&asked_path("/a b")).await;
    assert!(matches!(again, Err(WorkspaceError::AlreadyExists)), "{again:?}");
    let home = host.workspace.create_folder(&asked_path("/")).await;
    assert!(matches!(home, Err(WorkspaceError::AlreadyExists)), "{home:?}");
    for orphan in ["/none/x", "/a b/x/y"] {
        let made = host.workspace.create_folder(&asked_path(orphan)).await;
        assert!(matches!(made, Err(WorkspaceError::NotFound)), "{orphan}: {made:?}");
    }
    let long = host.workspace.create_folder(&asked_path(&"x".repeat(256))).await;
    assert!(matches!(long, Err(WorkspaceError::InvalidName(_))), "{long:?}");
}

#[tokio::test]
async fn delete_nonempty_folder_needs_recursive() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir_all(host.host_path("a/b/c")).unwrap();
    std::fs::write(host.host_path("a/b/file"), "x").unwrap();
    let refused = host.workspace.delete_path(&asked_path("/a"), false).await;
    assert!(matches!(refused, Err(WorkspaceError::NotEmpty)), "{refused:?}");
    assert!(host.host_path("a/b/file").exists());
    let refused = host.workspace.delete_empty_folder(&asked_path("/a/b")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotEmpty)), "{refused:?}");
    let refused = host.workspace.delete_empty_folder(&asked_path("/a/b/file")).await;
    assert!(matches!(refused, Err(WorkspaceError::NotAFolder)), "{refused:?}");
    assert!(host.host_path("a/b/file").exists());
    std::fs::create_dir(host.host_path("a/b/d")).unwrap();
    host.workspace.delete_path(&asked_path("/a/b/c"), false).await.unwrap();
    host.workspace.delete_empty_folder(&asked_path("/a/b/d")).await.unwrap();
    assert!(!host.host_path("a/b/c").exists() && !host.host_path("a/b/d").exists());
    host.workspace.delete_path(&asked_path("/a"), true).await.unwrap();
    let result = host.workspace.delete_path(&asked_path("/a"), true).await;
    assert!(matches!(result, Err(WorkspaceError::NotFound)), "{result:?}");
    let home = host.workspace.delete_path(&asked_path("/x/.."), true).await;
    assert!(matches!(home, Err(WorkspaceError::HomeFolder)), "{home:?}");
    assert_eq!(host.workspace.usage().await.unwrap(), workspace::DiskUsage { bytes: 0, files: 1 });
}

#[tokio::test]
async fn ambiguous_path_deletes_nothing() {
    let host = WorkspaceHost::new().await;
    for name in ["a b", "a%20b"] {
        host.upload_text("/uploads", name, name).await.unwrap();
    }
    let refused = host.workspace.delete_path(&asked_path("/uploads/a%20b"), true).await;
    assert!(matches!(refused, Err(WorkspaceError::AmbiguousPath)), "{refused:?}");
    assert!(host.host_path("uploads/a b").exists() && host.host_path("uploads/a%20b").exists());
    // Fully encoded, it means one entry; encoded once more, the other.
    host.workspace.delete_path(&asked_path("/uploads/%61%20%62"), false).await.unwrap();
    assert!(!host.host_path("uploads/a b").exists() && host.host_path("uploads/a%20b").exists());
    host.upload_text("/uploads", "a b", "a b").await.unwrap();
    host.workspace.delete_path(&asked_path("/uploads/a%2520b"), false).await.unwrap();
    assert!(host.host_path("uploads/a b").exists() && !host.host_path("uploads/a%20b").exists());
    // A field of a body is taken literally.
    let gone = host.workspace.delete_path(&AskedPath::from_text("/uploads/a%20b"), true).await;
    assert!(matches!(gone, Err(WorkspaceError::NotFound)), "{gone:?}");
    host.workspace.delete_path(&asked_path("/uploads/a%20b"), false).await.unwrap();
}

#[tokio::test]
async fn encoded_dots_can_be_name() {
    let host = WorkspaceHost::new().await;
    for name in ["%2e%2e", "%2E"] {
        std::fs::write(host.host_path("uploads").join(name), name).unwrap();
        assert_eq!(host.read_file(&format!("/uploads/{name}")).await.unwrap(), name.as_bytes());
        let refused = host.workspace.delete_path(&asked_path(&format!("/uploads/{name}")), true).await;
        assert!(matches!(refused, Err(WorkspaceError::AmbiguousPath)), "{refused:?}");
        host.workspace
            .delete_path(&asked_path(&format!("/uploads/{}", name.replace('%', "%25"))), true)
            .await
            .unwrap();
    }
    std::fs::write(host.host_path("%2e%2e"), "x").unwrap();
    assert_eq!(host.read_file("/%2e%2e").await.unwrap(), b"x");
    assert!(matches!(host.read_file("/%2e%2e/x").await, Err(WorkspaceError::Outside)));
    let refused = host.workspace.create_folder(&asked_path("/%2e%2e/x")).await;
    assert!(matches!(refused, Err(WorkspaceError::Outside)), "{refused:?}");
}

#[tokio::test]
async fn provision_repeats_and_sweep_cleans_up() {
    let host = WorkspaceHost::new().await;
    host.upload_text("/uploads", "kept", "x").await.unwrap();
    let (old, new) = (format!(".upload-{:032x}", 1), format!(".upload-{:032x}", 2));
    for name in [&old, &new, ".upload-short"] {
        std::fs::write(host.host_path(name), "x").unwrap();
    }
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    std::fs::File::options().write(true).open(host.host_path(&old)).unwrap().set_modified(long_ago).unwrap();
    let workspaces = Workspaces::new(host.root.path().join("all"), Quota::default()).unwrap();
    workspaces.provision(AccountId::from_random(1), None).await.unwrap();
    assert_eq!(host.names_at_home(), [&old, &new, ".upload-short", "uploads"]);
    assert_eq!(workspaces.remove_stale_uploads().await.unwrap(), 1);
    assert_eq!(host.names_at_home(), [&new, ".upload-short", "uploads"]);
    assert_eq!(host.read_file("/uploads/kept").await.unwrap(), b"x");
}

#[tokio::test]
async fn created_entries_belong_to_home_owner() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = Workspaces::new(root.path(), Quota::default()).unwrap();
    // Only root can give files away; otherwise they belong to the service's user.
    let own = rustix::process::geteuid();
    let owner = if own.is_root() { 54_321 } else { own.as_raw() };
    let workspace = workspaces.provision(AccountId::from_random(1), Some((owner, owner))).await.unwrap();
    workspace.create_folder(&asked_path("/made")).await.unwrap();
    let name = workspace::FileName::from_upload("file").unwrap();
    let up =
        workspace.upload_file(&workspace::Destination::Temporary, &name, content_chunks("x")).await.unwrap();
    let up = up.path.to_string();
    let folder = up.trim_end_matches("/file");
    for (path, mode) in [("", 0o755), ("uploads", 0o755), ("made", 0o755), (folder, 0o755), (&*up, 0o644)] {
        let meta = std::fs::metadata(workspace.host_dir().join(path.trim_start_matches('/'))).unwrap();
        assert_eq!((meta.uid(), meta.permissions().mode() & 0o7777), (owner, mode), "{path}");
    }
}

/// A machine may give files any mode, and change the mode of its home.
#[tokio::test]
async fn home_is_closed_to_other_users() {
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
async fn remove_deletes_only_own_folder() {
    let host = WorkspaceHost::new().await;
    let workspaces = Workspaces::new(host.root.path().join("all"), Quota::default()).unwrap();
    let other = workspaces.provision(AccountId::from_random(2), None).await.unwrap();
    host.upload_text("/uploads", "a.txt", "a").await.unwrap();
    std::fs::create_dir_all(host.host_path("deep/.hidden/closed")).unwrap();
    std::fs::write(host.host_path("deep/.hidden/closed/x"), "x").unwrap();
    std::fs::set_permissions(host.host_path("deep/.hidden"), PermissionsExt::from_mode(0o000)).unwrap();
    host.create_link("../../secret", "out");
    host.create_link("..", "up");
    workspaces.remove_account(AccountId::from_random(1)).await.unwrap();
    assert!(!host.workspace.host_dir().exists());
    assert!(other.host_dir().join("uploads").is_dir());
    assert_eq!(std::fs::read(host.root.path().join("secret")).unwrap(), b"secret");
    workspaces.remove_account(AccountId::from_random(1)).await.unwrap();
}
