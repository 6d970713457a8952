//! Background jobs: written in any transaction, claimed under leases, run at least once. The rules are in
//! [`domain::job`].
//!
//! Each claim raises the job's epoch. Its holder reports with a [`JobFence`], and a report under an expired
//! lease is rejected. So a job runs at most once at a time as long as the nodes' clocks differ by less than a
//! lease, and a report only ever ends its own run.

use std::time::Duration;

use domain::id::{AccountId, ConversationId, JobId, NodeId};
use domain::job::{INTERVAL_MAX, Job, NextRun};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::serving::{self, nobody_else_serves};
use crate::sql::{Result, RowExt, Sql, SqlExt, SqlRow, params, stored_int};

/// The longest error that is kept with a job, in bytes.
const ERROR_MAX_BYTES: usize = 4096;
/// The largest result of [`list_failed`].
pub const FAILED_LISTED_MAX: u32 = 1000;

/// A job to be enqueued.
#[derive(Debug, Clone, Copy)]
pub struct NewJob {
    /// Its identifier. Enqueuing the same identifier again does nothing.
    pub id: JobId,
    /// The job. Of a recurring job only one exists at a time.
    pub job: Job,
    pub account: Option<AccountId>,
    /// The time at which it is due.
    pub run_at: Timestamp,
    pub now: Timestamp,
}

/// The options of a claim.
#[derive(Debug, Clone, Copy)]
pub struct JobClaimOptions {
    pub node: NodeId,
    pub now: Timestamp,
    /// The duration of the lease unless it is renewed.
    pub lease: Duration,
    /// The maximum number of jobs to claim.
    pub limit: u32,
}

/// Identifies a claim: the job, its epoch and its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFence {
    pub id: JobId,
    /// The epoch that the claim started.
    pub epoch: u64,
    pub node: NodeId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    pub fence: JobFence,
    /// The name of the kind.
    pub kind: String,
    /// The job; `None` if its row is damaged.
    pub job: Option<Job>,
    /// The time at which it was due.
    pub due: Timestamp,
    /// The number of claims since its last success, including this one.
    pub attempts: u32,
}

/// A failed job that is not retried any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedJob {
    pub id: JobId,
    /// The name of the kind.
    pub kind: String,
    pub account: Option<AccountId>,
    /// The number of attempts.
    pub attempts: u32,
    pub error: String,
    /// The time of the last attempt.
    pub failed_at: Timestamp,
}

/// The number of jobs of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobKindCounts {
    /// The name of the kind.
    pub kind: String,
    /// Jobs that are not due yet or not claimed yet.
    pub waiting: u64,
    /// Jobs under a lease.
    pub running: u64,
    /// Jobs that are not retried any more.
    pub failed: u64,
}

/// Selects jobs of [`Job::KINDS`]. Those of a later version are left to it.
macro_rules! known_kind {
    () => {
        "kind IN ('remove_conversation', 'remove_account', 'remove_idempotency_keys', 'trim_audit_log',
            'remove_stale_uploads', 'remove_failed_jobs')"
    };
}

/// Writes a job and returns whether it is new. An existing job with the same identifier, or a recurring job
/// of the same kind, is left unchanged.
///
/// # Errors
/// [`StoreError`].
pub fn enqueue_job(tx: &mut dyn Sql, new: &NewJob) -> Result<bool> {
    let key = new.job.interval().map(|_| "recurring");
    let written = tx.execute(
        "INSERT INTO jobs (id, kind, unique_key, account_id, payload, created_at, run_at, attempts, epoch)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0)
         ON CONFLICT DO NOTHING",
        params![new.id, new.job.kind(), key, new.account, &payload_of(new.job)?, new.now, new.run_at],
    )?;
    Ok(written > 0)
}

