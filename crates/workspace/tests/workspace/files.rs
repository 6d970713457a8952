//! Tests uploads, downloads and listings.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use workspace::{AskedPath, Destination, FileName, SameName, WorkspaceEntryKind, WorkspaceError};

use crate::{WorkspaceHost, asked_path, content_chunks, workspace_path};

#[tokio::test]
async fn what_goes_up_comes_down() {
    let host = WorkspaceHost::new().await;
    let content = "Příliš žluťoučký kůň. ".repeat(50_000);
    let name = FileName::from_upload("C:\\docs\\smlouva o dílo.pdf").unwrap();
    let uploaded =
        host.workspace.upload_file(&Destination::Uploads, &name, content_chunks(&content)).await.unwrap();
    assert_eq!(uploaded.name, "smlouva o dílo.pdf");
    assert_eq!(uploaded.path.to_string(), "/uploads/smlouva o dílo.pdf");
    assert_eq!(uploaded.size, content.len() as u64);
    assert_eq!(host.read_file("/uploads/smlouva o dílo.pdf").await.unwrap(), content.as_bytes());
    assert_eq!(host.read_file("uploads//smlouva%20o%20d%C3%ADlo.pdf/").await.unwrap(), content.as_bytes());

    let file = host.workspace.open_file(&asked_path("/uploads/smlouva o dílo.pdf")).await.unwrap();
    assert_eq!((file.mime, file.size), ("application/pdf", content.len() as u64));
    for range in [0..1, 1_000..700_000, content.len() as u64 - 1..u64::MAX, 5..5, u64::MAX..u64::MAX] {
        let read: Vec<_> =
            file.stream_range(range.clone()).map(|chunk| chunk.unwrap().to_vec()).collect().await;
        let end = range.end.min(content.len() as u64) as usize;
        assert_eq!(read.concat(), &content.as_bytes()[(range.start as usize).min(end)..end]);
    }
    assert_eq!(host.names_at_home(), ["uploads"]);
}

#[tokio::test]
async fn upload_replaces_file_atomically() {
    let host = WorkspaceHost::new().await;
    let old = "old ".repeat(100_000);
    host.upload_text("/", "file", &old).await.unwrap();
    let reader = host.workspace.open_file(&asked_path("/file")).await.unwrap();
    host.upload_text("/", "file", "new").await.unwrap();
    assert_eq!(host.read_file("/file").await.unwrap(), b"new");
    let read: Vec<_> = reader.stream_range(0..u64::MAX).map(|chunk| chunk.unwrap().to_vec()).collect().await;
    assert_eq!(read.concat(), old.as_bytes());
    assert_ne!(reader.etag, host.workspace.open_file(&asked_path("/file")).await.unwrap().etag);
}

#[tokio::test]
async fn same_name_upload_gets_number() {
    let host = WorkspaceHost::new().await;
    let name = FileName::from_upload("offer.pdf").unwrap();
    let beside = async |content: &str| {
        let staged = host.workspace.stage_upload(content_chunks(content)).await.unwrap();
        staged
            .place_file(Destination::Uploads, name.clone(), SameName::KeepBoth)
            .await
            .unwrap()
            .path
            .to_string()
    };
    assert_eq!(beside("Alfa").await, "/uploads/offer.pdf");
    assert_eq!(beside("Beta").await, "/uploads/offer (2).pdf");
    assert_eq!(beside("Gama, longer").await, "/uploads/offer (3).pdf");
    let used = host.workspace.usage().await.unwrap();
    for (content, path) in [("Alfa", "/uploads/offer.pdf"), ("Beta", "/uploads/offer (2).pdf")] {
        assert_eq!(beside(content).await, path, "the same content is there already");
        assert_eq!(host.read_file(path).await.unwrap(), content.as_bytes());
    }
    assert_eq!(host.workspace.usage().await.unwrap(), used);
    host.workspace.create_folder(&asked_path("/uploads/offer (4).pdf")).await.unwrap();
    assert_eq!(beside("Delta").await, "/uploads/offer (5).pdf", "a folder stays, too");
    assert_eq!(host.names_at_home(), ["uploads"], "nothing is left over");
}

