//! Bringing the tables up to date.
//!
//! Migrations are written as PostgreSQL reads them; what SQLite calls otherwise is put in here. They are
//! applied in order, in one transaction, under a lock that other processes wait for, and never changed once
//! a release held them.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;
use crate::sql::Result;

/// All of them; the version of a database is the number of its newest.
pub(crate) const MIGRATIONS: [&str; 8] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_limits.sql"),
    include_str!("migrations/0003_terms.sql"),
    include_str!("migrations/0004_skill_uses.sql"),
    include_str!("migrations/0005_waiting.sql"),
    include_str!("migrations/0006_delegations.sql"),
    include_str!("migrations/0007_listed.sql"),
    include_str!("migrations/0008_summaries.sql"),
];

pub(crate) const JOURNAL: &str =
    "CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL PRIMARY KEY\n);\n";

/// Applies what the database lacks.
pub(crate) fn migrate(connection: &mut Connection) -> Result<()> {
    migrate_to(connection, MIGRATIONS.len())
}

/// Applies what the database lacks of the first `until`.
pub(crate) fn migrate_to(connection: &mut Connection, until: usize) -> Result<()> {
    let failed =
        |error: rusqlite::Error| StoreError::Engine(format!("the tables could not be made: {error}"));
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    tx.execute_batch(&for_sqlite(JOURNAL)).map_err(failed)?;
    let found: i64 = tx
        .query_row("SELECT COALESCE(MAX(version), 0) FROM migrations", [], |row| row.get(0))
        .map_err(failed)?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).take(until).filter(|(version, _)| *version > found)
    {
        tx.execute_batch(&for_sqlite(migration)).map_err(failed)?;
        tx.execute("INSERT INTO migrations (version) VALUES (?1)", [version]).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

/// The migration as SQLite reads it. Tables are STRICT, or SQLite would take text for a number.
fn for_sqlite(migration: &str) -> String {
    migration
        .replace("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "INTEGER PRIMARY KEY")
        .replace("BIGINT", "INTEGER")
        .replace("BYTEA", "BLOB")
        .replace("\n);", "\n) STRICT;")
}
