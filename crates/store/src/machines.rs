//! Machines: their accounts, ordinals and desired states.

use domain::id::AccountId;
use domain::time::Timestamp;

use crate::error::StoreError;
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params};

/// The largest page of [`list_machines`].
pub const MACHINES_PAGE_MAX: u32 = 1000;

/// The desired state of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoredDesiredState {
    Running,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMachine {
    pub account: AccountId,
    /// Its number, counted from 0 and never assigned twice. The host's user ids are derived from it.
    pub ordinal: u32,
    pub desired: StoredDesiredState,
}

/// The number of machines by desired state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MachineCounts {
    pub running: u64,
    pub stopped: u64,
}

/// The reasons why an operation on a machine failed.
#[derive(Debug, thiserror::Error)]
pub enum MachineRecordError {
    #[error("the account has no machine")]
    NotFound,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Creates a machine for the account, desired stopped, unless it has one.
///
/// # Errors
/// [`StoreError`], also if the account does not exist.
pub fn create_machine(tx: &mut dyn Sql, account: AccountId, now: Timestamp) -> Result<()> {
    tx.lock_rows("SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", params![account])?;
    if find_machine(tx, account)?.is_some() {
        return Ok(());
    }
    let ordinal = tx
        .query_one(
            "UPDATE counters SET next = next + 1 WHERE name = 'machine' RETURNING next - 1",
            params![],
            |row| row.get_int(0),
        )?
        .ok_or_else(|| StoreError::damaged_row("counter", "machine", "is missing"))?;
    tx.execute(
        "INSERT INTO machines (account_id, ordinal, desired, created_at) VALUES ($1, $2, 'stopped', $3)",
        params![account, ordinal, now],
    )?;
    Ok(())
}

/// Returns the account's machine, if it has one.
///
/// # Errors
/// [`StoreError`].
pub fn find_machine(tx: &mut dyn Sql, account: AccountId) -> Result<Option<StoredMachine>> {
    tx.query_one(
        "SELECT account_id, ordinal, desired FROM machines WHERE account_id = $1",
        params![account],
        read_machine,
    )
}

/// Sets the desired state of the account's machine.
///
/// # Errors
/// [`MachineRecordError::NotFound`].
pub fn set_desired(
    tx: &mut dyn Sql,
    account: AccountId,
    desired: StoredDesiredState,
) -> Result<(), MachineRecordError> {
    require_found(tx.execute(
        "UPDATE machines SET desired = $2 WHERE account_id = $1",
        params![account, desired_text(desired)],
    )?)
}

/// Sets the desired state of the account's machine, if any, to running. Locks it until the transaction ends.
///
/// # Errors
/// [`StoreError`].
pub fn request_start(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    lock_machine(tx, account)?;
    tx.execute(
        "UPDATE machines SET desired = 'running' WHERE account_id = $1 AND desired = 'stopped'",
        params![account],
    )?;
    Ok(())
}

/// Sets the desired state of the account's machine to stopped, unless an answer waits for it. Returns whether
/// it did.
///
/// # Errors
/// [`MachineRecordError::NotFound`].
pub fn clear_start_request(tx: &mut dyn Sql, account: AccountId) -> Result<bool, MachineRecordError> {
    lock_machine(tx, account)?;
    // Two conditions with an index each; their disjunction has none. A paused answer waits for no machine.
    let is_awaited = tx.query_one(
        "SELECT 1 WHERE EXISTS (SELECT 1 FROM dispatch
                WHERE account_id = $1 AND lease_until IS NULL AND paused_until IS NULL)
            OR EXISTS (SELECT 1 FROM dispatch WHERE account_id = $1 AND lease_until IS NOT NULL)",
        params![account],
        |_| Ok(()),
    )?;
    if is_awaited.is_none() {
        set_desired(tx, account, StoredDesiredState::Stopped)?;
    }
    Ok(is_awaited.is_none())
}

/// Returns up to `limit` machines (at most [`MACHINES_PAGE_MAX`]) with ordinals after `after`, by ordinal.
///
/// # Errors
/// [`StoreError`].
pub fn list_machines(tx: &mut dyn Sql, after: Option<u32>, limit: u32) -> Result<Vec<StoredMachine>> {
    tx.query_all(
        "SELECT account_id, ordinal, desired FROM machines WHERE ordinal > $1 ORDER BY ordinal LIMIT $2",
        params![after.map_or(-1, i64::from), limit.min(MACHINES_PAGE_MAX)],
        read_machine,
    )
}

/// Returns the number of machines by desired state.
///
/// # Errors
/// [`StoreError`].
pub fn count_machines(tx: &mut dyn Sql) -> Result<MachineCounts> {
    let mut counts = MachineCounts::default();
    tx.query_each("SELECT desired, count(*) FROM machines GROUP BY desired", params![], &mut |row| {
        match desired_of(row.get_text(0)?)? {
            StoredDesiredState::Running => counts.running = row.get_count(1)?,
            StoredDesiredState::Stopped => counts.stopped = row.get_count(1)?,
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Removes the record of the account's machine, if any. Its number is not assigned again.
///
/// # Errors
/// [`StoreError`].
pub fn remove_machine(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.execute("DELETE FROM machines WHERE account_id = $1", params![account])?;
    Ok(())
}

fn lock_machine(tx: &mut dyn Sql, account: AccountId) -> Result<()> {
    tx.lock_rows("SELECT account_id FROM machines WHERE account_id = $1 FOR NO KEY UPDATE", params![account])
}

fn require_found(changed: u64) -> Result<(), MachineRecordError> {
    if changed == 0 { Err(MachineRecordError::NotFound) } else { Ok(()) }
}

fn read_machine(row: &dyn SqlRow) -> Result<StoredMachine> {
    Ok(StoredMachine {
        account: row.get_id(0)?,
        ordinal: row.get_u32(1)?,
        desired: desired_of(row.get_text(2)?)?,
    })
}

const fn desired_text(desired: StoredDesiredState) -> &'static str {
    match desired {
        StoredDesiredState::Running => "running",
        StoredDesiredState::Stopped => "stopped",
    }
}

fn desired_of(text: &str) -> Result<StoredDesiredState> {
    [StoredDesiredState::Running, StoredDesiredState::Stopped]
        .into_iter()
        .find(|desired| desired_text(*desired) == text)
        .ok_or_else(|| StoreError::damaged_row("desired state", text, "is unknown"))
}
