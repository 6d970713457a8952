//! Names in another Unicode normal form: macOS uploads them decomposed, and people write them composed.

use super::*;
use workspace::SameName;

const COMPOSED: &str = "\u{10d}\u{e1}p.txt";
const DECOMPOSED: &str = "c\u{30c}a\u{301}p.txt";

#[tokio::test]
async fn entry_found_in_either_form() {
    for (stored, written) in [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED)] {
        let host = WorkspaceHost::new().await;
        host.upload_text("/", stored, "kingfisher").await.unwrap();
        assert_eq!(host.read_file(&format!("/{written}")).await.unwrap(), b"kingfisher");
        let found = host.workspace.find_entry(&asked_path(&format!("/{written}"))).await.unwrap();
        assert_eq!(found.path.to_string(), format!("/{stored}"));
        host.workspace.delete_path(&asked_path(&format!("/{written}")), false).await.unwrap();
        assert!(!host.host_path(stored).exists());
    }
}

#[tokio::test]
async fn an_exact_name_comes_before_others() {
    let host = WorkspaceHost::new().await;
    for name in [COMPOSED, DECOMPOSED] {
        std::fs::write(host.host_path(name), name).unwrap();
    }
    for name in [COMPOSED, DECOMPOSED] {
        assert_eq!(host.read_file(&format!("/{name}")).await.unwrap(), name.as_bytes());
    }
    host.upload_text("/", COMPOSED, "new").await.unwrap();
    assert_eq!(std::fs::read(host.host_path(DECOMPOSED)).unwrap(), DECOMPOSED.as_bytes());
}

#[tokio::test]
async fn upload_replaces_entry_of_other_form() {
    let host = WorkspaceHost::new().await;
    let folder = "/slo\u{17e}ka";
    std::fs::create_dir(host.host_path("sloz\u{30c}ka")).unwrap();
    host.upload_text(folder, DECOMPOSED, "first").await.unwrap();
    let uploaded = host.upload_text(folder, COMPOSED, "second").await.unwrap();
    assert_eq!(uploaded.path.to_string(), format!("/sloz\u{30c}ka/{DECOMPOSED}"));
    assert_eq!(std::fs::read(host.host_path("sloz\u{30c}ka").join(DECOMPOSED)).unwrap(), b"second");
    assert_eq!(std::fs::read_dir(host.host_path("sloz\u{30c}ka")).unwrap().count(), 1, "no twin");

    let staged = host.workspace.stage_upload(content_chunks("third")).await.unwrap();
    let name = FileName::from_upload(COMPOSED).unwrap();
    let beside =
        staged.place_file(Destination::Folder(asked_path(folder)), name, SameName::KeepBoth).await.unwrap();
    assert!(beside.name.starts_with("c\u{30c}a\u{301}p") && beside.name != DECOMPOSED, "{}", beside.name);

    let again = host.workspace.create_folder(&asked_path(folder)).await;
    assert!(matches!(again, Err(WorkspaceError::AlreadyExists)), "{again:?}");
    let inner = host.workspace.create_folder(&asked_path(&format!("{folder}/x"))).await.unwrap();
    assert_eq!(inner.to_string(), "/sloz\u{30c}ka/x");
}

#[tokio::test]
async fn control_character_names_found_as_shown() {
    let host = WorkspaceHost::new().await;
    std::fs::write(host.host_path("a\nb.txt"), "kingfisher").unwrap();
    let file = host.workspace.open_file(&AskedPath::from_url("/a%250Ab.txt")).await;
    assert!(file.is_ok(), "a link to the path that a source shows");
    assert!(host.workspace.find_entry(&AskedPath::from_text("/a%0Ab.txt")).await.is_ok());
}
