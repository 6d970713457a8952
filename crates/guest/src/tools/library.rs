//! Documents from the agent's side: avoids reading indexed documents again, and stores the results of workers in
//! the index.

use std::path::{Path, PathBuf};
use std::time::Duration;

use documents::passages::DocumentPassage;
use documents::{DocumentFormat, PAGES_MAX, PageRange};
use domain::citation::PageKind;
use domain::unread::{UNREAD_MAX, UnreadFile, UnreadReason};
use protocol::tool::{
    AttachedArguments, FoundUnread, IMAGES_MAX, OUTPUT_PASSAGES_MAX, SearchArguments, ToolOutput,
};
use search_index::{ExtractionProblem, FoundFile, PassageBatch, StoredPages, Wanted};
use tokio::time::Instant;

use super::attached::missing_attached;
use super::child::{WorkerAnswer, WorkerError, ask_worker};
use super::jail::Jail;
use super::output::failed_output;
use super::path::{self, plain_line};
use super::read::{self, ReadArguments, ShownDocument};
use super::request::ChildTask;
use super::{FILE_TIME_MAX, ToolLimits, ocr, readers};

/// The timeout of reading all attached files, of one of them, and of reading files for the index that are not shown.
const ATTACHED_TIME_MAX: Duration = Duration::from_secs(50);
const ATTACHED_FILE_TIME_MAX: Duration = Duration::from_secs(20);
const ATTACHED_INDEX_TIME_MAX: Duration = Duration::from_secs(10);
/// The pause before a check for changes, in which more may arrive.
const CHANGES_PAUSE: Duration = Duration::from_millis(50);
/// The maximum number of passages that one call of `read` takes from the index.
const STORED_MAX: usize = 200;
/// A worker that exceeded its time has used at least this much of it.
const FAIR_TIME: Duration = Duration::from_secs(5);

/// Keeps the index up to date with the workspace, as long as the agent runs.
pub(crate) async fn keep_index(limits: std::sync::Arc<ToolLimits>) {
    let Some(library) = &limits.library else { return };
    if library.lacks_recognition().await {
        // Tells the index about newly installed languages. The recognition program takes time and memory, so it is only run when
        // needed.
        limits.recognition.chosen_languages(&limits).await;
    }
    library.touch_known_files().await;
    let keep_up = async {
        loop {
            library.keep_up(|wanted| extract_document(wanted, &limits)).await;
            limits.readers.clear();
            tokio::time::sleep(CHANGES_PAUSE).await;
        }
    };
    tokio::join!(library.check_integrity(), keep_up);
}

/// Runs `read`: from the index if it has the pages, otherwise in a worker.
pub(super) async fn read_document(
    arguments: ReadArguments,
    limits: &ToolLimits,
) -> Result<ToolOutput, String> {
    let found = find_file(&arguments.path, limits).await;
    if let Some(output) = stored_output(&arguments, found.as_ref(), limits).await {
        return Ok(output);
    }
    match ask_worker(ChildTask::Read(arguments), limits, FILE_TIME_MAX).await {
        Ok(WorkerAnswer::Read(output, batch)) => {
            if let (Some(library), Some(found), Some(batch)) = (&limits.library, found, batch) {
                library.store_outcome(found, Ok(batch)).await;
            }
            Ok(output)
        }
        Ok(WorkerAnswer::Output(output)) => Ok(output),
        Ok(_) => Err("the tool gave an unexpected kind of answer".to_owned()),
        Err(WorkerError { text, reason }) => {
            let mut output = failed_output(&text);
            if let (Some(reason), Some(found)) = (reason, found) {
                output.unread = vec![FoundUnread::from(&UnreadFile { path: found.path, reason })];
            }
            Ok(output)
        }
    }
}

/// Returns the file's current state, on a blocking thread.
pub(super) async fn find_file(path: &str, limits: &ToolLimits) -> Option<FoundFile> {
    let (path, workspace) = (path.to_owned(), limits.workspace.clone());
    let found = tokio::task::spawn_blocking(move || Jail::open_workspace(&workspace).ok()?.find_file(&path));
    found.await.ok().flatten()
}

