//! The lock that allows one process at a time to serve a database: an advisory lock in a separate session,
//! held for as long as the process serves.
//!
//! ```text
//! waiting ──acquired──▶ held ──connection broke──▶ regaining ──acquired──▶ held
//!    │                                                 │
//!    └─timeout─▶ refused                               └─another session holds it─▶ lost
//! ```
//! The server releases the lock with the session, so a dead process leaves nothing behind. A process that
//! cannot reach the server loses the lock without noticing. Its answers are protected by their leases and
//! epochs, and it shuts down as soon as it learns that another process serves, or has served meanwhile. It knows when
//! it was last certain to hold the lock: the moment before it sent the last query that the server answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::id::NodeId;
use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::address::PgAddress;
use super::connection::PgConnection;
use super::error::PgError;
use crate::confirmation::Confirmation;
use crate::error::StoreError;
use crate::sql::Result;

/// The interval of health checks on the session, and the time limit of each.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Tries to acquire the lock and returns whether it did. The table's number identifies the database, because
/// several may share one server by their search path. The server detects a dead client within half a minute.
const TAKE: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SELECT pg_try_advisory_lock(1129268051, 'commits'::regclass::oid::int4)";
const LOOK: &str = "SELECT 1";
/// The text form of `true`.
const TRUE: &str = "t";
/// Identifies the session that holds the lock, also after the server has given its process's number to another one.
const HOLDER: &str =
    "SELECT concat_ws(' ', pid, backend_start) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND classid = 1129268051 AND objid = 'commits'::regclass::oid AND objsubid = 2
        AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";

/// Names the process that serves, or served last.
const PROCESS: &str = "SELECT process_id FROM serving";

/// The outcome of an attempt to acquire the lock.
enum LockAttempt {
    Acquired(Box<LockHolder>),
    /// Another session holds it, or has until now.
    Foreign(Option<String>),
}

/// The session that holds the lock.
struct LockHolder {
    link: PgConnection,
    /// See [`HOLDER`].
    session: Option<String>,
    /// See [`PROCESS`].
    process: Option<String>,
}

/// The state of the lock, as the thread that holds it knows it.
struct Keeper {
    address: PgAddress,
    /// The process that holds the lock.
    process: NodeId,
    /// See [`PROCESS`]: the one that was found when the lock was first acquired.
    before: Option<String>,
    report_lost: watch::Sender<bool>,
    confirmation: Arc<Confirmation>,
}

/// A receiver that reports the loss of the lock, and a sender that releases it when dropped.
pub(crate) type Acquired = (watch::Receiver<bool>, oneshot::Sender<()>);

/// Acquires the lock within `max_wait`. Blocks; must not run on a runtime's thread.
///
/// # Errors
/// [`StoreError::Taken`] if another process holds it, otherwise an error of the server.
pub(crate) fn acquire_lock(
    address: PgAddress,
    max_wait: Duration,
    process: NodeId,
    confirmation: Arc<Confirmation>,
) -> Result<Acquired> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    let holder = runtime.block_on(wait_for_lock(&address, max_wait, &confirmation))?;
    let (report_lost, lost) = watch::channel(false);
    let (hold, released) = oneshot::channel();
    let keeper = Keeper { address, process, before: holder.process.clone(), report_lost, confirmation };
    std::thread::Builder::new()
        .name("store-lock".to_owned())
        .spawn(move || runtime.block_on(hold_lock(&keeper, holder, released)))
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    Ok((lost, hold))
}

impl Keeper {
    /// Returns true if no other process has served since the lock was first acquired.
    fn is_last(&self, holder: &LockHolder) -> bool {
        holder.process == self.before || holder.process.as_deref() == Some(&*self.process.to_string())
    }
}

async fn wait_for_lock(
    address: &PgAddress,
    max_wait: Duration,
    confirmation: &Confirmation,
) -> Result<LockHolder> {
    let begun = Instant::now();
    let mut logged = false;
    loop {
        match try_acquire_lock(address, confirmation).await {
            Ok(LockAttempt::Acquired(holder)) => return Ok(*holder),
            Ok(LockAttempt::Foreign(_)) if begun.elapsed() >= max_wait => return Err(StoreError::Taken),
            Ok(LockAttempt::Foreign(_)) if logged => {}
            Ok(LockAttempt::Foreign(_)) => {
                tracing::info!(?max_wait, "database lock held by another service; waiting");
                logged = true;
            }
            Err(PgError::Lost(reason)) if begun.elapsed() >= max_wait => {
                return Err(StoreError::Unreachable(reason));
            }
            Err(PgError::Lost(_)) => {}
            Err(fault @ (PgError::Conflict(_) | PgError::Fatal(_))) => return Err(fault.into_error()),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Opens a session and tries to acquire the lock in it.
async fn try_acquire_lock(address: &PgAddress, confirmation: &Confirmation) -> Result<LockAttempt, PgError> {
    let link = PgConnection::open_session(address).await?;
    let ask = async |sql| {
        timeout(CHECK_TIMEOUT, link.query_text(sql)).await.unwrap_or_else(|_| Err(PgError::from_timeout()))
    };
    let asked = Confirmation::time_since_boot();
    let is_acquired = ask(TAKE).await?.as_deref() == Some(TRUE);
    let session = ask(HOLDER).await?;
    if is_acquired {
        let process = ask(PROCESS).await?;
        confirmation.confirm_at(asked);
        return Ok(LockAttempt::Acquired(Box::new(LockHolder { link, session, process })));
    }
    link.close_session().await;
    Ok(LockAttempt::Foreign(session))
}

async fn hold_lock(
    keeper: &Keeper,
    LockHolder { link, mut session, .. }: LockHolder,
    mut released: oneshot::Receiver<()>,
) {
    let Keeper { address, report_lost, confirmation, .. } = keeper;
    let mut held = Some(link);
    loop {
        let pause = if held.is_some() { CHECK_INTERVAL } else { RETRY_INTERVAL };
        if timeout(pause, &mut released).await.is_ok() {
            break;
        }
        if let Some(link) = &held {
            let asked = Confirmation::time_since_boot();
            let looked = timeout(CHECK_TIMEOUT, link.run_batch(LOOK)).await;
            if matches!(looked, Ok(Ok(()))) {
                confirmation.confirm_at(asked);
            } else {
                tracing::warn!("database lock session lost");
                held = None;
            }
            continue;
        }
        match try_acquire_lock(address, confirmation).await {
            // Another process has served meanwhile, and ended.
            Ok(LockAttempt::Acquired(holder)) if !keeper.is_last(&holder) => {
                report_lost.send_replace(true);
                return;
            }
            Ok(LockAttempt::Acquired(holder)) => {
                tracing::info!("database lock reacquired");
                held = Some(holder.link);
                session = holder.session;
            }
            // The server may still hold it for this process's broken session.
            Ok(LockAttempt::Foreign(holder)) if holder.is_none() || holder == session => {}
            Ok(LockAttempt::Foreign(_)) => {
                report_lost.send_replace(true);
                return;
            }
            Err(_) => {}
        }
    }
    if let Some(link) = held {
        link.close_session().await;
    }
}
