//! `find`: files by name and by the text that they contain.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use documents::passages::{DocumentPassage, split_passages};
use documents::{ExtractBounds, Extracted, extract_part};
use protocol::tool::{PASSAGES_MAX, ToolOutput};
use rustix::fs::FileType;
use serde::Deserialize;

use super::PIECE_MAX_BYTES;
use super::folder::{FolderEntry, Walked, walk_folders};
use super::glob::Glob;
use super::jail::Jail;
use super::output::text_output;
use super::path::{display_path, plain_line};
use super::read::found_passage;

/// The timeout of one call.
const TIME_MAX: Duration = Duration::from_secs(20);
/// The maximum number of files in a listing.
const FILES_MAX: usize = 500;
/// The maximum number of passages per file, so that other files are represented.
const PASSAGES_PER_FILE_MAX: usize = 4;
/// The largest file that is searched for text, in bytes.
const CONTENT_MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The longest text to search for, in bytes.
const NEEDLE_MAX_BYTES: usize = 500;
/// The maximum number of unreadable files that are listed.
const UNREADABLE_MAX: usize = 5;

/// Arguments of [`domain::tool::MachineTool::Find`].
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FindArguments {
    /// A glob over workspace paths; all files by default.
    #[serde(default)]
    pub(crate) glob: Option<String>,
    /// Text that the files must contain, ignoring case and diacritics.
    #[serde(default)]
    pub(crate) content: Option<String>,
}

pub(crate) fn find_files(jail: &Jail, arguments: &FindArguments) -> Result<ToolOutput, String> {
    let until = Instant::now() + TIME_MAX;
    let glob = Glob::new(arguments.glob.as_deref().unwrap_or("**"))?;
    let needle = match arguments.content.as_deref() {
        None | Some("") => None,
        Some(content) if content.len() > NEEDLE_MAX_BYTES => {
            return Err(format!("content is longer than {NEEDLE_MAX_BYTES} bytes"));
        }
        Some(content) => match normalize_text(content) {
            needle if needle.is_empty() => return Err("content is blank".to_owned()),
            needle => Some(needle),
        },
    };
    let mut files: Vec<FolderEntry> = Vec::new();
    let walked = walk_folders(jail, Path::new("."), until, |entry| {
        let wanted = entry.kind == FileType::RegularFile
            && glob.matches_path(&text_analysis::fold_text(&entry.path.to_string_lossy()));
        if wanted {
            files.push(entry);
        }
        true
    });
    files.sort_by(|one, other| one.path.cmp(&other.path));
    let mut output = match needle {
        None => list_matches(&files),
        Some(needle) => search_contents(jail, &files, &needle, until),
    };
    if walked == Walked::Part {
        output.text.push_str("\nThe workspace is too large: not all of it was searched.");
    }
    Ok(output)
}

fn list_matches(files: &[FolderEntry]) -> ToolOutput {
    let mut text = match files.len() {
        0 => "No file matches.".to_owned(),
        1 => "1 file:".to_owned(),
        count => format!("{count} files:"),
    };
    for entry in files.iter().take(FILES_MAX) {
        text.push_str(&format!("\n{}  {} bytes", display_path(&entry.path), entry.size));
    }
    if files.len() > FILES_MAX {
        text.push_str(&format!("\n... and {} more", files.len() - FILES_MAX));
    }
    text_output(text)
}

/// Normalizes case, diacritics and white space for comparison.
fn normalize_text(text: &str) -> String {
    text_analysis::fold_text(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn search_contents(jail: &Jail, files: &[FolderEntry], needle: &str, until: Instant) -> ToolOutput {
    let mut output = ToolOutput::default();
    let mut hits = Vec::new();
    let (mut unreadable, mut partly) = (BTreeSet::new(), BTreeSet::new());
    let (mut searched, mut whole) = (0, 0);
    for entry in files {
        if Instant::now() > until || output.passages.len() >= PASSAGES_MAX {
            break;
        }
        searched += 1;
        if entry.size > CONTENT_MAX_BYTES {
            unreadable.insert(format!("{} (too large)", display_path(&entry.path)));
            continue;
        }
        let pieces = match matching_passages(jail, &entry.path, needle, until) {
            Ok((pieces, None)) => {
                whole += 1;
                pieces
            }
            Ok((pieces, Some(why))) => {
                partly.insert(format!("{} ({why})", display_path(&entry.path)));
                pieces
            }
            Err(why) => {
                unreadable.insert(format!("{} ({})", display_path(&entry.path), plain_line(&why)));
                continue;
            }
        };
        if !pieces.is_empty() {
            let count = pieces.len();
            hits.push(format!("{} ({count})", display_path(&entry.path)));
            let room = PASSAGES_PER_FILE_MAX.min(PASSAGES_MAX - output.passages.len());
            output
                .passages
                .extend(pieces.into_iter().take(room).map(|piece| found_passage(&entry.path, piece)));
        }
    }
    output.text = match hits.len() {
        0 if whole == searched => format!("None of {searched} files contains it."),
        0 => format!("Not found; {whole} of {searched} files were searched whole."),
        count => {
            format!(
                "{count} of {searched} files contain it, with the number of passages: {}.",
                hits.join(", ")
            )
        }
    };
    if searched < files.len() {
        output
            .text
            .push_str(&format!("\n{} files were not searched; narrow the glob.", files.len() - searched));
    }
    for (files, what) in [(partly, "searched only in part"), (unreadable, "without readable text")] {
        if !files.is_empty() {
            let count = files.len();
            let named: Vec<_> = files.into_iter().take(UNREADABLE_MAX).collect();
            output.text.push_str(&format!("\n{count} files {what}, such as {}.", named.join("; ")));
        }
    }
    output
}

/// Returns the passages of a file that contain the text, and the reason if unread parts may contain it, too.
fn matching_passages(
    jail: &Jail,
    path: &Path,
    needle: &str,
    until: Instant,
) -> Result<(Vec<DocumentPassage>, Option<String>), String> {
    let file = jail
        .open_at(path, rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NOFOLLOW, rustix::fs::Mode::empty())
        .map_err(|error| error.to_string())?;
    let bounds = ExtractBounds { until: Some(until), ..ExtractBounds::default() };
    let document = extract_part(path, file.into(), &bounds).map_err(|error| error.to_string())?;
    let mut pieces = split_passages(&document, PIECE_MAX_BYTES);
    // Headings above several passages are found with the first of them.
    let mut above: Option<String> = None;
    pieces.retain(|piece| {
        let is_new = piece.columns.is_some() && piece.columns != above;
        above.clone_from(&piece.columns);
        let has = |text: &str| normalize_text(text).contains(needle);
        has(&piece.text) || is_new && has(piece.columns.as_deref().unwrap_or_default())
    });
    Ok((pieces, describe_unread(&document)))
}

/// Describes the text of a document that was not read.
fn describe_unread(document: &Extracted) -> Option<String> {
    let pictures =
        document.scans.len() + document.images.len() + document.unread_images.total_images() as usize;
    match document.span {
        Some(span) if span.last < span.of => Some(format!("up to page {} of {}", span.last, span.of)),
        _ if !document.cut_pages.is_empty() => Some("without the end of some of its pages".to_owned()),
        _ if document.truncated => Some("only its beginning".to_owned()),
        _ if !document.unread_files.is_empty() => Some("without some of the files in it".to_owned()),
        _ if pictures > 0 => Some("without text in pictures: use search".to_owned()),
        _ => None,
    }
}
