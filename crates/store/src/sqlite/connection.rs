//! Opens connections.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::StoreError;
use crate::sql::Result;

/// The longest wait for a lock of another process, such as a backup or an administrator's shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// The statement cache of a connection: larger than the number of statements in the operations.
const STATEMENTS_MAX: usize = 256;
/// The page cache of the writer.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// The page cache of each reader.
const READER_CACHE_KIB: i64 = 2 * 1024;
/// The pages of write-ahead log (16 MiB) that trigger a checkpoint. A group of questions changes pages in
/// every index, and the next group changes most of them again.
const WAL_PAGES: i64 = 4096;
/// The size that a checkpoint truncates the write-ahead log to.
const WAL_KEPT_MAX_BYTES: i64 = 32 * 1024 * 1024;

/// Opens the connection that writes. Creates a missing database with access for its owner only.
pub(crate) fn open_writer(path: &Path, size_max_bytes: Option<u64>) -> Result<Connection> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::Engine(format!("{}: {error}", path.display())))?;
    let connection = open_connection(path, WRITER_CACHE_KIB)?;
    let set = |name: &str, value: &dyn rusqlite::ToSql| {
        connection.pragma_update(None, name, value).map_err(engine_error)
    };
    set("journal_mode", &"WAL")?;
    set("synchronous", &"FULL")?;
    set("foreign_keys", &true)?;
    // Savepoint journals stay in memory; in a file they would double the bytes written.
    set("temp_store", &"MEMORY")?;
    set("wal_autocheckpoint", &WAL_PAGES)?;
    set("journal_size_limit", &WAL_KEPT_MAX_BYTES)?;
    if let Some(bytes) = size_max_bytes {
        limit_size(&connection, bytes)?;
    }
    Ok(connection)
}

/// Opens a connection that reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = open_connection(path, READER_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true).map_err(engine_error)?;
    Ok(connection)
}

fn open_connection(path: &Path, cache_kib: i64) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(engine_error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(engine_error)?;
    connection.pragma_update(None, "cache_size", -cache_kib).map_err(engine_error)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans must not depend on bound values; otherwise cached statements would be prepared again for each
    // value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(engine_error)?;
    Ok(connection)
}

fn limit_size(connection: &Connection, bytes: u64) -> Result<()> {
    let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(engine_error)?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
    connection
        .query_row(&format!("PRAGMA max_page_count = {}", pages.max(1)), [], |_| Ok(()))
        .map_err(engine_error)
}

/// Converts an error of the engine.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn engine_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        // Statements are interrupted only by an abort.
        Some(ErrorCode::OperationInterrupted) => StoreError::Closed,
        Some(ErrorCode::ConstraintViolation) => StoreError::Constraint(error.to_string()),
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            StoreError::NotADatabase(error.to_string())
        }
        _ => StoreError::Engine(error.to_string()),
    }
}
