//! Archives that the machine's `bsdtar` unpacks: RAR, cabinets made by gcab, and LHA made by jlha. They are read by workers; only
//! workers may start it.

#[path = "../../documents/tests/support/rar.rs"]
mod rar;
#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::io::Write;
use std::path::Path;

use documents::{ExtractError, extract_bytes};
use protocol::tool::ToolOutput;
use rar::{ENCRYPTION, GOES_ON, RarFile, rar_archive};
use search_index::DocumentLibrary;
use serde_json::json;
use support::TestMachine;

/// The flag of an archive that is one of several parts.
const PART: u64 = 1;

/// A machine that searches documents.
fn indexed_machine() -> TestMachine {
    let mut machine = TestMachine::new();
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    machine
}

async fn read_archive(machine: &TestMachine, name: &str, content: &[u8]) -> ToolOutput {
    machine.put_file(name, content);
    machine.call_tool("read", json!({ "path": name })).await
}

fn output_texts(output: &ToolOutput) -> Vec<&str> {
    output.passages.iter().map(|passage| passage.text.as_str()).collect()
}

/// Returns the reason why a file is not read: its code, and the text for the model.
async fn read_refusal(machine: &TestMachine, name: &str, content: &[u8]) -> (String, String) {
    let output = read_archive(machine, name, content).await;
    assert!(output.failed && output.passages.is_empty(), "{output:?}");
    (output.unread[0].reason.clone(), output.text)
}

#[tokio::test]
async fn unpacked_files_read_with_names() {
    let machine = TestMachine::new();
    let siskin: &[u8] = b"A siskin.\n\nIt sings.";
    let files = [RarFile::new("birds/siskin.txt", siskin), RarFile::new("birds/rules.md", b"# Rules")];
    let archives: [(&str, &[u8]); 3] = [
        ("a.rar", &rar_archive(0, &files)),
        ("birds.cab", include_bytes!("../../documents/tests/fixtures/birds.cab")),
        ("birds.lzh", include_bytes!("../../documents/tests/fixtures/birds.lzh")),
    ];
    for (name, archive) in archives {
        let output = read_archive(&machine, name, archive).await;
        assert!(!output.failed && output.unread.is_empty(), "{name}: {output:?}");
        assert!(output.text.contains(&format!("/{name}: archive, ")), "{}", output.text);
        let siskin = output.passages.iter().find(|passage| passage.text.contains("It sings."));
        let siskin = siskin.unwrap_or_else(|| panic!("{name}: {output:?}"));
        assert_eq!((siskin.page, siskin.page_name.as_deref()), (Some(1), Some("birds/siskin.txt")), "{name}");
    }
}

#[test]
fn unpacked_archive_needs_worker() {
    let archive = rar_archive(0, &[RarFile::new("a.txt", b"A siskin.")]);
    let error = extract_bytes(Path::new("a.rar"), &archive).expect_err("it is not unpacked");
    assert!(matches!(error, ExtractError::Unsupported { kind: "a RAR archive", .. }), "{error}");
}

#[tokio::test]
async fn unpacked_traversal_names_never_used() {
    let machine = TestMachine::new();
    let names = ["../../up.txt", "/etc/absolute.txt", "-rf", "@list", "příloha.txt"];
    let files = names.map(|name| RarFile::new(name, b"A word."));
    let output = read_archive(&machine, "a.rar", &rar_archive(0, &files)).await;
    assert!(output.unread.is_empty(), "{output:?}");
    let shown = output_texts(&output).join("\n");
    assert!(names.iter().all(|name| shown.contains(name)), "{shown}");
    assert!(!machine.outside_folder().join("up.txt").exists());
}

#[tokio::test]
async fn unpacked_misleading_archive_refused_with_reason() {
    let machine = TestMachine::new();
    let file = || RarFile::new("a.txt", b"A siskin sings.");
    let locked = RarFile { extra: ENCRYPTION, ..file() };
    let whole = rar_archive(0, &[file()]);
    let mut locked_names = rar_archive(0, &[file()]);
    // The second block is the archive's; this one declares that the rest is encrypted.
    locked_names[8 + 4 + 1] = 4;
    let mut cabinet = include_bytes!("../../documents/tests/fixtures/birds.cab").to_vec();
    cabinet[30] |= 2;
    for (name, archive, reason, words) in [
        ("part.rar", rar_archive(PART, &[file()]), "unknown_form", "one of several parts"),
        (
            "split.rar",
            rar_archive(0, &[RarFile { flags: GOES_ON, ..file() }]),
            "unknown_form",
            "one of several",
        ),
        ("locked.rar", rar_archive(0, &[file(), locked]), "encrypted", "needs a password"),
        ("names.rar", locked_names, "encrypted", "needs a password"),
        ("cut.rar", whole[..whole.len() - 9].to_vec(), "broken", "its end is missing"),
        ("content.rar", whole[..whole.len() - 15].to_vec(), "broken", "its end is missing"),
        ("part.cab", cabinet.clone(), "unknown_form", "one of several parts"),
        ("cut.cab", cabinet[..400].to_vec(), "unknown_form", "one of several parts"),
    ] {
        let (code, text) = read_refusal(&machine, name, &archive).await;
        assert!(code == reason && text.contains(words), "{name}: {code}: {text}");
    }
}

