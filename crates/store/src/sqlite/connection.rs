//! Opening connections.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::error::StoreError;
use crate::sql::Result;

/// How long a connection waits for another process, such as a backup or an administrator's shell.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// How many prepared statements a connection keeps: more than there are in the operations.
const STATEMENTS_MAX: usize = 256;
/// The writer's page cache.
const WRITER_CACHE_KIB: i64 = 8 * 1024;
/// Each reader's page cache.
const READER_CACHE_KIB: i64 = 2 * 1024;
/// How many pages the write-ahead log grows by before they are folded into the database, 16 MiB: a group of
/// questions changes pages all over the indexes, most of them again in the next group.
const WAL_PAGES: i64 = 4096;
/// What the write-ahead log is cut back to after a checkpoint.
const WAL_KEPT_MAX_BYTES: i64 = 32 * 1024 * 1024;

/// The connection that writes. It makes the database, readable for its owner alone, when there is none.
pub(crate) fn open_writer(path: &Path, size_max_bytes: Option<u64>) -> Result<Connection> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::Engine(format!("{}: {error}", path.display())))?;
    let connection = open(path, WRITER_CACHE_KIB)?;
    let set =
        |name: &str, value: &dyn rusqlite::ToSql| connection.pragma_update(None, name, value).map_err(engine);
    set("journal_mode", &"WAL")?;
    set("synchronous", &"FULL")?;
    set("foreign_keys", &true)?;
    // What a savepoint could have to undo is kept in memory: in a file it is half of what is written.
    set("temp_store", &"MEMORY")?;
    set("wal_autocheckpoint", &WAL_PAGES)?;
    set("journal_size_limit", &WAL_KEPT_MAX_BYTES)?;
    if let Some(bytes) = size_max_bytes {
        limit_size(&connection, bytes)?;
    }
    Ok(connection)
}

/// A connection that reads.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    let connection = open(path, READER_CACHE_KIB)?;
    connection.pragma_update(None, "query_only", true).map_err(engine)?;
    Ok(connection)
}

fn open(path: &Path, cache_kib: i64) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(engine)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(engine)?;
    connection.pragma_update(None, "cache_size", -cache_kib).map_err(engine)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Plans do not depend on what is bound: else each cached statement is prepared anew for its parameters.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map_err(engine)?;
    Ok(connection)
}

fn limit_size(connection: &Connection, bytes: u64) -> Result<()> {
    let page: i64 = connection.query_row("PRAGMA page_size", [], |row| row.get(0)).map_err(engine)?;
    let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / page.max(1);
    connection.query_row(&format!("PRAGMA max_page_count = {}", pages.max(1)), [], |_| Ok(())).map_err(engine)
}

/// The error of the engine in the store's words.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub(crate) fn engine(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full,
        // Only a store that is to end early interrupts.
        Some(ErrorCode::OperationInterrupted) => StoreError::Closed,
        Some(ErrorCode::ConstraintViolation) => StoreError::Constraint(error.to_string()),
        _ => StoreError::Engine(error.to_string()),
    }
}
