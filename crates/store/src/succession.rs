//! Takes a database over from the previous service.
//!
//! A process that has acquired the exclusive lock calls [`begin_succession`]: it ends the leases of every earlier
//! process, and from then on no other one can claim anything. Epochs stay as they are and rise with the next claims. So
//! an earlier process that was only frozen, or cut off, can neither finish nor begin any work.

use domain::id::NodeId;

use crate::jobs;
use crate::sql::{Result, RowExt, Sql, SqlExt, params};
use crate::turns;

/// The state in which a service finds a database.
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
pub fn begin_succession(tx: &mut dyn Sql, process: NodeId, folder: NodeId) -> Result<Succession> {
    // No claim is under way from here on, and each later one sees this process.
    turns::lock_claims(tx)?;
    let before = tx.query_one("SELECT folder_id FROM serving", params![], |row| row.opt_id(0))?;
    tx.send_statement("UPDATE serving SET process_id = $1, folder_id = $2", params![process, folder])?;
    let answers = turns::end_all_leases(tx)?;
    let jobs = jobs::end_all_leases(tx)?;
    Ok(Succession { folder_before: before.flatten(), answers, jobs })
}
