//! Resource exhaustion: processes, memory, output, decompression bombs.

use std::time::{Duration, Instant};

use e2e::{Expect, HttpRequest, poll};
use serde_json::json;

use crate::stage::HostileFixture;

/// The longest time that a call with a bomb may take beyond its own time limit.
const GRACE: Duration = Duration::from_secs(60);
/// The longest result of a tool, including the text around it.
const RESULT_MAX_BYTES: usize = 256 * 1024;

#[test]
fn fork_bomb_ends_with_its_call() {
    let stage = HostileFixture::start_fixture();
    stage.run_commands(&["true"]);
    let bomb = "bomb() { bomb | bomb & }; bomb; sleep 300";
    let script = json!({"steps": [
        {"actions": [{"call": {"tool": "shell", "arguments": {"command": bomb, "timeout_seconds": 4}}}]},
        {"actions": [{"say": "Done."}]}
    ]});
    let began = Instant::now();
    let answer =
        stage.api.expect_accepted(&json!({ "model": "standin", "input": format!("STANDIN {script}") }));
    let other = stage.service.api_for(&stage.other);
    while stage.api.get_answer(&answer)["status"] == "in_progress" {
        assert_eq!(HttpRequest::new("GET", "/healthz").send(stage.service.address()).status, 200);
        let theirs = other
            .wait_for_completion(&other.expect_accepted(&json!({ "input": "Hello", "model": "standin" })));
        assert!(theirs["error"].is_null(), "{theirs}");
        assert!(began.elapsed() < Duration::from_secs(4) + GRACE, "the bomb does not end");
    }
    let answer = stage.api.get_answer(&answer);
    assert!(answer["error"].is_null() && answer["text"] == "Done.", "{answer}");
    poll::wait_until("the bomb has ended", || (!stage.has_process("bomb() { [b]omb")).then_some(()));
    let again = stage.run_commands(&["echo alive"]);
    assert!(again[0].contains("alive"), "{again:?}");
    stage.assert_unharmed();
}

#[test]
fn background_processes_of_command_killed() {
    let stage = HostileFixture::start_fixture();
    let results = stage.run_commands(&[
        "(sleep 300; touch /workspace/late) > /dev/null 2>&1 & setsid nohup sleep 301 > /dev/null 2>&1 & echo started",
        "perl -e 'fork and exit; setpgrp; fork and exit; close $_ for (*STDIN, *STDOUT, *STDERR); sleep 302' & echo started",
        "cat /proc/[0-9]*/cmdline | tr '\\0' ' '",
    ]);
    assert!(results[0].contains("started") && results[1].contains("started"), "{results:?}");
    for left in ["sleep 300", "sleep 301", "sleep 302"] {
        assert!(!results[2].contains(left), "{}", results[2]);
    }
    poll::wait_until("nothing is left", || (!stage.has_process("sleep 30[0-2]")).then_some(()));
    stage.api.download_file("/late").expect_refusal(404);
    stage.assert_unharmed();
}

#[test]
fn memory_output_and_disk_bounded() {
    let stage = HostileFixture::start_fixture();
    stage.run_commands(&["true"]);
    let before = stage.jail_processes();
    let long = json!({ "command": "yes the same line again", "timeout_seconds": 2 });
    let results = stage.call_tools(&[
        ("shell", json!({ "command": "perl -e 'while (1) { push @a, \"x\" x 50_000_000 }'", "timeout_seconds": 20 })),
        ("shell", json!({ "command": "head -c 30000000 /dev/zero | tr '\\0' 'x'; echo; echo the-end" })),
        ("shell", long),
        ("shell", json!({ "command": "head -c 200000 /dev/urandom; printf '\\033]0;owned\\007\\033[2J'" })),
        ("shell", json!({ "command": "truncate -s 100G /workspace/huge; dd if=/dev/zero of=/tmp/full bs=1M count=8000 2>&1; rm -f /tmp/full; echo the-end" })),
        ("shell", json!({ "command": "truncate -s 1500M /workspace/sparse.txt && echo the-end", })),
        ("read", json!({ "path": "/sparse.txt" })),
        ("find", json!({ "content": "nothing of the kind" })),
        ("search", json!({ "query": "nothing of the kind" })),
    ]);
    for text in &results {
        assert!(text.len() <= RESULT_MAX_BYTES, "{} bytes were returned", text.len());
        assert!(!text.contains(['\u{1b}', '\u{7}', '\0']), "control characters go");
    }
    assert!(
        results[1].contains("the-end") && results[4].contains("the-end"),
        "the end is kept: {:?}",
        (last_characters(&results[1]), last_characters(&results[4]))
    );
    let huge = std::fs::metadata(stage.workspace_folder().join("huge")).map_or(0, |metadata| metadata.len());
    assert!(huge < 100 << 30, "a file has a bound");
    assert_eq!(stage.jail_processes(), before, "the same agent lives on");
    stage.assert_unharmed();
}

fn last_characters(text: &str) -> String {
    text.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect()
}

