//! Plugins as found in practice, broken ones, and malicious ones.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use domain::id::{AgentId, SkillId};
use plugins::{DEFAULT_AGENT, Lookup, PluginLibrary, fingerprint_folders, read_one, read_plugins};
use serde_json::Value;
use tempfile::TempDir;

fn write_file(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

fn skill_text(name: &str, description: &str) -> String {
    format!("---\nname: {name}\ndescription: {description}\n---\n\n# {name}\n\nDo it.\n")
}

fn create_folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write_file(folder.path(), path, text);
    }
    folder
}

fn skill_names(library: &PluginLibrary) -> Vec<&str> {
    library.skills.iter().map(|skill| skill.name.full_name.as_str()).collect()
}

fn skipped_notices(library: &PluginLibrary) -> Vec<String> {
    library.notices.iter().filter(|notice| notice.skipped).map(ToString::to_string).collect()
}

#[test]
fn what_is_built_in_is_whole() {
    let library = read_plugins(&[]);
    assert_eq!(library.notices, []);
    assert!((3..=5).contains(&library.skills.len()), "{:?}", skill_names(&library));
    assert!(library.agents.iter().any(|agent| agent.full_name == DEFAULT_AGENT));
    for skill in &library.skills {
        assert!(skill.description.len() > 100 && skill.description.contains("Use it when"), "{skill:?}");
        assert!(skill.instructions.len() > 500 && !skill.instructions.contains("${"), "{skill:?}");
        assert!(skill.description.chars().count() <= 1024, "the layout's own bound");
    }
}

/// Notices are shown on the operator's terminal and in the log, one per line.
#[test]
fn notices_carry_no_control_characters() {
    let market = r#"{"plugins": [{"name": "a\nb\u001b[2J", "source": "./no\u0007where\u2028"}]}"#;
    let root = create_folder(&[(".claude-plugin/marketplace.json", market)]);
    let library = read_one(root.path());
    let notices = skipped_notices(&library).join("");
    assert!(notices.contains("does not exist") && notices.contains("where"), "{notices:?}");
    assert!(!notices.contains(|letter: char| letter.is_control() || letter == '\u{2028}'), "{notices:?}");
}

#[test]
fn plugin_items_have_full_names() {
    let root = create_folder(&[
        ("legal/.claude-plugin/plugin.json", "{\"name\": \"contracts\", \"version\": \"1\"}"),
        ("legal/skills/review/SKILL.md", &skill_text("review", "Reviews: everything")),
        ("legal/skills/review/references/list.md", "x"),
        (
            "legal/agents/clerk.md",
            "---\nname: Clerk\ndescription: Files things\ntools: Read, Bash\nmodel: inherit\n---\nFile it.",
        ),
    ]);
    let library = read_plugins(&[root.path().to_owned()]);
    let Lookup::Found(review) = library.find_skill("contracts:review") else {
        panic!("{:?}", skill_names(&library))
    };
    assert_eq!((review.name.name.as_str(), review.description.as_str()), ("review", "Reviews: everything"));
    assert_eq!(review.name.id, SkillId::from_full_name("contracts:review"));
    assert_eq!(review.files, ["references/list.md"]);
    assert_eq!(review.machine_folder(), "/plugins/contracts/skills/review");
    assert!(review.instructions.starts_with("# review"));
    let Lookup::Found(clerk) = library.find_agent("Clerk") else { panic!("{:?}", library.agents) };
    assert_eq!((clerk.full_name.as_str(), clerk.model.as_deref()), ("contracts:clerk", None));
    assert_eq!(clerk.tools.as_deref().unwrap(), ["Read", "Bash"]);
    assert_eq!(clerk.id, AgentId::from_full_name("contracts:clerk"));
    assert_eq!(skipped_notices(&library), [""; 0]);
}

