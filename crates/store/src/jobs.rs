//! Background jobs: written in any transaction, claimed under leases, run at least once ([`domain::job`] has the rules).
//!
//! A claim raises the job's epoch, and each report of its holder names the claim by a [`JobFence`]: the report of a holder
//! whose lease was over is refused. So a job runs at most once at a time as long as the clocks of the nodes agree within
//! a lease, and a report never ends another run than its own.

use std::time::Duration;

use domain::id::{AccountId, ConversationId, JobId, NodeId};
use domain::job::{INTERVAL_MAX, Job, Next};
use domain::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::codec;
use crate::sql::{Result, Row, RowExt, Sql, SqlExt, int, params};

/// The longest error that is kept with a job, in bytes.
const ERROR_MAX_BYTES: usize = 4096;
/// The most failed jobs that are listed.
pub const FAILED_LISTED_MAX: u32 = 1000;

/// A job to be written.
#[derive(Debug, Clone, Copy)]
pub struct NewJob {
    /// Its identifier: writing it again does nothing.
    pub id: JobId,
    /// The job. Of a recurring one only one is kept.
    pub job: Job,
    /// The account that it is about.
    pub account: Option<AccountId>,
    /// When it is due.
    pub run_at: Timestamp,
    /// The present.
    pub now: Timestamp,
}

/// How jobs are claimed.
#[derive(Debug, Clone, Copy)]
pub struct ClaimOptions {
    /// The claiming process.
    pub node: NodeId,
    /// The present.
    pub now: Timestamp,
    /// How long the lease holds unless it is renewed.
    pub lease: Duration,
    /// The most jobs to claim.
    pub limit: u32,
}

/// A claim: which job, in which epoch, by which process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobFence {
    /// The job.
    pub id: JobId,
    /// The epoch that the claim began.
    pub epoch: u64,
    /// The process.
    pub node: NodeId,
}

/// A job that was claimed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedJob {
    /// The claim.
    pub fence: JobFence,
    /// The kind's name.
    pub kind: String,
    /// The job; `None` when this version does not know it.
    pub job: Option<Job>,
    /// When it was due.
    pub due: Timestamp,
    /// Claims since it last succeeded, this one included.
    pub attempts: u32,
}

/// A job that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedJob {
    /// Its identifier.
    pub id: JobId,
    /// The kind's name.
    pub kind: String,
    /// The account that it is about.
    pub account: Option<AccountId>,
    /// How often it was tried.
    pub attempts: u32,
    /// The last error.
    pub error: String,
    /// When it was given up.
    pub failed_at: Timestamp,
}

/// How many jobs of a kind there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobCounts {
    /// The kind's name.
    pub kind: String,
    /// Jobs that wait for their time or for a process.
    pub waiting: u64,
    /// Jobs that are leased.
    pub running: u64,
    /// Jobs that were given up.
    pub failed: u64,
}

/// Writes a job and returns whether it is new. One of the same identifier, or a recurring one of the same kind, is left
/// as it is.
///
/// # Errors
/// [`StoreError`].
pub fn enqueue(tx: &mut dyn Sql, new: &NewJob) -> Result<bool> {
    let key = new.job.interval().map(|_| "recurring");
    let written = tx.execute(
        "INSERT INTO jobs (id, kind, unique_key, account_id, payload, created_at, run_at, attempts, epoch)
         VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0)
         ON CONFLICT DO NOTHING",
        params![new.id, new.job.kind(), key, new.account, &payload_of(new.job)?, new.now, new.run_at],
    )?;
    Ok(written > 0)
}

/// Writes the job that removes a conversation if it is deleted. Nobody answers in it any more.
pub(crate) fn enqueue_removal(tx: &mut dyn Sql, conversation: ConversationId, now: Timestamp) -> Result<()> {
    let job = Job::RemoveConversation(conversation);
    tx.send(
        "INSERT INTO jobs (id, kind, account_id, payload, created_at, run_at, attempts, epoch)
         SELECT $1, $2, account_id, $3, CAST($4 AS BIGINT), CAST($4 AS BIGINT), 0, 0 FROM conversations
         WHERE id = $5 AND deleted_at IS NOT NULL
         ON CONFLICT DO NOTHING",
        params![
            // It is deleted once.
            JobId::from_random(conversation.bits()),
            job.kind(),
            &payload_of(job)?,
            now,
            conversation
        ],
    )
}

