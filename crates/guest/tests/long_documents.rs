//! Documents that are too long to be read at once, through the built program's workers.

#[path = "../../documents/tests/support/archive.rs"]
mod archive;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::path::PathBuf;

use archive::zip_archive;
use guest::tools::Spares;
use search_index::DocumentLibrary;
use serde_json::json;
use support::TestMachine;

/// The maximum number of bytes of text that one call of `read` returns.
const READ_MAX_BYTES: usize = 32 * 1024;

/// A machine with an index.
fn indexed_machine() -> TestMachine {
    let mut machine = TestMachine::new();
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    machine
}

/// A PDF whose pages contain their number and some more lines.
fn pdf_with_pages(pages: u32) -> Vec<u8> {
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        String::new(),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    let mut kids = String::new();
    for page in 1..=pages {
        let number = objects.len() + 1;
        kids.push_str(&format!("{number} 0 R "));
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /Contents {} 0 R /Resources << /Font << /F1 3 0 R >> >> >>",
            number + 1
        ));
        let mut content = format!("BT /F1 12 Tf 72 760 Td (This is folio{page} of the report.) Tj ");
        for line in 0..30 {
            content.push_str(&format!("0 -20 Td (Line {line} of it says what every page says here.) Tj "));
        }
        content.push_str("ET");
        objects.push(format!("<< /Length {} >>\nstream\n{content}\nendstream", content.len()));
    }
    objects[1] = format!("<< /Type /Pages /Kids [{kids}] /Count {pages} /MediaBox [0 0 595 842] >>");
    let mut out = b"%PDF-1.4\n".to_vec();
    let mut places = Vec::new();
    for (object, number) in objects.iter().zip(1..) {
        places.push(out.len());
        out.extend_from_slice(format!("{number} 0 obj\n{object}\nendobj\n").as_bytes());
    }
    let table = out.len();
    out.extend_from_slice(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).as_bytes());
    for place in places {
        out.extend_from_slice(format!("{place:010} 00000 n \n").as_bytes());
    }
    let trailer =
        format!("trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{table}\n%%EOF\n", objects.len() + 1);
    out.extend_from_slice(trailer.as_bytes());
    out
}

