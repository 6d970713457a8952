//! `list`: lists one folder.

use std::os::unix::ffi::OsStrExt;

use protocol::tool::ToolOutput;
use rustix::fs::FileType;
use serde::Deserialize;

use super::folder::{self, FolderEntry, Walked};
use super::jail::{Jail, JailError};
use super::output::text_output;
use super::path::{display_path, shown_name};

/// The maximum number of listed entries.
const SHOWN_MAX: usize = 1_000;
/// The longest listing, in bytes.
const TEXT_MAX_BYTES: usize = 48 * 1024;

/// Arguments of [`domain::tool::MachineTool::List`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// The folder; the workspace by default.
    #[serde(default)]
    pub(crate) path: Option<String>,
}

pub(crate) fn list_folder(jail: &Jail, arguments: &ListArguments) -> Result<ToolOutput, JailError> {
    let (path, _) = jail.open_folder(arguments.path.as_deref().unwrap_or("/"))?;
    let (mut entries, walked) = folder::folder_entries(jail, &path);
    entries.sort_by(|one, other| {
        let rank = |entry: &FolderEntry| (entry.kind != FileType::Directory, entry.path.clone());
        rank(one).cmp(&rank(other))
    });
    let count = entries.len();
    let more = if walked == Walked::Part { "more than " } else { "" };
    let mut text = match count {
        0 => format!("{} is empty.", display_path(&path)),
        1 => format!("{}: 1 entry", display_path(&path)),
        _ => format!("{}: {more}{count} entries", display_path(&path)),
    };
    for (index, entry) in entries.iter().enumerate() {
        if index == SHOWN_MAX || text.len() > TEXT_MAX_BYTES {
            text.push_str(&format!("\n... and {} more; use find with a glob to narrow down", count - index));
            break;
        }
        text.push('\n');
        text.push_str(&entry_line(entry));
    }
    Ok(text_output(text))
}

fn entry_line(entry: &FolderEntry) -> String {
    let name = entry.path.file_name().map(|name| shown_name(name.as_bytes())).unwrap_or_default();
    match entry.kind {
        FileType::Directory => format!("folder  {name}/"),
        FileType::RegularFile => format!("file  {name}  {} bytes", entry.size),
        FileType::Symlink => format!("link  {name}"),
        _ => format!("special  {name}"),
    }
}
