//! The only process that may claim work of a database, and the database's identity.

use domain::id::NodeId;

use crate::sql::{Result, RowExt, Sql, SqlExt, params};

/// Returns the identity of the database that its folder of workspaces must carry; `None` if no folder has it yet.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn database_id(tx: &mut dyn Sql) -> Result<Option<NodeId>> {
    Ok(tx.query_one("SELECT database_id FROM serving", params![], |row| row.opt_id(0))?.flatten())
}

/// Gives the database an identity unless it has one. Returns the identity.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn name_database(tx: &mut dyn Sql, id: NodeId) -> Result<NodeId> {
    let named = tx.query_one(
        "UPDATE serving SET database_id = COALESCE(database_id, $1) RETURNING database_id",
        params![id],
        |row| row.get_id(0),
    )?;
    Ok(named.unwrap_or(id))
}

/// Keeps the process that serves from changing until the transaction ends.
pub(crate) fn lock_serving_process(tx: &mut dyn Sql) -> Result<()> {
    tx.lock_rows("SELECT one FROM serving FOR SHARE", params![])
}

/// The condition that no other process than `$2` serves.
macro_rules! nobody_else_serves {
    () => {
        "NOT EXISTS (SELECT 1 FROM serving WHERE process_id <> $2)"
    };
}
pub(crate) use nobody_else_serves;