/// Returns a search with the paths of the workspace, whose names may have another Unicode normal form.
pub(super) async fn resolve_spellings(arguments: SearchArguments, limits: &ToolLimits) -> SearchArguments {
    if arguments.paths.iter().all(|path| path.is_ascii()) {
        return arguments;
    }
    let (workspace, paths) = (limits.workspace.clone(), arguments.paths.clone());
    let spelled = tokio::task::spawn_blocking(move || {
        let jail = Jail::open_workspace(&workspace).ok()?;
        let spelled = |path: String| {
            let meant = path::parse_path(&path).ok().and_then(|path| jail.resolve_spelling(&path));
            meant.and_then(|meant| Some(format!("/{}", meant.to_str()?))).unwrap_or(path)
        };
        Some(paths.into_iter().map(spelled).collect())
    });
    match spelled.await {
        Ok(Some(paths)) => SearchArguments { paths, ..arguments },
        _ => arguments,
    }
}

/// Adds the attached files that no longer exist to the output of a search.
pub(super) async fn with_missing(output: ToolOutput, attached: &[String], limits: &ToolLimits) -> ToolOutput {
    let (workspace, paths) = (limits.workspace.clone(), attached.to_vec());
    let gone = tokio::task::spawn_blocking(move || {
        Jail::open_workspace(&workspace).map(|jail| missing_attached(&jail, &paths)).unwrap_or_default()
    });
    let mut output = output;
    for file in gone.await.unwrap_or_default() {
        output.text.push_str(&format!("\nNo longer there: {}.", plain_line(&file.path)));
        output.unread.push(FoundUnread::from(&file));
    }
    output
}

/// Returns the output of `read` from the index, if it has the pages.
async fn stored_output(
    arguments: &ReadArguments,
    found: Option<&FoundFile>,
    limits: &ToolLimits,
) -> Option<ToolOutput> {
    let (library, found) = (limits.library.as_ref()?, found?);
    let page = arguments.first_page.unwrap_or(1).max(1);
    if PageKind::from_path(&found.path) == PageKind::Sheet {
        return stored_rows(arguments, found, limits).await;
    }
    if arguments.first_line.is_some() {
        return None;
    }
    let stored = library.read_stored_pages(&found.path, found.stamp, page, STORED_MAX).await?;
    let shown = ShownDocument {
        name: found.path.clone(),
        path: PathBuf::from(found.path.trim_start_matches('/')),
        format: match PageKind::from_path(&found.path) {
            PageKind::File => DocumentFormat::Archive,
            _ => DocumentFormat::Pdf,
        },
        pages: Some(stored.of),
        lines: None,
        next_page: (stored.through < stored.of).then_some(stored.through + 1),
        pieces: stored.pieces,
        truncated: stored.problem.as_ref().is_some_and(|problem| problem.reason == UnreadReason::Long),
        notes: stored.problem.into_iter().map(|problem| problem.text).collect(),
    };
    // An indexed range without text does not show the next one: the worker reads on.
    let output = read::format_output(shown, arguments).ok()?;
    (!output.passages.is_empty()).then_some(output)
}

/// Returns the output of a further `read` of a workbook from the index, which need not read it from its beginning.
async fn stored_rows(
    arguments: &ReadArguments,
    found: &FoundFile,
    limits: &ToolLimits,
) -> Option<ToolOutput> {
    let library = limits.library.as_ref()?;
    if arguments.first_page.is_none() && arguments.first_line.is_none() {
        return None;
    }
    let from = (arguments.first_page.unwrap_or(1).max(1), arguments.first_line.unwrap_or(1).max(1));
    let stored = library.stored_rows(&found.path, found.stamp, from, STORED_MAX).await?;
    let bytes: usize = stored.pieces.iter().map(DocumentPassage::shown_bytes).sum();
    // If more passages exist than fit into one call, the first that does not fit is known.
    if stored.pieces.len() > STORED_MAX && bytes <= read::READ_MAX_BYTES {
        return None;
    }
    let shown = ShownDocument {
        name: found.path.clone(),
        path: PathBuf::from(found.path.trim_start_matches('/')),
        format: DocumentFormat::Workbook,
        pages: Some(stored.of),
        lines: None,
        next_page: None,
        pieces: read::from_line(stored.pieces, from),
        truncated: stored.problem.as_ref().is_some_and(|problem| problem.reason == UnreadReason::Long),
        notes: stored.problem.into_iter().map(|problem| problem.text).collect(),
    };
    read::format_output(shown, arguments).ok().filter(|output| !output.passages.is_empty())
}

