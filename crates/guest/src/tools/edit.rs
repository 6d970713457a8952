//! `edit`: replaces an exact piece of text in a file.

use std::io::Read;

use protocol::tool::ToolOutput;
use search_index::file_stamp;
use serde::Deserialize;

use super::jail::Jail;
use super::path::display_path;
use super::write::{WRITE_MAX_BYTES, WriteTarget};

/// The maximum number of occurrences that are listed.
const PLACES_MAX: usize = 10;

/// Arguments of [`domain::tool::MachineTool::Edit`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArguments {
    pub(crate) path: String,
    /// The text to be replaced.
    pub(crate) old: String,
    pub(crate) new: String,
    /// Replaces every occurrence instead of exactly one.
    #[serde(default)]
    pub(crate) all: bool,
}

pub(crate) fn edit_file(jail: &Jail, arguments: &EditArguments) -> Result<ToolOutput, String> {
    let EditArguments { path, old, new, all } = arguments;
    if old.is_empty() {
        return Err("old is empty; use write to make a file".to_owned());
    }
    if old == new {
        return Err("old and new are the same".to_owned());
    }
    let (path, file) = jail.open_file(path).map_err(|error| error.to_string())?;
    let name = display_path(&path);
    let state = file.metadata().map_err(|error| format!("{name} cannot be read: {error}"))?;
    let mut bytes = Vec::new();
    file.take(WRITE_MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| format!("{name} cannot be read: {error}"))?;
    if bytes.len() > WRITE_MAX_BYTES {
        return Err(format!("{name} has more than {WRITE_MAX_BYTES} bytes; use shell"));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| format!("{name} is not UTF-8 text; edit changes only text files"))?;
    let places: Vec<usize> = text.match_indices(old.as_str()).map(|(at, _)| line_of(&text, at)).collect();
    match places.len() {
        0 => return Err(format!("{name} does not contain old{}", mismatch_hint(&text, old))),
        1 => {}
        count if !all => {
            return Err(format!(
                "old occurs {count} times in {name} ({}); give more of the text around it, or set all",
                line_list(&places)
            ));
        }
        _ => {}
    }
    let changed = text.replace(old.as_str(), new);
    if changed.len() > WRITE_MAX_BYTES {
        return Err(format!("the file would have more than {WRITE_MAX_BYTES} bytes"));
    }
    let target = WriteTarget::for_path(jail, &path).map_err(|error| error.to_string())?;
    target
        .read_as(file_stamp(&state))
        .replace_content(changed.as_bytes())
        .map_err(|error| error.to_string())?;
    let times = if places.len() == 1 { "once".to_owned() } else { format!("{} times", places.len()) };
    let text = format!("Replaced {times} in {name} ({}).", line_list(&places));
    Ok(ToolOutput {
        images: Vec::new(),
        failed: false,
        text,
        passages: Vec::new(),
        written: vec![name],
        unread: Vec::new(),
    })
}

fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

fn line_list(places: &[usize]) -> String {
    let shown: Vec<_> = places.iter().take(PLACES_MAX).map(ToString::to_string).collect();
    let more = if places.len() > PLACES_MAX { ", ..." } else { "" };
    format!("line{} {}{more}", if places.len() == 1 { "" } else { "s" }, shown.join(", "))
}

/// Explains the usual mistake: the text occurs with other white space or other line endings.
fn mismatch_hint(text: &str, old: &str) -> String {
    let first = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    if text.contains("\r\n") && !old.contains('\r') && text.replace("\r\n", "\n").contains(old) {
        return "; its lines end with \\r\\n".to_owned();
    }
    let squeezed = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let near = text.lines().position(|line| !first.is_empty() && squeezed(line).contains(&squeezed(first)));
    match near {
        Some(line) => {
            format!("; something like its first line is on line {}: compare the white space", line + 1)
        }
        None => String::new(),
    }
}
