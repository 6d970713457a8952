//! The index on disk: a SQLite file beside the workspace, which can be thrown away at any time.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::walk::{Found, Stamp};
use crate::documents::passages::Piece;
use language::{Language, guess, terms};

/// The form of the tables; a file with another one is made anew.
const SCHEMA_VERSION: i64 = 1;
/// The name of the index in its folder.
const FILE_NAME: &str = "passages.sqlite";
/// The most text that all passages may have, in bytes. A document that would go beyond it is left out.
const TEXT_MAX_BYTES: i64 = 512 * 1024 * 1024;
/// The most passages of one document; what follows them is left out.
const PASSAGES_PER_FILE_MAX: usize = 20_000;
/// How much of a document's beginning counts as its title, in bytes.
const TITLE_MAX_BYTES: usize = 240;
/// How much of a document tells its language, in bytes.
const LANGUAGE_SAMPLE_MAX_BYTES: usize = 16 * 1024;

const SCHEMA: &str = "
CREATE TABLE file (
    id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, modified INTEGER NOT NULL,
    changed INTEGER NOT NULL, inode INTEGER NOT NULL, text_bytes INTEGER NOT NULL, title TEXT NOT NULL,
    language TEXT NOT NULL, problem TEXT) STRICT;
CREATE TABLE passage (
    id INTEGER PRIMARY KEY, file INTEGER NOT NULL, page INTEGER, first_line INTEGER, last_line INTEGER,
    heading TEXT NOT NULL, text TEXT NOT NULL) STRICT;
CREATE INDEX passage_file ON passage (file);
CREATE VIRTUAL TABLE stems USING fts5 (body, context, content='', contentless_delete=1, tokenize='unicode61 remove_diacritics 0');
CREATE VIRTUAL TABLE stems_in USING fts5vocab (stems, row);
";

/// Why the index can't be used.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// Its folder or file can't be written.
    #[error("the index cannot be written")]
    Io(#[from] std::io::Error),
    /// SQLite refused.
    #[error("the index cannot be used")]
    Sqlite(#[from] rusqlite::Error),
}

/// The passages of the documents that were indexed.
#[derive(Debug)]
pub struct Index {
    connection: Connection,
}

/// A document to put into the index.
#[derive(Debug)]
pub struct Document<'a> {
    /// Its file as it stood before it was read.
    pub file: &'a Found,
    /// Its passages, or why it has none.
    pub pieces: Result<&'a [Piece], &'a str>,
}

/// A passage with all that ranking asks of it.
#[derive(Debug, Clone)]
pub(super) struct Candidate {
    pub(super) id: i64,
    pub(super) file: i64,
    pub(super) path: String,
    pub(super) title: String,
    pub(super) language: Language,
    pub(super) page: Option<u32>,
    pub(super) lines: Option<(u32, u32)>,
    pub(super) heading: String,
    pub(super) text: String,
}