/// Extracts passages of a document in a worker.
///
/// # Errors
/// Returns the reason why the file has no passages; also if extraction takes more than twice the time or more
/// memory than the limits allow.
pub(super) async fn extract_document(
    wanted: Wanted,
    limits: &ToolLimits,
) -> Result<PassageBatch, ExtractionProblem> {
    let passing =
        |text: &str| ExtractionProblem { reason: UnreadReason::Broken, text: text.to_owned(), passing: true };
    let inside =
        workspace_path(&wanted.file, limits).ok_or_else(|| passing("the file is not in the workspace"))?;
    if let Some(image) = wanted.image {
        return ocr::read_image(inside, image, limits).await;
    }
    let Wanted { pages, time, attempts, .. } = wanted;
    let began = Instant::now();
    let mut outcome = extract_pages(&inside, pages, time, limits).await;
    if let Err(error) = &outcome
        && error.is_crash()
        && PageKind::from_path(&inside) == PageKind::File
    {
        outcome = without_crash(&inside, pages, time, limits).await.unwrap_or(outcome);
    }
    // The worker's problem may be caused by load on the machine.
    let extracted = outcome.unwrap_or_else(|WorkerError { text, reason }| {
        Err(ExtractionProblem { reason: reason.unwrap_or(UnreadReason::Broken), text, passing: true })
    });
    ocr::add_text(&inside, extracted, (began, time, attempts), limits).await
}

/// Extracts passages of some pages in a worker.
///
/// # Errors
/// Fails if the worker was ended.
async fn extract_pages(
    path: &str,
    pages: Option<(u32, u32)>,
    time: Duration,
    limits: &ToolLimits,
) -> Result<Result<PassageBatch, ExtractionProblem>, WorkerError> {
    let piece_max_bytes = search_index::PIECE_MAX_BYTES;
    let task = ChildTask::Extract { path: path.to_owned(), piece_max_bytes, pages, time };
    match readers::extract_in_reader(task, limits, FILE_TIME_MAX).await? {
        WorkerAnswer::Batch(batch) => Ok(batch.map_err(|error| {
            let reason = UnreadReason::of_code(&error.reason).unwrap_or(UnreadReason::Broken);
            ExtractionProblem { reason, text: plain_line(&error.text), passing: error.passing }
        })),
        _ => {
            Err(WorkerError { text: "the worker gave an unexpected kind of answer".to_owned(), reason: None })
        }
    }
}

/// Reads the first files of an archive that a worker does not survive: the files that it survives, or only the first one, which
/// is left out. Returns `None` for an unknown archive.
async fn without_crash(
    path: &str,
    pages: Option<(u32, u32)>,
    time: Duration,
    limits: &ToolLimits,
) -> Option<Result<Result<PassageBatch, ExtractionProblem>, WorkerError>> {
    // Counting the files does not unpack any.
    let beyond = extract_pages(path, Some((PAGES_MAX + 1, PAGES_MAX + 1)), time, limits).await;
    let of = beyond.ok()?.ok()?.span?.of;
    let (first, mut last) = pages.unwrap_or((1, of));
    last = last.min(of);
    loop {
        let outcome = extract_pages(path, Some((first, last)), time, limits).await;
        match &outcome {
            Err(error) if error.is_crash() && first < last => last = first + (last - first) / 2,
            Err(error) if error.is_crash() => return Some(Ok(Ok(left_out(first, of, &error.text)))),
            _ => return Some(outcome),
        }
    }
}

/// Returns the known problem of a file of an archive that no worker survives.
fn left_out(page: u32, of: u32, why: &str) -> PassageBatch {
    let text = format!("(file {page} is not read: {why})");
    PassageBatch {
        pieces: vec![DocumentPassage {
            page: Some(page),
            lines: None,
            heading: Some(format!("file {page}")),
            columns: None,
            text,
        }],
        span: Some(PageRange { first: page, last: page, of }),
        holds_files: true,
        unread_files: vec![page],
        ..PassageBatch::default()
    }
}

