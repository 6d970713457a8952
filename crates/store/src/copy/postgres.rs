//! Copies of PostgreSQL databases, over a separate connection in one transaction.

use std::pin::pin;

use futures_util::TryStreamExt;
use serde_json::Value as Json;
use tokio::runtime::Runtime;
use tokio_postgres::Client;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};

use super::{
    ChunkHeader, ChunkSink, ChunkWriter, ExportCell, Version, damaged_backup, decode_blob,
    sort_by_references, write_error,
};
use crate::error::StoreError;
use crate::migrations::{JOURNAL, MIGRATIONS};
use crate::postgres::{MIGRATING, PgAddress, PgConnection, PgError};
use crate::sql::Result;

/// Copies have no time limit.
const NO_TIMEOUTS: &str =
    "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0";
/// Tables and the tables that they refer to. Excludes `commits`, whose rows belong to connections.
const TABLES: &str = "SELECT c.relname::text, COALESCE(array_to_string(array_agg(f.relname::text), ','), '')
    FROM pg_class c
    LEFT JOIN pg_constraint k ON k.conrelid = c.oid AND k.contype = 'f'
    LEFT JOIN pg_class f ON f.oid = k.confrelid
    WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace
        AND c.relname NOT IN ('commits', 'migrations')
    GROUP BY c.relname ORDER BY c.relname";
/// Columns that the server numbers.
const NUMBERED: &str = "SELECT table_name::text, column_name::text FROM information_schema.columns
    WHERE table_schema = current_schema() AND is_identity = 'YES'";

pub(super) fn export_postgres<E: From<StoreError>>(
    address: &PgAddress,
    take: &mut ChunkSink<'_, E>,
) -> Result<(), E> {
    let runtime = build_runtime()?;
    let link = open_connection(&runtime, address)?;
    let done = runtime.block_on(export_all(link.client(), take));
    runtime.block_on(link.close_session());
    done
}

async fn export_all<E: From<StoreError>>(client: &Client, take: &mut ChunkSink<'_, E>) -> Result<(), E> {
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
    client.batch_execute(&format!("{begin}; {NO_TIMEOUTS}")).await.map_err(pg_error)?;
    let newest = "SELECT COALESCE(MAX(version), 0) FROM migrations";
    let version: i64 = client.query_one(newest, &[]).await.map_err(pg_error)?.get(0);
    take("version", &serde_json::to_vec(&Version { version }).map_err(write_error)?)?;
    for table in list_tables(client).await? {
        let statement = client.prepare(&format!("SELECT * FROM {table}")).await.map_err(pg_error)?;
        let columns: Vec<String> =
            statement.columns().iter().map(|column| column.name().to_owned()).collect();
        let types: Vec<Type> = statement.columns().iter().map(|column| column.type_().clone()).collect();
        let mut chunks = ChunkWriter::new(ChunkHeader { table, columns }, take);
        let none: [i64; 0] = [];
        let mut rows = pin!(client.query_raw(&statement, none).await.map_err(pg_error)?);
        while let Some(row) = rows.try_next().await.map_err(pg_error)? {
            chunks.write_row(types.iter().enumerate().map(|(at, kind)| read_cell(&row, at, kind)))?;
        }
        chunks.flush_chunk()?;
    }
    Ok(())
}

fn read_cell<'r>(row: &'r tokio_postgres::Row, at: usize, kind: &Type) -> Result<ExportCell<'r>> {
    Ok(match *kind {
        Type::INT8 => {
            row.try_get::<_, Option<i64>>(at).map_err(pg_error)?.map_or(ExportCell::Null, ExportCell::Int)
        }
        Type::TEXT => {
            row.try_get::<_, Option<&str>>(at).map_err(pg_error)?.map_or(ExportCell::Null, ExportCell::Text)
        }
        Type::BYTEA => {
            row.try_get::<_, Option<&[u8]>>(at).map_err(pg_error)?.map_or(ExportCell::Null, ExportCell::Blob)
        }
        _ => return Err(damaged_backup("a column has an unsupported type")),
    })
}

async fn list_tables(client: &Client) -> Result<Vec<String>> {
    let rows = client.query(TABLES, &[]).await.map_err(pg_error)?;
    let refers = |text: &str| text.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    sort_by_references(rows.iter().map(|row| (row.get(0), refers(row.get(1)))).collect())
}

pub(super) struct PostgresImport {
    runtime: Runtime,
    link: PgConnection,
}

