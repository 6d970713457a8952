//! Plugins of the standard Agent Plugins 1.0.0, and carelessly written skills.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use plugins::{PluginLibrary, read_one};
use tempfile::TempDir;

const MANIFEST: &str =
    r#""$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json", "name": "reports""#;
const SERVERS: &str = r#""$schema": "https://agent-plugins.org/schemas/1.0.0/mcp.schema.json""#;

fn write_file(root: &Path, path: &str, text: &[u8]) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    fs::write(place, text).unwrap();
}

fn create_folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in files {
        write_file(folder.path(), path, text.as_bytes());
    }
    folder
}

fn skill_text(name: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\nDo it.\n")
}

fn skill_names(library: &PluginLibrary) -> Vec<&str> {
    library.skills.iter().map(|skill| skill.name.full_name.as_str()).collect()
}

fn list_notices(library: &PluginLibrary, skipped: bool) -> Vec<String> {
    library.notices.iter().filter(|notice| notice.skipped == skipped).map(ToString::to_string).collect()
}

#[test]
fn standard_plugin_brings_skills_and_servers() {
    let servers = format!(
        r#"{{{SERVERS}, "mcpServers": {{
        "validator": {{"type": "stdio", "command": "./bin/validator", "args": ["--data", "${{PLUGIN_DATA}}/v", "${{HOME}}"],
            "env": {{"CONFIG": "${{PLUGIN_ROOT}}/config.json"}}}},
        "kept": {{"type": "stdio", "command": "sh", "cwd": "${{PLUGIN_DATA}}/kept"}},
        "here": {{"type": "stdio", "command": "sh", "cwd": "./bin"}},
        "far": {{"type": "streamable-http", "url": "https://deploy.example.com/mcp", "headers": {{"X-Tenant": "t"}}}}}}}}"#
    );
    let root = create_folder(&[
        ("plugin.json", &format!("{{{MANIFEST}, \"extensions\": {{\"com.example\": {{\"a\": 1}}}}}}")),
        // The root's manifest counts, and so do the places that it fixes.
        (".claude-plugin/plugin.json", r#"{"name": "older", "skills": "./more"}"#),
        (".mcp.json", r#"{"old": {"command": "old"}}"#),
        ("mcp.json", &servers),
        ("bin/validator", "#!/bin/sh\n"),
        ("skills/summarize/SKILL.md", &skill_text("summarize")),
        ("more/other/SKILL.md", &skill_text("other")),
    ]);
    let library = read_one(root.path());
    assert_eq!(skill_names(&library), ["reports:summarize"]);
    assert_eq!(list_notices(&library, true), [""; 0]);
    let specs: Vec<_> = library.servers.iter().map(|server| &server.spec).collect();
    let named: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(named, ["here", "kept", "validator"]);
    let data = "/workspace/.plugin-data/reports";
    assert_eq!(specs[0].folder, "/plugins/reports/bin");
    assert_eq!((specs[1].command.as_str(), specs[1].folder.clone()), ("sh", format!("{data}/kept")));
    let validator = specs[2];
    assert_eq!(
        (validator.command.as_str(), validator.folder.as_str()),
        ("/plugins/reports/bin/validator", "/plugins/reports")
    );
    assert_eq!(validator.args, ["--data".to_owned(), format!("{data}/v"), "${HOME}".to_owned()]);
    assert_eq!(validator.env["CONFIG"], "/plugins/reports/config.json");
    assert_eq!(
        (validator.env["PLUGIN_ROOT"].as_str(), &validator.env["PLUGIN_DATA"]),
        ("/plugins/reports", &data.to_owned())
    );
    assert_eq!(validator.data_folder.as_deref(), Some(data));
    let noted = list_notices(&library, false).join("\n");
    assert!(noted.contains("only operators may grant servers over HTTP"), "{noted}");
    assert!(noted.contains(".mcp.json: it is ignored"), "{noted}");
}

#[test]
fn manifest_schema_violation_rejects_plugin() {
    let schema = r#""$schema": "https://agent-plugins.org/schemas/1.0.0/plugin.schema.json""#;
    for (manifest, part) in [
        (r#"{"name": "a"}"#.to_owned(), "$schema must be"),
        (MANIFEST.replace("1.0.0", "2.0.0"), "is not supported"),
        (schema.to_owned(), "name is missing"),
        (format!(r#"{schema}, "name": "My-Plugin""#), "invalid name"),
        (format!(r#"{schema}, "name": "has--double""#), "invalid name"),
        (format!(r#"{schema}, "name": "a.""#), "invalid name"),
        (format!(r#"{MANIFEST}, "version": 1"#), "version is not a text"),
        (format!(r#"{MANIFEST}, "author": "me""#), "author may only have"),
        (format!(r#"{MANIFEST}, "author": {{"twitter": "me"}}"#), "author may only have"),
        (format!(r#"{MANIFEST}, "keywords": "a""#), "keywords is not a list"),
        (format!(r#"{MANIFEST}, "extensions": {{"com.example": 1}}"#), "extensions has a value"),
        ("[]".to_owned(), "it is not a JSON object"),
    ] {
        let text = if manifest.starts_with(['{', '[']) { manifest } else { format!("{{{manifest}}}") };
        let root = create_folder(&[
            ("plugin.json", &text),
            (".claude-plugin/plugin.json", r#"{"name": "older"}"#),
            ("skills/summarize/SKILL.md", &skill_text("summarize")),
        ]);
        let library = read_one(root.path());
        assert_eq!(skill_names(&library), [""; 0], "{text}");
        assert!(list_notices(&library, true)[0].contains(part), "{text}: {:?}", library.notices);
    }
    let odd = format!("{{{MANIFEST},\n \"skills\": \"./more\",\n \"extensions\": 1}}");
    let root =
        create_folder(&[("plugin.json", &odd), ("skills/summarize/SKILL.md", &skill_text("summarize"))]);
    let library = read_one(root.path());
    assert_eq!(
        (skill_names(&library), list_notices(&library, true)),
        (vec!["reports:summarize"], Vec::new())
    );
    let noted = list_notices(&library, false).join("\n");
    assert!(
        noted.contains("plugin.json:2: unknown field skills") && noted.contains("plugin.json:3: extensions"),
        "{noted}"
    );
}

#[test]
fn invalid_components_leave_valid_ones() {
    let entries = [
        (r#"{"command": "x"}"#, "there is no type"),
        (r#"{"type": "http", "url": "https://example.com"}"#, "unknown type"),
        (r#"{"type": "stdio", "command": "../x"}"#, "command must be"),
        (r#"{"type": "stdio", "command": "./../x"}"#, "is outside the plugin"),
        (r#"{"type": "stdio", "command": "./out/x"}"#, "is outside the plugin"),
        (r#"{"type": "stdio", "command": "x", "url": "y"}"#, "unknown field url"),
        (r#"{"type": "stdio", "command": "x", "cwd": "work"}"#, "cwd must be"),
        (r#"{"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}/../x"}"#, "is outside the plugin"),
        (r#"{"type": "stdio", "command": "x", "cwd": "${PLUGIN_DATA}x"}"#, "cwd must be"),
        (r#"{"type": "stdio", "command": "x", "env": {"PLUGIN_DATA": "x"}}"#, "env may not set PLUGIN_DATA"),
        (r#"{"type": "stdio", "command": "x", "env": {"N": 1}}"#, "env is not"),
        (r#"{"type": "sse", "url": "http://example.com"}"#, "url is not a valid"),
        (r#"{"type": "sse", "url": "https://me@example.com"}"#, "url is not a valid"),
    ];
    let listed: Vec<String> =
        entries.iter().enumerate().map(|(at, (entry, _))| format!("\"wrong{at:02}\": {entry}")).collect();
    let file = format!(
        r#"{{{SERVERS}, "mcpServers": {{{}, "fine": {{"type": "stdio", "command": "x"}}}}}}"#,
        listed.join(",\n")
    );
    let long = format!("---\nname: long\ndescription: {}\n---\nDo it.\n", "x".repeat(1025));
    let root = create_folder(&[
        ("p/plugin.json", &format!("{{{MANIFEST}}}")),
        ("p/mcp.json", &file),
        ("p/skills/good/SKILL.md", &skill_text("good")),
        ("p/skills/named/SKILL.md", &skill_text("otherwise")),
        ("p/skills/Loud/SKILL.md", &skill_text("Loud")),
        ("p/skills/bare/SKILL.md", "---\nname: bare\n---\nText.\n"),
        ("p/skills/long/SKILL.md", &long),
        ("outside/SKILL.md", &skill_text("linked")),
    ]);
    symlink(root.path().join("outside"), root.path().join("p/skills/linked")).unwrap();
    symlink(root.path().join("outside"), root.path().join("p/out")).unwrap();
    let library = read_one(&root.path().join("p"));
    assert_eq!(skill_names(&library), ["reports:good"], "{:?}", library.notices);
    let servers: Vec<&str> = library.servers.iter().map(|server| server.spec.name.as_str()).collect();
    assert_eq!(servers, ["fine"]);
    let skipped = list_notices(&library, true).join("\n");
    for (at, (_, part)) in entries.iter().enumerate() {
        let found = skipped.lines().find(|line| line.contains(&format!("the server wrong{at:02}:")));
        assert!(found.is_some_and(|line| line.contains(part)), "{part}: {skipped}");
    }
    for part in
        ["named/SKILL.md:2: its name", "Loud/SKILL.md:2", "bare/SKILL.md", "long/SKILL.md", "skills/linked: "]
    {
        assert!(skipped.contains(part), "{part}: {skipped}");
    }
    // A plugin may not refer to another plugin beside it, or to the rest of the disk.
    assert_eq!(skill_names(&read_one(root.path())), ["outside:outside", "reports:good"]);
}

#[test]
fn invalid_servers_file_leaves_skills() {
    for file in [
        r#"{"mcpServers": {"a": {"type": "stdio", "command": "x"}}}"#.to_owned(),
        format!("{{{}, \"mcpServers\": {{}}}}", SERVERS.replace("1.0.0", "1.1.0")),
        format!("{{{SERVERS}, \"mcpServers\": {{}}, \"more\": 1}}"),
        format!("{{{SERVERS}, \"mcpServers\": []}}"),
        "{".to_owned(),
    ] {
        let root = create_folder(&[
            ("plugin.json", &format!("{{{MANIFEST}}}")),
            ("mcp.json", &file),
            ("skills/good/SKILL.md", &skill_text("good")),
        ]);
        let library = read_one(root.path());
        assert_eq!((skill_names(&library), library.servers.len()), (vec!["reports:good"], 0), "{file}");
        assert_eq!(list_notices(&library, true).len(), 1, "{file}: {:?}", library.notices);
    }
}

#[test]
fn careless_skills_are_read_as_meant() {
    let root = tempfile::tempdir().unwrap();
    let all: [(&str, &[u8], &str); 8] = [
        ("multiline", b"---\nname: multiline\ndescription:\n  Reads bills. Pairs with: first one.\nlicense: MIT\n---\nBody\n", "Reads bills. Pairs with: first one."),
        ("hash", b"---\nname: hash\ndescription: Reads bills #1 and #2\n---\nBody\n", "Reads bills #1 and #2"),
        ("lead", b"\n---\nname: lead\ndescription: Reads bills.\n---\nBody\n", "Reads bills."),
        ("latin", b"---\nname: latin\ndescription: Reads \xe9l\xe9ments.\n---\nBody\n", "Reads \u{e9}l\u{e9}ments."),
        ("nodesc", b"---\nname: nodesc\n---\nBody first line.\n", "Body first line."),
        ("nofm", b"# Title\n\nBody first\nline.\n\nMore.\n", "Body first line."),
        ("unclosed", b"---\nname: unclosed\ndescription: Reads bills.\n\n# Body\n\nText.\n", "Reads bills."),
        ("tab", b"---\nname: tab\ndescription:\tReads bills.\n---\nBody\n", "Reads bills."),
    ];
    for (name, text, _) in &all {
        write_file(root.path(), &format!("p/skills/{name}/SKILL.md"), text);
    }
    let library = read_one(&root.path().join("p"));
    assert_eq!(list_notices(&library, true), [""; 0]);
    for (name, _, meant) in all {
        let skill = library.skills.iter().find(|skill| skill.folder == name);
        assert_eq!(skill.map(|skill| skill.description.as_str()), Some(meant), "{name}");
        assert!(skill.is_some_and(|skill| !skill.instructions.is_empty()), "{name}");
    }
}

#[test]
fn valid_entries_are_not_reported_skipped() {
    let market = r#"{"plugins": [
        {"name": "a", "source": {"source": "url", "url": "https://example.com/a.git"}},
        {"name": "b", "source": {"source": "git-subdir", "url": "https://example.com/b.git", "path": "b"}},
        {"name": "c", "source": "https://example.com/c.git"},
        {"name": "d", "source": "./d"}]}"#;
    let root = create_folder(&[
        (".claude-plugin/marketplace.json", market),
        ("d/skills/good/SKILL.md", &skill_text("good")),
        ("d/skills/shared/tables.md", "x"),
        ("d/agents/README.md", "x"),
        ("d/agents/NOTES.md", "# About these agents\n"),
    ]);
    let library = read_one(root.path());
    assert_eq!((skill_names(&library), list_notices(&library, true)), (vec!["d:good"], Vec::new()));
    let commands =
        create_folder(&[(".claude-plugin/plugin.json", r#"{"name": "e"}"#), ("commands/go.md", "Go.")]);
    let library = read_one(commands.path());
    assert_eq!(list_notices(&library, true), [""; 0]);
    assert!(list_notices(&library, false).iter().any(|notice| notice.contains("no skill, agent")));
}