/// Enqueues the removal of a conversation if it is deleted. Its last answer must have completed.
pub(crate) fn enqueue_removal(tx: &mut dyn Sql, conversation: ConversationId, now: Timestamp) -> Result<()> {
    let job = Job::RemoveConversation(conversation);
    tx.send_statement(
        "INSERT INTO jobs (id, kind, account_id, payload, created_at, run_at, attempts, epoch)
         SELECT $1, $2, account_id, $3, CAST($4 AS BIGINT), CAST($4 AS BIGINT), 0, 0 FROM conversations
         WHERE id = $5 AND deleted_at IS NOT NULL
         ON CONFLICT DO NOTHING",
        params![
            // A conversation is deleted only once, so its identifier serves for the job.
            JobId::from_random(conversation.bits()),
            job.kind(),
            &payload_of(job)?,
            now,
            conversation
        ],
    )
}

/// Makes jobs due now whose wait exceeds the longest possible one: a clock that was ahead had set their time.
/// Returns their number.
///
/// # Errors
/// [`StoreError`].
pub fn bring_forward(tx: &mut dyn Sql, now: Timestamp) -> Result<u64> {
    tx.execute(
        "UPDATE jobs SET run_at = $1 WHERE failed_at IS NULL AND run_at > $2",
        params![now, now.saturating_add(INTERVAL_MAX)],
    )
}

/// Returns `true` if a job can be claimed.
///
/// # Errors
/// [`StoreError`].
pub fn is_due(tx: &mut dyn Sql, now: Timestamp, lease: Duration) -> Result<bool> {
    let due = tx.query_one(
        concat!(
            "SELECT 1 FROM jobs WHERE failed_at IS NULL AND run_at <= $1
                AND (lease_until IS NULL OR lease_until <= $1 OR lease_until > $2) AND ",
            known_kind!(),
            " ORDER BY run_at, id LIMIT 1"
        ),
        params![now, lease_horizon(now, lease)],
        |_| Ok(()),
    )?;
    Ok(due.is_some())
}

/// Claims due jobs without a lease, the longest waiting first; only those whose kind this version knows. A lease
/// expires at its end. It also counts as expired when it ends later than any lease granted by `now` could, which means
/// that the clock was set back. Claims none if another process serves.
///
/// # Errors
/// [`StoreError`].
pub fn claim_jobs(tx: &mut dyn Sql, options: &JobClaimOptions) -> Result<Vec<ClaimedJob>> {
    let JobClaimOptions { node, now, lease, limit } = *options;
    serving::lock_serving_process(tx)?;
    let free: Vec<JobId> = tx.query_all(
        concat!(
            "SELECT id FROM jobs WHERE failed_at IS NULL AND run_at <= $1
                AND (lease_until IS NULL OR lease_until <= $1 OR lease_until > $2) AND ",
            known_kind!(),
            " ORDER BY run_at, id LIMIT $3 FOR UPDATE SKIP LOCKED"
        ),
        params![now, lease_horizon(now, lease), limit],
        |row| row.get_id(0),
    )?;
    let mut claimed = Vec::with_capacity(free.len());
    for id in free {
        let taken = tx.query_one(
            concat!(
                "UPDATE jobs SET node_id = $2, lease_until = $3, epoch = epoch + 1, attempts = attempts + 1
             WHERE id = $1 AND ",
                nobody_else_serves!(),
                " RETURNING epoch, kind, payload, run_at, attempts"
            ),
            params![id, node, now.saturating_add(lease)],
            |row| {
                let fence = JobFence { id, epoch: row.get_count(0)?, node };
                let (kind, payload) = (row.get_text(1)?, row.get_text(2)?);
                let job = read_job(kind, payload);
                Ok(ClaimedJob {
                    fence,
                    kind: kind.to_owned(),
                    job,
                    due: row.get_time(3)?,
                    attempts: row.get_u32(4)?,
                })
            },
        )?;
        claimed.extend(taken);
    }
    Ok(claimed)
}

/// Returns the latest possible end of a lease granted by `now`. Later ends mean that the clock was set back.
fn lease_horizon(now: Timestamp, lease: Duration) -> Timestamp {
    now.saturating_add(lease * 2)
}

