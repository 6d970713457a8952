//! The lock that allows one process at a time to serve a database: an advisory lock in a session of its own,
//! held for as long as the process serves.
//!
//! ```text
//! waiting ──acquired──▶ held ──connection broke──▶ regaining ──acquired──▶ held
//!    │                                                 │
//!    └─timeout─▶ refused                               └─another session holds it─▶ lost
//! ```
//! The server releases the lock with the session, so a dead process leaves nothing behind. A process that
//! cannot reach the server loses the lock without noticing. Its answers are protected by their leases and
//! epochs, and it shuts down as soon as it learns that another process serves.

use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::connection::PgConnection;
use super::error::PgError;
use crate::error::StoreError;
use crate::sql::Result;

/// The interval of health checks on the session, and the time limit of each.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
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

/// The outcome of an attempt to acquire the lock.
enum Attempt {
    Acquired(Box<Holder>),
    /// Another session holds it, or has until now.
    Foreign(Option<String>),
}

/// The session that holds the lock.
struct Holder {
    link: PgConnection,
    /// See [`HOLDER`].
    session: Option<String>,
}

/// A receiver that reports the loss of the lock, and a sender that releases it when dropped.
pub(crate) type Acquired = (watch::Receiver<bool>, oneshot::Sender<()>);

/// Acquires the lock within `max_wait`. Blocks; must not run on a runtime's thread.
///
/// # Errors
/// [`StoreError::Taken`] if another process holds it, otherwise an error of the server.
pub(crate) fn acquire_lock(address: Address, max_wait: Duration) -> Result<Acquired> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    let holder = runtime.block_on(wait(&address, max_wait))?;
    let (report_lost, lost) = watch::channel(false);
    let (hold, released) = oneshot::channel();
    std::thread::Builder::new()
        .name("store-lock".to_owned())
        .spawn(move || runtime.block_on(hold_lock(&address, holder, &report_lost, released)))
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    Ok((lost, hold))
}

async fn wait(address: &Address, max_wait: Duration) -> Result<Holder> {
    let begun = Instant::now();
    let mut logged = false;
    loop {
        match take(address).await {
            Ok(Attempt::Acquired(holder)) => return Ok(*holder),
            Ok(Attempt::Foreign(_)) if begun.elapsed() >= max_wait => return Err(StoreError::Taken),
            Ok(Attempt::Foreign(_)) if logged => {}
            Ok(Attempt::Foreign(_)) => {
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
async fn take(address: &Address) -> Result<Attempt, PgError> {
    let link = PgConnection::open(address).await?;
    let ask = async |sql| {
        timeout(CHECK_TIMEOUT, link.query_text(sql)).await.unwrap_or_else(|_| Err(PgError::silent()))
    };
    let is_acquired = ask(TAKE).await?.as_deref() == Some(TRUE);
    let session = ask(HOLDER).await?;
    if is_acquired {
        return Ok(Attempt::Acquired(Box::new(Holder { link, session })));
    }
    link.close().await;
    Ok(Attempt::Foreign(session))
}

async fn hold_lock(
    address: &Address,
    Holder { link, mut session }: Holder,
    report_lost: &watch::Sender<bool>,
    mut released: oneshot::Receiver<()>,
) {
    let mut held = Some(link);
    loop {
        let pause = if held.is_some() { CHECK_INTERVAL } else { RETRY_INTERVAL };
        if timeout(pause, &mut released).await.is_ok() {
            break;
        }
        if let Some(link) = &held {
            let looked = timeout(CHECK_TIMEOUT, link.batch(LOOK)).await;
            if !matches!(looked, Ok(Ok(()))) {
                tracing::warn!("database lock session lost");
                held = None;
            }
            continue;
        }
        match take(address).await {
            Ok(Attempt::Acquired(holder)) => {
                tracing::info!("database lock reacquired");
                held = Some(holder.link);
                session = holder.session;
            }
            // The server may still hold it for this process's broken session.
            Ok(Attempt::Foreign(holder)) if holder.is_none() || holder == session => {}
            Ok(Attempt::Foreign(_)) => {
                report_lost.send_replace(true);
                return;
            }
            Err(_) => {}
        }
    }
    if let Some(link) = held {
        link.close().await;
    }
}
