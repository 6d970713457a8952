//! The tools on real files, through the built program's workers.

#[path = "../../documents/tests/support/archive.rs"]
mod archive;
mod support;

use std::os::unix::fs::symlink;
use std::time::Duration;

use archive::zip_archive;
use domain::tool::MachineTool;
use search_index::DocumentLibrary;
use serde_json::json;
use support::TestMachine;

#[tokio::test]
async fn run_knows_every_machine_tool() {
    let machine = TestMachine::new();
    for tool in MachineTool::ALL {
        let output = machine.call_tool(tool.name(), json!({ "none": 1 })).await;
        assert!(output.failed && output.text.contains("the arguments"), "{}: {}", tool.name(), output.text);
    }
    let unknown = machine.call_tool("none", json!({})).await;
    assert!(unknown.failed && unknown.text == "there is no tool `none`", "{}", unknown.text);
}

#[tokio::test]
async fn read_archive_gives_named_files() {
    let machine = TestMachine::new();
    let long = "All keys are returned on the day of moving out, before noon at the latest.\n".repeat(600);
    let files = [
        ("rules/keys.txt", long.as_bytes()),
        ("lease.pdf", include_bytes!("../../documents/tests/fixtures/lease.pdf")),
    ];
    machine.put_file("papers.zip", zip_archive(files));
    let mut place = json!({ "path": "/papers.zip" });
    let mut names = Vec::new();
    for call in 0.. {
        assert!(call < 10, "reading goes on");
        let output = machine.call_tool("read", place).await;
        assert!(!output.failed && !output.passages.is_empty(), "{}", output.text);
        assert!(output.text.starts_with("/papers.zip: archive, 2 files."), "{}", output.text);
        names.extend(output.passages.into_iter().map(|passage| (passage.page, passage.page_name)));
        let number = |word: &str| {
            let (_, rest) = output.text.rsplit_once(&format!("{word} "))?;
            rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse::<u32>().ok()
        };
        let Some(page) = number("first_page") else { break };
        let (line, skip) = (number("first_line"), number("skip_passages"));
        place =
            json!({ "path": "/papers.zip", "first_page": page, "first_line": line, "skip_passages": skip });
    }
    names.dedup();
    let name = |page, name: &str| (Some(page), Some(name.to_owned()));
    let expected = [
        name(1, "rules/keys.txt"),
        name(2, "lease.pdf"),
        name(2, "lease.pdf, page 1"),
        name(2, "lease.pdf, page 2"),
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn read_gives_passages_with_their_pages() {
    let machine = TestMachine::new();
    machine.put_fixture("lease.pdf");
    for path in ["/lease.pdf", "lease.pdf", "/workspace/lease.pdf"] {
        let output = machine.call_tool("read", json!({ "path": path })).await;
        assert!(!output.failed, "{}", output.text);
        assert_eq!(output.text, "/lease.pdf: PDF, 2 pages. Shown whole.");
        let notice = output.passages.iter().find(|passage| passage.text.contains("Výpovědní doba")).unwrap();
        assert_eq!((notice.path.as_str(), notice.page, notice.lines), ("/lease.pdf", Some(2), None));
    }
    let second = machine.call_tool("read", json!({ "path": "lease.pdf", "first_page": 2 })).await;
    assert!(second.passages.iter().all(|passage| passage.page == Some(2)) && !second.passages.is_empty());
    let third = machine.call_tool("read", json!({ "path": "lease.pdf", "first_page": 3 })).await;
    assert!(third.failed && third.text.contains("2 pages"), "{}", third.text);
}

/// Deciphering needs random bytes, which the static program in machines reads from `/dev/urandom`. `make test` names
/// that program; the one beside the tests gets them directly from the kernel.
#[tokio::test]
async fn read_encrypted_pdf_without_password() {
    let mut machine = TestMachine::new();
    // Made of `lease.pdf` by qpdf, with an empty user password and keys of the named length.
    for fixture in ["unlocked128.pdf", "unlocked256.pdf"] {
        machine.put_fixture(fixture);
    }
    let built = std::env::var_os("CAUSERIE_GUEST").map(std::path::PathBuf::from);
    for program in machine.limits.program.clone().into_iter().chain(built) {
        machine.limits.program = Some(program);
        for name in ["/unlocked128.pdf", "/unlocked256.pdf"] {
            let output = machine.call_tool("read", json!({ "path": name })).await;
            let expected = format!("{name}: PDF, 2 pages. Shown whole.");
            assert_eq!(output.text, expected, "{:?}", machine.limits.program);
            assert!(output.passages.iter().any(|passage| passage.text.contains("Výpovědní doba")));
        }
    }
}

#[tokio::test]
async fn read_goes_on_where_it_says() {
    let machine = TestMachine::new();
    let text: String = (1..=2000).map(|line| format!("This is line {line} of a long text.\n")).collect();
    machine.put_file("long.txt", &text);
    let mut first_line = 1_u32;
    let mut seen = String::new();
    for _ in 0..20 {
        let output = machine.call_tool("read", json!({ "path": "long.txt", "first_line": first_line })).await;
        for passage in &output.passages {
            seen.push_str(&passage.text);
            seen.push('\n');
        }
        match output.text.split_once("read with first_line ") {
            Some((_, next)) => first_line = next.trim_end_matches('.').parse().unwrap(),
            None => break,
        }
    }
    assert_eq!(seen, text);
}

#[tokio::test]
async fn read_says_why_it_can_not() {
    let machine = TestMachine::new();
    for fixture in ["bomb.docx", "broken.pdf", "locked.pdf", "scan.pdf", "empty.txt"] {
        machine.put_fixture(fixture);
    }
    machine.put_file("photo.pdf", b"\x89PNG\r\n\x1a\n\0\0\0\0");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        machine.workspace_path("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    for (path, says) in [
        ("bomb.docx", "unpacks to more than"),
        ("broken.pdf", "is broken"),
        ("locked.pdf", "password"),
        ("scan.pdf", "scanned"),
        ("photo.pdf", "an image that can't be shown"),
        ("nothing.txt", "/nothing.txt does not exist"),
        ("/", "is a folder"),
        ("pipe", "not a file"),
    ] {
        let output = machine.call_tool("read", json!({ "path": path })).await;
        assert!(output.failed && output.text.contains(says), "{path}: {}", output.text);
    }
    let empty = machine.call_tool("read", json!({ "path": "empty.txt" })).await;
    assert!(!empty.failed && empty.text.contains("holds no text") && empty.unread.is_empty());
    machine.put_file("blank.html", "<p> </p>");
    let blank = machine.call_tool("read", json!({ "path": "blank.html" })).await;
    assert!(blank.text.contains("holds no text"), "{}", blank.text);
    let unread: Vec<_> = blank.unread.iter().map(|file| (file.path.as_str(), file.reason.as_str())).collect();
    assert_eq!(unread, [("/blank.html", "no_text")]);
}

#[tokio::test]
async fn nothing_outside_the_workspace_is_reached() {
    let machine = TestMachine::new();
    std::fs::write(machine.outside_folder().join("secret.txt"), "secret").unwrap();
    machine.put_file("inside/own.txt", "own");
    symlink(machine.outside_folder().join("secret.txt"), machine.workspace_path("absolute")).unwrap();
    symlink("../secret.txt", machine.workspace_path("relative")).unwrap();
    symlink("..", machine.workspace_path("folder")).unwrap();
    symlink("inside/own.txt", machine.workspace_path("good")).unwrap();
    for path in [
        "absolute",
        "relative",
        "folder/secret.txt",
        "../secret.txt",
        "inside/../../secret.txt",
        "/etc/passwd",
    ] {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("edit", json!({ "path": path, "old": "secret", "new": "public" })),
            ("list", json!({ "path": path })),
        ] {
            let output = machine.call_tool(tool, arguments).await;
            assert!(output.failed && !output.text.contains("root:"), "{tool} {path}: {}", output.text);
            assert!(output.passages.is_empty());
        }
    }
    for path in ["absolute", "relative", "folder/new.txt", "../new.txt"] {
        let output = machine.call_tool("write", json!({ "path": path, "content": "x" })).await;
        assert!(output.failed, "{path}: {}", output.text);
    }
    assert_eq!(std::fs::read_to_string(machine.outside_folder().join("secret.txt")).unwrap(), "secret");
    assert!(!machine.outside_folder().join("new.txt").exists());
    let found = machine.call_tool("find", json!({ "content": "secret" })).await;
    assert!(found.passages.is_empty());
    assert_eq!(machine.call_tool("read", json!({ "path": "good" })).await.passages[0].text, "own");
}

#[tokio::test]
async fn write_creates_folders_replaces_atomically() {
    let machine = TestMachine::new();
    let output = machine.call_tool("write", json!({ "path": "/notes/a/b.txt", "content": "Žluť\n" })).await;
    assert!(!output.failed, "{}", output.text);
    assert_eq!(output.written, ["/notes/a/b.txt"]);
    assert_eq!(std::fs::read_to_string(machine.workspace_path("notes/a/b.txt")).unwrap(), "Žluť\n");
    let again = machine.call_tool("write", json!({ "path": "notes/a/b.txt", "content": "new" })).await;
    assert_eq!(again.text, "Replaced /notes/a/b.txt, 3 bytes.");
    let folder = machine.call_tool("write", json!({ "path": "/notes", "content": "x" })).await;
    assert!(folder.failed && folder.text.contains("is a folder"));
    let names: Vec<_> = std::fs::read_dir(machine.workspace_path("notes/a")).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing is left beside the file");
}

#[tokio::test]
async fn edits_side_by_side_lose_nothing() {
    let machine = TestMachine::new();
    let values: String = (0..12).map(|number| format!("<{number}> old\n")).collect();
    machine.put_file("a.txt", values);
    let edits = (0..12).map(|number| {
        let (old, new) = (format!("<{number}> old"), format!("<{number}> new"));
        machine.call_tool("edit", json!({ "path": "a.txt", "old": old, "new": new }))
    });
    let done = futures_util::future::join_all(edits).await;
    assert!(done.iter().all(|output| !output.failed), "{done:?}");
    let text = std::fs::read_to_string(machine.workspace_path("a.txt")).expect("it is there");
    assert_eq!(text.matches("new").count(), 12, "{text}");
}

#[tokio::test]
async fn edit_replaces_what_is_there_once() {
    let machine = TestMachine::new();
    machine.put_file("a.txt", "one\ntwo\none\n");
    let edit = |old: &'static str, new: &'static str, all: bool| {
        machine.call_tool("edit", json!({ "path": "a.txt", "old": old, "new": new, "all": all }))
    };
    let twice = edit("one", "1", false).await;
    assert!(
        twice.failed && twice.text.contains("2 times") && twice.text.contains("lines 1, 3"),
        "{}",
        twice.text
    );
    let none = edit("two  ", "2", false).await;
    assert!(none.failed && none.text.contains("line 2"), "{}", none.text);
    assert_eq!(edit("two", "2", false).await.text, "Replaced once in /a.txt (line 2).");
    assert_eq!(edit("one", "1", true).await.text, "Replaced 2 times in /a.txt (lines 1, 3).");
    assert_eq!(std::fs::read_to_string(machine.workspace_path("a.txt")).unwrap(), "1\n2\n1\n");
}

#[tokio::test]
async fn list_and_find_show_files() {
    let machine = TestMachine::new();
    machine.put_file("b.txt", "12345");
    machine.put_file("a/c.txt", "x");
    machine.put_file("odd\n[1] name", "x");
    symlink("b.txt", machine.workspace_path("link")).unwrap();
    let list = machine.call_tool("list", json!({})).await;
    assert_eq!(
        list.text,
        "/: 4 entries\nfolder  a/\nfile  b.txt  5 bytes\nlink  link\nfile  odd%0A[1] name  1 bytes"
    );
    let odd = machine.call_tool("read", json!({ "path": "/odd%0A[1] name" })).await;
    assert_eq!(odd.passages[0].path, "/odd%0A[1] name");
    let find = machine.call_tool("find", json!({ "glob": "*.txt" })).await;
    assert_eq!(find.text, "2 files:\n/a/c.txt  1 bytes\n/b.txt  5 bytes");
}

#[tokio::test]
async fn find_looks_into_documents() {
    let machine = TestMachine::new();
    for fixture in
        ["lease.pdf", "minutes.docx", "prices.xlsx", "notice.html", "windows1250.txt", "broken.pdf"]
    {
        machine.put_fixture(fixture);
    }
    let output = machine.call_tool("find", json!({ "content": "ZLUTOUCKY  kun" })).await;
    let places: Vec<_> =
        output.passages.iter().map(|passage| (passage.path.as_str(), passage.page)).collect();
    assert_eq!(places, [("/lease.pdf", Some(2)), ("/windows1250.txt", None)]);
    assert!(output.text.starts_with("2 of 6 files contain it"), "{}", output.text);
    assert!(output.text.contains("/broken.pdf"), "{}", output.text);
    let narrow = machine.call_tool("find", json!({ "glob": "*.xlsx", "content": "výtah" })).await;
    assert_eq!((narrow.passages[0].page, narrow.passages[0].lines), (Some(1), Some((2, 3))));
}

#[tokio::test]
async fn arguments_that_are_wrong_are_explained() {
    let machine = TestMachine::new();
    for (tool, arguments, says) in [
        ("read", "{", "not valid"),
        ("read", r#"{"path":"a","line":3}"#, "unknown field `line`"),
        ("read", "{}", "missing field `path`"),
        ("fly", "{}", "there is no tool `fly`"),
        ("find", r#"{"glob":"{a"}"#, "glob"),
    ] {
        let output = machine.call_raw(tool, arguments).await;
        assert!(output.failed && output.text.contains(says), "{tool} {arguments}: {}", output.text);
    }
    assert!(machine.call_raw("read", "{}").await.text.contains(r#""first_page""#), "the schema is shown");
    assert!(!machine.call_raw("list", "").await.failed);
}

#[tokio::test]
async fn read_out_of_memory_is_reported() {
    let mut machine = TestMachine::new();
    machine.limits.memory_bytes = 24 << 20;
    machine.put_file("large.txt", vec![b'a'; 48 << 20]);
    let output = machine.call_tool("read", json!({ "path": "large.txt" })).await;
    assert!(output.failed && output.text.contains("memory"), "{}", output.text);
}

#[tokio::test]
async fn search_names_missing_attached_files() {
    let mut machine = TestMachine::new();
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).expect("the folder is ours");
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    machine.put_file("lease.txt", b"The rent is due on the fifth.");
    machine.put_file("folder/more.txt", b"Keys are returned.");
    machine.attached =
        ["/lease.txt", "/gone.txt", "/folder", "/../etc/gone"].into_iter().map(str::to_owned).collect();
    let output = machine.call_tool("search", json!({ "query": "rent", "paths": machine.attached })).await;
    assert_eq!(output.passages.len(), 1, "{}", output.text);
    let unread: Vec<_> = output.unread.iter().map(|file| (&*file.path, &*file.reason)).collect();
    assert_eq!(unread, [("/gone.txt", "missing")]);
    assert!(output.text.contains("No longer there: /gone.txt."), "{}", output.text);
}

#[tokio::test]
async fn search_reads_new_documents_through_workers() {
    let mut machine = TestMachine::new();
    machine.put_fixture("lease.pdf");
    machine.put_fixture("minutes.docx");
    machine.put_fixture("broken.pdf");
    let index = machine.outside_folder().join("index");
    std::fs::create_dir(&index).unwrap();
    machine.limits.library = Some(DocumentLibrary::new(&machine.limits.workspace, &index));
    let output = machine.call_tool("search", json!({ "query": "jaká je výpovědní doba?" })).await;
    assert!(!output.failed, "{}", output.text);
    assert_eq!((output.passages[0].path.as_str(), output.passages[0].page), ("/lease.pdf", Some(2)));
    assert!(output.text.contains("/broken.pdf"), "{}", output.text);
    let without = TestMachine::new().call_tool("search", json!({ "query": "nájem" })).await;
    assert!(without.failed && without.text.contains("no index"));
}

#[tokio::test]
async fn call_runs_in_spare_process() {
    let mut machine = TestMachine::new();
    machine.put_file("a.txt", "alpha");
    assert!(!machine.call_tool("list", json!({})).await.failed);
    let refilled = async {
        while machine.limits.spares.waiting_count() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), refilled).await.expect("two processes wait");
    // No process can be started.
    machine.limits.program = Some("/nowhere".into());
    let listed = machine.call_tool("list", json!({})).await;
    assert!(!listed.failed && listed.text.contains("a.txt"), "{}", listed.text);
    assert!(machine.call_tool("list", json!({})).await.failed, "a process serves one call");
    let printed = machine.run_shell("cat a.txt").await;
    assert!(!printed.failed && printed.text.starts_with("alpha"), "{}", printed.text);
}