/// Extends a lease. Returns `false` if it expired and another process claimed the job, or the job was
/// removed.
///
/// # Errors
/// [`StoreError`].
pub fn renew_job_lease(tx: &mut dyn Sql, fence: JobFence, until: Timestamp) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE jobs SET lease_until = $4 WHERE id = $1 AND epoch = $2 AND node_id = $3",
        params![fence.id, stored_int(fence.epoch)?, fence.node, until],
    )?;
    Ok(renewed > 0)
}

/// Ends a run: removes the job, reschedules it, or stores it as failed with `error`. Returns `false` and
/// changes nothing if the lease expired and another process claimed the job.
///
/// # Errors
/// [`StoreError`].
pub fn finish_job(
    tx: &mut dyn Sql,
    fence: JobFence,
    next: NextRun,
    error: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    let (epoch, error) = (stored_int(fence.epoch)?, error.map(truncate_error));
    let (id, node, error) = (fence.id, fence.node, error.as_ref());
    let ended = match next {
        NextRun::Remove => tx.execute(
            "DELETE FROM jobs WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node],
        ),
        NextRun::Rerun(at) => tx.execute(
            "UPDATE jobs SET run_at = $4, last_error = $5, attempts = 0, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, at, error],
        ),
        NextRun::Retry(at) => tx.execute(
            "UPDATE jobs SET run_at = $4, last_error = $5, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, at, error],
        ),
        NextRun::Fail => tx.execute(
            "UPDATE jobs SET failed_at = $4, last_error = $5, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, now, error],
        ),
    };
    Ok(ended? > 0)
}

/// Releases an interrupted job. It can be claimed again at once, and the attempt does not count.
///
/// # Errors
/// [`StoreError`].
pub fn release_job(tx: &mut dyn Sql, fence: JobFence) -> Result<bool> {
    let released = tx.execute(
        "UPDATE jobs SET node_id = NULL, lease_until = NULL, attempts = attempts - 1
         WHERE id = $1 AND epoch = $2 AND node_id = $3 AND attempts > 0",
        params![fence.id, stored_int(fence.epoch)?, fence.node],
    )?;
    Ok(released > 0)
}

/// Ends every lease and returns their number. No claim may be in progress.
pub(crate) fn end_all_leases(tx: &mut dyn Sql) -> Result<u64> {
    tx.execute("UPDATE jobs SET node_id = NULL, lease_until = NULL WHERE node_id IS NOT NULL", params![])
}

/// Returns how many jobs there are of each kind.
///
/// # Errors
/// [`StoreError`].
pub fn count_jobs(tx: &mut dyn Sql) -> Result<Vec<JobKindCounts>> {
    tx.query_all(
        "SELECT kind, count(*), count(node_id), count(failed_at) FROM jobs GROUP BY kind ORDER BY kind",
        params![],
        |row| {
            let (all, running, failed) = (row.get_count(1)?, row.get_count(2)?, row.get_count(3)?);
            let waiting = all.saturating_sub(running + failed);
            Ok(JobKindCounts { kind: row.get_text(0)?.to_owned(), waiting, running, failed })
        },
    )
}

/// Returns failed jobs, newest first, at most [`FAILED_LISTED_MAX`].
///
/// # Errors
/// [`StoreError`].
pub fn list_failed(tx: &mut dyn Sql, limit: u32) -> Result<Vec<FailedJob>> {
    tx.query_all(
        "SELECT id, kind, account_id, attempts, last_error, failed_at FROM jobs WHERE failed_at IS NOT NULL
         ORDER BY failed_at DESC, id DESC LIMIT $1",
        params![limit.min(FAILED_LISTED_MAX)],
        read_failed,
    )
}