fn workspace_path(file: &Path, limits: &ToolLimits) -> Option<String> {
    file.strip_prefix(&limits.workspace).ok().map(path::display_path)
}

/// The outcome of reading an attached file.
enum AttachedRead {
    /// The text and the images that are shown of it.
    Output(ToolOutput),
    /// It cannot be read.
    Unread(ExtractionProblem),
    /// It cannot be read because a file in it ended the worker. The other files in it can be searched.
    PartlyRead(ExtractionProblem),
    /// The time did not suffice to show it.
    OutOfTime,
}

/// Reads the attached files, each in a separate worker, so that a file that crashes its parser does not affect
/// the others.
pub(super) async fn read_attachments(arguments: &AttachedArguments, limits: &ToolLimits) -> ToolOutput {
    let until = Instant::now() + ATTACHED_TIME_MAX;
    let mut room = arguments.text_max_bytes;
    let mut output = ToolOutput { text: "Attached files:".to_owned(), ..ToolOutput::default() };
    let mut not_shown = Vec::new();
    for path in arguments.paths.iter().take(domain::limits::ATTACHMENTS_MAX) {
        match read_attached(path, room, until, limits).await {
            AttachedRead::Output(result) => {
                if !add_result(&mut output, result, &mut room) {
                    not_shown.push(path.clone());
                }
            }
            AttachedRead::Unread(problem) => add_problem(&mut output, path, &problem),
            AttachedRead::PartlyRead(problem) => {
                not_shown.push(path.clone());
                add_problem(&mut output, path, &problem);
            }
            AttachedRead::OutOfTime => {
                output.text.push_str(&format!(
                    "\n- {}: not shown, as time ran out: use search and read",
                    plain_line(path)
                ));
                not_shown.push(path.clone());
            }
        }
    }
    if let Some(library) = limits.library.as_ref().filter(|_| !not_shown.is_empty()) {
        let read = |wanted| extract_document(wanted, limits);
        let unread = library.read_now(&not_shown, ATTACHED_INDEX_TIME_MAX, read).await;
        limits.readers.clear();
        let is_new = |file: &&UnreadFile| !output.unread.iter().any(|known| known.path == file.path);
        let unread: Vec<FoundUnread> = unread.iter().filter(is_new).map(FoundUnread::from).collect();
        output.unread.extend(unread);
        output.unread.truncate(UNREAD_MAX);
    }
    output
}

fn add_problem(output: &mut ToolOutput, path: &str, problem: &ExtractionProblem) {
    output.text.push_str(&format!("\n- {}: {}", plain_line(path), plain_line(&problem.text)));
    let file = UnreadFile { path: path.to_owned(), reason: problem.reason };
    output.unread.push(FoundUnread::from(&file));
}

/// Reads one attached file, unless the index knows that it cannot be read.
async fn read_attached(path: &str, room: usize, until: Instant, limits: &ToolLimits) -> AttachedRead {
    let found = find_file(path, limits).await;
    let known = match (&limits.library, &found) {
        (Some(library), Some(found)) => library.find_problem(&found.path, found.stamp).await,
        _ => None,
    };
    let inner_files = match known {
        Some(problem) if problem.reason == UnreadReason::InnerFiles => Some(problem),
        // An image may be shown, and so may a partly searched document.
        Some(problem) if !may_be_shown(problem.reason) => return AttachedRead::Unread(problem),
        _ => None,
    };
    let time = until.saturating_duration_since(Instant::now()).min(ATTACHED_FILE_TIME_MAX);
    if time.is_zero() {
        return AttachedRead::OutOfTime;
    }
    let asked = AttachedArguments { paths: vec![path.to_owned()], text_max_bytes: room };
    let error = match ask_worker(ChildTask::Attached(asked), limits, time).await {
        Ok(WorkerAnswer::Output(result)) => {
            return AttachedRead::Output(match &found {
                Some(found) => with_recognized(result, found, room, limits).await,
                None => result,
            });
        }
        Ok(_) => {
            return AttachedRead::Unread(ExtractionProblem {
                reason: UnreadReason::Broken,
                text: "the worker gave an unexpected kind of answer".to_owned(),
                passing: true,
            });
        }
        Err(error) => error,
    };
    if let Some(problem) = inner_files.filter(|_| error.is_crash()) {
        return AttachedRead::PartlyRead(problem);
    }
    let reason = error.reason.unwrap_or(UnreadReason::Broken);
    let problem = ExtractionProblem { reason, text: error.text, passing: true };
    if let (Some(library), Some(found)) = (&limits.library, found) {
        if reason == UnreadReason::TooSlow && library.is_complete(&found.path, found.stamp).await {
            return AttachedRead::OutOfTime;
        }
        if time >= FAIR_TIME {
            library.store_outcome(found, Err(problem.clone())).await;
        }
    }
    AttachedRead::Unread(problem)
}

