//! Search: ranked passages of the workspace's documents, from an index that is stored beside the workspace.
//!
//! Each machine has one index. Changed files are read in the background ([`DocumentLibrary::keep_up`]) while no tool runs. Each search
//! first walks the workspace and reads changed files again, within the timeout, in place of the background; the result lists the
//! files that have not been read yet. Long documents are read in ranges of pages, and ranges that were read are retained. A
//! failed document is recorded with the file's stamp: it is retried when the file changes or, if time may help, after a delay
//! that doubles. The index contains only derived data: a damaged one is deleted and rebuilt.
//!
//! Hidden files are searched only if a question or a call names them.
//!
//! The crate reads no document itself: its caller passes a function that does so within bounds.
//!
//! # Where to look
//!
//! - The time of indexing and the states of files: `activity.rs`, `states.rs`; reports are in `protocol`.
//! - Results of a search: `store/candidates.rs`, `rank.rs`, `answer.rs`; vectors: `store/vectors.rs`.
//! - Images inside documents: `store/images.rs`. Damage of the index: `integrity.rs`.
#![forbid(unsafe_code)]

mod activity;
mod answer;
mod embedding;
mod integrity;
mod progress;
mod rank;
mod states;
mod store;
mod text;
mod walk;

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use domain::tool::{MachineTool, ToolFacts};
use domain::unread::{UNREAD_MAX, UnreadFile};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use protocol::tool::{SearchArguments, ToolOutput};
use tokio::time::Instant;

use activity::IndexActivity;
pub use activity::Searching;
use answer::{failed_search, search_index};
use embedding::QueryVectors;

pub use progress::{
    ExtractionProblem, IndexQueue, IndexedFile, PassageBatch, PendingImage, RETRY_AFTER, RETRY_AFTER_MAX,
    Runs, Wanted,
};
pub use store::stored::StoredPages;
pub use store::{Index, IndexError, UnreadableDocument};
pub use walk::{FILES_MAX, FileStamp, FoundFile, file_stamp, walk_workspace};

/// The maximum number of files or folders in the scope of a search.
const PATHS_MAX: usize = 100;
/// The length to which documents are cut for the index, in bytes: see [`documents::passages::split_passages`].
pub const PIECE_MAX_BYTES: usize = 1_200;
/// The time slice of one document before others are read; a document that failed before may use all the time.
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(40);
/// A document that was given this much time and was not read has failed; after less time it is merely pending.
const FAIR_TIME: Duration = Duration::from_secs(15);
/// The time of one update in the background.
const BACKGROUND_TIME_MAX: Duration = Duration::from_secs(60);
/// The number of documents that are read at the same time, at most one for each processor.
const READERS_MAX: usize = 2;
/// The time for documents that a search does not name, after the named ones were read.
const OTHERS_TIME_MAX: Duration = Duration::from_secs(4);
/// No document is started with less time left.
const BEGIN_TIME_MIN: Duration = Duration::from_millis(500);

/// The documents of the workspace and their index.
#[derive(Debug, Clone)]
pub struct DocumentLibrary {
    workspace: PathBuf,
    folder: PathBuf,
    index: Arc<Mutex<Option<Index>>>,
    /// Serializes updates: a second search waits for the first instead of reading the same files.
    updating: Arc<tokio::sync::Mutex<()>>,
    activity: Arc<IndexActivity>,
    queries: Arc<QueryVectors>,
}

/// The outcome of an update.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Update {
    /// Files that are not completely read yet, with the remaining work.
    waiting: Vec<(String, IndexQueue)>,
    /// True if the workspace has more files than the index may contain.
    cut: bool,
    /// True if anything was read.
    progressed: bool,
}

/// The outcome of a document's time slice.
enum SliceOutcome {
    /// Nothing is left to read, or nothing before the next retry.
    Done,
    /// More pages are left.
    More(IndexQueue),
    /// The time is up, and this is left.
    Over(IndexQueue),
}

/// The files that a search covers.
#[derive(Debug, Clone, Default)]
struct SearchScope {
    /// The files and folders to search; all if empty.
    paths: Vec<String>,
    /// The paths at or below which hidden files are searched, too.
    named: Vec<String>,
    /// The paths named by the question or the call; they are read first.
    wanted: Vec<String>,
    /// True if no other files are read.
    wanted_only: bool,
    /// True if no search waits: the images inside all documents are read, too.
    background: bool,
}

