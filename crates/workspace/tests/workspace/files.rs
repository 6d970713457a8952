//! Tests uploads, downloads and listings.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, stream};
use workspace::{AskedPath, Destination, EntryKind, FileName, SameName, WorkspaceError};

use crate::{Host, asked, chunks, path};

#[tokio::test]
async fn what_goes_up_comes_down() {
    let host = Host::new().await;
    let content = "Příliš žluťoučký kůň. ".repeat(50_000);
    let name = FileName::from_upload("C:\\docs\\smlouva o dílo.pdf").unwrap();
    let uploaded = host.workspace.upload(&Destination::Uploads, &name, chunks(&content)).await.unwrap();
    assert_eq!(uploaded.name, "smlouva o dílo.pdf");
    assert_eq!(uploaded.path.to_string(), "/uploads/smlouva o dílo.pdf");
    assert_eq!(uploaded.size, content.len() as u64);
    assert_eq!(host.read("/uploads/smlouva o dílo.pdf").await.unwrap(), content.as_bytes());
    assert_eq!(host.read("uploads//smlouva%20o%20d%C3%ADlo.pdf/").await.unwrap(), content.as_bytes());

    let file = host.workspace.open_file(&asked("/uploads/smlouva o dílo.pdf")).await.unwrap();
    assert_eq!((file.mime, file.size), ("application/pdf", content.len() as u64));
    for range in [0..1, 1_000..700_000, content.len() as u64 - 1..u64::MAX, 5..5, u64::MAX..u64::MAX] {
        let read: Vec<_> = file.stream(range.clone()).map(|chunk| chunk.unwrap().to_vec()).collect().await;
        let end = range.end.min(content.len() as u64) as usize;
        assert_eq!(read.concat(), &content.as_bytes()[(range.start as usize).min(end)..end]);
    }
    assert_eq!(host.names_at_home(), ["uploads"]);
}

#[tokio::test]
async fn a_name_that_exists_is_replaced_in_one_step() {
    let host = Host::new().await;
    let old = "old ".repeat(100_000);
    host.upload("/", "file", &old).await.unwrap();
    let reader = host.workspace.open_file(&asked("/file")).await.unwrap();
    host.upload("/", "file", "new").await.unwrap();
    assert_eq!(host.read("/file").await.unwrap(), b"new");
    let read: Vec<_> = reader.stream(0..u64::MAX).map(|chunk| chunk.unwrap().to_vec()).collect().await;
    assert_eq!(read.concat(), old.as_bytes());
    assert_ne!(reader.etag, host.workspace.open_file(&asked("/file")).await.unwrap().etag);
}

