//! Checks that no path leads out of the workspace.

use std::sync::atomic::{AtomicBool, Ordering};

use workspace::WorkspaceError;

use crate::{Host, asked};

#[tokio::test]
async fn links_that_lead_out_are_outside_and_those_inside_are_followed() {
    let host = Host::new().await;
    std::fs::create_dir(host.at("a")).unwrap();
    std::fs::write(host.at("a/file"), "inside").unwrap();
    host.link("/etc", "absolute");
    host.link("/workspace/a/file", "absolute-inside");
    host.link("../../secret", "relative");
    host.link("relative", "chain");
    host.link("../../..", "a/up");
    host.link("a/file", "good");
    host.link("../good", "a/back");
    host.link("loop", "loop");
    host.link("nowhere", "dangling");
    host.link("/proc/self/root", "magic");
    std::fs::create_dir(host.at("../another")).unwrap();
    std::fs::write(host.at("../another/file"), "of another account").unwrap();
    host.link("../another/file", "neighbour");
    host.link("../another", "neighbourhood");

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
            let opened = host.workspace.open_file(&asked(out)).await;
            assert!(matches!(opened, Err(WorkspaceError::Outside)), "{out}: {opened:?}");
        }
        let listed = host.workspace.list(&asked(out)).await;
        assert!(matches!(listed, Err(WorkspaceError::Outside)), "{out}: {listed:?}");
        let found = host.workspace.find(&asked(out)).await;
        assert!(matches!(found, Err(WorkspaceError::Outside)), "{out}: {found:?}");
    }
    for through in ["/absolute/x", "/a/up/x"] {
        let made = host.workspace.create_folder(&asked(through)).await;
        assert!(matches!(made, Err(WorkspaceError::Outside)), "{through}: {made:?}");
        let deleted = host.workspace.delete(&asked(through), true).await;
        assert!(matches!(deleted, Err(WorkspaceError::Outside)), "{through}: {deleted:?}");
    }
    for folder in ["/absolute", "/a/up"] {
        let uploaded = host.upload(folder, "x", "content").await;
        assert!(matches!(uploaded, Err(WorkspaceError::Outside)), "{folder}: {uploaded:?}");
    }
    for nothing in ["/loop", "/dangling", "/a/file/x", &format!("/{}", "x".repeat(300))] {
        let opened = host.workspace.open_file(&asked(nothing)).await;
        assert!(matches!(opened, Err(WorkspaceError::NotFound)), "{nothing}: {opened:?}");
    }
    assert_eq!(host.read("/good").await.unwrap(), b"inside");
    assert_eq!(host.read("/a/back").await.unwrap(), b"inside");
}

#[tokio::test]
async fn deleting_a_link_deletes_the_link() {
    let host = Host::new().await;
    std::fs::create_dir(host.at("kept")).unwrap();
    std::fs::write(host.at("kept/file"), "x").unwrap();
    host.link("../..", "out");
    host.link("kept", "in");
    host.workspace.delete(&asked("/out"), true).await.unwrap();
    host.workspace.delete(&asked("/in/"), true).await.unwrap();
    assert_eq!(host.names_at_home(), ["kept", "uploads"]);
    assert!(host.at("kept/file").exists());
    assert!(host.root.path().join("secret").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_swapped_for_a_link_in_a_race_never_leads_out() {
    let host = Host::new().await;
    std::fs::create_dir(host.at("real")).unwrap();
    std::fs::write(host.at("real/secret"), "inside").unwrap();
    std::fs::create_dir_all(host.root.path().join("all/other")).unwrap();
    std::fs::write(host.root.path().join("all/other/secret"), "out").unwrap();
    host.link("../other", "link");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (host, stop) = (&host, &stop);
        scope.spawn(move || {
            // The name `swap` alternates between folder and link, without a gap.
            std::fs::rename(host.at("real"), host.at("swap")).unwrap();
            while !stop.load(Ordering::Relaxed) {
                exchange(&host.at("swap"), &host.at("link"));
            }
        });
        tokio::task::block_in_place(|| {
            let _stops = Stops(stop);
            tokio::runtime::Handle::current().block_on(async {
                let mut seen = 0;
                for _ in 0..3000 {
                    match host.read("/swap/secret").await {
                        Ok(content) => {
                            assert_eq!(content, b"inside");
                            seen += 1;
                        }
                        Err(WorkspaceError::Outside | WorkspaceError::NotFound) => {}
                        Err(other) => panic!("{other:?}"),
                    }
                    let _ = host.upload("/swap", "new", "x").await;
                    let _ = host.workspace.delete(&asked("/swap/new"), false).await;
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
async fn a_folder_swapped_while_it_is_deleted_takes_nothing_with_it() {
    let host = Host::new().await;
    let other = host.root.path().join("all/other");
    std::fs::create_dir_all(other.join("in")).unwrap();
    std::fs::write(other.join("in/file"), "out").unwrap();
    for round in 0..30 {
        let top = format!("top{round}");
        for name in 0..20 {
            std::fs::create_dir_all(host.at(&format!("{top}/d{name}/in/in"))).unwrap();
            std::fs::write(host.at(&format!("{top}/d{name}/in/file")), "x").unwrap();
        }
        let links: Vec<_> =
            (0..20).map(|name| (format!("{top}-link{name}"), format!("{top}/d{name}"))).collect();
        for (link, _) in &links {
            host.link("../other", link);
        }
        std::thread::scope(|scope| {
            let host = &host;
            scope.spawn(move || {
                for (link, folder) in &links {
                    exchange(&host.at(link), &host.at(folder));
                }
            });
            tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(async {
                    host.workspace.delete(&asked(&format!("/{top}")), true).await.unwrap();
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

/// Exchanges two names atomically; either may be gone.
fn exchange(one: &std::path::Path, other: &std::path::Path) {
    let cwd = rustix::fs::CWD;
    let _ = rustix::fs::renameat_with(cwd, one, cwd, other, rustix::fs::RenameFlags::EXCHANGE);
}

#[tokio::test]
async fn pipes_and_sockets_are_refused_at_once() {
    let host = Host::new().await;
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mkfifoat(rustix::fs::CWD, host.at("pipe"), mode).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(host.at("socket")).unwrap();
    for name in ["/pipe", "/socket"] {
        let opened = host.workspace.open_file(&asked(name)).await;
        assert!(matches!(opened, Err(WorkspaceError::NotAFile)), "{name}: {opened:?}");
        let listed = host.workspace.list(&asked(name)).await;
        assert!(matches!(listed, Err(WorkspaceError::NotAFolder)), "{name}: {listed:?}");
        host.workspace.delete(&asked(name), false).await.unwrap();
    }
    assert_eq!(host.names_at_home(), ["uploads"]);
}

#[tokio::test]
async fn an_account_without_a_home_has_nothing() {
    let root = tempfile::tempdir().unwrap();
    let workspaces = workspace::Workspaces::new(root.path(), workspace::Quota::default()).unwrap();
    let nobody = workspaces.of(domain::id::AccountId::from_random(2));
    assert!(matches!(nobody.list(&asked("/")).await, Err(WorkspaceError::NotFound)));
    assert!(matches!(nobody.begin_upload().await, Err(WorkspaceError::NotFound)));
    assert!(matches!(nobody.create_folder(&asked("/a")).await, Err(WorkspaceError::NotFound)));
}