impl SearchScope {
    fn from_paths(paths: Vec<String>, attached: &[String]) -> Self {
        let attached = attached.iter().filter_map(|path| normalize_path(path));
        let mut wanted: Vec<String> =
            paths.iter().cloned().chain(attached).filter(|path| !path.is_empty()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let named = wanted.iter().filter(|path| walk::is_hidden(path)).cloned().collect();
        let whole = paths.iter().any(|path| path.is_empty());
        let paths = if whole { Vec::new() } else { paths };
        Self { paths, named, wanted, ..Self::default() }
    }

    /// Returns true if this work is not left to the background.
    fn should_read(&self, file: &FoundFile, todo: &IndexQueue) -> bool {
        self.background || !todo.reread && (todo.images == 0 || self.is_wanted(&file.path))
    }

    fn is_wanted(&self, path: &str) -> bool {
        self.wanted.iter().any(|wanted| is_within(path, wanted))
    }
}

impl DocumentLibrary {
    /// Creates the library of the workspace, with its index in `index_folder`, which must be outside the workspace.
    /// Opens nothing yet.
    #[must_use]
    pub fn new(workspace: &Path, index_folder: &Path) -> Self {
        Self {
            workspace: workspace.to_owned(),
            folder: index_folder.to_owned(),
            index: Arc::default(),
            updating: Arc::default(),
            activity: Arc::default(),
            queries: Arc::default(),
        }
    }

    /// Updates the index for at most `time`, then searches it. `attached` are the paths of the question; they are
    /// searched even if they are hidden. `read` returns passages of a file or the reason for their absence; it
    /// must bound its memory, and is dropped when its time is up.
    ///
    /// Cancel safe: passages read until then stay in the index.
    pub async fn search_documents<R, F>(
        &self,
        arguments: &SearchArguments,
        attached: &[String],
        time: Duration,
        read: R,
    ) -> ToolOutput
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        let paths: Vec<String> =
            arguments.paths.iter().take(PATHS_MAX).filter_map(|path| normalize_path(path)).collect();
        if arguments.query.trim().is_empty() {
            return failed_search("the query is empty");
        }
        if paths.is_empty() && !arguments.paths.is_empty() {
            return failed_search("none of the paths is in the workspace");
        }
        let scope = SearchScope::from_paths(paths, attached);
        let until = Instant::now() + time;
        let _searching = self.activity.begin_search();
        let ToolFacts { passages_default, passages_max, .. } = MachineTool::Search.facts();
        let limit = arguments.limit.unwrap_or(*passages_default).clamp(1, *passages_max) as usize;
        let find = async || {
            let update = self.update_index(&scope, until, &read).await?;
            let (query, vector) = (arguments.query.clone(), self.queries.find_vector(&arguments.query));
            let scope = scope.clone();
            self.with_index(move |index| {
                search_index(index, (&query, vector.as_ref()), &scope, &update, limit)
            })
            .await
        };
        let found = match find().await {
            // The index was deleted.
            Err(error) if error.is_damage() => find().await,
            found => found,
        };
        found.unwrap_or_else(|error| failed_search(&error.to_string()))
    }

