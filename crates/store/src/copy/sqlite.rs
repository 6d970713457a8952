//! Copies of SQLite databases.

use std::path::Path;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde_json::Value as Json;

use super::{Cell, ChunkSink, Chunks, Head, Version, blob, damaged, ordered, unwritten};
use crate::error::StoreError;
use crate::migrations;
use crate::sql::Result;
use crate::sqlite::{engine, open_reader, open_writer};

pub(super) fn export<E: From<StoreError>>(path: &Path, take: &mut ChunkSink<'_, E>) -> Result<(), E> {
    let connection = open_reader(path)?;
    // The first read fixes the snapshot for all later ones.
    connection.execute_batch("BEGIN").map_err(engine)?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM migrations";
    let version: i64 = connection.query_row(newest, [], |row| row.get(0)).map_err(engine)?;
    take("version", &serde_json::to_vec(&Version { version }).map_err(unwritten)?)?;
    for table in tables(&connection)? {
        let mut statement = connection.prepare(&format!("SELECT * FROM {table}")).map_err(engine)?;
        let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let count = columns.len();
        let mut chunks = Chunks::new(Head { table, columns }, take);
        let mut rows = statement.query([]).map_err(engine)?;
        while let Some(row) = rows.next().map_err(engine)? {
            chunks.row((0..count).map(|at| match row.get_ref(at).map_err(engine)? {
                ValueRef::Null => Ok(Cell::Null),
                ValueRef::Integer(number) => Ok(Cell::Int(number)),
                ValueRef::Text(text) => Ok(Cell::Text(std::str::from_utf8(text).map_err(damaged)?)),
                ValueRef::Blob(bytes) => Ok(Cell::Blob(bytes)),
                ValueRef::Real(_) => Err(damaged("a value is no whole number")),
            }))?;
        }
        chunks.flush()?;
    }
    Ok(())
}

fn tables(connection: &Connection) -> Result<Vec<String>> {
    let names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' \
                 AND name <> 'migrations' ORDER BY name";
    let mut found = Vec::new();
    for name in column(connection, names, 0)? {
        let refers = column(connection, &format!("PRAGMA foreign_key_list({name})"), 2)?;
        found.push((name, refers));
    }
    ordered(found)
}

fn column(connection: &Connection, sql: &str, at: usize) -> Result<Vec<String>> {
    let mut statement = connection.prepare(sql).map_err(engine)?;
    let rows = statement.query_map([], |row| row.get(at)).map_err(engine)?;
    rows.collect::<rusqlite::Result<_>>().map_err(engine)
}

pub(super) struct Import {
    connection: Connection,
}

impl Import {
    pub(super) fn open(path: &Path) -> Result<Self> {
        if path.symlink_metadata().is_ok() {
            return Err(StoreError::NotEmpty);
        }
        Ok(Self { connection: open_writer(path, None)? })
    }

    pub(super) fn begin(&mut self, version: usize) -> Result<()> {
        migrations::migrate_to(&mut self.connection, version)?;
        // Foreign keys are checked at the end, all at once.
        self.connection.execute_batch("PRAGMA foreign_keys = OFF; BEGIN IMMEDIATE").map_err(engine)?;
        for table in tables(&self.connection)? {
            self.connection.execute(&format!("DELETE FROM {table}"), []).map_err(engine)?;
        }
        Ok(())
    }

    pub(super) fn rows(&mut self, head: &Head, rows: impl Iterator<Item = Result<Vec<Json>>>) -> Result<()> {
        let places: Vec<String> = (1..=head.columns.len()).map(|at| format!("?{at}")).collect();
        let insert = format!("INSERT INTO {} ({}) VALUES ({})", head.table, head.list(), places.join(", "));
        let mut statement = self.connection.prepare_cached(&insert).map_err(engine)?;
        for row in rows {
            let values: Vec<Value> = row?.into_iter().map(value).collect::<Result<_>>()?;
            statement.execute(params_from_iter(values)).map_err(engine)?;
        }
        Ok(())
    }

    pub(super) fn finish(self, release: &str) -> Result<()> {
        self.connection.execute_batch(release).map_err(engine)?;
        if !column(&self.connection, "PRAGMA foreign_key_check", 0)?.is_empty() {
            return Err(damaged("rows refer to others that are not there"));
        }
        self.connection.execute_batch("COMMIT; PRAGMA wal_checkpoint(TRUNCATE)").map_err(engine)?;
        self.connection.close().map_err(|(_, error)| engine(error))
    }
}

fn value(cell: Json) -> Result<Value> {
    Ok(match cell {
        Json::Null => Value::Null,
        Json::String(text) => Value::Text(text),
        Json::Number(number) => {
            Value::Integer(number.as_i64().ok_or_else(|| damaged("a number is too large"))?)
        }
        other => Value::Blob(blob(&other)?),
    })
}
