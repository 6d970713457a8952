use std::fs;
use std::path::PathBuf;

use super::tests::{IndexFixture, passage_paths};
use super::*;

/// The pages of the database, in bytes. Every third of them is damaged.
const PAGE_BYTES: usize = 4_096;
const STEP: usize = 3;

/// The documents, and the word that only the last of them has.
const DOCUMENTS: usize = 40;
const LAST: &str = "zucchini";

/// A workspace whose index has many pages.
fn orchard_fixture() -> IndexFixture {
    let fixture = IndexFixture::with_files(&[]);
    for document in 0..DOCUMENTS {
        let line = |line: usize| format!("one apple of tree {document}{line} and basket {}\n", line * 7919);
        fixture.write_file(&format!("{document:02}.txt"), &(0..40).map(line).collect::<String>());
    }
    fixture.write_file("zz.txt", LAST);
    fixture
}

fn index_file(fixture: &IndexFixture) -> PathBuf {
    fixture.index.path().join("passages.sqlite")
}

/// Writes all of the index into its file, and closes it.
fn checkpoint_index(fixture: &IndexFixture) {
    let index = Index::open_or_create(fixture.index.path()).unwrap();
    index.connection().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
}

#[tokio::test]
async fn open_non_index_file_replaces_it() {
    let fixture = orchard_fixture();
    fixture.search_all(LAST).await;
    for entry in fs::read_dir(fixture.index.path()).unwrap().flatten() {
        fs::write(entry.path(), "no database at all".repeat(1_000)).unwrap();
    }
    let again = fixture.restart_library();
    assert_eq!(passage_paths(&again.search_all(LAST).await), ["/zz.txt"]);
    let files = DOCUMENTS + 1;
    assert_eq!(again.read_since().len(), 2 * files, "all documents are read again");
}

#[tokio::test]
async fn damaged_page_fails_search_or_check() {
    let mut fixture = orchard_fixture();
    fixture.search_all(LAST).await;
    checkpoint_index(&fixture);
    let sound = fs::read(index_file(&fixture)).unwrap();
    let pages = sound.len() / PAGE_BYTES;
    assert!(pages > 40, "{pages}");
    let (mut met, mut checked) = (0, 0);
    for page in (0..pages).step_by(STEP) {
        fixture = fixture.restart_library();
        let mut damaged = sound.clone();
        damaged[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].fill(0xa5);
        for suffix in ["-wal", "-shm"] {
            let _ = fs::remove_file(fixture.index.path().join(format!("passages.sqlite{suffix}")));
        }
        fs::write(index_file(&fixture), damaged).unwrap();
        fixture.read_since();
        let found = fixture.search_all(LAST).await;
        if fixture.read_since().is_empty() {
            fixture.library.check_integrity().await;
            let found = fixture.search_all(LAST).await;
            assert_eq!(passage_paths(&found), ["/zz.txt"], "page {page} of {pages}");
            assert_eq!(fixture.read_since().len(), DOCUMENTS + 1, "page {page} of {pages}");
            checked += 1;
        } else {
            assert_eq!(passage_paths(&found), ["/zz.txt"], "page {page} of {pages}");
            met += 1;
        }
    }
    assert!(met > 0 && checked > 0, "{met} were met, {checked} were found by the check");
}

#[tokio::test]
async fn the_check_leaves_a_sound_index() {
    let fixture = orchard_fixture();
    fixture.search_all(LAST).await;
    fixture.read_since();
    fixture.library.check_integrity().await;
    assert_eq!(passage_paths(&fixture.search_all(LAST).await), ["/zz.txt"]);
    assert!(fixture.read_since().is_empty());
}
