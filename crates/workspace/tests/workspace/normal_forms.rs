//! Names in another Unicode normal form: macOS uploads them decomposed, and people write them composed.

use super::*;
use workspace::SameName;

const COMPOSED: &str = "\u{10d}\u{e1}p.txt";
const DECOMPOSED: &str = "c\u{30c}a\u{301}p.txt";

#[tokio::test]
async fn an_entry_is_found_in_either_form() {
    for (stored, written) in [(DECOMPOSED, COMPOSED), (COMPOSED, DECOMPOSED)] {
        let host = Host::new().await;
        host.upload("/", stored, "kingfisher").await.unwrap();
        assert_eq!(host.read(&format!("/{written}")).await.unwrap(), b"kingfisher");
        let found = host.workspace.find(&asked(&format!("/{written}"))).await.unwrap();
        assert_eq!(found.path.to_string(), format!("/{stored}"));
        host.workspace.delete(&asked(&format!("/{written}")), false).await.unwrap();
        assert!(!host.at(stored).exists());
    }
}

#[tokio::test]
async fn an_exact_name_comes_before_others() {
    let host = Host::new().await;
    for name in [COMPOSED, DECOMPOSED] {
        std::fs::write(host.at(name), name).unwrap();
    }
    for name in [COMPOSED, DECOMPOSED] {
        assert_eq!(host.read(&format!("/{name}")).await.unwrap(), name.as_bytes());
    }
    host.upload("/", COMPOSED, "new").await.unwrap();
    assert_eq!(std::fs::read(host.at(DECOMPOSED)).unwrap(), DECOMPOSED.as_bytes());
}

#[tokio::test]
async fn what_is_made_replaces_the_entry_of_another_form() {
    let host = Host::new().await;
    let folder = "/slo\u{17e}ka";
    std::fs::create_dir(host.at("sloz\u{30c}ka")).unwrap();
    host.upload(folder, DECOMPOSED, "first").await.unwrap();
    let uploaded = host.upload(folder, COMPOSED, "second").await.unwrap();
    assert_eq!(uploaded.path.to_string(), format!("/sloz\u{30c}ka/{DECOMPOSED}"));
    assert_eq!(std::fs::read(host.at("sloz\u{30c}ka").join(DECOMPOSED)).unwrap(), b"second");
    assert_eq!(std::fs::read_dir(host.at("sloz\u{30c}ka")).unwrap().count(), 1, "no twin");

    let staged = host.workspace.stage(chunks("third")).await.unwrap();
    let name = FileName::from_upload(COMPOSED).unwrap();
    let beside = staged.place(Destination::Folder(asked(folder)), name, SameName::KeepBoth).await.unwrap();
    assert!(beside.name.starts_with("c\u{30c}a\u{301}p") && beside.name != DECOMPOSED, "{}", beside.name);

    let again = host.workspace.create_folder(&asked(folder)).await;
    assert!(matches!(again, Err(WorkspaceError::AlreadyExists)), "{again:?}");
    let inner = host.workspace.create_folder(&asked(&format!("{folder}/x"))).await.unwrap();
    assert_eq!(inner.to_string(), "/sloz\u{30c}ka/x");
}

#[tokio::test]
async fn names_with_control_characters_are_found_as_sources_show_them() {
    let host = Host::new().await;
    std::fs::write(host.at("a\nb.txt"), "kingfisher").unwrap();
    let file = host.workspace.open_file(&AskedPath::from_url("/a%250Ab.txt")).await;
    assert!(file.is_ok(), "a link to the path that a source shows");
    assert!(host.workspace.find(&AskedPath::from_text("/a%0Ab.txt")).await.is_ok());
}
