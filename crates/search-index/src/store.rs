//! The index on disk: a SQLite file beside the workspace, which can be deleted at any time.

pub(crate) mod candidates;
mod columns;
pub(crate) mod images;
mod recognizer;
pub(crate) mod stored;
mod text_total;
mod vectors;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use documents::passages::DocumentPassage;
use documents::{OUTPUT_MAX_BYTES, PageRange, READER_VERSION};
use domain::unread::{UnreadImage, UnreadImages, UnreadReason};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction, params};
use text_analysis::TextLanguage;

use super::progress::{ExtractionProblem, IndexedFile, PassageBatch, Runs, retry_at};
use super::text::{document_title, language_of, stem_text};
use super::walk::{FileStamp, FoundFile};

/// The version of the schema; a file with another version is rebuilt.
const SCHEMA_VERSION: i64 = 4;
/// The file name of the index.
const FILE_NAME: &str = "passages.sqlite";
/// The maximum text of all passages, in bytes. A document that would exceed it is left out.
const TEXT_MAX_BYTES: i64 = 512 * 1024 * 1024;
/// The maximum number of passages per document; further ones are left out.
const PASSAGES_PER_FILE_MAX: usize = 20_000;

const SCHEMA: &str = "
CREATE TABLE file (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, text_bytes INTEGER NOT NULL, title TEXT NOT NULL,
    language TEXT NOT NULL, hidden INTEGER NOT NULL, reader INTEGER NOT NULL, complete INTEGER NOT NULL,
    pages INTEGER, runs TEXT NOT NULL, reason TEXT, problem TEXT, attempts INTEGER NOT NULL, retry_at INTEGER,
    scans INTEGER NOT NULL) STRICT;
