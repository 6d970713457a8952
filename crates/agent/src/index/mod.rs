//! Search: ranked passages of the workspace's documents, in an index that is kept beside the workspace.
//!
//! There is one index for each machine. Before each search the workspace is walked and what has changed is
//! read again, as far as the time of the call allows; the answer says what has not been read yet. The
//! index holds nothing that the documents do not: a damaged one is thrown away.

mod rank;
mod store;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::tool::{FoundPassage, PASSAGE_MAX_BYTES, SearchArguments, ToolOutput};

pub use store::{Document, Index, IndexError};
pub use walk::{FILES_MAX, Found, Stamp, walk};

use crate::documents::passages::Piece;

/// How many passages a search gives unless it says otherwise, and the most that it can ask for.
const PASSAGES_DEFAULT: u32 = 8;
/// See [`PASSAGES_DEFAULT`].
const PASSAGES_MAX: u32 = 20;
/// The most files or folders that a search can be narrowed to.
const PATHS_MAX: usize = 100;
/// How many files that were not read are named.
const NAMED_MAX: usize = 5;
/// The length to which documents are cut for the index, in bytes: see [`crate::documents::passages::split`].
pub const PIECE_MAX_BYTES: usize = 1_200;
/// How many words of the query are told with their counts.
const WORDS_TOLD_MAX: usize = 24;

/// The documents of the workspace and their index.
#[derive(Debug, Clone)]
pub struct Library {
    workspace: PathBuf,
    folder: PathBuf,
    index: Arc<Mutex<Option<Index>>>,
    /// One update at a time: a second search waits for the first rather than reading the same files.
    updating: Arc<tokio::sync::Mutex<()>>,
}

/// What came of an update.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Update {
    /// Files that are not read yet.
    waiting: Vec<String>,
    /// Whether the workspace holds more files than the index may.
    cut: bool,
}

impl Library {
    /// The library of the workspace at `workspace`, with its index in `index_folder`, which must not be in
    /// the workspace. Nothing is opened yet.
    #[must_use]
    pub fn new(workspace: &Path, index_folder: &Path) -> Self {
        Self {
            workspace: workspace.to_owned(),
            folder: index_folder.to_owned(),
            index: Arc::default(),
            updating: Arc::default(),
        }
    }

    /// Brings the index up to date for at most `time`, then searches it. `read` gives the passages of a file
    /// (a path in the file system) or says why it has none; it bounds its own time and memory, and is
    /// dropped when the time is over.
    ///
    /// Cancel safe: what was read by then stays in the index.
    pub async fn search<R, F>(&self, arguments: &SearchArguments, time: Duration, read: R) -> ToolOutput
    where
        R: Fn(PathBuf) -> F,
        F: Future<Output = Result<Vec<Piece>, String>>,
    {
        let paths: Vec<String> =
            arguments.paths.iter().take(PATHS_MAX).filter_map(|path| rooted(path)).collect();
        if arguments.query.trim().is_empty() {
            return failed("the query is empty");
        }
        if paths.is_empty() && !arguments.paths.is_empty() {
            return failed("none of the paths is in the workspace");
        }
        let until = Instant::now() + time;
        // An index that turns out damaged is begun anew, once.
        let update = match self.update(&paths, until, &read).await {
            Ok(update) => Ok(update),
            Err(_) => self.update(&paths, until, &read).await,
        };
        let update = match update {
            Ok(update) => update,
            Err(error) => return failed(&error.to_string()),
        };
        let limit = arguments.limit.unwrap_or(PASSAGES_DEFAULT).clamp(1, PASSAGES_MAX) as usize;
        let query = arguments.query.clone();
        let whole = paths.iter().any(|path| path.is_empty());
        let paths = if whole { Vec::new() } else { paths };
        let found = self.with_index(move |index| find(index, &query, &paths, limit)).await;
        match found {
            Ok(mut output) => {
                tell_update(&mut output.text, &update);
                output
            }
            Err(error) => failed(&error.to_string()),
        }
    }

    async fn update<R, F>(&self, first: &[String], until: Instant, read: &R) -> Result<Update, IndexError>
    where
        R: Fn(PathBuf) -> F,
        F: Future<Output = Result<Vec<Piece>, String>>,
    {
        let _one_at_a_time = self.updating.lock().await;
        let workspace = self.workspace.clone();
        let (mut changed, cut) = self
            .with_index(move |index| {
                let walk = walk(&workspace);
                Ok((changes(index, walk.files)?, walk.cut))
            })
            .await?;
        // What the question is about is read first, then what is small.
        changed.sort_by_key(|file| {
            let asked = first.iter().any(|path| is_within(&file.path, path));
            (!asked, file.stamp.size, file.path.clone())
        });
        let mut changed = changed.into_iter();
        let mut waiting = Vec::new();
        for file in changed.by_ref() {
            let left = until.saturating_duration_since(Instant::now());
            let path = self.workspace.join(file.path.trim_start_matches('/'));
            let Ok(pieces) = tokio::time::timeout(left, read(path)).await else {
                waiting.push(file.path);
                break;
            };
            self.with_index(move |index| {
                let pieces = pieces.as_deref().map_err(String::as_str);
                index.put(&Document { file: &file, pieces })
            })
            .await?;
        }
        waiting.extend(changed.map(|file| file.path));
        Ok(Update { waiting, cut })
    }