/// Brings jobs forward to the present that wait longer than any may: a clock that was ahead had set their time. Returns
/// how many.
///
/// # Errors
/// [`StoreError`].
pub fn bring_forward(tx: &mut dyn Sql, now: Timestamp) -> Result<u64> {
    tx.execute(
        "UPDATE jobs SET run_at = $1 WHERE failed_at IS NULL AND run_at > $2",
        params![now, now.plus(INTERVAL_MAX)],
    )
}

/// Whether a job can be claimed.
///
/// # Errors
/// [`StoreError`].
pub fn is_due(tx: &mut dyn Sql, now: Timestamp, lease: Duration) -> Result<bool> {
    let due = tx.one(
        "SELECT 1 FROM jobs WHERE failed_at IS NULL AND run_at <= $1
            AND (lease_until IS NULL OR lease_until <= $1 OR lease_until > $2)
         ORDER BY run_at, id LIMIT 1",
        params![now, lease_horizon(now, lease)],
        |_| Ok(()),
    )?;
    Ok(due.is_some())
}

/// Claims jobs that are due and that nobody holds, those first that have waited longest. A lease is over when its time
/// has come, and also when it ends later than any could that was granted by now: then the clock was set back.
///
/// # Errors
/// [`StoreError`].
pub fn claim(tx: &mut dyn Sql, options: &ClaimOptions) -> Result<Vec<ClaimedJob>> {
    let ClaimOptions { node, now, lease, limit } = *options;
    let free: Vec<JobId> = tx.all(
        "SELECT id FROM jobs WHERE failed_at IS NULL AND run_at <= $1
            AND (lease_until IS NULL OR lease_until <= $1 OR lease_until > $2)
         ORDER BY run_at, id LIMIT $3 FOR UPDATE SKIP LOCKED",
        params![now, lease_horizon(now, lease), limit],
        |row| row.id(0),
    )?;
    let mut claimed = Vec::with_capacity(free.len());
    for id in free {
        let taken = tx.one(
            "UPDATE jobs SET node_id = $2, lease_until = $3, epoch = epoch + 1, attempts = attempts + 1
             WHERE id = $1 RETURNING epoch, kind, payload, run_at, attempts",
            params![id, node, now.plus(lease)],
            |row| {
                let fence = JobFence { id, epoch: row.count(0)?, node };
                let (kind, payload) = (row.text(1)?, row.text(2)?);
                let job = read_job(kind, payload);
                Ok(ClaimedJob {
                    fence,
                    kind: kind.to_owned(),
                    job,
                    due: row.time(3)?,
                    attempts: row.small(4)?,
                })
            },
        )?;
        claimed.extend(taken);
    }
    Ok(claimed)
}

/// Leases end within this time, or the clock was set back since they were granted.
fn lease_horizon(now: Timestamp, lease: Duration) -> Timestamp {
    now.plus(lease * 2)
}

/// Extends a lease. Returns `false` when it is over and somebody else has claimed the job, or it is removed.
///
/// # Errors
/// [`StoreError`].
pub fn renew(tx: &mut dyn Sql, fence: JobFence, until: Timestamp) -> Result<bool> {
    let renewed = tx.execute(
        "UPDATE jobs SET lease_until = $4 WHERE id = $1 AND epoch = $2 AND node_id = $3",
        params![fence.id, int(fence.epoch)?, fence.node, until],
    )?;
    Ok(renewed > 0)
}

/// Ends a run: removes the job, lets it wait again, or keeps it as failed. `error` is why the run failed. Returns `false`,
/// and does nothing, when the lease was over and somebody else has claimed the job.
///
/// # Errors
/// [`StoreError`].
pub fn finish(
    tx: &mut dyn Sql,
    fence: JobFence,
    next: Next,
    error: Option<&str>,
    now: Timestamp,
) -> Result<bool> {
    let (epoch, error) = (int(fence.epoch)?, error.map(storable));
    let (id, node, error) = (fence.id, fence.node, error.as_ref());
    let ended = match next {
        Next::Remove => tx.execute(
            "DELETE FROM jobs WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node],
        ),
        Next::Rerun(at) => tx.execute(
            "UPDATE jobs SET run_at = $4, last_error = $5, attempts = 0, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, at, error],
        ),
        Next::Retry(at) => tx.execute(
            "UPDATE jobs SET run_at = $4, last_error = $5, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, at, error],
        ),
        Next::Fail => tx.execute(
            "UPDATE jobs SET failed_at = $4, last_error = $5, node_id = NULL, lease_until = NULL
             WHERE id = $1 AND epoch = $2 AND node_id = $3",
            params![id, epoch, node, now, error],
        ),
    };
    Ok(ended? > 0)
}