/// Makes a failed job due now. Returns `false` if the job does not exist or has not failed.
///
/// # Errors
/// [`StoreError`].
pub fn retry_failed(tx: &mut dyn Sql, id: JobId, now: Timestamp) -> Result<bool> {
    let retried = tx.execute(
        "UPDATE jobs SET failed_at = NULL, attempts = 0, run_at = $2 WHERE id = $1 AND failed_at IS NOT NULL",
        params![id, now],
    )?;
    Ok(retried > 0)
}

/// Removes up to `limit` jobs that failed before `before` and returns their number.
///
/// # Errors
/// [`StoreError`].
pub fn remove_failed(tx: &mut dyn Sql, before: Timestamp, limit: u32) -> Result<u64> {
    tx.execute(
        "DELETE FROM jobs WHERE id IN
            (SELECT id FROM jobs WHERE failed_at < $1 ORDER BY failed_at, id LIMIT $2)",
        params![before, limit],
    )
}

fn read_failed(row: &dyn SqlRow) -> Result<FailedJob> {
    Ok(FailedJob {
        id: row.get_id(0)?,
        kind: row.get_text(1)?.to_owned(),
        account: row.opt_id(2)?,
        attempts: row.get_u32(3)?,
        error: row.opt_text(4)?.unwrap_or_default().to_owned(),
        failed_at: row.get_time(5)?,
    })
}

/// Replaces NUL, which engines reject, and truncates the error to the stored maximum.
fn truncate_error(error: &str) -> String {
    error[..error.floor_char_boundary(ERROR_MAX_BYTES)].replace('\0', " ")
}

#[derive(Serialize, Deserialize)]
struct OfConversation {
    conversation: String,
}

#[derive(Serialize, Deserialize)]
struct OfAccount {
    account: String,
}

fn payload_of(job: Job) -> Result<String> {
    match job {
        Job::RemoveConversation(conversation) => {
            codec::encode_json(&OfConversation { conversation: conversation.to_string() })
        }
        Job::RemoveAccount(account) => codec::encode_json(&OfAccount { account: account.to_string() }),
        Job::RemoveIdempotencyKeys | Job::TrimAuditLog | Job::RemoveStaleUploads | Job::RemoveFailedJobs => {
            Ok("{}".to_owned())
        }
    }
}

/// Decodes a job; `None` if its row is damaged or this version does not know its kind. A damaged one must not block
/// the claiming of others: it fails on its own.
fn read_job(kind: &str, payload: &str) -> Option<Job> {
    match kind {
        Job::REMOVE_CONVERSATION => {
            let read: OfConversation = serde_json::from_str(payload).ok()?;
            Some(Job::RemoveConversation(read.conversation.parse().ok()?))
        }
        Job::REMOVE_ACCOUNT => {
            let read: OfAccount = serde_json::from_str(payload).ok()?;
            Some(Job::RemoveAccount(read.account.parse().ok()?))
        }
        _ => Job::RECURRING.into_iter().find(|job| job.kind() == kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_row_round_trips() {
        let (conversation, account) = (ConversationId::from_random(7), AccountId::from_random(7));
        let once = [Job::RemoveConversation(conversation), Job::RemoveAccount(account)];
        for job in Job::RECURRING.into_iter().chain(once) {
            let payload = payload_of(job).expect("the payload is encoded");
            assert_eq!(read_job(job.kind(), &payload), Some(job));
        }
        for (kind, payload) in
            [("of_a_later_version", "{}"), (Job::REMOVE_CONVERSATION, "{}"), (Job::REMOVE_ACCOUNT, "{}")]
        {
            assert_eq!(read_job(kind, payload), None);
        }
    }

    #[test]
    fn claim_jobs_covers_known_kinds() {
        let named: Vec<&str> = known_kind!().split('\'').skip(1).step_by(2).collect();
        assert_eq!(named, Job::KINDS);
    }

    #[test]
    fn an_error_is_stored_within_bounds() {
        assert_eq!(truncate_error("a\0b"), "a b");
        assert_eq!(truncate_error(&"á".repeat(5000)).len(), ERROR_MAX_BYTES);
    }
}
