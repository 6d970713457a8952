//! A copy of a database as lines of text, independent of the engine. Backups consist of it.
//!
//! The first chunk is the version. Every other chunk holds rows of one table: a line with the table and its
//! columns, then a line per row. A table follows the tables that it refers to. The tables are read from the
//! database's catalog, so a migration that adds a table changes nothing here.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use std::io::Write;
use std::path::{Path, PathBuf};

use domain::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::error::StoreError;
use crate::migrations::MIGRATIONS;
use crate::sql::Result;
use crate::url::DatabaseUrl;

/// The size at which a chunk is passed on. Its last row may exceed it.
const CHUNK_BYTES: usize = 1 << 20;
/// The maximum number of tables, and the maximum number of columns of a table.
const NAMES_MAX: usize = 1000;

/// Receives chunks: a name, and the text.
pub type ChunkSink<'a, E> = dyn FnMut(&str, &[u8]) -> Result<(), E> + 'a;

/// Exports a database. Created by [`crate::Store::exporter`].
pub struct DatabaseExporter(pub(crate) From);

pub(crate) enum From {
    File(PathBuf),
    #[cfg(feature = "postgres")]
    Server(Box<crate::postgres::PgAddress>),
}

impl DatabaseExporter {
    /// Exports a consistent snapshot while reads and writes continue. Blocks; must not run on a runtime's
    /// thread.
    ///
    /// # Errors
    /// [`StoreError`] of the engine, or the error of `take`, which ends the export.
    pub fn export_snapshot<E: std::convert::From<StoreError>>(
        &self,
        take: &mut ChunkSink<'_, E>,
    ) -> Result<(), E> {
        match &self.0 {
            From::File(path) => sqlite::export_sqlite(path, take),
            #[cfg(feature = "postgres")]
            From::Server(address) => postgres::export_postgres(address, take),
        }
    }
}

/// Imports a database, all or nothing: without [`Importer::finish_import`] PostgreSQL is unchanged, and SQLite
/// leaves a file that the caller removes. Blocks; must not run on a runtime's thread.
pub struct Importer {
    to: To,
    known: bool,
    /// The schema has the table `serving`.
    has_serving: bool,
}

enum To {
    File(Box<sqlite::SqliteImport>),
    #[cfg(feature = "postgres")]
    Server(Box<postgres::PostgresImport>),
}

impl Importer {
    /// Imports into a new SQLite database at `path`.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] if the file exists, otherwise an error of the engine.
    pub fn for_file(path: &Path) -> Result<Self> {
        Ok(Self {
            to: To::File(Box::new(sqlite::SqliteImport::create_database(path)?)),
            known: false,
            has_serving: false,
        })
    }

    /// Imports into a database without any of the program's tables.
    ///
    /// # Errors
    /// [`StoreError::NotEmpty`] if the tables exist, otherwise an error of the engine.
    pub fn for_database(url: &DatabaseUrl) -> Result<Self> {
        url.check_syntax()?;
        if let Some(path) = url.reveal().strip_prefix("sqlite:") {
            return Self::for_file(Path::new(path));
        }
        #[cfg(feature = "postgres")]
        return Ok(Self {
            to: To::Server(Box::new(postgres::PostgresImport::open_database(url.reveal())?)),
            known: false,
            has_serving: false,
        });
        #[cfg(not(feature = "postgres"))]
        Err(StoreError::Rule("this program was built without PostgreSQL"))
    }

    /// Imports a chunk. Chunks must arrive in the order of their export.
    ///
    /// # Errors
    /// [`StoreError::TooNew`], [`StoreError::Damaged`], otherwise an error of the engine.
    pub fn import_chunk(&mut self, chunk: &[u8]) -> Result<()> {
        if !self.known {
            let version = version_of(chunk)?;
            match &mut self.to {
                To::File(import) => import.begin_import(version)?,
                #[cfg(feature = "postgres")]
                To::Server(import) => import.begin_import(version)?,
            }
            self.known = true;
            self.has_serving = version >= SERVING_SINCE;
            return Ok(());
        }
        let mut lines = chunk.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let head: ChunkHeader =
            serde_json::from_slice(lines.next().unwrap_or_default()).map_err(damaged_backup)?;
        head.check_names()?;
        let rows = lines.map(|line| {
            let cells: Vec<Json> = serde_json::from_slice(line).map_err(damaged_backup)?;
            if cells.len() == head.columns.len() {
                Ok(cells)
            } else {
                Err(damaged_backup("the columns of a row differ from those of its table"))
            }
        });
        match &mut self.to {
            To::File(import) => import.insert_rows(&head, rows),
            #[cfg(feature = "postgres")]
            To::Server(import) => import.insert_rows(&head, rows),
        }
    }

