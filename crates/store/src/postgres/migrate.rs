//! Applies migrations to PostgreSQL.

use tokio_postgres::Client;

use super::address::PgAddress;
use super::connection::PgConnection;
use super::error::{PgError, format_error_chain};
use crate::error::StoreError;
use crate::migrations::{JOURNAL, MIGRATIONS, SchemaVersion};
use crate::sql::Result;

/// One process at a time applies migrations; others wait and then find them applied. Deletes rows of
/// `commits` that no thread has written to for a week.
pub(crate) const MIGRATING: &str = "BEGIN; SET LOCAL lock_timeout = '60s'; SET LOCAL statement_timeout = 0;
    SELECT pg_advisory_xact_lock(5306812771394912256);
    CREATE TABLE IF NOT EXISTS commits (
        id TEXT NOT NULL PRIMARY KEY, number BIGINT NOT NULL, at TIMESTAMPTZ NOT NULL
    ) WITH (fillfactor = 50);
    DELETE FROM commits WHERE at < now() - INTERVAL '7 days'";

/// Returns the version of the schema.
pub(crate) fn read_server_schema_version(address: &PgAddress) -> Result<SchemaVersion> {
    let read = async |link: &PgConnection| {
        let exists = link.query_text("SELECT to_regclass('migrations')").await?.is_some();
        if !exists {
            return Ok(None);
        }
        link.query_text("SELECT COALESCE(MAX(version), 0) FROM migrations").await
    };
    within_session(address, async |link| {
        let found = read(link).await.map_err(PgError::into_error)?;
        Ok(SchemaVersion::from_found(found.and_then(|found| found.parse().ok()).unwrap_or(0)))
    })
}

/// Applies the missing migrations and returns a name that is unique among stores.
pub(crate) fn migrate_server(address: &PgAddress) -> Result<String> {
    within_session(address, async |link| apply_migrations(link.client()).await)
}

/// Works in a separate session. Blocks; must not run on a runtime's thread.
fn within_session<T>(address: &PgAddress, work: impl AsyncFnOnce(&PgConnection) -> Result<T>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    runtime.block_on(async {
        let link = PgConnection::open_session(address).await.map_err(|fault| match fault {
            PgError::Lost(reason) => StoreError::Unreachable(reason),
            other @ (PgError::Conflict(_) | PgError::Fatal(_)) => other.into_error(),
        })?;
        let done = work(&link).await;
        link.close_session().await;
        done
    })
}

async fn apply_migrations(client: &Client) -> Result<String> {
    let failed = |error: tokio_postgres::Error| {
        StoreError::Engine(format!("migration failed: {}", format_error_chain(&error)))
    };
    client.batch_execute(MIGRATING).await.map_err(failed)?;
    client.batch_execute(JOURNAL).await.map_err(failed)?;
    let found = "SELECT COALESCE(MAX(version), 0), gen_random_uuid()::text FROM migrations";
    let row = client.query_one(found, &[]).await.map_err(failed)?;
    let (found, name): (i64, String) = (row.get(0), row.get(1));
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(StoreError::TooNew { found, known });
    }
    for (version, migration) in (1_i64..).zip(MIGRATIONS).filter(|(version, _)| *version > found) {
        client.batch_execute(migration).await.map_err(failed)?;
        let insert = "INSERT INTO migrations (version) VALUES ($1)";
        client.execute(insert, &[&version]).await.map_err(failed)?;
    }
    client.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(name)
}