/// Gives a job back that was interrupted: it can be claimed again at once, and the attempt does not count.
///
/// # Errors
/// [`StoreError`].
pub fn release(tx: &mut dyn Sql, fence: JobFence) -> Result<bool> {
    let released = tx.execute(
        "UPDATE jobs SET node_id = NULL, lease_until = NULL, attempts = attempts - 1
         WHERE id = $1 AND epoch = $2 AND node_id = $3 AND attempts > 0",
        params![fence.id, int(fence.epoch)?, fence.node],
    )?;
    Ok(released > 0)
}

/// Ends every lease of `node` and returns how many: a process that starts under the name of one that died does not wait
/// for them.
///
/// # Errors
/// [`StoreError`].
pub fn take_over(tx: &mut dyn Sql, node: NodeId) -> Result<u64> {
    tx.execute("UPDATE jobs SET node_id = NULL, lease_until = NULL WHERE node_id = $1", params![node])
}

/// Returns how many jobs there are of each kind.
///
/// # Errors
/// [`StoreError`].
pub fn counts(tx: &mut dyn Sql) -> Result<Vec<JobCounts>> {
    tx.all(
        "SELECT kind, count(*), count(node_id), count(failed_at) FROM jobs GROUP BY kind ORDER BY kind",
        params![],
        |row| {
            let (all, running, failed) = (row.count(1)?, row.count(2)?, row.count(3)?);
            let waiting = all.saturating_sub(running + failed);
            Ok(JobCounts { kind: row.text(0)?.to_owned(), waiting, running, failed })
        },
    )
}

/// Returns jobs that were given up, newest first, at most [`FAILED_LISTED_MAX`].
///
/// # Errors
/// [`StoreError`].
pub fn list_failed(tx: &mut dyn Sql, limit: u32) -> Result<Vec<FailedJob>> {
    tx.all(
        "SELECT id, kind, account_id, attempts, last_error, failed_at FROM jobs WHERE failed_at IS NOT NULL
         ORDER BY failed_at DESC, id DESC LIMIT $1",
        params![limit.min(FAILED_LISTED_MAX)],
        read_failed,
    )
}

/// Lets a job that was given up run again at once. Returns `false` when there is no such job.
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

/// Removes up to `limit` jobs that were given up before a moment and returns how many.
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

fn read_failed(row: &dyn Row) -> Result<FailedJob> {
    Ok(FailedJob {
        id: row.id(0)?,
        kind: row.text(1)?.to_owned(),
        account: row.opt_id(2)?,
        attempts: row.small(3)?,
        error: row.opt_text(4)?.unwrap_or_default().to_owned(),
        failed_at: row.time(5)?,
    })
}

/// The error without NUL, which engines refuse, and no longer than can be stored.
fn storable(error: &str) -> String {
    error[..error.floor_char_boundary(ERROR_MAX_BYTES)].replace('\0', " ")
}

#[derive(Serialize, Deserialize)]
struct OfConversation {
    conversation: String,
}

fn payload_of(job: Job) -> Result<String> {
    match job {
        Job::RemoveConversation(conversation) => {
            codec::write(&OfConversation { conversation: conversation.to_string() })
        }
        Job::RemoveIdempotencyKeys | Job::TrimAuditLog | Job::RemoveStaleUploads | Job::RemoveFailedJobs => {
            Ok("{}".to_owned())
        }
    }
}

/// Reads a job; `None` when this version does not know it or its row is damaged. Such a job must not keep others from
/// being claimed: it fails by itself.
fn read_job(kind: &str, payload: &str) -> Option<Job> {
    if kind != Job::REMOVE_CONVERSATION {
        return Job::RECURRING.into_iter().find(|job| job.kind() == kind);
    }
    let read: OfConversation = serde_json::from_str(payload).ok()?;
    Some(Job::RemoveConversation(read.conversation.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_survives_its_row() {
        let conversation = ConversationId::from_random(7);
        for job in Job::RECURRING.into_iter().chain([Job::RemoveConversation(conversation)]) {
            let payload = payload_of(job).expect("it can be written");
            assert_eq!(read_job(job.kind(), &payload), Some(job));
        }
        for (kind, payload) in [("of_a_later_version", "{}"), (Job::REMOVE_CONVERSATION, "{}")] {
            assert_eq!(read_job(kind, payload), None);
        }
    }

    #[test]
    fn an_error_is_stored_within_bounds() {
        assert_eq!(storable("a\0b"), "a b");
        assert_eq!(storable(&"á".repeat(5000)).len(), ERROR_MAX_BYTES);
    }
}