#[test]
fn zip_bombs_are_not_unpacked() {
    let stage = HostileFixture::start_fixture();
    let word = "<w:document xmlns:w=\"w\"><w:body><w:p><w:r><w:t>";
    let sheet = "<worksheet><sheetData><row><c t=\"inlineStr\"><is><t>";
    stage.api.upload_file("bomb.docx", &build_zip_bomb("word/document.xml", word)).expect_status(201);
    stage.api.upload_file("bomb.xlsx", &build_zip_bomb("xl/worksheets/sheet1.xml", sheet)).expect_status(201);
    stage
        .api
        .upload_file("bomb.odt", &build_zip_bomb("content.xml", "<office:text><text:p>"))
        .expect_status(201);
    let laughs: String =
        (1..30).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let laughs = format!("<!DOCTYPE x [<!ENTITY l0 \"ha\">{laughs}]><html><body>&l29;</body></html>");
    stage.api.upload_file("laughs.html", laughs.as_bytes()).expect_status(201);
    stage.api.upload_file("deep.html", "<div>".repeat(400_000).as_bytes()).expect_status(201);
    let began = Instant::now();
    let mut calls: Vec<_> = ["bomb.docx", "bomb.xlsx", "bomb.odt", "laughs.html", "deep.html"]
        .iter()
        .map(|name| ("read", json!({ "path": format!("/uploads/{name}") })))
        .collect();
    calls.push(("search", json!({ "query": "aaaa" })));
    calls.push(("find", json!({ "content": "no such words" })));
    let results = stage.call_tools(&calls);
    assert!(results.iter().all(|text| text.len() <= RESULT_MAX_BYTES));
    assert!(began.elapsed() < Duration::from_secs(400), "documents have their time: {:?}", began.elapsed());
    let again = stage.run_commands(&["echo alive"]);
    assert!(again[0].contains("alive"), "{again:?}");
    stage.assert_unharmed();
}

/// Creates an archive of one file that begins with `begin` and continues with one letter for 1.2 gigabytes,
/// in 8 megabytes.
fn build_zip_bomb(name: &str, begin: &str) -> Vec<u8> {
    /// Copies of 258 bytes each.
    const COPIES: u32 = 4_800_000;
    let mut bits = Bits::default();
    bits.push_bits(0b011, 3); // the last block, with the codes that are always known
    for byte in begin.bytes().chain([b'a']) {
        // Literals below 144 have eight bits, from 0x30 on, most significant bit first.
        bits.push_bits(u32::from((0x30 + byte).reverse_bits()), 8);
    }
    for _ in 0..COPIES {
        // Length 258 is code 285, 0xC5 in eight bits; distance 1 is five bits of zero.
        bits.push_bits(u32::from(0xC5_u8.reverse_bits()), 13);
    }
    bits.push_bits(0, 7);
    let packed = bits.into_bytes();
    let unfolded = u32::try_from(begin.len() + 1).expect("short") + COPIES * 258;
    let length = u32::try_from(packed.len()).expect("some megabytes");
    let mut described = Vec::new();
    described.extend([20, 0, 0, 0, 8, 0, 0, 0, 0, 0]); // version, flags, deflate, time
    described.extend([0; 4]); // the checksum is never reached
    described.extend(length.to_le_bytes());
    described.extend(unfolded.to_le_bytes());
    described.extend(u16::try_from(name.len()).expect("short").to_le_bytes());
    described.extend([0, 0]);
    let mut zip = b"PK\x03\x04".to_vec();
    zip.extend(&described);
    zip.extend(name.as_bytes());
    zip.extend(packed);
    let folder_at = u32::try_from(zip.len()).expect("some megabytes");
    zip.extend(b"PK\x01\x02\x14\x00");
    zip.extend(&described);
    zip.extend([0; 14]);
    zip.extend(name.as_bytes());
    let folder_length = u32::try_from(zip.len()).expect("some megabytes") - folder_at;
    zip.extend(b"PK\x05\x06\0\0\0\0\x01\0\x01\0");
    zip.extend(folder_length.to_le_bytes());
    zip.extend(folder_at.to_le_bytes());
    zip.extend([0, 0]);
    zip
}

/// Packs bits, least significant first, like deflate.
#[derive(Default)]
struct Bits {
    bytes: Vec<u8>,
    open: u64,
    count: u32,
}

impl Bits {
    fn push_bits(&mut self, bits: u32, count: u32) {
        self.open |= u64::from(bits) << self.count;
        self.count += count;
        while self.count >= 8 {
            self.bytes.push((self.open & 0xFF) as u8);
            self.open >>= 8;
            self.count -= 8;
        }
    }

    fn into_bytes(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.bytes.push((self.open & 0xFF) as u8);
        }
        self.bytes
    }
}

#[test]
fn deep_and_full_folder_walks_bounded() {
    let stage = HostileFixture::start_fixture();
    let made = stage.call_tools(&[
        (
            "shell",
            json!({ "command": "cd /workspace && perl -e 'for (1..3000) { mkdir \"d\" x 20; chdir \"d\" x 20 } open F, \">\", \"end.txt\"; print F \"the word is crane\"' && echo the-end" }),
        ),
        (
            "shell",
            json!({ "command": "mkdir /workspace/full && cd /workspace/full && perl -e 'for (1..5000) { open F, \">\", \"file-$_.txt\"; print F \"crane $_\" }' && echo the-end" }),
        ),
    ]);
    assert!(made.iter().all(|text| text.contains("the-end")), "{made:?}");
    // A search reads files for half a minute at most.
    let results = stage.call_tools(&[
        ("list", json!({ "path": "/full" })),
        ("find", json!({})),
        ("find", json!({ "content": "crane" })),
        ("search", json!({ "query": "crane" })),
    ]);
    assert!(results.iter().all(|text| text.len() <= RESULT_MAX_BYTES));
    stage.api.list_directory("/full").expect_status(200);
    let deep = format!("/{}", ["dddddddddddddddddddd"; 150].join("/"));
    stage.api.list_directory(&deep).expect_status(200);
    for folder in ["/dddddddddddddddddddd?recursive=true", "/full?recursive=true"] {
        stage.api.delete_file(folder).expect_status(204);
    }
    stage.assert_unharmed();
}