impl PostgresImport {
    pub(super) fn open_database(url: &str) -> Result<Self> {
        let runtime = build_runtime()?;
        let link = open_connection(&runtime, &PgAddress::parse(url)?)?;
        Ok(Self { runtime, link })
    }

    pub(super) fn begin_import(&mut self, version: usize) -> Result<()> {
        let client = self.link.client();
        self.runtime.block_on(async {
            client.batch_execute(&format!("{MIGRATING}; {NO_TIMEOUTS}")).await.map_err(pg_error)?;
            if !list_tables(client).await?.is_empty() {
                return Err(StoreError::NotEmpty);
            }
            client.batch_execute(JOURNAL).await.map_err(pg_error)?;
            for (number, migration) in (1_i64..).zip(MIGRATIONS.iter().take(version)) {
                client.batch_execute(migration).await.map_err(pg_error)?;
                let insert = "INSERT INTO migrations (version) VALUES ($1) ON CONFLICT DO NOTHING";
                client.execute(insert, &[&number]).await.map_err(pg_error)?;
            }
            for table in list_tables(client).await?.iter().rev() {
                client.execute(&format!("DELETE FROM {table}"), &[]).await.map_err(pg_error)?;
            }
            Ok(())
        })
    }

    pub(super) fn insert_rows(
        &mut self,
        head: &ChunkHeader,
        rows: impl Iterator<Item = Result<Vec<Json>>>,
    ) -> Result<()> {
        let (client, columns) = (self.link.client(), head.column_list());
        self.runtime.block_on(async {
            let shape =
                client.prepare(&format!("SELECT {columns} FROM {}", head.table)).await.map_err(pg_error)?;
            let types: Vec<Type> = shape.columns().iter().map(|column| column.type_().clone()).collect();
            let copy = format!("COPY {} ({columns}) FROM STDIN BINARY", head.table);
            let sink = client.copy_in(&copy).await.map_err(pg_error)?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for row in rows {
                let values: Vec<Box<dyn ToSql + Sync>> = row?
                    .into_iter()
                    .zip(&types)
                    .map(|(cell, kind)| decode_value(cell, kind))
                    .collect::<Result<_>>()?;
                let values: Vec<&(dyn ToSql + Sync)> = values.iter().map(|value| &**value).collect();
                writer.as_mut().write(&values).await.map_err(pg_error)?;
            }
            writer.finish().await.map(drop).map_err(pg_error)
        })
    }

    pub(super) fn finish_import(self, release: &str) -> Result<()> {
        let Self { runtime, link } = self;
        let done = runtime.block_on(async {
            let client = link.client();
            client.batch_execute(release).await.map_err(pg_error)?;
            for row in client.query(NUMBERED, &[]).await.map_err(pg_error)? {
                let (table, column): (String, String) = (row.get(0), row.get(1));
                let next = format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), COALESCE(MAX({column}), 1), \
                     MAX({column}) IS NOT NULL) FROM {table}"
                );
                client.query_one(&next, &[]).await.map_err(pg_error)?;
            }
            client.batch_execute("COMMIT").await.map_err(pg_error)
        });
        runtime.block_on(link.close_session());
        done
    }
}

fn decode_value(cell: Json, kind: &Type) -> Result<Box<dyn ToSql + Sync>> {
    let other = || damaged_backup("a value does not fit its column");
    Ok(match *kind {
        Type::INT8 if cell.is_null() => Box::new(None::<i64>),
        Type::INT8 => Box::new(cell.as_i64().ok_or_else(other)?),
        Type::TEXT => match cell {
            Json::Null => Box::new(None::<String>),
            Json::String(text) => Box::new(text),
            _ => return Err(other()),
        },
        Type::BYTEA if cell.is_null() => Box::new(None::<Vec<u8>>),
        Type::BYTEA => Box::new(decode_blob(&cell)?),
        _ => return Err(other()),
    })
}

fn build_runtime() -> Result<Runtime> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| StoreError::Engine(error.to_string()))
}

fn open_connection(runtime: &Runtime, address: &PgAddress) -> Result<PgConnection> {
    runtime.block_on(PgConnection::open_session(address)).map_err(|fault| match fault {
        PgError::Lost(reason) => StoreError::Unreachable(reason),
        other @ (PgError::Conflict(_) | PgError::Fatal(_)) => other.into_error(),
    })
}

fn pg_error(error: tokio_postgres::Error) -> StoreError {
    PgError::from(error).into_error()
}
