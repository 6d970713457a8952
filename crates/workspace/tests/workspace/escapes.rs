//! Checks that no path leads out of the workspace.

use std::sync::atomic::{AtomicBool, Ordering};

use workspace::WorkspaceError;

use crate::{WorkspaceHost, asked_path};

#[tokio::test]
async fn links_out_of_home_are_outside() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir(host.host_path("a")).unwrap();
    std::fs::write(host.host_path("a/file"), "inside").unwrap();
    host.create_link("/etc", "absolute");
    host.create_link("/workspace/a/file", "absolute-inside");
    host.create_link("../../secret", "relative");
    host.create_link("relative", "chain");
    host.create_link("../../..", "a/up");
    host.create_link("a/file", "good");
    host.create_link("../good", "a/back");
    host.create_link("loop", "loop");
    host.create_link("nowhere", "dangling");
    host.create_link("/proc/self/root", "magic");
    std::fs::create_dir(host.host_path("../another")).unwrap();
    std::fs::write(host.host_path("../another/file"), "of another account").unwrap();
    host.create_link("../another/file", "neighbour");
    host.create_link("../another", "neighbourhood");

    for out in [
        "/absolute",
        "/absolute/passwd",
        "/absolute-inside",
        "/relative",
        "/chain",
        "/a/up/x",
        "/magic",
        "/neighbour",
        "/neighbourhood/file",
    ] {
        // The second lookup is in the kernel's cache.
        for _ in 0..2 {
            let opened = host.workspace.open_file(&asked_path(out)).await;
            assert!(matches!(opened, Err(WorkspaceError::Outside)), "{out}: {opened:?}");
        }
        let listed = host.workspace.list_folder(&asked_path(out)).await;
        assert!(matches!(listed, Err(WorkspaceError::Outside)), "{out}: {listed:?}");
        let found = host.workspace.find_entry(&asked_path(out)).await;
        assert!(matches!(found, Err(WorkspaceError::Outside)), "{out}: {found:?}");
    }
    for through in ["/absolute/x", "/a/up/x"] {
        let made = host.workspace.create_folder(&asked_path(through)).await;
        assert!(matches!(made, Err(WorkspaceError::Outside)), "{through}: {made:?}");
        let deleted = host.workspace.delete_path(&asked_path(through), true).await;
        assert!(matches!(deleted, Err(WorkspaceError::Outside)), "{through}: {deleted:?}");
    }
    for folder in ["/absolute", "/a/up"] {
        let uploaded = host.upload_text(folder, "x", "content").await;
        assert!(matches!(uploaded, Err(WorkspaceError::Outside)), "{folder}: {uploaded:?}");
    }
    for nothing in ["/loop", "/dangling", "/a/file/x", &format!("/{}", "x".repeat(300))] {
        let opened = host.workspace.open_file(&asked_path(nothing)).await;
        assert!(matches!(opened, Err(WorkspaceError::NotFound)), "{nothing}: {opened:?}");
    }
    assert_eq!(host.read_file("/good").await.unwrap(), b"inside");
    assert_eq!(host.read_file("/a/back").await.unwrap(), b"inside");
}

