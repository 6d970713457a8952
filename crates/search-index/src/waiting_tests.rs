//! Searches while other files are being read, and rows of workbooks from the index.

use documents::passages::DocumentPassage;

use super::tests::{IndexFixture, passage_paths};
use super::*;

#[tokio::test]
async fn search_finds_read_file_meanwhile() {
    let fixture = IndexFixture::with_files(&[("a.txt", "The rent is due.")]);
    fixture.search_in("rent", &["/a.txt"]).await;
    fixture.write_file("slow.txt", "endless");
    let slow = fixture.search_in("rent", &["/slow.txt"]);
    tokio::pin!(slow);
    while !fixture.read.borrow().contains(&"slow.txt".to_owned()) {
        tokio::select! {
            biased;
            _ = &mut slow => panic!("it is never read"),
            () = tokio::task::yield_now() => {}
        }
    }
    tokio::select! {
        biased;
        _ = &mut slow => panic!("it is never read"),
        output = fixture.search_in("rent", &["/a.txt"]) => {
            assert_eq!(passage_paths(&output), ["/a.txt"]);
            assert!(output.unread.is_empty() && !output.text.contains("slow.txt"), "{}", output.text);
        }
    }
}

#[tokio::test]
async fn read_takes_workbook_rows_from_index() {
    let fixture = IndexFixture::with_files(&[("a.xlsx", "")]);
    let piece = |page: u32, first: u32, last: u32| DocumentPassage {
        page: Some(page),
        lines: Some((first, last)),
        heading: Some("Birds".to_owned()),
        columns: None,
        text: (first..=last).map(|row| format!("row {row}")).collect::<Vec<_>>().join("\n"),
    };
    let pieces = vec![piece(1, 1, 4), piece(1, 5, 8), piece(2, 1, 3)];
    let metadata = std::fs::metadata(fixture.workspace.path().join("a.xlsx")).unwrap();
    let found = FoundFile { path: "/a.xlsx".to_owned(), stamp: file_stamp(&metadata), hidden: false };
    let stamp = found.stamp;
    fixture.library.store_outcome(found, Ok(PassageBatch { pieces, ..PassageBatch::default() })).await;
    let rows = |from, at_most| fixture.library.stored_rows("/a.xlsx", stamp, from, at_most);
    let lines = |stored: Option<StoredPages>| -> Vec<_> {
        stored.unwrap().pieces.into_iter().map(|piece| (piece.page, piece.lines)).collect()
    };
    let (third, second) = ((Some(2), Some((1, 3))), (Some(1), Some((5, 8))));
    assert_eq!(lines(rows((1, 6), 10).await), [second, third]);
    assert_eq!(lines(rows((2, 1), 10).await), [third]);
    assert_eq!(lines(rows((1, 5), 1).await), [second, third], "one more says that there are more");
    assert_eq!(rows((1, 1), 10).await.unwrap().of, 2);
    fixture.write_file("a.xlsx", "changed");
    let metadata = std::fs::metadata(fixture.workspace.path().join("a.xlsx")).unwrap();
    let changed = file_stamp(&metadata);
    assert!(fixture.library.stored_rows("/a.xlsx", changed, (1, 1), 10).await.is_none());
}