/// Returns the number that follows a word in the output of `read`.
fn number_after(text: &str, word: &str) -> Option<u32> {
    let rest = text.split(&format!("{word} ")).nth(1)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[tokio::test]
async fn read_parses_each_page_once() {
    let mut machine = indexed_machine();
    machine.put_file("report.pdf", pdf_with_pages(200));
    let page = json!({ "path": "report.pdf", "first_page": 150 });
    let first = machine.call_tool("read", page.clone()).await;
    assert!(!first.failed, "{}", first.text);
    assert_eq!(first.passages[0].page, Some(150));
    assert!(first.passages[0].text.contains("folio150"), "{:?}", first.passages[0]);
    assert!(first.text.contains("PDF, 200 pages. Not whole: pages 1"), "{}", first.text);
    // Without a program there are no workers: the text comes from the cache.
    let program = machine.limits.program.replace(PathBuf::from("/nowhere"));
    machine.limits.spares = Spares::default();
    assert_eq!(machine.call_tool("read", page.clone()).await, first);
    assert!(
        machine.call_tool("read", json!({ "path": "report.pdf" })).await.failed,
        "no other page was read"
    );
    machine.limits.program = program;
    // A changed file is another one.
    machine.put_file("report.pdf", pdf_with_pages(3));
    assert!(machine.call_tool("read", page).await.text.contains("3 pages; there is nothing from there on"));
}

#[tokio::test]
async fn search_finds_new_and_read_pages() {
    let machine = indexed_machine();
    machine.put_file("report.pdf", pdf_with_pages(120));
    machine.call_tool("read", json!({ "path": "report.pdf", "first_page": 60 })).await;
    for page in [1, 60, 61, 120] {
        let output = machine.call_tool("search", json!({ "query": format!("folio{page}") })).await;
        assert_eq!(output.passages[0].page, Some(page), "{}", output.text);
        assert!(output.text.contains("(of 360)"), "three passages of each page, each once: {}", output.text);
        assert!(!output.text.contains("Not searched yet"), "{}", output.text);
    }
}

#[tokio::test]
async fn read_long_line_in_documented_calls() {
    let machine = indexed_machine();
    let quotes = "\\\"".repeat(40_000);
    let words: String = (0..17_000).map(|word| format!("w{word} ")).collect();
    for (name, line) in [("words.txt", &words), ("quotes.txt", &quotes)] {
        machine.put_file(name, format!("first\n\n{line}\n\nlast\n"));
        let mut arguments = json!({ "path": name });
        let mut seen = String::new();
        for call in 1.. {
            assert!(call < 40, "it does not come to an end");
            let output = machine.call_tool("read", arguments.clone()).await;
            assert!(!output.failed, "{}", output.text);
            let bytes: usize = output.passages.iter().map(|passage| passage.text.len()).sum();
            assert!(bytes <= READ_MAX_BYTES, "{name}: {bytes} bytes in one call");
            output.passages.iter().for_each(|passage| seen.push_str(&passage.text));
            if !output.text.contains("Not whole") {
                break;
            }
            arguments = json!({ "path": name, "first_line": number_after(&output.text, "first_line"),
                "skip_passages": number_after(&output.text, "skip_passages") });
        }
        let squeezed = |text: &str| text.split_whitespace().collect::<String>();
        assert!(squeezed(&seen) == squeezed(&format!("first{line}last")), "{name}: a part of it is missing");
    }
}

#[tokio::test]
async fn read_long_archived_file_to_end() {
    let machine = indexed_machine();
    let files =
        [("a.txt", b"first".to_vec()), ("long.pdf", pdf_with_pages(100)), ("z.txt", b"last".to_vec())];
    machine.put_file("files.zip", zip_archive(files));
    machine.call_tool("search", json!({ "query": "folio1" })).await;
    let mut arguments = json!({ "path": "files.zip" });
    let mut seen = String::new();
    for call in 1.. {
        assert!(call < 40, "it does not come to an end");
        let output = machine.call_tool("read", arguments.clone()).await;
        assert!(!output.failed, "{}", output.text);
        output.passages.iter().for_each(|passage| seen.push_str(&passage.text));
        if !output.text.contains("Not whole") {
            break;
        }
        arguments = json!({ "path": "files.zip", "first_page": number_after(&output.text, "first_page"),
            "skip_passages": number_after(&output.text, "skip_passages") });
    }
    let missing = (1..=100).filter(|page| seen.matches(&format!("folio{page} ")).count() != 1);
    assert_eq!(missing.collect::<Vec<u32>>(), Vec::<u32>::new());
    assert!(seen.contains("first") && seen.contains("last"));
}

#[tokio::test]
async fn read_broken_attachment_keeps_others() {
    let mut machine = indexed_machine();
    machine.limits.memory_bytes = 40 << 20;
    machine.put_file("large.txt", vec![b'a'; 48 << 20]);
    machine.put_file("small.txt", "The rent is due on the fifth.");
    machine.put_fixture("locked.pdf");
    let paths = ["/large.txt", "/small.txt", "/locked.pdf"];
    let arguments = json!({ "paths": paths, "text_max_bytes": 10_000 });
    for _ in 0..2 {
        let output = machine.call_tool("attached_files", arguments.clone()).await;
        assert_eq!(output.passages.len(), 1, "{}", output.text);
        assert_eq!(output.passages[0].path, "/small.txt");
        let unread: Vec<_> =
            output.unread.iter().map(|unread| (unread.path.as_str(), unread.reason.as_str())).collect();
        assert_eq!(unread, [("/large.txt", "too_much_memory"), ("/locked.pdf", "encrypted")]);
        assert!(output.text.contains("/large.txt: it needs more than the 40 MiB"), "{}", output.text);
    }
}

#[tokio::test]
async fn read_broken_archived_file_keeps_others() {
    let mut machine = indexed_machine();
    machine.limits.memory_bytes = 40 << 20;
    let large = vec![b'a'; 48 << 20];
    let names: Vec<String> = (1..=9).map(|number| format!("{number}.txt")).collect();
    let text = |name: &str| format!("The code word of {name} is heron{}.", name.trim_end_matches(".txt"));
    let texts: Vec<String> = names.iter().map(|name| text(name)).collect();
    let content =
        |number: usize| if [1, 6].contains(&number) { &large[..] } else { texts[number - 1].as_bytes() };
    let files = names.iter().zip(1..).map(|(name, number)| (name.as_str(), content(number)));
    machine.put_file("files.zip", zip_archive(files));
    let arguments = json!({ "query": "code word heron", "paths": ["/files.zip"], "limit": 20 });
    let mut found = machine.call_tool("search", arguments.clone()).await;
    for _ in 0..9 {
        if found.unread.iter().all(|file| file.reason != "indexing") {
            break;
        }
        found = machine.call_tool("search", arguments.clone()).await;
    }
    let reasons: Vec<&str> = found.unread.iter().map(|file| file.reason.as_str()).collect();
    assert_eq!(reasons, ["inner_files"], "{}", found.text);
    for number in [2, 3, 4, 5, 7, 8, 9] {
        let word = format!("heron{number}.");
        let is_found =
            found.passages.iter().any(|passage| passage.page == Some(number) && passage.text.contains(&word));
        assert!(is_found, "{number}: {:?}", found.passages);
    }
    // Attaching it, which ends a worker each time, does not report it as completely unread.
    let attached = json!({ "paths": ["/files.zip"], "text_max_bytes": 10_000 });
    for _ in 0..2 {
        let output = machine.call_tool("attached_files", attached.clone()).await;
        let reasons: Vec<&str> = output.unread.iter().map(|file| file.reason.as_str()).collect();
        assert_eq!(reasons, ["inner_files"], "{}", output.text);
    }
    assert!(!machine.call_tool("search", arguments).await.passages.is_empty());
}

#[tokio::test]
async fn read_indexed_archive_keeps_lines() {
    let machine = indexed_machine();
    machine.put_file(
        "papers.zip",
        zip_archive([("a.txt", "First line.\n\nThe code word is heron."), ("b.txt", "Last.")]),
    );
    for _ in 0..2 {
        let output = machine.call_tool("read", json!({ "path": "papers.zip" })).await;
        assert!(output.text.starts_with("/papers.zip: archive, 2 files. Shown whole."), "{}", output.text);
        let places: Vec<_> = output.passages.iter().map(|passage| (passage.page, passage.lines)).collect();
        assert!(
            places.contains(&(Some(1), Some((1, 3)))) && places.contains(&(Some(2), Some((1, 1)))),
            "{places:?}"
        );
        assert!(!machine.call_tool("search", json!({ "query": "heron" })).await.passages.is_empty());
    }
}

#[tokio::test]
async fn search_covers_hidden_attached_file() {
    let mut machine = indexed_machine();
    machine.put_file("uploads/.tmp/1/note.txt", "The code word is heron.");
    let query = json!({ "query": "code word" });
    assert!(machine.call_tool("search", query.clone()).await.passages.is_empty());
    machine.attached = vec!["/uploads/.tmp/1/note.txt".to_owned()];
    assert_eq!(machine.call_tool("search", query).await.passages.len(), 1);
}