#[tokio::test]
async fn unpacked_archive_read_before_damage() {
    let machine = indexed_machine();
    let mut archive = rar_archive(
        0,
        &[
            RarFile::new("first.txt", b"A wren sings."),
            RarFile::new("second.txt", b"A rook calls."),
            RarFile::new("third.txt", b"A lark rises."),
        ],
    );
    let at = archive.windows(6).position(|window| window == b"second").expect("it is stored");
    // The checksum of its header is wrong now.
    archive[at] = b'S';
    let search = async |name: &str| {
        machine.call_tool("search", json!({ "query": "sings calls rises", "paths": [name] })).await
    };
    machine.put_file("a.rar", archive);
    let found = search("/a.rar").await;
    let shown = output_texts(&found).join("\n");
    assert!(shown.contains("A wren sings.") && !shown.contains("calls"), "{shown}");
    assert_eq!(found.unread[0].reason, "inner_files", "{found:?}");

    let mut cabinet = include_bytes!("../../documents/tests/fixtures/birds.cab").to_vec();
    let content = cabinet.windows(2).position(|window| window == b"CK").expect("it is compressed");
    cabinet[content + 8] ^= 0xff;
    machine.put_file("a.cab", cabinet);
    let found = search("/a.cab").await;
    let shown = output_texts(&found).join("\n");
    assert!(!shown.contains("It sings"), "{shown}");
    assert_eq!(found.unread[0].reason, "inner_files", "{found:?}");
}

/// Makes a cabinet of one file that is compressed to a thousandth: these blocks of 32 KiB of zeros.
fn cabinet_bomb(blocks: u16) -> Vec<u8> {
    const BLOCK_BYTES: u16 = 32 * 1024;
    let mut encoder = flate2::write::DeflateEncoder::new(b"CK".to_vec(), flate2::Compression::best());
    encoder.write_all(&vec![0; usize::from(BLOCK_BYTES)]).expect("it is compressed");
    let block = encoder.finish().expect("it ends");
    let packed = u16::try_from(block.len()).expect("it is short").to_le_bytes();
    let block = [&[0; 4][..], &packed, &BLOCK_BYTES.to_le_bytes(), &block].concat();
    let name = b"zeros\0";
    let content_at = 36 + 8 + 16 + u32::try_from(name.len()).expect("it is short");
    let total = content_at + u32::from(blocks) * u32::try_from(block.len()).expect("it is short");
    let length = u32::from(blocks) * u32::from(BLOCK_BYTES);
    let head = [
        &b"MSCF\0\0\0\0"[..],
        &total.to_le_bytes(),
        &[0; 4],
        &44_u32.to_le_bytes(),
        &[0, 0, 0, 0, 3, 1, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ];
    let folder = [&content_at.to_le_bytes()[..], &blocks.to_le_bytes(), &[1, 0]];
    let file = [&length.to_le_bytes()[..], &[0; 4], &[0, 0, 0x21, 0, 0, 0, 0x20, 0], name];
    [head.concat(), folder.concat(), file.concat(), block.repeat(usize::from(blocks))].concat()
}

#[tokio::test]
async fn bombs_are_bounded() {
    let machine = indexed_machine();
    let found = async |name: &str, archive: Vec<u8>| {
        machine.put_file(name, archive);
        machine.call_tool("search", json!({ "query": "zeros", "paths": [format!("/{name}")] })).await
    };
    let small = found("small.cab", cabinet_bomb(2)).await;
    assert!(output_texts(&small)[0].contains("65536 bytes"), "it is unpacked: {small:?}");
    // 256 MiB.
    let large = found("large.cab", cabinet_bomb(8 * 1024)).await;
    assert_eq!(large.unread[0].reason, "inner_files", "{large:?}");
    assert!(output_texts(&large)[0].contains("unpacks to more than"), "{large:?}");
}

#[tokio::test]
async fn they_are_indexed_and_found() {
    let machine = indexed_machine();
    machine.put_file("a.rar", rar_archive(0, &[RarFile::new("notes/siskin.txt", b"A siskin sings.")]));
    let found = machine.call_tool("search", json!({ "query": "siskin", "paths": ["/a.rar"] })).await;
    let passage = found.passages.iter().find(|passage| passage.text == "A siskin sings.");
    let passage = passage.unwrap_or_else(|| panic!("{found:?}"));
    assert_eq!((passage.page, passage.page_name.as_deref()), (Some(1), Some("notes/siskin.txt")));
    assert!(found.unread.is_empty(), "{found:?}");
}
