//! Images inside documents: their text is recognized in the background and found by a search.

#[path = "../../documents/tests/support/archive.rs"]
mod archive;
#[expect(dead_code, reason = "each test file uses its part")]
#[path = "../../documents/tests/support/pst.rs"]
mod outlook;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use archive::zip_archive;
use outlook::{attachment_properties, outlook_message, pst_file};
use protocol::tool::ToolOutput;
use search_index::DocumentLibrary;
use serde_json::json;
use support::TestMachine;

/// A DjVu document of three pages, of which the third is a scan.
const ROOKS: &[u8] = include_bytes!("../../documents/tests/fixtures/rooks.djvu");

/// A machine that searches documents.
fn indexed_machine() -> TestMachine {
    let mut machine = TestMachine::new();
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    machine
}

/// Searches until the document was read to its end.
async fn search_until_indexed(machine: &TestMachine, path: &str, word: &str) -> ToolOutput {
    loop {
        let found = machine.call_tool("search", json!({ "query": word, "paths": [path] })).await;
        if found.unread.iter().all(|file| file.reason != "indexing") {
            return found;
        }
    }
}

#[tokio::test]
async fn djvu_scan_recognized_inside_archive() {
    let machine = indexed_machine();
    machine.put_file("rooks.djv", ROOKS);
    machine.put_file("books.zip", zip_archive([("rooks.djvu", ROOKS.to_vec())]));
    let output = search_until_indexed(&machine, "/rooks.djv", "committee").await;
    let passage = output.passages.iter().find(|passage| passage.text.contains("committee counts"));
    assert_eq!(passage.expect("it is recognized").page, Some(3), "{output:?}");
    assert!(output.unread.is_empty(), "{output:?}");
    let output = search_until_indexed(&machine, "/books.zip", "committee").await;
    let passage = output.passages.iter().find(|passage| passage.text.contains("committee counts"));
    let passage = passage.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(passage.page_name.as_deref(), Some("rooks.djvu, page 3"), "{output:?}");
}

#[tokio::test]
async fn djvu_scan_without_shapes_named() {
    let machine = indexed_machine();
    let mut without_shapes = ROOKS.to_vec();
    let dictionary = ROOKS.windows(4).position(|window| window == b"Djbz").expect("it is there");
    without_shapes[dictionary..dictionary + 4].copy_from_slice(b"none");
    machine.put_file("a.djvu", &without_shapes);
    let output = search_until_indexed(&machine, "/a.djvu", "jackdaw").await;
    assert!(output.passages.iter().any(|passage| passage.page == Some(2)), "{output:?}");
    assert_eq!(output.unread[0].reason, "scanned_pages", "{output:?}");
}

#[tokio::test]
async fn search_finds_text_in_pst_image() {
    let machine = indexed_machine();
    let mut message = outlook_message("Photograph", "See the picture.");
    message.attachments.push(attachment_properties(
        "bird.webp",
        include_bytes!("../../documents/tests/fixtures/code_word.webp"),
    ));
    machine.put_file("a.pst", pst_file(&[outlook_message("First", "A wren."), message]));
    let found = search_until_indexed(&machine, "/a.pst", "falcon").await;
    let passage = found.passages.iter().find(|passage| passage.text.contains("falcon"));
    let passage = passage.unwrap_or_else(|| panic!("{found:?}"));
    let place = (passage.page, passage.page_name.as_deref());
    assert_eq!(place, (Some(2), Some("Letters/Photograph.eml")), "{found:?}");
    assert!(found.unread.is_empty(), "{found:?}");
}