#[test]
fn unknown_tool_names_are_only_noted() {
    let root = create_folder(&[
        (
            "odd/skills/review/SKILL.md",
            "---\nname: review\ndescription: Reviews\nallowed-tools: Read, Bash(git add:*, npm *) Scribe\n---\nDo it.",
        ),
        (
            "odd/skills/list/SKILL.md",
            "---\nname: list\ndescription: Lists\nallowed-tools:\n  - Grep\n  - mcp__x__y\n---\nDo it.",
        ),
        ("odd/agents/clerk.md", "---\nname: clerk\ndescription: Files\ntools: Scribe\n---\nFile it."),
    ]);
    let library = read_plugins(&[root.path().to_owned()]);
    let Lookup::Found(review) = library.find_skill("odd:review") else {
        panic!("{:?}", skill_names(&library))
    };
    assert_eq!(review.tools, ["Read", "Bash(git add:*, npm *)", "Scribe"]);
    let actual: Vec<_> = library.notices.iter().map(|notice| (notice.line, notice.text.as_str())).collect();
    let expected = [
        (Some(4), "allowed-tools lists unknown tools: \"Scribe\""),
        (Some(4), "tools lists unknown tools: \"Scribe\""),
    ];
    assert_eq!(actual, expected);
    assert!(
        library.notices.iter().all(|notice| !notice.skipped)
            && library.agents.iter().any(|a| a.name == "clerk")
    );
}

/// Reads every file in the guide: a path on its own line, then the content between fences.
#[test]
fn guide_examples_form_valid_plugin() {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md")).unwrap();
    let root = tempfile::tempdir().unwrap();
    for (before, after) in guide.match_indices("`:\n\n```").map(|(at, _)| guide.split_at(at)) {
        let path = before.rsplit('`').next().unwrap();
        let content = after.splitn(4, '\n').nth(3).unwrap().split("\n```").next().unwrap();
        write_file(root.path(), path, &format!("{content}\n"));
    }
    let library = read_one(&root.path().join("legal"));
    assert_eq!(library.notices, []);
    assert_eq!(skill_names(&library), ["legal:notice-letter"]);
    assert_eq!(library.skills[0].files, ["references/letter.md"]);
    assert!(library.skills[0].instructions.contains("Cite the clause"));
    assert_eq!(library.agents.len(), 1);
    assert_eq!(library.agents[0].tools.as_deref().unwrap(), ["Read", "Grep", "Glob"]);
    let [server] = library.servers.as_slice() else { panic!("one server: {:?}", library.servers) };
    assert_eq!((server.spec.name.as_str(), server.spec.command.as_str()), ("deadlines", "python3"));
    assert_eq!(server.spec.args, ["/plugins/legal/servers/deadlines.py"]);
    assert!(root.path().join("legal/servers/deadlines.py").is_file());
}

/// Runs the guide's MCP server as the guide describes it.
#[test]
fn guide_server_speaks_mcp() {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plugins.md")).unwrap();
    let program = guide.split_once("```python\n").unwrap().1.split_once("\n```").unwrap().0;
    let asks = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"add_days","arguments":{"date":"2026-02-27","days":3}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"add_days","arguments":{"date":"soon","days":3}}}"#,
        r#"{"jsonrpc":"2.0","id":5,"method":"nothing/like/it"}"#,
    ];
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(format!("{}\n", asks.join("\n")).as_bytes()).unwrap();
    let replies = child.wait_with_output().unwrap();
    let replies: Vec<Value> = replies
        .stdout
        .split(|byte| *byte == b'\n')
        .filter_map(|line| serde_json::from_slice(line).ok())
        .collect();
    assert_eq!(replies.len(), 5, "{replies:?}");
    assert_eq!(replies[0]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(replies[1]["result"]["tools"][0]["name"], "add_days");
    assert_eq!(replies[2]["result"]["content"][0]["text"], "2026-03-02");
    assert_eq!(replies[3]["result"]["isError"], true);
    assert_eq!(replies[4]["error"]["code"], -32601);
}