    /// Reads changed files for the index. If that is damaged it is rebuilt, once.
    async fn update_index<R, F>(
        &self,
        scope: &SearchScope,
        until: Instant,
        read: &R,
    ) -> Result<Update, IndexError>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        match self.update_once(scope, until, read).await {
            Err(error) if error.is_damage() => self.update_once(scope, until, read).await,
            updated => updated,
        }
    }

    /// Returns the update of a search of named files that are all read, regardless of other files being read; `None` for
    /// one that reads.
    async fn without_reading(&self, scope: &SearchScope) -> Result<Option<Update>, IndexError> {
        if scope.background || scope.wanted.is_empty() || !scope.wanted_only && scope.paths.is_empty() {
            return Ok(None);
        }
        let (workspace, mut named) = (self.workspace.clone(), scope.named.clone());
        named.extend(self.activity.hidden_files());
        let put_off = self.activity.put_off();
        let (changed, cut) = self
            .with_index(move |index| {
                let walk = walk_workspace(&workspace, &named);
                Ok((find_changes(index, &workspace, &walk.files, &put_off)?, walk.cut))
            })
            .await?;
        let reads =
            changed.iter().any(|(file, todo)| scope.is_wanted(&file.path) && scope.should_read(file, todo));
        Ok((!reads).then(|| Update { cut, ..Update::default() }))
    }

    async fn update_once<R, F>(
        &self,
        scope: &SearchScope,
        until: Instant,
        read: &R,
    ) -> Result<Update, IndexError>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        if let Some(update) = self.without_reading(scope).await? {
            return Ok(update);
        }
        let _one_at_a_time = self.updating.lock().await;
        let (workspace, mut named) = (self.workspace.clone(), scope.named.clone());
        let put_off = self.activity.put_off();
        named.extend(self.activity.hidden_files());
        let (files, mut changed, cut) = self
            .with_index(move |index| {
                let walk = walk_workspace(&workspace, &named);
                let changed = find_changes(index, &workspace, &walk.files, &put_off)?;
                Ok((walk.files, changed, walk.cut))
            })
            .await?;
        self.activity.replace_walked_files(&files);
        drop(files);
        let mut update = Update { cut, ..Update::default() };
        changed.retain(|(file, todo)| scope.should_read(file, todo));
        if changed.is_empty() {
            return Ok(update);
        }
        let _working = self.activity.begin_update();
        // Reads the files that the question names first, then small files, images inside them, and last the files that
        // were read before.
        changed.sort_by_key(|(file, todo)| (todo.reread, todo.images, file.stamp.size, file.path.clone()));
        let (wanted, mut rest): (VecDeque<_>, VecDeque<_>) =
            changed.into_iter().partition(|(file, _)| scope.is_wanted(&file.path));
        if scope.wanted_only {
            rest.clear();
        }
        let images_until =
            if scope.background { until } else { until.min(Instant::now() + store::images::TIME_MAX) };
        for (mut queue, is_wanted) in [(wanted, true), (rest, scope.wanted.is_empty())] {
            // Documents that the search does not name do not delay an answer from the named ones.
            let until = if is_wanted { until } else { until.min(Instant::now() + OTHERS_TIME_MAX) };
            let mut reading = FuturesUnordered::new();
            loop {
                while reading.len() < reader_count()
                    && let Some((file, todo)) = queue.pop_front()
                {
                    reading.push(async move {
                        let turn = match todo {
                            // New files come before images and files that were read before.
                            _ if scope.background && todo.comes_last() && self.activity.is_touched() => {
                                Ok(SliceOutcome::Over(todo))
                            }
                            IndexQueue { images: 0, .. } => self.read_on(&file, todo, until, read).await,
                            _ => self.read_image(&file, todo, images_until, read).await,
                        };
                        (file, turn)
                    });
                }
                let Some((file, turn)) = reading.next().await else { break };
                match turn? {
                    SliceOutcome::Done => update.progressed = true,
                    // A long document continues after the others have had their time slice.
                    SliceOutcome::More(todo) => {
                        update.progressed = true;
                        if scope.should_read(&file, &todo) {
                            queue.push_back((file, todo));
                        }
                    }
                    SliceOutcome::Over(todo) => update.waiting.push((file.path, todo)),
                }
            }
        }
        Ok(update)
    }

    /// Waits until files may have changed, then reads them until a search needs the readers, for at most a minute. The
    /// next call reads the rest. `read` is as in [`Self::search_documents`].
    ///
    /// Cancel safe: passages read until then stay in the index.
    pub async fn keep_up<R, F>(&self, read: R)
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        self.activity.wait_for_change().await;
        self.activity.no_search().await;
        let scope = SearchScope { background: true, ..SearchScope::default() };
        let until = Instant::now() + BACKGROUND_TIME_MAX;
        tokio::select! {
            biased;
            // The search reads the rest, and resumes this when it ends.
            () = self.activity.any_search() => {}
            updated = self.update_index(&scope, until, &read) => {
                if updated.is_ok_and(|update| update.progressed && !update.waiting.is_empty()) {
                    self.touch_files([]);
                }
            }
        }
    }

    /// Schedules the reading of changed files, including hidden ones that an earlier agent has read.
    pub async fn touch_known_files(&self) {
        let hidden = self.with_index(|index| {
            let files = index.indexed_files()?.into_iter();
            Ok(files.filter(|(_, (_, hidden))| *hidden).map(|(path, _)| path).collect::<Vec<_>>())
        });
        let hidden = hidden.await;
        self.activity.touch_files(hidden.unwrap_or_default());
    }

    /// Keeps the background from reading documents until the result is dropped.
    pub fn pause_background(&self) -> Searching<'_> {
        self.activity.begin_search()
    }

    /// Schedules the reading of changed files, including the hidden ones among these paths.
    pub fn touch_files(&self, paths: impl IntoIterator<Item = String>) {
        self.activity.touch_files(paths.into_iter().filter_map(|path| normalize_path(&path)));
    }

    /// Reads the files at or below these paths for at most `time`, and returns the files that the index does not
    /// contain completely, with the reasons; at most [`UNREAD_MAX`]. `read` is as in [`Self::search_documents`].
    ///
    /// Cancel safe: passages read until then stay in the index.
    pub async fn read_now<R, F>(&self, paths: &[String], time: Duration, read: R) -> Vec<UnreadFile>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        let scope = SearchScope { wanted_only: true, ..SearchScope::from_paths(Vec::new(), paths) };
        let _searching = self.activity.begin_search();
        // Files that were not read in time are reported as such.
        let _ = self.update_index(&scope, Instant::now() + time, &read).await;
        let states = self.file_states().await;
        let unread = states.into_iter().filter_map(|(file, indexing)| {
            Some(UnreadFile { reason: indexing.unread_reason()?, path: file.path })
        });
        unread.filter(|file| scope.is_wanted(&file.path)).take(UNREAD_MAX).collect()
    }

    /// Reads the next part of a document.
    async fn read_on<R, F>(
        &self,
        file: &FoundFile,
        todo: IndexQueue,
        until: Instant,
        read: &R,
    ) -> Result<SliceOutcome, IndexError>
    where
        R: Fn(Wanted) -> F,
        F: Future<Output = Result<PassageBatch, ExtractionProblem>>,
    {
        let left = until.saturating_duration_since(Instant::now());
        let time = if todo.attempts == 0 { left.min(DOCUMENT_TIME_MAX) } else { left };
        if time < BEGIN_TIME_MIN {
            return Ok(SliceOutcome::Over(todo));
        }
        let path = self.workspace.join(file.path.trim_start_matches('/'));
        let wanted =
            Wanted { file: path, pages: todo.pages, image: None, time: time / 2, attempts: todo.attempts };
        let outcome = match tokio::time::timeout(time, read(wanted)).await {
            Ok(outcome) => outcome,
            Err(_) if time < FAIR_TIME => return Ok(SliceOutcome::Over(todo)),
            Err(_) => Err(ExtractionProblem::too_slow(time)),
        };
        if todo.reread && outcome.is_err() {
            self.activity.put_off_until_restart(&file.path);
        }
        let found = file.clone();
        let known =
            self.with_index(move |index| index.add_outcome(&found, outcome.as_ref(), unix_seconds())).await?;
        self.activity.record_progress();
        Ok(match known.remaining_work(&file.stamp, unix_seconds()) {
            None => SliceOutcome::Done,
            // Without this, it would loop forever.
            Some(next) if next.images == 0 && next.reached == todo.reached => SliceOutcome::Over(next),
            Some(next) => SliceOutcome::More(next),
        })
    }

    /// Returns the passages of whole pages of a document from a page on, if the index has that page of the file's current state
    /// and the page has at most `at_most` passages.
    pub async fn read_stored_pages(
        &self,
        path: &str,
        stamp: FileStamp,
        page: u32,
        at_most: usize,
    ) -> Option<StoredPages> {
        let path = path.to_owned();
        self.with_index(move |index| index.read_stored_pages(&path, &stamp, page, at_most))
            .await
            .ok()
            .flatten()
    }

    /// Returns the passages of a workbook from a row of a sheet on, if the index has all of the file's current state.
    pub async fn stored_rows(
        &self,
        path: &str,
        stamp: FileStamp,
        from: (u32, u32),
        at_most: usize,
    ) -> Option<StoredPages> {
        let path = path.to_owned();
        self.with_index(move |index| index.stored_rows(&path, &stamp, from, at_most)).await.ok().flatten()
    }

    /// Returns true if the index has everything readable of a file in its current state.
    pub async fn is_complete(&self, path: &str, stamp: FileStamp) -> bool {
        let path = path.to_owned();
        let known = self.with_index(move |index| index.indexed_file(&path)).await.ok().flatten();
        known.is_some_and(|known| known.stamp == stamp && known.complete)
    }

    /// Returns the problem of a file, if it was tried in its current state and is not due for a retry.
    pub async fn find_problem(&self, path: &str, stamp: FileStamp) -> Option<ExtractionProblem> {
        let path = path.to_owned();
        let known = self.with_index(move |index| index.indexed_file(&path)).await.ok()??;
        let rests = known.stamp == stamp && known.remaining_work(&stamp, unix_seconds()).is_none();
        known.problem.filter(|_| rests)
    }

    /// Stores the outcome of reading a file outside of a search. Write errors are ignored, because the index is
    /// only a copy.
    pub async fn store_outcome(&self, file: FoundFile, outcome: Result<PassageBatch, ExtractionProblem>) {
        let _ =
            self.with_index(move |index| index.add_outcome(&file, outcome.as_ref(), unix_seconds())).await;
        self.activity.record_progress();
    }

    /// Runs blocking work with the index, which is opened on first use. After an error the index is closed, and a damaged one is
    /// deleted; the next call opens it again, or rebuilds it.
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
                None => Index::open_or_create(&folder)?,
            };
            let outcome = work(&mut open);
            match &outcome {
                Ok(_) => *held = Some(open),
                Err(error) if error.is_damage() => {
                    drop(open);
                    store::delete_index(&folder)?;
                }
                Err(_) => {}
            }
            outcome
        });
        done.await.unwrap_or_else(|_| Err(IndexError::Io(std::io::Error::other("the work was cut short"))))
    }
}