    /// Commits the import durably. Ends all leases, because their holders serve another database, and removes the
    /// identity, because the copy has another folder of workspaces.
    ///
    /// # Errors
    /// [`StoreError`] of the engine; then nothing was imported.
    pub fn finish_import(self) -> Result<()> {
        if !self.known {
            return Err(damaged_backup("the schema version is missing"));
        }
        let release = if self.has_serving { format!("{RELEASE}; {UNNAME}") } else { RELEASE.to_owned() };
        match self.to {
            To::File(import) => import.finish_import(&release),
            #[cfg(feature = "postgres")]
            To::Server(import) => import.finish_import(&release),
        }
    }
}

/// Ends all leases on answers.
const RELEASE: &str = "UPDATE dispatch SET node_id = NULL, lease_until = NULL";
/// Removes the database's identity, and the record of the service that works on the original.
const UNNAME: &str = "UPDATE serving SET database_id = NULL, process_id = NULL, folder_id = NULL";
/// The first version of the schema with the table `serving`.
const SERVING_SINCE: usize = 20;

#[derive(Serialize, Deserialize)]
struct Version {
    version: i64,
}

fn version_of(chunk: &[u8]) -> Result<usize> {
    let Version { version: found } = serde_json::from_slice(chunk).map_err(damaged_backup)?;
    let known = MIGRATIONS.len() as i64;
    match usize::try_from(found) {
        Ok(version) if (1..=known).contains(&found) => Ok(version),
        Ok(_) if found > known => Err(StoreError::TooNew { found, known }),
        _ => Err(damaged_backup("the schema version is below 1")),
    }
}

/// The first line of a chunk.
#[derive(Serialize, Deserialize)]
struct ChunkHeader {
    table: String,
    columns: Vec<String>,
}

impl ChunkHeader {
    /// Checks the names, because they become part of statements.
    fn check_names(&self) -> Result<()> {
        let plain = |name: &String| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        let few = (1..=NAMES_MAX).contains(&self.columns.len());
        if few && plain(&self.table) && self.columns.iter().all(plain) {
            return Ok(());
        }
        Err(damaged_backup("the name of a table or column is invalid"))
    }

    fn column_list(&self) -> String {
        self.columns.join(", ")
    }
}

enum ExportCell<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    Blob(&'a [u8]),
}

/// Collects exported rows of one table into chunks.
struct ChunkWriter<'a, 't, E> {
    head: ChunkHeader,
    text: Vec<u8>,
    take: &'a mut ChunkSink<'t, E>,
}

impl<'a, 't, E: std::convert::From<StoreError>> ChunkWriter<'a, 't, E> {
    fn new(head: ChunkHeader, take: &'a mut ChunkSink<'t, E>) -> Self {
        Self { head, text: Vec::new(), take }
    }

    fn write_row<'c>(&mut self, cells: impl Iterator<Item = Result<ExportCell<'c>>>) -> Result<(), E> {
        if self.text.is_empty() {
            serde_json::to_writer(&mut self.text, &self.head).map_err(write_error)?;
            self.text.push(b'\n');
        }
        for (at, cell) in cells.enumerate() {
            self.text.push(if at == 0 { b'[' } else { b',' });
            match cell? {
                ExportCell::Null => self.text.extend_from_slice(b"null"),
                ExportCell::Int(number) => write!(self.text, "{number}").map_err(write_error)?,
                ExportCell::Text(text) => serde_json::to_writer(&mut self.text, text).map_err(write_error)?,
                ExportCell::Blob(bytes) => {
                    self.text.extend_from_slice(b"{\"hex\":\"");
                    self.text.extend_from_slice(hex::encode_hex(bytes).as_bytes());
                    self.text.extend_from_slice(b"\"}");
                }
            }
        }
        self.text.extend_from_slice(b"]\n");
        if self.text.len() >= CHUNK_BYTES { self.flush_chunk() } else { Ok(()) }
    }

    fn flush_chunk(&mut self) -> Result<(), E> {
        if !self.text.is_empty() {
            (self.take)(&self.head.table, &self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

/// Decodes a blob as [`ChunkWriter::write_row`] encodes it.
fn decode_blob(cell: &Json) -> Result<Vec<u8>> {
    let digits = cell
        .get("hex")
        .and_then(Json::as_str)
        .ok_or_else(|| damaged_backup("a value has an unknown format"))?;
    hex::decode_hex(digits).ok_or_else(|| damaged_backup("a blob is not valid hex"))
}

/// Sorts the tables so that each follows the tables that it refers to.
fn sort_by_references(mut tables: Vec<(String, Vec<String>)>) -> Result<Vec<String>> {
    let mut order: Vec<String> = Vec::new();
    while !tables.is_empty() {
        let before = tables.len();
        tables.retain(|(table, refers)| {
            let free = refers.iter().all(|other| other == table || order.contains(other));
            if free {
                order.push(table.clone());
            }
            !free
        });
        if tables.len() == before {
            return Err(StoreError::Rule("tables refer to each other in a circle"));
        }
    }
    Ok(order)
}

fn damaged_backup(reason: impl std::fmt::Display) -> StoreError {
    StoreError::damaged_row("backup", "of the database", reason)
}

fn write_error(error: impl std::fmt::Display) -> StoreError {
    StoreError::Engine(error.to_string())
}