#[test]
fn servers_are_read_in_every_form() {
    let bare = r#"{"bare": {"command": "./bare.sh", "args": ["${CLAUDE_PLUGIN_ROOT}/x", "${PORT:-80}"],
        "env": {"LEVEL": "${LEVEL:-info}", "ROOT": "${CLAUDE_PLUGIN_ROOT}"}, "cwd": "work"}}"#;
    let inline = r#"{"name": "inline", "mcpServers": {"In_Line": {"type": "stdio", "command": "python3",
        "tools": ["look_up", "file"], "read_only": ["look_up"]}}}"#;
    let root = create_folder(&[
        ("bare/.mcp.json", bare),
        ("inline/.claude-plugin/plugin.json", inline),
        (
            "path/.claude-plugin/plugin.json",
            r#"{"name": "path", "mcpServers": ["./servers.json", "./.mcp.json"]}"#,
        ),
        ("path/servers.json", r#"{"mcpServers": {"one": {"command": "one"}}}"#),
        ("path/.mcp.json", r#"{"mcpServers": {"two": {"command": "two"}, "bare": {"command": "other"}}}"#),
    ]);
    let library = read_one(root.path());
    let named: Vec<(&str, &str)> =
        library.servers.iter().map(|server| (server.plugin.as_str(), server.spec.name.as_str())).collect();
    assert_eq!(named, [("bare", "bare"), ("inline", "in-line"), ("path", "two"), ("path", "one")]);
    let bare = &library.servers[0].spec;
    assert_eq!((bare.command.as_str(), bare.folder.as_str()), ("./bare.sh", "/plugins/bare/work"));
    assert_eq!(bare.args, ["/plugins/bare/x", "80"]);
    assert_eq!(bare.env["LEVEL"], "info");
    assert_eq!(bare.env["ROOT"], "/plugins/bare");
    assert_eq!(library.servers[1].spec.folder, "/workspace");
    assert!(library.is_repeatable("in-line__look_up") && !library.is_repeatable("in-line__file"));
    assert!(!library.is_repeatable("other__look_up") && !library.is_repeatable("look_up"));
    let notices = skipped_notices(&library);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("duplicate MCP server bare: the first one is used"), "{notices:?}");
}

#[test]
fn invalid_servers_report_file_and_line() {
    let file = r#"{
  "mcpServers": {
    "fine": {"command": "fine"},
    "none": {},
    "number": {
      "command": "x",
      "args": [7]
    },
    "secret": {
      "command": "x",
      "env": {"KEY": "${REGISTRY_KEY}"}
    },
    "far": {"type": "http", "url": "https://example.org/mcp"},
    "off": {"command": "x", "disabled": true},
    "odd": {"command": "npx", "timeout": 5},
    "č": {"command": "x"}
  }
}"#;
    let root = create_folder(&[
        ("p/.mcp.json", file),
        ("q/.mcp.json", "{\n \"a\": x}"),
        ("r/.mcp.json", "[]"),
        ("s/.claude-plugin/plugin.json", "{\n \"name\": \"s\",\n \"mcpServers\": {\"a\": 7}}"),
        ("t/.claude-plugin/plugin.json", r#"{"name": "t", "mcpServers": "../outside.json"}"#),
    ]);
    let library = read_one(root.path());
    let servers: Vec<&str> = library.servers.iter().map(|server| server.spec.name.as_str()).collect();
    assert_eq!(servers, ["fine", "odd"]);
    for (expected, is_left_out) in [
        ("p/.mcp.json:4: the server none: the start command is missing", true),
        ("p/.mcp.json:7: the server number: args contains values that are not texts", true),
        ("p/.mcp.json:11: the server secret: REGISTRY_KEY is not set in machines", true),
        ("p/.mcp.json:13: the server far: it is skipped: only operators may grant servers over HTTP", false),
        ("p/.mcp.json:14: the server off: it is disabled", false),
        ("p/.mcp.json:15: the server odd: timeout is ignored", false),
        ("p/.mcp.json:15: the server odd: npx downloads what it runs", false),
        ("p/.mcp.json:16: the server č: invalid name", true),
        ("q/.mcp.json:2: it is not valid JSON", true),
        ("r/.mcp.json:1: it is not a JSON object", true),
        ("s/.claude-plugin/plugin.json:3: the server a: it is not a JSON object", true),
        ("is outside the plugin", true),
    ] {
        let found = library.notices.iter().find(|notice| notice.to_string().contains(expected));
        assert_eq!(
            found.map(|notice| notice.skipped),
            Some(is_left_out),
            "{expected}: {:?}",
            library.notices
        );
    }
}

