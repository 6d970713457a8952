//! Names, folders and texts of plugins.

use serde_json::Value;

use crate::frontmatter::Frontmatter;
use crate::tree::{PluginTree, join_path};
use crate::{NAME_MAX_BYTES, agent_plugins_schema};

/// The maximum number of jurisdictions per skill.
const JURISDICTIONS_MAX: usize = 100;
/// The longest file name and text of a notice, in characters; the rest is cut.
const NOTICE_MAX_CHARS: usize = 1000;
/// The rule of [`is_name`], for notices.
pub(super) const NAME_RULE: &str =
    "1 to 64 letters, digits, dots, hyphens and underscores, a letter or a digit first";

/// Returns true if a name can be part of a full name and of a path.
pub(super) fn is_name(name: &str) -> bool {
    (1..=NAME_MAX_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
        && name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric)
}

/// Returns true if a folder is a plugin of the standard Agent Plugins, even if its manifest is invalid.
pub(super) fn is_standard(tree: &PluginTree, root: &str) -> bool {
    let manifest = join_path(root, agent_plugins_schema::MANIFEST);
    tree.has_entry(&manifest) && !tree.is_folder(&manifest)
}

/// Returns true if the source of a plugin is not a path: a repository, a package or a URL.
pub(super) fn is_elsewhere(source: &Value) -> bool {
    source.get("source").is_some_and(Value::is_string)
        || source.as_str().is_some_and(|text| text.contains("://"))
}

/// Returns the last component of a path, or the name of the root folder.
pub(super) fn folder_name<'a>(tree: &'a PluginTree, path: &'a str) -> &'a str {
    if path.is_empty() { tree.name() } else { path.rsplit('/').next().unwrap_or(path) }
}

/// Escapes a text for a terminal and a log, because it may contain what a plugin's author wrote.
pub(super) fn escape_text(text: &str) -> String {
    let breaks = |letter: char| letter.is_control() || matches!(letter, '\u{2028}' | '\u{2029}');
    let letters = text.chars().take(NOTICE_MAX_CHARS);
    letters.map(|letter| if breaks(letter) { char::REPLACEMENT_CHARACTER } else { letter }).collect()
}

/// Returns the jurisdictions of a skill, in upper case.
pub(super) fn read_jurisdictions(head: &Frontmatter) -> Vec<String> {
    let named = head.get_names("jurisdictions").unwrap_or_default();
    named.into_iter().take(JURISDICTIONS_MAX).map(|id| id.to_uppercase()).collect()
}