CREATE TABLE passage (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, page INTEGER, first_line INTEGER, last_line INTEGER,
    heading TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX passage_file ON passage (file);
CREATE VIRTUAL TABLE stems USING fts5 (body, context, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0');
CREATE VIRTUAL TABLE stems_in USING fts5vocab (stems, row);
";

/// Gives the file of each passage without reading the passage, whose text fills pages of the database. Older indexes get it
/// when they are opened next.
const PLACES: &str = "CREATE INDEX IF NOT EXISTS passage_place ON passage (id, file);";
/// The number of a file's pages whose text was partly left out. Older indexes get it when they are opened next.
const CUT_PAGES: &str = "ALTER TABLE file ADD COLUMN cut_pages INTEGER NOT NULL DEFAULT 0;";
/// The memory for pages of the database, in KiB.
const CACHE_MAX_KIB: u32 = 16 * 1024;

/// The reason why the index is not usable.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// The folder or file cannot be written.
    #[error("the index cannot be written")]
    Io(#[from] std::io::Error),
    /// An error from SQLite.
    #[error("the index cannot be used")]
    Sqlite(#[from] rusqlite::Error),
    /// The file is not an index.
    #[error("the index is damaged")]
    Damaged,
}

impl IndexError {
    /// Returns true if the index itself may be the cause, not a full disk or another user of the file.
    fn may_be_damage(&self) -> bool {
        match self {
            Self::Damaged => true,
            Self::Io(_) => false,
            Self::Sqlite(error) => !matches!(
                error.sqlite_error_code(),
                Some(
                    ErrorCode::DiskFull
                        | ErrorCode::OutOfMemory
                        | ErrorCode::DatabaseBusy
                        | ErrorCode::DatabaseLocked
                )
            ),
        }
    }

    /// Returns true if only a damaged index has this error.
    pub(super) fn is_damage(&self) -> bool {
        match self {
            Self::Damaged => true,
            Self::Io(_) => false,
            Self::Sqlite(error) => match error.sqlite_error_code() {
                Some(code) => matches!(
                    code,
                    ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::ConstraintViolation
                ),
                // A value of another type than was written.
                None => true,
            },
        }
    }
}

/// The passages of the indexed documents.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
}

/// A document that could not be read.
#[derive(Debug, Clone)]
pub struct UnreadableDocument {
    pub path: String,
    /// True if the file is hidden.
    pub hidden: bool,
    /// The kind of reason.
    pub reason: UnreadReason,
    /// An explanation for the model.
    pub text: String,
}

impl Index {
    /// Opens the index in this folder and creates it if necessary. An index whose beginning is damaged, or one with another
    /// schema version, is deleted and recreated. Other damage is an error of the call that meets it ([`IndexError::is_damage`]).
    ///
    /// # Errors
    /// Fails if the folder cannot be written or the disk is full.
    pub fn open_or_create(folder: &Path) -> Result<Self, IndexError> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(FILE_NAME);
        match Self::open_file(&path) {
            Err(error) if error.may_be_damage() => {
                delete_index_files(&path)?;
                Self::open_file(&path)
            }
            opened => opened,
        }
    }

    fn open_file(path: &Path) -> Result<Self, IndexError> {
        let connection = Connection::open(path)?;
        // The last transactions may be lost in a crash, which does no damage: their documents are read again.
        connection.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY;
             PRAGMA cell_size_check = ON; PRAGMA cache_size = -{CACHE_MAX_KIB};"
        ))?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            connection
                .execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"))?;
        } else if version != SCHEMA_VERSION {
            return Err(IndexError::Damaged);
        }
        connection.execute_batch(PLACES)?;
        if !connection.column_exists(None, "file", "cut_pages")? {
            connection.execute_batch(CUT_PAGES)?;
        }
        connection.execute_batch(vectors::SCHEMA)?;
        connection.execute_batch(recognizer::SCHEMA)?;
        columns::add_headings_column(&connection)?;
        images::create_image_tables(&connection)?;
        text_total::create_text_total(&connection)?;
        // The tables that every search needs exist.
        connection.query_row(
            "SELECT EXISTS (SELECT 1 FROM file), EXISTS (SELECT 1 FROM stems)",
            [],
            |_| Ok(()),
        )?;
        Ok(Self { connection })
    }

    pub(super) const fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn begin_transaction(&mut self) -> Result<Transaction<'_>, IndexError> {
        Ok(self.connection.transaction()?)
    }

    /// Returns the indexed files by path, including those without text, and whether each is hidden.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn indexed_files(&self) -> Result<HashMap<String, (IndexedFile, bool)>, IndexError> {
        let mut statement =
            self.connection.prepare(&format!("SELECT path, hidden, {} FROM file", known_columns()))?;
        let rows = statement
            .query_map([], |row| Ok((row.get(0)?, (indexed_file_from_row(row, 2)?, row.get(1)?))))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the state of one file.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn indexed_file(&self, path: &str) -> Result<Option<IndexedFile>, IndexError> {
        let mut statement =
            self.connection.prepare(&format!("SELECT {} FROM file WHERE path = ?1", known_columns()))?;
        Ok(statement.query_row([path], |row| indexed_file_from_row(row, 0)).optional()?)
    }

    /// Adds the outcome of reading a file with its stamp. Pages are added to the pages of the same stamp; anything
    /// else replaces the indexed content.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub fn add_outcome(
        &mut self,
        file: &FoundFile,
        outcome: Result<&PassageBatch, &ExtractionProblem>,
        now: i64,
    ) -> Result<IndexedFile, IndexError> {
        let transaction = self.connection.transaction()?;
        let same = row_of(&transaction, &file.path)?
            .filter(|(_, known)| known.stamp == file.stamp && !known.is_outdated());
        let is_reread = same.as_ref().is_some_and(|(_, known)| known.is_reread(&file.path));
        let known = match (outcome, same) {
            (Ok(batch), same) => add_batch(&transaction, file, same.filter(|_| !is_reread), batch)?,
            // Content that was read before stays.
            (Err(problem), Some((id, mut known))) if is_reread => {
                if known.retry_at.is_some() {
                    known.attempts = known.attempts.saturating_add(1);
                    known.retry_at = Some(retry_at(now, known.attempts));
                }
                // Otherwise the next agent tries it again.
                if !problem.passing || known.retry_at.is_some() {
                    known.reader = READER_VERSION;
                    update_file(&transaction, id, &known)?;
                }
                known
            }
            // It was read before: reading the whole document timed out.
            (Err(problem), Some((_, known))) if problem.passing && known.complete => known,
            (Err(problem), same) => add_problem(&transaction, file, same, problem, now)?,
        };
        transaction.commit()?;
        Ok(known)
    }

    /// Removes deleted files.
    ///
    /// # Errors
    /// Fails if the index cannot be written.
    pub fn drop_files<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> Result<(), IndexError> {
        let transaction = self.connection.transaction()?;
        for path in paths {
            drop_file(&transaction, path)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// Returns the unreadable documents, sorted by path, with the reasons and whether they are hidden.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn list_unreadable(&self, at_most: usize) -> Result<Vec<UnreadableDocument>, IndexError> {
        let mut statement = self.connection.prepare(
            "SELECT path, hidden, reason, problem FROM file WHERE problem IS NOT NULL ORDER BY path LIMIT ?1",
        )?;
        let at_most = i64::try_from(at_most).unwrap_or(i64::MAX);
        let rows = statement.query_map([at_most], |row| {
            let reason: String = row.get(2)?;
            let reason = UnreadReason::of_code(&reason).unwrap_or(UnreadReason::Broken);
            Ok(UnreadableDocument { path: row.get(0)?, hidden: row.get(1)?, reason, text: row.get(3)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the number of passages.
    ///
    /// # Errors
    /// Fails if the index is damaged.
    pub fn passage_count(&self) -> Result<u64, IndexError> {
        let count: i64 = self.connection.query_row("SELECT count(*) FROM passage", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }
}

/// Opens the file of the index in this folder again, to read its raw content.
///
/// # Errors
/// Fails if it is missing.
pub(super) fn open_to_read(folder: &Path) -> Result<Connection, IndexError> {
    Ok(Connection::open_with_flags(folder.join(FILE_NAME), OpenFlags::SQLITE_OPEN_READ_ONLY)?)
}

/// Deletes the index in this folder.
///
/// # Errors
/// Returns errors of the file system.
pub(super) fn delete_index(folder: &Path) -> Result<(), IndexError> {
    delete_index_files(&folder.join(FILE_NAME))
}

/// Deletes the index file and SQLite's auxiliary files.
fn delete_index_files(path: &Path) -> Result<(), IndexError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match std::fs::remove_file(PathBuf::from(name)) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn drop_file(transaction: &Transaction<'_>, path: &str) -> Result<(), IndexError> {
    let id: Option<i64> = transaction
        .prepare("SELECT id FROM file WHERE path = ?1")?
        .query_row([path], |row| row.get(0))
        .optional()?;
    if let Some(id) = id {
        transaction
            .prepare("DELETE FROM stems WHERE rowid IN (SELECT id FROM passage WHERE file = ?1)")?
            .execute([id])?;
        transaction
            .prepare("DELETE FROM vector WHERE passage IN (SELECT id FROM passage WHERE file = ?1)")?
            .execute([id])?;
        images::remove_images(transaction, id)?;
        transaction.prepare("DELETE FROM passage WHERE file = ?1")?.execute([id])?;
        transaction.prepare("DELETE FROM file WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

/// Returns the columns of [`IndexedFile`], in the order that [`indexed_file_from_row`] expects.
fn known_columns() -> String {
    format!(
        "size, modified, changed, inode, complete, pages, runs, reason, problem, attempts, retry_at, reader,
         text_bytes, scans, cut_pages, {}",
        images::PENDING
    )
}

fn indexed_file_from_row(row: &Row<'_>, from: usize) -> rusqlite::Result<IndexedFile> {
    let stamp = FileStamp {
        size: row.get(from)?,
        modified_nanos: row.get(from + 1)?,
        changed_nanos: row.get(from + 2)?,
        inode: row.get(from + 3)?,
    };
    let (of, runs): (Option<u32>, String) = (row.get(from + 5)?, row.get(from + 6)?);
    let (reason, problem): (Option<String>, Option<String>) = (row.get(from + 7)?, row.get(from + 8)?);
    let retry_at: Option<i64> = row.get(from + 10)?;
    let problem = problem.map(|text| ExtractionProblem {
        reason: reason.and_then(|code| UnreadReason::of_code(&code)).unwrap_or(UnreadReason::Broken),
        text,
        passing: retry_at.is_some(),
    });
    Ok(IndexedFile {
        stamp,
        complete: row.get(from + 4)?,
        pages: of.map(|of| (Runs::parse(&runs), of)),
        problem,
        attempts: row.get(from + 9)?,
        retry_at,
        reader: row.get(from + 11)?,
        text_bytes: row.get(from + 12)?,
        scans: row.get(from + 13)?,
        cut_pages: row.get(from + 14)?,
        images: row.get(from + 15)?,
    })
}

/// Returns the row of a file with its id.
pub(super) fn row_of(connection: &Connection, path: &str) -> Result<Option<(i64, IndexedFile)>, IndexError> {
    let mut statement =
        connection.prepare(&format!("SELECT id, {} FROM file WHERE path = ?1", known_columns()))?;
    Ok(statement.query_row([path], |row| Ok((row.get(0)?, indexed_file_from_row(row, 1)?))).optional()?)
}

/// Recreates the row of a file, without passages.
fn begin_file(
    transaction: &Transaction<'_>,
    file: &FoundFile,
    pieces: &[DocumentPassage],
) -> Result<i64, IndexError> {
    drop_file(transaction, &file.path)?;
    let stamp = file.stamp;
    transaction.execute(
        "INSERT INTO file (path, size, modified, changed, inode, text_bytes, title, language, hidden, reader,
                           complete, pages, runs, reason, problem, attempts, retry_at, scans)
         VALUES (?1, ?2, ?3, ?4, ?5, 0, ?6, ?7, ?8, ?9, 0, NULL, '', NULL, NULL, 0, NULL, 0)",
        params![
            file.path,
            stamp.size,
            stamp.modified_nanos,
            stamp.changed_nanos,
            stamp.inode,
            document_title(pieces),
            language_of(pieces).code(),
            file.hidden,
            READER_VERSION
        ],
    )?;
    Ok(transaction.last_insert_rowid())
}

/// Adds passages to the row of the same stamp, or to a new row.
fn add_batch(
    transaction: &Transaction<'_>,
    file: &FoundFile,
    same: Option<(i64, IndexedFile)>,
    batch: &PassageBatch,
) -> Result<IndexedFile, IndexError> {
    let goes_on = same.filter(|(_, known)| known.pages.is_some() && batch.span.is_some());
    let (id, mut known) = match goes_on {
        Some(same) => same,
        None => (begin_file(transaction, file, &batch.pieces)?, IndexedFile::new(file.stamp)),
    };
    let mut runs = known.pages.take().map(|(runs, _)| runs).unwrap_or_default();
    let is_new = |piece: &&DocumentPassage| piece.page.is_none_or(|page| !runs.has_page(page));
    let pieces: Vec<&DocumentPassage> = batch.pieces.iter().filter(is_new).collect();
    let images: Vec<_> =
        batch.images.iter().filter(|image| image.page.is_none_or(|page| !runs.has_page(page))).collect();
    let new_scans =
        batch.scans.iter().chain(&batch.unread_files).filter(|page| !runs.has_page(**page)).count();
    let new_scans = u32::try_from(new_scans).unwrap_or(u32::MAX);
    let new_cut_pages = batch.cut_pages.iter().filter(|page| !runs.has_page(**page)).count();
    let new_cut_pages = u32::try_from(new_cut_pages).unwrap_or(u32::MAX);
    let (total, own) = (text_total::total_text_bytes(transaction)?, known.text_bytes);
    let passages: i64 =
        transaction.query_row("SELECT count(*) FROM passage WHERE file = ?1", [id], |row| row.get(0))?;
    let room = PASSAGES_PER_FILE_MAX.saturating_sub(usize::try_from(passages).unwrap_or(usize::MAX));
    // Pages that do not fit whole were not read.
    let span = batch.span.map(|span| match pieces.get(room).and_then(|piece| piece.page) {
        Some(page) => PageRange { last: span.last.min(page.saturating_sub(1)), ..span },
        None => span,
    });
    let pieces = &pieces[..pieces.len().min(room)];
    let bytes = i64::try_from(pieces.iter().map(|piece| piece.text.len()).sum::<usize>()).unwrap_or(i64::MAX);
    let fits = total.saturating_add(bytes) <= TEXT_MAX_BYTES;
    let mut unread = UnreadImages::from_counts(batch.unread_images);
    let added = span.is_none_or(|span| fits && runs.add_range(span.first, span.last));
    if fits && added {
        insert_pieces(transaction, file, id, pieces)?;
        unread.add_images(UnreadImage::TooMany, images::add_images(transaction, id, &images)?);
    }
    let own = own.saturating_add(if fits && added { bytes } else { 0 });
    let is_long = own >= i64::try_from(OUTPUT_MAX_BYTES).unwrap_or(i64::MAX) || pieces.len() >= room;
    let missing = batch.span.and_then(|span| runs.missing_pages(span.of));
    known.complete = !fits || is_long || missing.is_none();
    known.scans = known.scans.saturating_add(new_scans);
    known.cut_pages = known.cut_pages.saturating_add(new_cut_pages);
    let problem =
        |reason, text: &str| Some(ExtractionProblem { reason, text: text.to_owned(), passing: false });
    known.problem = if !fits {
        problem(UnreadReason::TooLarge, "the index is full")
    } else if !known.complete {
        None
    } else if own == 0 && file.stamp.size > 0 {
        Some(ExtractionProblem::no_text(batch.span))
    } else if is_long || batch.cut {
        problem(UnreadReason::Long, "only its beginning is searched: the document is too long")
    } else if known.cut_pages > 0 {
        let pages = known.cut_pages;
        let text = format!("text of {pages} of its pages was left out: they exceed the limit for one page");
        problem(UnreadReason::Long, &text)
    } else if known.scans > 0 && batch.holds_files {
        let text = format!("{} of the files in it could not be read, or not whole", known.scans);
        problem(UnreadReason::InnerFiles, &text)
    } else if known.scans > 0 {
        let text = format!("{} of its pages are scans without text", known.scans);
        problem(UnreadReason::ScannedPages, &text)
    } else {
        None
    };
    known.pages = batch.span.map(|span| (runs, span.of));
    (known.attempts, known.retry_at) = (0, None);
    known.reader = READER_VERSION;
    known.text_bytes = own;
    let (_, unread) = images::add_unread_counts(transaction, id, Duration::ZERO, unread)?;
    known.note_unread_images(unread);
    update_file(transaction, id, &known)?;
    if batch.images.is_empty() {
        return Ok(known);
    }
    Ok(row_of(transaction, &file.path)?.map_or(known, |(_, known)| known))
}

/// Records a problem. Passages of the same stamp are retained.
fn add_problem(
    transaction: &Transaction<'_>,
    file: &FoundFile,
    same: Option<(i64, IndexedFile)>,
    problem: &ExtractionProblem,
    now: i64,
) -> Result<IndexedFile, IndexError> {
    let (id, mut known) = match same {
        Some(same) => same,
        None => (begin_file(transaction, file, &[])?, IndexedFile::new(file.stamp)),
    };
    known.reader = READER_VERSION;
    known.attempts = known.attempts.saturating_add(1);
    known.retry_at = problem.passing.then(|| retry_at(now, known.attempts));
    known.problem = Some(problem.clone());
    update_file(transaction, id, &known)?;
    Ok(known)
}

pub(super) fn update_file(
    transaction: &Transaction<'_>,
    id: i64,
    known: &IndexedFile,
) -> Result<(), IndexError> {
    let runs = known.pages.as_ref().map(|(runs, _)| runs.to_text()).unwrap_or_default();
    transaction.execute(
        "UPDATE file SET complete = ?2, pages = ?3, runs = ?4, reason = ?5, problem = ?6, attempts = ?7,
                         retry_at = ?8, text_bytes = ?9, reader = ?10, scans = ?11, cut_pages = ?12
         WHERE id = ?1",
        params![
            id,
            known.complete,
            known.pages.as_ref().map(|(_, of)| *of),
            runs,
            known.problem.as_ref().map(|problem| problem.reason.to_string()),
            known.problem.as_ref().map(|problem| problem.text.as_str()),
            known.attempts,
            known.retry_at,
            known.text_bytes,
            known.reader,
            known.scans,
            known.cut_pages
        ],
    )?;
    Ok(())
}

/// Adds pieces to a file, if the index has room for them.
pub(super) fn add_pieces(
    transaction: &Transaction<'_>,
    found: &FoundFile,
    file: i64,
    pieces: &[DocumentPassage],
) -> Result<bool, IndexError> {
    let total = text_total::total_text_bytes(transaction)?;
    let passages: i64 =
        transaction.query_row("SELECT count(*) FROM passage WHERE file = ?1", [file], |row| row.get(0))?;
    let bytes = pieces.iter().map(|piece| piece.text.len()).sum::<usize>() as u64;
    let fits = total.saturating_add_unsigned(bytes) <= TEXT_MAX_BYTES
        && passages.saturating_add_unsigned(pieces.len() as u64) <= PASSAGES_PER_FILE_MAX as i64;
    if fits {
        insert_pieces(transaction, found, file, &pieces.iter().collect::<Vec<_>>())?;
    }
    Ok(fits)
}

fn insert_pieces(
    transaction: &Transaction<'_>,
    found: &FoundFile,
    file: i64,
    pieces: &[&DocumentPassage],
) -> Result<(), IndexError> {
    let (language, title): (String, String) =
        transaction.query_row("SELECT language, title FROM file WHERE id = ?1", [file], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let language = TextLanguage::of_code(&language).unwrap_or(TextLanguage::English);
    let mut passage = transaction.prepare(
        "INSERT INTO passage (file, page, first_line, last_line, heading, columns, text)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    let mut stems = transaction.prepare("INSERT INTO stems (rowid, body, context) VALUES (?1, ?2, ?3)")?;
    let about = stem_text(&format!("{} {title}", found.path), language);
    for piece in pieces {
        let heading = piece.heading.as_deref().unwrap_or_default();
        let lines = (piece.lines.map(|lines| lines.0), piece.lines.map(|lines| lines.1));
        let columns = piece.columns.as_deref().unwrap_or_default();
        passage.execute(params![file, piece.page, lines.0, lines.1, heading, columns, piece.text])?;
        let id = transaction.last_insert_rowid();
        let context = format!("{about} {} {}", stem_text(heading, language), stem_text(columns, language));
        stems.execute(params![id, stem_text(&piece.text, language), context])?;
    }
    Ok(())
}