#[tokio::test]
async fn broken_upload_keeps_old_file() {
    let host = WorkspaceHost::new().await;
    host.upload_text("/", "file", "old").await.unwrap();
    let name = FileName::from_upload("file").unwrap();
    let big = Bytes::from(vec![1u8; 2 << 20]);
    let broken = stream::iter([Ok(big), Err(io::Error::other("the client went away"))]);
    let home = Destination::Folder(asked_path("/"));
    let upload = host.workspace.upload_file(&home, &name, broken).await;
    assert!(matches!(upload, Err(WorkspaceError::Interrupted(_))), "{upload:?}");
    let empty = host.workspace.upload_file(&home, &name, content_chunks("")).await;
    assert!(matches!(empty, Err(WorkspaceError::Empty)), "{empty:?}");
    drop(host.workspace.stage_upload(content_chunks("staged and never placed")).await.unwrap());
    assert_eq!(host.read_file("/file").await.unwrap(), b"old");
    assert_eq!(host.names_at_home(), ["file", "uploads"]);
    assert_eq!(host.workspace.usage().await.unwrap(), workspace::DiskUsage { bytes: 3, files: 2 });
}

#[tokio::test]
async fn destinations_have_to_be_folders() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir(host.host_path("taken")).unwrap();
    std::fs::write(host.host_path("file"), "x").unwrap();
    assert!(matches!(host.upload_text("/none", "x", "x").await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.upload_text("/file/x", "x", "x").await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.upload_text("/file", "x", "x").await, Err(WorkspaceError::NotAFolder)));
    assert!(matches!(host.upload_text("/", "taken", "x").await, Err(WorkspaceError::AlreadyExists)));
    host.create_link("taken", "link");
    host.upload_text("/link", "x", "through").await.unwrap();
    assert_eq!(host.read_file("/taken/x").await.unwrap(), b"through");
    assert_eq!(host.names_at_home(), ["file", "link", "taken", "uploads"]);
}

#[tokio::test]
async fn temporary_uploads_leave_with_folder() {
    let host = WorkspaceHost::new().await;
    let in_the_way = host.upload_text("/uploads", ".tmp", "x").await;
    assert!(matches!(in_the_way, Err(WorkspaceError::InvalidName(_))), "{in_the_way:?}");
    std::fs::remove_dir(host.host_path("uploads")).unwrap();
    let name = FileName::from_upload("brief.pdf").unwrap();
    let mut paths = Vec::new();
    for content in ["one", "two"] {
        let up = host
            .workspace
            .upload_file(&Destination::Temporary, &name, content_chunks(content))
            .await
            .unwrap();
        let text = up.path.to_string();
        assert!(text.starts_with("/uploads/.tmp/") && text.ends_with("/brief.pdf"), "{text}");
        assert_eq!(host.read_file(&text).await.unwrap(), content.as_bytes());
        paths.push(text);
    }
    assert_ne!(paths[0], paths[1]);
    for path in &paths {
        host.workspace.delete_path(&asked_path(path), false).await.unwrap();
    }
    assert_eq!(std::fs::read_dir(host.host_path("uploads/.tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn shortened_file_is_stream_error() {
    let host = WorkspaceHost::new().await;
    host.upload_text("/", "file", &"x".repeat(1 << 20)).await.unwrap();
    let file = host.workspace.open_file(&asked_path("/file")).await.unwrap();
    std::fs::OpenOptions::new().write(true).open(host.host_path("file")).unwrap().set_len(300_000).unwrap();
    let read: Vec<_> = file.stream_range(0..u64::MAX).collect().await;
    assert!(read.last().unwrap().is_err());
    assert!(read.iter().flatten().map(Bytes::len).sum::<usize>() <= 300_000);
}

#[test]
fn cached_file_needs_no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let host = WorkspaceHost::new().await;
        let content = "x".repeat(300_000);
        host.upload_text("/", "file", &content).await.unwrap();
        let (done, until_done) = std::sync::mpsc::channel::<()>();
        // Keeps the only thread for files busy.
        let busy = tokio::task::spawn_blocking(move || until_done.recv());
        assert_eq!(host.read_file("/file").now_or_never().unwrap().unwrap(), content.as_bytes());
        drop(done);
        busy.await.unwrap().unwrap_err();
    });
}

