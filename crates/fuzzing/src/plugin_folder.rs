//! Fuzzes plugin folders: for any content of the files, the result stays within its bounds, reveals nothing outside
//! of the folder, and can be shown on one line.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use plugins::{
    DESCRIPTION_MAX_CHARS, INSTRUCTIONS_MAX_BYTES, NAME_MAX_BYTES, NOTICES_MAX, PluginLibrary,
    SKILL_FILES_MAX, fingerprint_folders, read_one,
};
use tempfile::TempDir;

/// Ends each file of the input, which starts with a byte that selects the file. UTF-8 does not contain this byte.
const END: u8 = 0xff;
const FILES: [&str; 10] = [
    ".claude-plugin/plugin.json",
    ".claude-plugin/marketplace.json",
    ".mcp.json",
    "SKILL.md",
    "skills/one/SKILL.md",
    "skills/two/SKILL.md",
    "skills/one/references/list.md",
    "agents/clerk.md",
    "agents/other.md",
    "nested/skills/three/SKILL.md",
];
/// The length of the note that instructions were truncated.
const CUT_NOTE_MAX_BYTES: usize = 64;
/// The content of files outside the folder.
const OUTSIDE: &str = "not for any plugin";

/// Runs one input.
///
/// # Panics
/// Panics when a promise is broken.
pub fn try_input(data: &[u8]) {
    HOST.with(|host| {
        let host = host.get_or_init(PluginSandbox::new);
        let written: Vec<&str> =
            data.split(|byte| *byte == END).filter_map(|part| host.write_part(part)).collect();
        let library = read_one(&host.plugin);
        assert_bounds(&library);
        let again = read_one(&host.plugin);
        assert_eq!(
            (&again.skills, &again.agents, &again.notices),
            (&library.skills, &library.agents, &library.notices)
        );
        let before = fingerprint_folders(std::slice::from_ref(&host.plugin));
        for file in &written {
            let _ = fs::remove_file(host.plugin.join(file));
        }
        let after = fingerprint_folders(std::slice::from_ref(&host.plugin));
        assert!(written.is_empty() || before != after, "what went is not noticed");
    });
}

thread_local! {
    static HOST: OnceCell<PluginSandbox> = const { OnceCell::new() };
}

/// A folder for a plugin, with links that lead outside.
struct PluginSandbox {
    _root: TempDir,
    plugin: PathBuf,
}

impl PluginSandbox {
    fn new() -> Self {
        let root = tempfile::tempdir_in("/dev/shm").expect("a folder");
        let plugin = root.path().join("plugin");
        for file in FILES {
            fs::create_dir_all(plugin.join(file).parent().expect("a folder")).expect("it can be made");
        }
        let skill = format!("---\nname: outside\ndescription: {OUTSIDE}\n---\n\n{OUTSIDE}\n");
        fs::create_dir_all(root.path().join("outside/skills/theirs")).expect("a folder");
        fs::write(root.path().join("outside/skills/theirs/SKILL.md"), &skill).expect("a file");
        fs::write(root.path().join("outside/theirs.md"), &skill).expect("a file");
        for (link, target) in [
            ("skills/theirs", "../../outside/skills/theirs"),
            ("agents/theirs.md", "../../outside/theirs.md"),
            ("linked", "../outside"),
            ("round", "."),
        ] {
            symlink(target, plugin.join(link)).expect("a link");
        }
        Self { _root: root, plugin }
    }

    /// Writes one file and returns which.
    fn write_part(&self, part: &[u8]) -> Option<&'static str> {
        let (which, content) = part.split_first()?;
        let file = FILES[usize::from(*which) % FILES.len()];
        fs::write(self.plugin.join(file), content).expect("it can be written");
        Some(file)
    }
}

fn assert_bounds(library: &PluginLibrary) {
    let mut names = HashSet::new();
    for skill in &library.skills {
        assert!(names.insert(&skill.name.full_name), "{} twice", skill.name.full_name);
        assert_eq!(skill.name.full_name, format!("{}:{}", skill.plugin, skill.folder));
        assert_name(&skill.name.name, &skill.name.full_name);
        assert_text(&skill.description, &skill.instructions);
        assert!(skill.files.len() <= SKILL_FILES_MAX);
        for file in &skill.files {
            assert!(file.split('/').all(|name| !matches!(name, "" | "." | "..")), "{file:?}");
        }
    }
    let mut names = HashSet::new();
    for agent in &library.agents {
        assert!(names.insert(&agent.full_name), "{} twice", agent.full_name);
        assert_name(&agent.name, &agent.full_name);
        assert_text(&agent.description, &agent.instructions);
    }
    assert!(library.notices.len() <= NOTICES_MAX);
    for notice in &library.notices {
        let shown = notice.to_string();
        assert!(!shown.contains(is_breaking) && !shown.contains(OUTSIDE), "{shown:?}");
    }
}

fn assert_name(name: &str, full_name: &str) {
    assert!(!name.is_empty() && name.len() <= NAME_MAX_BYTES && !name.contains(is_breaking), "{name:?}");
    let plain = |part: &str| {
        (1..=NAME_MAX_BYTES).contains(&part.len())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    assert!(
        full_name.split_once(':').is_some_and(|(plugin, last)| plain(plugin) && plain(last)),
        "{full_name}"
    );
}

fn assert_text(description: &str, instructions: &str) {
    assert!(!description.is_empty() && description.chars().count() <= DESCRIPTION_MAX_CHARS);
    assert!(!description.contains(is_breaking), "{description:?}");
    assert!(instructions.len() <= INSTRUCTIONS_MAX_BYTES + CUT_NOTE_MAX_BYTES);
    assert!(!description.contains(OUTSIDE) && !instructions.contains(OUTSIDE), "a link was followed");
}

/// Returns true for characters that break a line.
fn is_breaking(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}')
}