/// Returns the number of documents that are read at the same time.
fn reader_count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(READERS_MAX)
}

/// Returns the Unix time in seconds.
fn unix_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Removes deleted files from the index and returns the files to read.
fn find_changes(
    index: &mut Index,
    workspace: &Path,
    present: &[FoundFile],
    put_off: &BTreeSet<String>,
) -> Result<Vec<(FoundFile, IndexQueue)>, IndexError> {
    let known = index.indexed_files()?;
    let paths: std::collections::HashSet<&str> = present.iter().map(|file| file.path.as_str()).collect();
    // Hidden files may belong to questions of other conversations: they stay as long as they exist.
    let is_there = |path: &str| workspace.join(path.trim_start_matches('/')).symlink_metadata().is_ok();
    let mut gone: Vec<&str> = known
        .iter()
        .filter(|(path, (_, hidden))| !(paths.contains(path.as_str()) || *hidden && is_there(path)))
        .map(|(path, _)| path.as_str())
        .collect();
    gone.sort_unstable();
    if !gone.is_empty() {
        index.drop_files(gone.into_iter())?;
    }
    let now = unix_seconds();
    let todo = |file: &FoundFile| match known.get(&file.path) {
        Some((known, _)) => {
            let is_reread = known.stamp == file.stamp && known.is_reread(&file.path);
            // Images of files that are read again would be read twice.
            if is_reread && !put_off.contains(&file.path) {
                return Some(IndexQueue::for_reread());
            }
            known.remaining_work(&file.stamp, now)
        }
        None => Some(IndexQueue::for_new_document()),
    };
    Ok(present.iter().filter_map(|file| todo(file).map(|todo| (file.clone(), todo))).collect())
}

/// Normalizes a path to the form of the index: one slash before each name and none at the end. Accepts the path in
/// the machine, too. Returns `None` for a path that leaves the workspace.
fn normalize_path(path: &str) -> Option<String> {
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
mod background_tests;
#[cfg(test)]
mod image_tests;
#[cfg(test)]
mod integrity_tests;
#[cfg(test)]
mod reader_tests;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vector_tests;
#[cfg(test)]
mod waiting_tests;