#[tokio::test]
async fn listing_orders_folders_and_hides_names() {
    let host = WorkspaceHost::new().await;
    std::fs::create_dir_all(host.host_path("zoo/inner")).unwrap();
    std::fs::write(host.host_path("zoo/.hidden"), "x").unwrap();
    std::fs::write(host.host_path("b.txt"), "four").unwrap();
    std::fs::write(host.host_path("a"), "x").unwrap();
    host.create_link("/etc/passwd", "c");
    rustix::fs::mkfifoat(rustix::fs::CWD, host.host_path("d.pdf"), rustix::fs::Mode::RWXU).unwrap();
    let listing = host.workspace.list_folder(&asked_path("")).await.unwrap();
    assert_eq!(listing.path, workspace_path("/"));
    let seen: Vec<_> = listing.entries.iter().map(|e| (e.path.to_string(), e.kind, e.size, e.mime)).collect();
    let expected = [
        ("/uploads", WorkspaceEntryKind::Folder, 0, "inode/directory"),
        ("/zoo", WorkspaceEntryKind::Folder, 0, "inode/directory"),
        ("/a", WorkspaceEntryKind::File, 1, "application/octet-stream"),
        ("/b.txt", WorkspaceEntryKind::File, 4, "text/plain"),
        ("/c", WorkspaceEntryKind::Link, 0, "inode/symlink"),
        ("/d.pdf", WorkspaceEntryKind::Other, 0, "application/octet-stream"),
    ];
    assert_eq!(seen, expected.map(|(path, kind, size, mime)| (path.to_owned(), kind, size, mime)));
    let inner = host.workspace.list_folder(&asked_path("/zoo")).await.unwrap();
    assert_eq!(inner.entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["inner"]);
    assert!(matches!(host.workspace.list_folder(&asked_path("/a")).await, Err(WorkspaceError::NotAFolder)));
    assert!(matches!(host.workspace.list_folder(&asked_path("/none")).await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.workspace.open_file(&asked_path("/zoo")).await, Err(WorkspaceError::IsFolder)));
    assert!(matches!(host.workspace.open_file(&asked_path("/")).await, Err(WorkspaceError::IsFolder)));
}

#[tokio::test]
async fn unusual_listed_names_can_be_used() {
    let host = WorkspaceHost::new().await;
    let names: [&[u8]; 7] =
        [b"caf\xe9 100%.txt", b"100%25", b"a%20b", b"new\nline", "žluť".as_bytes(), b"\xff\xfe", b"plus+"];
    for name in names {
        std::fs::write(host.workspace.host_dir().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = host.workspace.list_folder(&asked_path("/")).await.unwrap();
    let files: Vec<_> =
        listing.entries.iter().filter(|entry| entry.kind == WorkspaceEntryKind::File).collect();
    assert_eq!(files.len(), names.len());
    for entry in files {
        let shown = entry.path.to_string();
        let content = host.read_file(&shown).await.unwrap();
        assert!(names.contains(&&*content));
        // The path in a body and its encoding in a URL lead to the same file.
        let found = host.workspace.find_entry(&AskedPath::from_text(&shown)).await.unwrap();
        assert_eq!(found.path, entry.path);
        let encoded: String = entry.path.as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(host.read_file(&encoded).await.unwrap(), content);
    }
}