#[tokio::test]
async fn deleting_a_link_deletes_the_link() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir(host.host_path("kept")).unwrap();
    std::fs::write(host.host_path("kept/file"), "x").unwrap();
    host.create_link("../..", "out");
    host.create_link("kept", "in");
    host.workspace.delete_path(&asked_path("/out"), true).await.unwrap();
    host.workspace.delete_path(&asked_path("/in/"), true).await.unwrap();
    assert_eq!(host.names_at_home(), ["kept", "uploads"]);
    assert!(host.host_path("kept/file").exists());
    assert!(host.root.path().join("secret").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folder_link_race_never_escapes() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir(host.host_path("real")).unwrap();
    std::fs::write(host.host_path("real/secret"), "inside").unwrap();
    std::fs::create_dir_all(host.root.path().join("all/other")).unwrap();
    std::fs::write(host.root.path().join("all/other/secret"), "out").unwrap();
    host.create_link("../other", "link");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (host, stop) = (&host, &stop);
        scope.spawn(move || {
            // The name `swap` alternates between folder and link, without a gap.
            std::fs::rename(host.host_path("real"), host.host_path("swap")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                exchange_names(&host.host_path("swap"), &host.host_path("link"));
            }
        });
        tokio::task::block_in_place(|| {
            let _stops = Stops(stop);
            tokio::runtime::Handle::current().block_on(async {
                let mut seen = 0;
                for _ in 0..3000 {
                    match host.read_file("/swap/secret").await {
                        Ok(content) => {
                            assert_eq!(content, b"inside");
                            seen += 1;
                        }
                        Err(WorkspaceError::Outside | WorkspaceError::NotFound) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                    let _ = host.upload_text("/swap", "new", "x").await;
                    let _ = host.workspace.delete_path(&asked_path("/swap/new"), false).await;
                    if seen > 100 {
                        break;
                    }
                }
            });
        });
    });
    let names: Vec<_> = std::fs::read_dir(host.root.path().join("all/other")).unwrap().collect();
    assert_eq!(names.len(), 1, "something was made or deleted outside: {names:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletion_of_swapped_folder_takes_nothing() {
    let host = WorkspaceHost::new().await;
    let other = host.root.path().join("all/other");
    std::fs::create_dir_all(other.join("in")).unwrap();
    std::fs::write(other.join("in/file"), "out").unwrap();
    for round in 0..30 {
        let top = format!("top{round}");
        for name in 0..20 {
            std::fs::create_dir_all(host.host_path(&format!("{top}/d{name}/in/in"))).unwrap();
            std::fs::write(host.host_path(&format!("{top}/d{name}/in/file")), "x").unwrap();
        }
        let links: Vec<_> =
            (0..20).map(|name| (format!("{top}-link{name}"), format!("{top}/d{name}"))).collect();
        for (link, _) in &links {
            host.create_link("../other", link);
        }
        std::thread::scope(|scope| {
            let host = &host;
            scope.spawn(move || {
                for (link, folder) in &links {
                    exchange_names(&host.host_path(link), &host.host_path(folder));
                }
            });
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    host.workspace.delete_path(&asked_path(&format!("/{top}")), true).await.unwrap();
                });
            });
        });
    }
    assert!(other.join("in/file").exists());
}

/// Stops the swapping thread, also when the test fails.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Exchanges two names atomically; either may be missing.
fn exchange_names(one: &std::path::Path, other: &std::path::Path) {
    let cwd = rustix::fs::CWD;
    let _ = rustix::fs::renameat_with(cwd, one, cwd, other, rustix::fs::RenameFlags::EXCHANGE);
}

#[tokio::test]
async fn pipes_and_sockets_are_refused() {
    let host = WorkspaceHost::new().await;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, host.host_path("pipe"), mode).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(host.host_path("socket")).unwrap();
    for name in ["/pipe", "/socket"] {
        let opened = host.workspace.open_file(&asked_path(name)).await;
        assert!(matches!(opened, Err(WorkspaceError::NotAFile)), "{name}: {opened:?}");
        let listed = host.workspace.list_folder(&asked_path(name)).await;
        assert!(matches!(listed, Err(WorkspaceError::NotAFolder)), "{name}: {listed:?}");
        host.workspace.delete_path(&asked_path(name), false).await.unwrap();
    }
    assert_eq!(host.names_at_home(), ["uploads"]);
}

#[tokio::test]
async fn account_without_home_has_nothing() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = workspace::Workspaces::new(root.path(), workspace::Quota::default()).unwrap();
    let nobody = workspaces.workspace_for(domain::id::AccountId::from_random(2));
    assert!(matches!(nobody.list_folder(&asked_path("/")).await, Err(WorkspaceError::NotFound)));
    assert!(matches!(nobody.begin_upload().await, Err(WorkspaceError::NotFound)));
    assert!(matches!(nobody.create_folder(&asked_path("/a")).await, Err(WorkspaceError::NotFound)));
}