#[test]
fn published_server_has_a_version() {
    let root = create_folder(&[
        ("p/.mcp.json", r#"{"registry": {"command": "${CLAUDE_PLUGIN_ROOT}/servers/registry.py"}}"#),
        ("p/servers/registry.py", "print(1)\n"),
        ("p/skills/good/SKILL.md", &skill_text("good", "Good")),
    ]);
    let shelf = tempfile::tempdir().unwrap();
    let place = shelf.path().join("plugins");
    let publish = || {
        let mut library = read_plugins(&[root.path().to_owned()]);
        library.publish_skills(&place).unwrap();
        library.servers[0].spec.version.clone()
    };
    let first = publish();
    assert_eq!(fs::read_to_string(place.join("p/servers/registry.py")).unwrap(), "print(1)\n");
    assert!(place.join("p/skills/good/SKILL.md").is_file() && !place.join("p/.mcp.json").exists());
    let published = || -> protocol::mcp::McpServersFile {
        serde_json::from_slice(&fs::read(place.join(protocol::mcp::SERVERS_FILE)).unwrap()).unwrap()
    };
    assert_eq!((published().servers.len(), published().servers[0].version.clone()), (1, first.clone()));
    assert_eq!(fs::metadata(place.join(".servers.json")).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(publish(), first, "what is the same stays");
    fs::write(root.path().join("p/servers/registry.py"), "print(2)\n").unwrap();
    let second = publish();
    assert_ne!(second, first, "its files are part of it");
    fs::write(root.path().join("p/.mcp.json"), r#"{"registry": {"command": "other"}}"#).unwrap();
    assert_ne!(publish(), second, "so is how it is started");
    fs::remove_dir_all(root.path().join("p")).unwrap();
    read_plugins(&[root.path().to_owned()]).publish_skills(&place).unwrap();
    assert_eq!(published(), protocol::mcp::McpServersFile::default());
}

#[test]
fn lookup_prefers_identifier_then_full_name() {
    let root = create_folder(&[
        ("a/skills/review/SKILL.md", &skill_text("review", "One")),
        ("b/skills/review/SKILL.md", &skill_text("review", "Two")),
        ("b/skills/only/SKILL.md", &skill_text("a:review", "A name that looks like a full one")),
    ]);
    let library = read_plugins(&[root.path().to_owned()]);
    let found = |word: &str| match library.find_skill(word) {
        Lookup::Found(skill) => Ok(skill.name.full_name.clone()),
        Lookup::Unknown => Err(Vec::new()),
        Lookup::Ambiguous(names) => Err(names),
    };
    assert_eq!(found(&SkillId::from_full_name("b:review").to_string()).unwrap(), "b:review");
    assert_eq!(found("a:review").unwrap(), "a:review");
    assert_eq!(found("contract-review").unwrap(), "causerie:contract-review");
    assert_eq!(found("review").unwrap_err(), ["a:review", "b:review"]);
    assert_eq!(found("nothing").unwrap_err(), [""; 0]);
}

#[test]
fn each_folder_shape_is_found() {
    let market = "{\"name\": \"m\", \"plugins\": [
        {\"name\": \"office\", \"source\": \"./\", \"strict\": false, \"skills\": [\"./skills/sheet\", \"./more/deck\"]},
        {\"name\": \"kit\", \"source\": \"./kits/one\"},
        {\"name\": \"far\", \"source\": {\"source\": \"github\", \"repo\": \"a/b\"}},
        {\"name\": \"up\", \"source\": \"../elsewhere\"}]}";
    let root = create_folder(&[
        (".claude-plugin/marketplace.json", market),
        ("skills/sheet/SKILL.md", &skill_text("sheet", "Sheets")),
        ("skills/other/SKILL.md", &skill_text("other", "Not listed")),
        ("more/deck/SKILL.md", &skill_text("deck", "Decks")),
        (
            "kits/one/.claude-plugin/plugin.json",
            "{\"name\": \"kit\", \"skills\": \"./extra\", \"hooks\": \"./h.json\"}",
        ),
        ("kits/one/skills/a/SKILL.md", &skill_text("a", "A")),
        ("kits/one/extra/b/SKILL.md", &skill_text("b", "B")),
    ]);
    let library = read_one(root.path());
    assert_eq!(skill_names(&library), ["kit:a", "kit:b", "office:deck", "office:sheet"]);
    let notices = skipped_notices(&library);
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("up"), "{notices:?}");
    let noted =
        |part: &str| library.notices.iter().any(|notice| !notice.skipped && notice.text.contains(part));
    assert!(noted("far: it is not loaded, because its source is on another server"), "{:?}", library.notices);
    assert!(
        library.notices.iter().any(|notice| !notice.skipped && notice.text.contains("hooks are not run"))
    );
    let alone = create_folder(&[("SKILL.md", &skill_text("alone", "Alone"))]);
    let name = alone.path().join("SKILL.md");
    assert!(name.exists());
    let many = create_folder(&[("solo/SKILL.md", &skill_text("solo", "Solo"))]);
    assert_eq!(skill_names(&read_one(many.path())), ["solo:solo"]);
}

#[test]
fn broken_entries_report_file_and_line() {
    let root = create_folder(&[
        ("p/skills/good/SKILL.md", &skill_text("good", "Good")),
        ("p/skills/none/SKILL.md", "---\nname: none\n---\n# Only a title\n"),
        ("p/skills/open/SKILL.md", "---\nname: open\ndescription: x\n"),
        ("p/skills/nul/SKILL.md", "---\ndescription: a\0b\n---\n"),
        ("p/skills/empty/readme.txt", ""),
        ("p/skills/bad name/SKILL.md", &skill_text("x", "X")),
        ("p/skills/named/SKILL.md", &skill_text("otherwise", "Otherwise")),
        ("q/.claude-plugin/plugin.json", "{\n\"name\": \"q\",\n oops\n}"),
        ("r/.claude-plugin/plugin.json", "{\"name\": \"../r\"}"),
        ("r/skills/x/SKILL.md", &skill_text("x", "X")),
    ]);
    let library = read_one(root.path());
    assert_eq!(skill_names(&library), ["p:good", "p:named"]);
    let notices = skipped_notices(&library);
    for part in [
        "p/skills/none/SKILL.md:1: description is missing",
        "p/skills/open/SKILL.md:1: the frontmatter has no end",
        "p/skills/nul/SKILL.md: it is not UTF-8 text",
        "p/skills/bad name: invalid skill name \"bad name\"",
        "q/.claude-plugin/plugin.json:3: it is not valid JSON",
        "r: invalid plugin name \"../r\"",
    ] {
        assert!(notices.iter().any(|notice| notice.contains(part)), "{part} in {notices:#?}");
    }
    assert_eq!(notices.len(), 6, "{notices:#?}");
    assert!(library.notices.iter().any(|notice| notice.file.ends_with("empty") && !notice.skipped));
    let named = library.notices.iter().find(|notice| notice.file.contains("named")).unwrap();
    assert_eq!((named.line, named.skipped), (Some(2), false));
}

#[test]
fn nothing_outside_is_read() {
    let outside =
        create_folder(&[("secret/SKILL.md", &skill_text("secret", "Secret")), ("secret.md", "a secret")]);
    let root = create_folder(&[("p/skills/good/SKILL.md", &skill_text("good", "Good"))]);
    let inside = |path: &str| root.path().join(path);
    symlink(outside.path().join("secret"), inside("p/skills/linked")).unwrap();
    symlink(outside.path().join("secret.md"), inside("p/skills/good/linked.md")).unwrap();
    symlink("../../../..", inside("p/skills/good/up")).unwrap();
    symlink(".", inside("p/skills/good/loop")).unwrap();
    symlink("SKILL.md", inside("p/skills/good/again.md")).unwrap();
    symlink("nowhere", inside("p/skills/good/broken")).unwrap();
    let mut library = read_one(root.path());
    assert_eq!(skill_names(&library), [""; 0], "a folder without an end is no skill");
    fs::remove_file(inside("p/skills/good/loop")).unwrap();
    library = read_one(root.path());
    assert_eq!(skill_names(&library), ["p:good"]);
    assert_eq!(library.skills[0].files, ["again.md"], "a link to a file beside it is that file");
    assert!(
        skipped_notices(&library).iter().any(|notice| notice.contains("outside the folder")),
        "{:?}",
        library.notices
    );
    let shelf = tempfile::tempdir().unwrap();
    library.publish_skills(shelf.path()).unwrap();
    assert!(!all_below(shelf.path()).iter().any(|text| text.contains("secret")));
}

/// Returns paths and contents below a folder; follows links.
fn all_below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(all_below(&path));
        } else {
            found.push(format!("{}\n{}", path.display(), fs::read_to_string(&path).unwrap_or_default()));
        }
    }
    found
}

#[test]
fn greed_is_bounded() {
    let root = create_folder(&[("p/skills/good/SKILL.md", &skill_text("good", "Good"))]);
    let huge = |path: &str, bytes: u64| {
        let place = root.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::File::create(place).unwrap().set_len(bytes).unwrap();
    };
    huge("p/skills/huge/SKILL.md", 1 << 40);
    huge("p/skills/good/huge.bin", 1 << 40);
    huge("q/.claude-plugin/plugin.json", 1 << 40);
    let mut deep = "p/skills/deep".to_owned();
    write_file(root.path(), &format!("{deep}/SKILL.md"), &skill_text("deep", "Deep"));
    for _ in 0..50 {
        deep.push_str("/d");
    }
    write_file(root.path(), &format!("{deep}/x"), "");
    write_file(root.path(), "p/skills/many/SKILL.md", &skill_text("many", "Many"));
    for file in 0..1100 {
        write_file(root.path(), &format!("p/skills/many/f{file}"), "");
    }
    let nested = format!("{{\"name\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    write_file(root.path(), "n/.claude-plugin/plugin.json", &nested);
    let long = "long ".repeat(10_000);
    write_file(root.path(), "p/skills/long/SKILL.md", &skill_text("long", &long));
    write_file(
        root.path(),
        "p/skills/wordy/SKILL.md",
        &format!("{}{}", skill_text("wordy", "Wordy"), "žluť ".repeat(30_000)),
    );
    let started = Instant::now();
    let library = read_one(root.path());
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    assert_eq!(skill_names(&library), ["p:good", "p:long", "p:wordy"]);
    assert!(library.skills[0].files.is_empty(), "the file is too long");
    assert_eq!(library.skills[1].description.chars().count(), plugins::DESCRIPTION_MAX_CHARS);
    assert!(library.skills[2].instructions.len() < plugins::INSTRUCTIONS_MAX_BYTES + 100);
    assert_eq!(skipped_notices(&library).len(), 6, "{:#?}", skipped_notices(&library));
}

#[test]
fn a_pipe_is_not_waited_for() {
    let root = create_folder(&[("p/skills/good/SKILL.md", &skill_text("good", "Good"))]);
    fs::create_dir(root.path().join("p/skills/pipe")).unwrap();
    for path in ["p/skills/pipe/SKILL.md", "p/skills/good/pipe"] {
        let made = Command::new("mkfifo").arg(root.path().join(path)).status();
        assert!(made.unwrap().success());
    }
    let library = read_one(root.path());
    assert_eq!((skill_names(&library), library.skills[0].files.len()), (vec!["p:good"], 0));
}

#[test]
fn publish_replaces_files_in_one_step() {
    let root = create_folder(&[
        ("p/skills/good/SKILL.md", &skill_text("good", "Good")),
        ("p/skills/good/scripts/run.sh", "#!/bin/sh\necho one\n"),
        ("p/secret.txt", "not a skill's"),
        ("gone/skills/x/SKILL.md", &skill_text("x", "X")),
    ]);
    let script = root.path().join("p/skills/good/scripts/run.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let shelf = tempfile::tempdir().unwrap();
    let place = shelf.path().join("plugins");
    let folders = [root.path().to_owned()];
    read_plugins(&folders).publish_skills(&place).unwrap();
    let laid = place.join("p/skills/good/scripts/run.sh");
    assert_eq!(fs::read_to_string(&laid).unwrap(), "#!/bin/sh\necho one\n");
    assert_eq!(fs::metadata(&laid).unwrap().permissions().mode() & 0o777, 0o755, "everybody may run it");
    assert_eq!(fs::metadata(place.join("p/skills")).unwrap().permissions().mode() & 0o777, 0o755);
    assert!(place.join("causerie/skills/contract-review/references/checklist.md").is_file());
    assert!(!all_below(&place).iter().any(|text| text.contains("not a skill's")));
    let before = fs::read_link(place.join("p")).unwrap();
    for folder in [&place, &place.join(".content")] {
        fs::File::open(folder).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    read_plugins(&folders).publish_skills(&place).unwrap();
    assert_eq!(fs::read_link(place.join("p")).unwrap(), before, "what is the same stays");
    for folder in [&place, &place.join(".content")] {
        let changed = fs::metadata(folder).unwrap().modified().unwrap();
        assert_eq!(changed, std::time::UNIX_EPOCH, "nothing is written that is there already");
    }
    fs::write(&laid, "").unwrap();
    read_plugins(&folders).publish_skills(&place).unwrap();
    assert_eq!(
        fs::read_to_string(&laid).unwrap(),
        "#!/bin/sh\necho one\n",
        "what a loss of power took is written again"
    );
    let was = fingerprint_folders(&folders);
    assert_eq!(fingerprint_folders(&folders), was);
    fs::write(&script, "#!/bin/sh\necho two\n").unwrap();
    fs::remove_dir_all(root.path().join("gone")).unwrap();
    assert_ne!(fingerprint_folders(&folders), was);
    read_plugins(&folders).publish_skills(&place).unwrap();
    assert!(fs::read_to_string(&laid).unwrap().contains("two"));
    assert!(!place.join("gone").exists() && !place.join(&before).exists(), "what is gone is cleared away");
}