impl Index {
    /// Opens the index in this folder, which is made if need be. One that is damaged or of another form is
    /// thrown away and begun anew.
    ///
    /// # Errors
    /// When the folder can't be written.
    pub fn open(folder: &Path) -> Result<Self, IndexError> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(FILE_NAME);
        if let Ok(index) = Self::open_file(&path) {
            return Ok(index);
        }
        remove(&path)?;
        Self::open_file(&path)
    }

    fn open_file(path: &Path) -> Result<Self, IndexError> {
        let connection = Connection::open(path)?;
        // What is lost in a crash is read again from the documents.
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA temp_store = MEMORY;",
        )?;
        let version: i64 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version == 0 {
            connection
                .execute_batch(&format!("BEGIN; {SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"))?;
        } else if version != SCHEMA_VERSION {
            return Err(rusqlite::Error::InvalidQuery.into());
        }
        let sound: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        if sound != "ok" {
            return Err(rusqlite::Error::InvalidQuery.into());
        }
        // Each table is touched once, so that a hole in any of them shows now.
        connection.query_row("SELECT count(*) FROM file", [], |_| Ok(()))?;
        connection.query_row("SELECT count(*) FROM stems", [], |_| Ok(()))?;
        Ok(Self { connection })
    }

    /// The files that are in the index, those without text included.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn files(&self) -> Result<HashMap<String, Stamp>, IndexError> {
        let mut statement =
            self.connection.prepare("SELECT path, size, modified, changed, inode FROM file")?;
        let rows = statement.query_map([], |row| {
            let stamp = Stamp {
                size: row.get(1)?,
                modified_nanos: row.get(2)?,
                changed_nanos: row.get(3)?,
                inode: row.get(4)?,
            };
            Ok((row.get(0)?, stamp))
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Puts a document in the place of what the index had of its file.
    ///
    /// # Errors
    /// When the index can't be written.
    pub fn put(&mut self, document: &Document<'_>) -> Result<(), IndexError> {
        let transaction = self.connection.transaction()?;
        drop_file(&transaction, &document.file.path)?;
        let total: i64 =
            transaction.query_row("SELECT coalesce(sum(text_bytes), 0) FROM file", [], |row| row.get(0))?;
        let (pieces, mut problem) = match document.pieces {
            Ok(pieces) => (&pieces[..pieces.len().min(PASSAGES_PER_FILE_MAX)], None),
            Err(reason) => (&[][..], Some(reason)),
        };
        let bytes =
            i64::try_from(pieces.iter().map(|piece| piece.text.len()).sum::<usize>()).unwrap_or(i64::MAX);
        let fits = total.saturating_add(bytes) <= TEXT_MAX_BYTES;
        let pieces = if fits { pieces } else { &[][..] };
        if !fits {
            problem = Some("the index is full");
        }
        let title = title(pieces);
        let language = language_of(pieces);
        let stamp = document.file.stamp;
        transaction.execute(
            "INSERT INTO file (path, size, modified, changed, inode, text_bytes, title, language, problem)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                document.file.path,
                stamp.size,
                stamp.modified_nanos,
                stamp.changed_nanos,
                stamp.inode,
                if fits { bytes } else { 0 },
                title,
                language.code(),
                problem
            ],
        )?;
        let file = transaction.last_insert_rowid();
        insert_pieces(&transaction, file, &format!("{} {title}", document.file.path), language, pieces)?;
        transaction.commit()?;
        Ok(())
    }

    /// Drops files that are no more.
    ///
    /// # Errors
    /// When the index can't be written.
    pub fn drop_files<'a>(&mut self, paths: impl Iterator<Item = &'a str>) -> Result<(), IndexError> {
        let transaction = self.connection.transaction()?;
        for path in paths {
            drop_file(&transaction, path)?;
        }
        transaction.commit()?;
        Ok(())
    }

    /// The documents that could not be read, with the reason, by path.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn problems(&self, at_most: usize) -> Result<Vec<(String, String)>, IndexError> {
        let mut statement = self
            .connection
            .prepare("SELECT path, problem FROM file WHERE problem IS NOT NULL ORDER BY path LIMIT ?1")?;
        let rows = statement
            .query_map([i64::try_from(at_most).unwrap_or(i64::MAX)], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// How many passages there are.
    ///
    /// # Errors
    /// When the index is damaged.
    pub fn passages(&self) -> Result<u64, IndexError> {
        let count: i64 = self.connection.query_row("SELECT count(*) FROM passage", [], |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// How many passages hold this stem.
    pub(super) fn passages_with(&self, stem: &str) -> Result<u64, IndexError> {
        let mut statement = self.connection.prepare("SELECT doc FROM stems_in WHERE term = ?1")?;
        let count: Option<i64> = statement.query_row([stem], |row| row.get(0)).optional()?;
        Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
    }

    /// The files in which a passage holds one of these stems.
    pub(super) fn files_with(&self, stems: &[String]) -> Result<Vec<i64>, IndexError> {
        let mut statement = self.connection.prepare(
            "SELECT DISTINCT passage.file FROM stems JOIN passage ON passage.id = stems.rowid WHERE stems MATCH ?1",
        )?;
        let rows = statement.query_map([any_of(stems.iter())], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The passages with the best plain scores among those that hold any of the stems, within the given
    /// files or folders.
    pub(super) fn candidates(
        &self,
        stems: &[String],
        paths: &[String],
        at_most: usize,
    ) -> Result<Vec<Candidate>, IndexError> {
        if stems.is_empty() {
            return Ok(Vec::new());
        }
        let mut filter = String::new();
        let mut values: Vec<String> = vec![any_of(stems.iter())];
        for path in paths {
            filter.push_str(if filter.is_empty() { " AND (" } else { " OR " });
            let (file, folder) = (values.len() + 1, values.len() + 2);
            filter.push_str(&format!(
                "file.path = ?{file} OR substr(file.path, 1, length(?{folder})) = ?{folder}"
            ));
            let path = path.trim_end_matches('/');
            values.push(path.to_owned());
            values.push(format!("{path}/"));
        }
        if !filter.is_empty() {
            filter.push(')');
        }
        let sql = format!(
            "SELECT passage.id, file.id, file.path, file.title, file.language, passage.page, passage.first_line,
                    passage.last_line, passage.heading, passage.text
             FROM stems JOIN passage ON passage.id = stems.rowid JOIN file ON file.id = passage.file
             WHERE stems MATCH ?1{filter} ORDER BY bm25(stems, 1.0, 0.5), passage.id LIMIT {at_most}"
        );
        let mut statement = self.connection.prepare(&sql)?;
        let rows = statement.query_map(rusqlite::params_from_iter(values), |row| {
            let language: String = row.get(4)?;
            let lines: (Option<u32>, Option<u32>) = (row.get(6)?, row.get(7)?);
            Ok(Candidate {
                id: row.get(0)?,
                file: row.get(1)?,
                path: row.get(2)?,
                title: row.get(3)?,
                language: Language::of_code(&language).unwrap_or(Language::English),
                page: row.get(5)?,
                lines: lines.0.zip(lines.1),
                heading: row.get(8)?,
                text: row.get(9)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}

/// Removes the file of an index with what SQLite keeps beside it.
fn remove(path: &Path) -> Result<(), IndexError> {
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
        transaction.prepare("DELETE FROM passage WHERE file = ?1")?.execute([id])?;
        transaction.prepare("DELETE FROM file WHERE id = ?1")?.execute([id])?;
    }
    Ok(())
}

fn insert_pieces(
    transaction: &Transaction<'_>,
    file: i64,
    about: &str,
    language: Language,
    pieces: &[Piece],
) -> Result<(), IndexError> {
    let mut passage = transaction.prepare(
        "INSERT INTO passage (file, page, first_line, last_line, heading, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    let mut stems = transaction.prepare("INSERT INTO stems (rowid, body, context) VALUES (?1, ?2, ?3)")?;
    let about = stemmed(about, language);
    for piece in pieces {
        let heading = piece.heading.as_deref().unwrap_or_default();
        let lines = (piece.lines.map(|lines| lines.0), piece.lines.map(|lines| lines.1));
        passage.execute(params![file, piece.page, lines.0, lines.1, heading, piece.text])?;
        let id = transaction.last_insert_rowid();
        let context = format!("{about} {}", stemmed(heading, language));
        stems.execute(params![id, stemmed(&piece.text, language), context])?;
    }
    Ok(())
}

/// The stems of a text with blanks between them, stop words left out.
fn stemmed(text: &str, language: Language) -> String {
    let mut out = String::with_capacity(text.len());
    for term in terms(text, language).into_iter().filter(|term| !term.stop) {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&term.stem);
    }
    out
}

/// The first lines of a document.
fn title(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for line in
        pieces.iter().flat_map(|piece| piece.text.lines()).filter(|line| !line.trim().is_empty()).take(3)
    {
        out.push_str(line.trim());
        out.push(' ');
        if out.len() >= TITLE_MAX_BYTES {
            break;
        }
    }
    out.truncate(out.floor_char_boundary(TITLE_MAX_BYTES));
    out.trim_end().to_owned()
}

/// The language of a document; English, whose endings are the least, where nothing tells.
fn language_of(pieces: &[Piece]) -> Language {
    let mut sample = String::new();
    for piece in pieces {
        sample.push_str(&piece.text);
        sample.push('\n');
        if sample.len() >= LANGUAGE_SAMPLE_MAX_BYTES {
            break;
        }
    }
    guess(&sample).unwrap_or(Language::English)
}

/// A query of SQLite's for passages that hold any of the stems.
fn any_of<'a>(stems: impl Iterator<Item = &'a String>) -> String {
    stems.map(|stem| format!("\"{}\"", stem.replace('"', ""))).collect::<Vec<_>>().join(" OR ")
}