    /// Runs blocking work with the index, which is opened on first use. An index that fails is closed, and
    /// opened again (and so checked, or begun anew) for the next call.
    async fn with_index<T, W>(&self, work: W) -> Result<T, IndexError>
    where
        T: Send + 'static,
        W: FnOnce(&mut Index) -> Result<T, IndexError> + Send + 'static,
    {
        let (index, folder) = (Arc::clone(&self.index), self.folder.clone());
        let done = tokio::task::spawn_blocking(move || {
            let mut held = index.lock().unwrap_or_else(PoisonError::into_inner);
            let mut open = match held.take() {
                Some(open) => open,
                None => Index::open(&folder)?,
            };
            let outcome = work(&mut open)?;
            *held = Some(open);
            Ok(outcome)
        });
        done.await.unwrap_or_else(|_| Err(IndexError::Io(std::io::Error::other("the work was cut short"))))
    }
}

/// Drops from the index what the workspace no longer holds; gives the files to read.
fn changes(index: &mut Index, present: Vec<Found>) -> Result<Vec<Found>, IndexError> {
    let known = index.files()?;
    let paths: std::collections::HashSet<&str> = present.iter().map(|file| file.path.as_str()).collect();
    let mut gone: Vec<&str> = known.keys().map(String::as_str).filter(|path| !paths.contains(path)).collect();
    gone.sort_unstable();
    if !gone.is_empty() {
        index.drop_files(gone.into_iter())?;
    }
    Ok(present.into_iter().filter(|file| known.get(&file.path) != Some(&file.stamp)).collect())
}

fn find(index: &Index, query: &str, paths: &[String], limit: usize) -> Result<ToolOutput, IndexError> {
    let asked = rank::asked(index, query)?;
    let ranked = rank::rank(index, &asked, paths, limit)?;
    let words: Vec<String> =
        asked.iter().take(WORDS_TOLD_MAX).map(|word| format!("{} {}", word.word, word.passages)).collect();
    let mut text = format!("Passages with each word (of {}): {}.", index.passages()?, words.join(", "));
    if ranked.is_empty() {
        text.push_str("\nNo passage fits.");
    }
    let problems = index.problems(NAMED_MAX)?;
    if !problems.is_empty() {
        let named: Vec<String> = problems.iter().map(|(path, why)| format!("{path} ({why})")).collect();
        text.push_str(&format!("\nNot readable: {}.", named.join("; ")));
    }
    let passages = ranked
        .into_iter()
        .map(|ranked| FoundPassage {
            path: ranked.candidate.path,
            page: ranked.candidate.page,
            lines: ranked.candidate.lines,
            text: bounded(ranked.candidate.text),
            ..FoundPassage::default()
        })
        .collect();
    Ok(ToolOutput { images: Vec::new(), failed: false, text, passages, written: Vec::new() })
}

fn tell_update(text: &mut String, update: &Update) {
    if !update.waiting.is_empty() {
        let named: Vec<&str> = update.waiting.iter().take(NAMED_MAX).map(String::as_str).collect();
        text.push_str(&format!(
            "\nNot searched yet, {} files: {}{}. Search again to go on.",
            update.waiting.len(),
            named.join(", "),
            if update.waiting.len() > NAMED_MAX { ", ..." } else { "" }
        ));
    }
    if update.cut {
        text.push_str(&format!("\nThe workspace holds more than the {FILES_MAX} files that are searched."));
    }
}

fn failed(why: &str) -> ToolOutput {
    ToolOutput { failed: true, text: why.to_owned(), ..ToolOutput::default() }
}

fn bounded(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(PASSAGE_MAX_BYTES));
    text
}

/// A path as the index has it: with one slash before each name and none at the end. The path as it stands
/// in the machine is understood too; one that climbs is none of the workspace.
fn rooted(path: &str) -> Option<String> {
    let inner =
        path.strip_prefix(protocol::tool::WORKSPACE).filter(|rest| rest.is_empty() || rest.starts_with('/'));
    let mut out = String::new();
    for name in inner.unwrap_or(path).split('/').filter(|name| !name.is_empty() && *name != ".") {
        if name == ".." {
            return None;
        }
        out.push('/');
        out.push_str(name);
    }
    Some(out)
}

fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests;