/// Returns true if part of a file with this problem may be shown.
const fn may_be_shown(reason: UnreadReason) -> bool {
    use UnreadReason::{Image, Images, InnerFiles, Long, NoText, ScannedPages};
    matches!(reason, Image | Images(_) | InnerFiles | Long | NoText | ScannedPages)
}

/// Adds the recognized text of a scan or an image to the result of attaching it, if it fits. Images inside a document are read for
/// the index.
async fn with_recognized(
    mut result: ToolOutput,
    found: &FoundFile,
    room: usize,
    limits: &ToolLimits,
) -> ToolOutput {
    let is_scan = |file: &FoundUnread| {
        let reason = UnreadReason::of_code(&file.reason);
        matches!(reason, Some(UnreadReason::NoText | UnreadReason::ScannedPages | UnreadReason::Indexing))
    };
    if !result.unread.iter().any(is_scan) && result.images.is_empty() {
        return result;
    }
    let (Some(library), Some(_)) = (&limits.library, limits.recognition.chosen_languages(limits).await)
    else {
        // Nobody will read images inside a document.
        result.unread.retain(|file| file.reason != UnreadReason::Indexing.code());
        return result;
    };
    let paths = [found.path.clone()];
    let unread =
        library.read_now(&paths, ATTACHED_INDEX_TIME_MAX, |wanted| extract_document(wanted, limits)).await;
    limits.readers.clear();
    if result.images.is_empty() {
        result.unread = unread.iter().map(FoundUnread::from).collect();
    }
    let stored = library.read_stored_pages(&found.path, found.stamp, 1, OUTPUT_PASSAGES_MAX).await;
    let bytes = |stored: &StoredPages| stored.pieces.iter().map(DocumentPassage::shown_bytes).sum::<usize>();
    match stored.filter(|stored| stored.through >= stored.of && bytes(stored) <= room) {
        Some(stored) if !stored.pieces.is_empty() => {
            let inside = PathBuf::from(found.path.trim_start_matches('/'));
            result.text.push_str("; its recognized text is below");
            result.passages =
                stored.pieces.into_iter().map(|piece| read::found_passage(&inside, piece)).collect();
        }
        None if result.passages.is_empty() && result.images.is_empty() && result.unread.is_empty() => {
            result.text.push_str("; its recognized text is too long to show here: use search and read");
        }
        Some(_) | None => {}
    }
    result
}

/// Adds the result of one file if it fits. Returns true if the file's content is shown, or the reason why it cannot be.
fn add_result(output: &mut ToolOutput, result: ToolOutput, room: &mut usize) -> bool {
    let bytes: usize = result.passages.iter().map(|passage| passage.text.len()).sum();
    let name = result.text.split(": ").next().unwrap_or_default().to_owned();
    let fits = output.passages.len() + result.passages.len() <= OUTPUT_PASSAGES_MAX
        && output.images.len() + result.images.len() <= IMAGES_MAX;
    let is_shown = !(result.passages.is_empty() && result.images.is_empty() && result.unread.is_empty());
    if fits {
        *room = room.saturating_sub(bytes);
        output.text.push_str(&result.text);
        output.passages.extend(result.passages);
        output.images.extend(result.images);
    } else {
        output
            .text
            .push_str(&format!("{name}: too many files are attached to show it here; use search and read"));
    }
    output.unread.extend(result.unread);
    fits && is_shown
}
