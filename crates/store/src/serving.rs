//! The one service that works on a database, and the database's own identity.
//!
//! A process that has acquired the exclusive lock calls [`begin`]: it ends the leases of every earlier process, and from then
//! on no other one can claim anything. Epochs stay as they are and rise with the next claims. So an earlier process that was
//! only frozen, or cut off, neither finishes what it had begun nor begins anything.

use domain::id::NodeId;

use crate::jobs;
use crate::sql::{Result, RowExt, Sql, SqlExt, params};
use crate::turns;

/// What a service finds when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Succession {
    /// The identity of the data folder of the service before; `None` if there was none.
    pub folder_before: Option<NodeId>,
    /// The leases on answers that were ended.
    pub answers: u64,
    /// The leases on jobs that were ended.
    pub jobs: u64,
}

/// Makes `process`, with the data folder `folder`, the only process that may claim answers and jobs, and ends all leases. The
/// caller must hold the exclusive lock on the database.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn begin(tx: &mut dyn Sql, process: NodeId, folder: NodeId) -> Result<Succession> {
    // No claim is under way from here on, and each later one sees this process.
    turns::lock_claims(tx)?;
    let before = tx.one("SELECT folder_id FROM serving", params![], |row| row.opt_id(0))?;
    tx.send("UPDATE serving SET process_id = $1, folder_id = $2", params![process, folder])?;
    let answers = turns::end_all_leases(tx)?;
    let jobs = jobs::end_all_leases(tx)?;
    Ok(Succession { folder_before: before.flatten(), answers, jobs })
}

/// Returns the identity of the database that its folder of workspaces must carry; `None` if no folder has it yet.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn database_id(tx: &mut dyn Sql) -> Result<Option<NodeId>> {
    Ok(tx.one("SELECT database_id FROM serving", params![], |row| row.opt_id(0))?.flatten())
}

/// Gives the database an identity unless it has one. Returns the one that it has.
///
/// # Errors
/// [`StoreError`](crate::StoreError).
pub fn name_database(tx: &mut dyn Sql, id: NodeId) -> Result<NodeId> {
    let named = tx.one(
        "UPDATE serving SET database_id = COALESCE(database_id, $1) RETURNING database_id",
        params![id],
        |row| row.id(0),
    )?;
    Ok(named.unwrap_or(id))
}

/// Keeps the process that serves from changing until the transaction ends.
pub(crate) fn lock(tx: &mut dyn Sql) -> Result<()> {
    tx.lock("SELECT one FROM serving FOR SHARE", params![])
}

/// The condition that no other process than `$2` serves.
macro_rules! nobody_else_serves {
    () => {
        "NOT EXISTS (SELECT 1 FROM serving WHERE process_id <> $2)"
    };
}
pub(crate) use nobody_else_serves;
