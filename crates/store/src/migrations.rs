//! Schema migrations.
//!
//! Migrations are written in PostgreSQL's dialect and translated for SQLite. They are applied in order, in
//! one transaction, under a lock that other processes wait for. A released migration never changes.

use rusqlite::{Connection, TransactionBehavior};

use crate::error::StoreError;
use crate::sql::Result;
use crate::sqlite::engine_error;

/// All migrations. The version of a database is the number of its newest.
pub(crate) const MIGRATIONS: [&str; 22] = [
    include_str!("migrations/0001_first.sql"),
    include_str!("migrations/0002_limits.sql"),
    include_str!("migrations/0003_terms.sql"),
    include_str!("migrations/0004_skill_uses.sql"),
    include_str!("migrations/0005_waiting.sql"),
    include_str!("migrations/0006_delegations.sql"),
    include_str!("migrations/0007_listed.sql"),
    include_str!("migrations/0008_summaries.sql"),
    include_str!("migrations/0009_jobs.sql"),
    include_str!("migrations/0010_sessions.sql"),
    include_str!("migrations/0011_search.sql"),
    include_str!("migrations/0012_closed.sql"),
    include_str!("migrations/0013_identities.sql"),
    include_str!("migrations/0014_branches.sql"),
    include_str!("migrations/0015_usage_days.sql"),
    include_str!("migrations/0016_embeddings.sql"),
    include_str!("migrations/0017_attempts_since.sql"),
    include_str!("migrations/0018_session_uses.sql"),
    include_str!("migrations/0019_chosen_emails.sql"),
    include_str!("migrations/0020_serving.sql"),
    include_str!("migrations/0021_client_histories.sql"),
    include_str!("migrations/0022_pauses.sql"),
];

pub(crate) const JOURNAL: &str =
    "CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL PRIMARY KEY\n);\n";

/// The version of a database's schema: the number of its newest migration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemaVersion {
    /// 0 for a database without a schema.
    pub found: i64,
    /// The one that this program uses.
    pub known: i64,
}

impl SchemaVersion {
    pub(crate) const fn from_found(found: i64) -> Self {
        Self { found, known: MIGRATIONS.len() as i64 }
    }
}

/// Returns the version of the schema.
pub(crate) fn read_schema_version(connection: &Connection) -> Result<SchemaVersion> {
    let exists = connection.table_exists(None, "migrations").map_err(engine_error)?;
    let found = "SELECT COALESCE(MAX(version), 0) FROM migrations";
    let found =
        if exists { connection.query_row(found, [], |row| row.get(0)).map_err(engine_error)? } else { 0 };
    Ok(SchemaVersion::from_found(found))
}

/// Applies the missing migrations.
pub(crate) fn apply_migrations(connection: &mut Connection) -> Result<()> {
    migrate_to(connection, MIGRATIONS.len())
}

/// Applies the missing ones of the first `until` migrations.
pub(crate) fn migrate_to(connection: &mut Connection, until: usize) -> Result<()> {
    let failed = |error: rusqlite::Error| StoreError::Engine(format!("migration failed: {error}"));
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

/// Translates a migration to SQLite. Tables are STRICT, because SQLite would otherwise accept text in a
/// numeric column.
fn for_sqlite(migration: &str) -> String {
    migration
        .replace("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "INTEGER PRIMARY KEY")
        .replace("BIGINT", "INTEGER")
        .replace("BYTEA", "BLOB")
        // SQLite compares bytes anyway.
        .replace(" COLLATE \"C\"", "")
        .replace("\n);", "\n) STRICT;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migration_adds_conversation_removal_jobs() {
        let mut connection = Connection::open_in_memory().expect("a database");
        migrate_to(&mut connection, 8).expect("the tables of that version");
        let id = |number: u8| format!("00000000-0000-4000-8000-0000000000{number:02x}");
        let run = |sql: String| connection.execute_batch(&sql).expect("a row");
        run(format!("INSERT INTO accounts VALUES ('{}', 0, NULL, 0, 0, 0)", id(1)));
        for (number, deleted, ended) in [(2, "7", "8"), (3, "NULL", "8"), (4, "7", "NULL")] {
            run(format!(
                "INSERT INTO conversations (id, account_id, title, model, settings, jurisdictions, web_search, pinned,
                    created_at, modified_at, exchanges, deleted_at)
                 VALUES ('{}', '{}', '', 'm', '[]', '[]', 0, 0, 0, 0, 1, {deleted})",
                id(number),
                id(1)
            ));
            let ending = if ended == "NULL" { "NULL" } else { "'done'" };
            run(format!(
                "INSERT INTO answers (id, conversation_id, ordinal, account_id, created_at, epoch, attempts, next_step,
                    next_entry, log_bytes, outstanding, settled, used_input, used_cached, used_output, used_reasoning,
                    used_estimated, completed_at, ending)
                 VALUES ('{}', '{}', 0, '{}', 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {ended}, {ending})",
                id(number + 16),
                id(number),
                id(1)
            ));
        }
        apply_migrations(&mut connection).expect("the tables of this version");
        let mut statement = connection.prepare("SELECT kind, payload FROM jobs").expect("there are jobs");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("a query");
        let jobs: Vec<(String, String)> = rows.collect::<Result<_, _>>().expect("rows");
        let payload = format!("{{\"conversation\":\"{}\"}}", id(2));
        assert_eq!(jobs, [("remove_conversation".to_owned(), payload)], "other conversations get none");
    }

    #[test]
    fn concurrent_migrations_update_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store.db");
        let open = || crate::sqlite::open_writer(&path, None).expect("a connection");
        migrate_to(&mut open(), MIGRATIONS.len() - 1).expect("the tables of the version before");
        let begin = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let mut connection = open();
                    begin.wait();
                    apply_migrations(&mut connection).expect("the tables of this version");
                });
            }
        });
        let applied = open().query_row("SELECT count(*) FROM migrations", [], |row| row.get::<_, i64>(0));
        assert_eq!(applied.expect("a count"), MIGRATIONS.len() as i64);
    }
}
