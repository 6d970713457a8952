//! Copies of SQLite databases.

use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde_json::Value as Json;

use super::{
    ChunkHeader, ChunkSink, ChunkWriter, ExportCell, Version, damaged_backup, decode_blob,
    sort_by_references, write_error,
};
use crate::error::StoreError;
use crate::migrations;
use crate::sql::Result;
use crate::sqlite::{engine_error, open_reader, open_writer};

pub(super) fn export_sqlite<E: From<StoreError>>(path: &Path, take: &mut ChunkSink<'_, E>) -> Result<(), E> {
    let connection = open_reader(path)?;
    // The first read fixes the snapshot for all later ones.
    connection.execute_batch("BEGIN").map_err(engine_error)?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM migrations";
    let version: i64 = connection.query_row(newest, [], |row| row.get(0)).map_err(engine_error)?;
    take("version", &serde_json::to_vec(&Version { version }).map_err(write_error)?)?;
    for table in list_tables(&connection)? {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).map_err(engine_error)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let count = columns.len();
        let mut chunks = ChunkWriter::new(ChunkHeader { table, columns }, take);
        let mut rows = statement.query([]).map_err(engine_error)?;
        while let Some(row) = rows.next().map_err(engine_error)? {
            chunks.write_row((0..count).map(|at| match row.get_ref(at).map_err(engine_error)? {
                ValueRef::Null => Ok(ExportCell::Null),
                ValueRef::Integer(number) => Ok(ExportCell::Int(number)),
                ValueRef::Text(text) => {
                    Ok(ExportCell::Text(std::str::from_utf8(text).map_err(damaged_backup)?))
                }
                ValueRef::Blob(bytes) => Ok(ExportCell::Blob(bytes)),
                ValueRef::Real(_) => Err(damaged_backup("a value is not an integer")),
            }))?;
        }
        chunks.flush_chunk()?;
    }
    Ok(())
}

fn list_tables(connection: &Connection) -> Result<Vec<String>> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                 AND name <> 'migrations' ORDER BY name";
    let mut found = Vec::new();
    for name in query_column(connection, names, 0)? {
        let refers = query_column(connection, &format!("PRAGMA foreign_key_list({name})"), 2)?;
        found.push((name, refers));
    }
    sort_by_references(found)
}

fn query_column(connection: &Connection, sql: &str, at: usize) -> Result<Vec<String>> {
    let mut statement = connection.prepare(sql).map_err(engine_error)?;
    let rows = statement.query_map([], |row| row.get(at)).map_err(engine_error)?;
    rows.collect::<rusqlite::Result<_>>().map_err(engine_error)
}

pub(super) struct SqliteImport {
    connection: Connection,
}

impl SqliteImport {
    pub(super) fn create_database(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(StoreError::NotEmpty);
        }
        Ok(Self { connection: open_writer(path, None)? })
    }

    pub(super) fn begin_import(&mut self, version: usize) -> Result<()> {
        migrations::migrate_to(&mut self.connection, version)?;
        // Foreign keys are checked at the end, all at once.
        self.connection.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE").map_err(engine_error)?;
        for table in list_tables(&self.connection)? {
            self.connection.execute(&format!("DELETE FROM {table}"), []).map_err(engine_error)?;
        }
        Ok(())
    }

    pub(super) fn insert_rows(
        &mut self,
        head: &ChunkHeader,
        rows: impl Iterator<Item = Result<Vec<Json>>>,
    ) -> Result<()> {
        let places: Vec<String> = (1..=head.columns.len()).map(|at| format!("?{at}")).collect();
        let insert =
            format!("INSERT INTO {} ({}) VALUES ({})", head.table, head.column_list(), places.join(", "));
        let mut statement = self.connection.prepare_cached(&insert).map_err(engine_error)?;
        for row in rows {
            let values: Vec<Value> = row?.into_iter().map(decode_value).collect::<Result<_>>()?;
            statement.execute(params_from_iter(values)).map_err(engine_error)?;
        }
        Ok(())
    }

    pub(super) fn finish_import(self, release: &str) -> Result<()> {
        self.connection.execute_batch(release).map_err(engine_error)?;
        if !query_column(&self.connection, "PRAGMA foreign_key_check", 0)?.is_empty() {
            return Err(damaged_backup("rows reference missing rows"));
        }
        self.connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").map_err(engine_error)?;
        self.connection.close().map_err(|(_, error)| engine_error(error))
    }
}

fn decode_value(cell: Json) -> Result<Value> {
    Ok(match cell {
        Json::Null => Value::Null,
        Json::String(text) => Value::Text(text),
        Json::Number(number) => {
            Value::Integer(number.as_i64().ok_or_else(|| damaged_backup("a number is too large"))?)
        }
        other => Value::Blob(decode_blob(&other)?),
    })
}