#[tokio::test]
async fn a_file_beside_one_of_the_same_name_gets_a_number_unless_it_is_the_same() {
    let host = Host::new().await;
    let name = FileName::from_upload("offer.pdf").unwrap();
    let beside = async |content: &str| {
        let staged = host.workspace.stage(chunks(content)).await.unwrap();
        staged.place(Destination::Uploads, name.clone(), SameName::KeepBoth).await.unwrap().path.to_string()
    };
    assert_eq!(beside("Alfa").await, "/uploads/offer.pdf");
    assert_eq!(beside("Beta").await, "/uploads/offer (2).pdf");
    assert_eq!(beside("Gama, longer").await, "/uploads/offer (3).pdf");
    let used = host.workspace.usage().await.unwrap();
    for (content, path) in [("Alfa", "/uploads/offer.pdf"), ("Beta", "/uploads/offer (2).pdf")] {
        assert_eq!(beside(content).await, path, "the same content is there already");
        assert_eq!(host.read(path).await.unwrap(), content.as_bytes());
    }
    assert_eq!(host.workspace.usage().await.unwrap(), used);
    host.workspace.create_folder(&asked("/uploads/offer (4).pdf")).await.unwrap();
    assert_eq!(beside("Delta").await, "/uploads/offer (5).pdf", "a folder stays, too");
    assert_eq!(host.names_at_home(), ["uploads"], "nothing is left over");
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_the_old_file_and_nothing_else() {
    let host = Host::new().await;
    host.upload("/", "file", "old").await.unwrap();
    let name = FileName::from_upload("file").unwrap();
    let big = Bytes::from(vec![1u8; 2 << 20]);
    let broken = stream::iter([Ok(big), Err(io::Error::other("the client went away"))]);
    let home = Destination::Folder(asked("/"));
    let upload = host.workspace.upload(&home, &name, broken).await;
    assert!(matches!(upload, Err(WorkspaceError::Interrupted(_))), "{upload:?}");
    let empty = host.workspace.upload(&home, &name, chunks("")).await;
    assert!(matches!(empty, Err(WorkspaceError::Empty)), "{empty:?}");
    drop(host.workspace.stage(chunks("staged and never placed")).await.unwrap());
    assert_eq!(host.read("/file").await.unwrap(), b"old");
    assert_eq!(host.names_at_home(), ["file", "uploads"]);
    assert_eq!(host.workspace.usage().await.unwrap(), workspace::Usage { bytes: 3, files: 2 });
}

#[tokio::test]
async fn destinations_have_to_be_folders() {
    let host = Host::new().await;
    std::fs::create_dir(host.at("taken")).unwrap();
    std::fs::write(host.at("file"), "x").unwrap();
    assert!(matches!(host.upload("/none", "x", "x").await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.upload("/file/x", "x", "x").await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.upload("/file", "x", "x").await, Err(WorkspaceError::NotAFolder)));
    assert!(matches!(host.upload("/", "taken", "x").await, Err(WorkspaceError::AlreadyExists)));
    host.link("taken", "link");
    host.upload("/link", "x", "through").await.unwrap();
    assert_eq!(host.read("/taken/x").await.unwrap(), b"through");
    assert_eq!(host.names_at_home(), ["file", "link", "taken", "uploads"]);
}

#[tokio::test]
async fn temporary_uploads_overwrite_nothing_and_go_with_their_folder() {
    let host = Host::new().await;
    let in_the_way = host.upload("/uploads", ".tmp", "x").await;
    assert!(matches!(in_the_way, Err(WorkspaceError::InvalidName(_))), "{in_the_way:?}");
    std::fs::remove_dir(host.at("uploads")).unwrap();
    let name = FileName::from_upload("brief.pdf").unwrap();
    let mut paths = Vec::new();
    for content in ["one", "two"] {
        let up = host.workspace.upload(&Destination::Temporary, &name, chunks(content)).await.unwrap();
        let text = up.path.to_string();
        assert!(text.starts_with("/uploads/.tmp/") && text.ends_with("/brief.pdf"), "{text}");
        assert_eq!(host.read(&text).await.unwrap(), content.as_bytes());
        paths.push(text);
    }
    assert_ne!(paths[0], paths[1]);
    for path in &paths {
        host.workspace.delete(&asked(path), false).await.unwrap();
    }
    assert_eq!(std::fs::read_dir(host.at("uploads/.tmp")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_file_that_becomes_shorter_is_an_error_not_an_end() {
    let host = Host::new().await;
    host.upload("/", "file", &"x".repeat(1 << 20)).await.unwrap();
    let file = host.workspace.open_file(&asked("/file")).await.unwrap();
    std::fs::OpenOptions::new().write(true).open(host.at("file")).unwrap().set_len(300_000).unwrap();
    let read: Vec<_> = file.stream(0..u64::MAX).collect().await;
    assert!(read.last().unwrap().is_err());
    assert!(read.iter().flatten().map(Bytes::len).sum::<usize>() <= 300_000);
}

#[test]
fn a_file_at_hand_waits_for_no_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let host = Host::new().await;
        let content = "x".repeat(300_000);
        host.upload("/", "file", &content).await.unwrap();
        let (done, until_done) = std::sync::mpsc::channel::<()>();
        // Keeps the only thread for files busy.
        let busy = tokio::task::spawn_blocking(move || until_done.recv());
        assert_eq!(host.read("/file").now_or_never().unwrap().unwrap(), content.as_bytes());
        drop(done);
        busy.await.unwrap().unwrap_err();
    });
}

#[tokio::test]
async fn a_listing_has_one_level_folders_first_and_no_hidden_names() {
    let host = Host::new().await;
    std::fs::create_dir_all(host.at("zoo/inner")).unwrap();
    std::fs::write(host.at("zoo/.hidden"), "x").unwrap();
    std::fs::write(host.at("b.txt"), "four").unwrap();
    std::fs::write(host.at("a"), "x").unwrap();
    host.link("/etc/passwd", "c");
    rustix::fs::mkfifoat(rustix::fs::CWD, host.at("d.pdf"), rustix::fs::Mode::RWXU).unwrap();
    let listing = host.workspace.list(&asked("")).await.unwrap();
    assert_eq!(listing.path, path("/"));
    let seen: Vec<_> = listing.entries.iter().map(|e| (e.path.to_string(), e.kind, e.size, e.mime)).collect();
    let expected = [
        ("/uploads", EntryKind::Folder, 0, "inode/directory"),
        ("/zoo", EntryKind::Folder, 0, "inode/directory"),
        ("/a", EntryKind::File, 1, "application/octet-stream"),
        ("/b.txt", EntryKind::File, 4, "text/plain"),
        ("/c", EntryKind::Link, 0, "inode/symlink"),
        ("/d.pdf", EntryKind::Other, 0, "application/octet-stream"),
    ];
    assert_eq!(seen, expected.map(|(path, kind, size, mime)| (path.to_owned(), kind, size, mime)));
    let inner = host.workspace.list(&asked("/zoo")).await.unwrap();
    assert_eq!(inner.entries.iter().map(|entry| &*entry.name).collect::<Vec<_>>(), ["inner"]);
    assert!(matches!(host.workspace.list(&asked("/a")).await, Err(WorkspaceError::NotAFolder)));
    assert!(matches!(host.workspace.list(&asked("/none")).await, Err(WorkspaceError::NotFound)));
    assert!(matches!(host.workspace.open_file(&asked("/zoo")).await, Err(WorkspaceError::IsFolder)));
    assert!(matches!(host.workspace.open_file(&asked("/")).await, Err(WorkspaceError::IsFolder)));
}

#[tokio::test]
async fn names_that_are_hard_to_say_work_as_they_are_listed() {
    let host = Host::new().await;
    let names: [&[u8]; 7] =
        [b"caf\xe9 100%.txt", b"100%25", b"a%20b", b"new\nline", "žluť".as_bytes(), b"\xff\xfe", b"plus+"];
    for name in names {
        std::fs::write(host.workspace.host_dir().join(OsStr::from_bytes(name)), name).unwrap();
    }
    let listing = host.workspace.list(&asked("/")).await.unwrap();
    let files: Vec<_> = listing.entries.iter().filter(|entry| entry.kind == EntryKind::File).collect();
    assert_eq!(files.len(), names.len());
    for entry in files {
        let shown = entry.path.to_string();
        let content = host.read(&shown).await.unwrap();
        assert!(names.contains(&&*content));
        // The path in a body and its encoding in a URL lead to the same file.
        let found = host.workspace.find(&AskedPath::from_text(&shown)).await.unwrap();
        assert_eq!(found.path, entry.path);
        let encoded: String = entry.path.as_bytes().iter().map(|byte| format!("%{byte:02X}")).collect();
        assert_eq!(host.read(&encoded).await.unwrap(), content);
    }
}
