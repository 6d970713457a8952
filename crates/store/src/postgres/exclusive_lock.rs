//! The lock that lets one process at a time serve a database: an advisory lock of a session of its own, held for as
//! long as the process serves.
//!
//! ```text
//! waiting ──acquired──▶ held ──connection broke──▶ regaining ──acquired──▶ held
//!    │                                                 │
//!    └─patience over─▶ refused                         └─another session held it for FOREIGN_MAX─▶ lost
//! ```
//! The server frees the lock with the session, so that nothing is left of a process that dies. A process that cannot
//! reach the server loses the lock without knowing. The answers that it still works on are safe by their leases and
//! epochs; it ends as soon as it learns that another process serves.

use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::time::{sleep, timeout};

use super::address::Address;
use super::connection::PgConnection;
use super::error::PgError;
use crate::error::StoreError;
use crate::sql::Result;

/// How often the session is looked at, and how long it may take to answer.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// How long another one must have it until it counts as lost: the server may still hold what was this process's own.
const FOREIGN_MAX: Duration = Duration::from_secs(30);

/// Asks for the lock, and returns whether it was free. Databases are told apart by the table's number, as several may
/// share one server by their search path. The server finds out within half a minute when the host of a session is gone.
const TAKE: &str =
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    SELECT pg_try_advisory_lock(1129268051, 'commits'::regclass::oid::int4)";
const LOOK: &str = "SELECT 1";
/// A boolean as the server writes it.
const TRUE: &str = "t";

/// Tells that the lock was lost, and gives it up when dropped.
pub(crate) type Acquired = (watch::Receiver<bool>, oneshot::Sender<()>);

/// Acquires the lock within `patience`. Blocks; not for a thread of a runtime.
///
/// # Errors
/// [`StoreError::AskOutcome`] when another process holds it, otherwise of the server.
pub(crate) fn acquire_lock(address: Address, max_wait: Duration) -> Result<Acquired> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    let link = runtime.block_on(wait(&address, max_wait))?;
    let (tell, lost) = watch::channel(false);
    let (hold, given_up) = oneshot::channel();
    std::thread::Builder::new()
        .name("store-lock".to_owned())
        .spawn(move || runtime.block_on(keep(&address, link, &tell, given_up)))
        .map_err(|error| StoreError::Engine(error.to_string()))?;
    Ok((lost, hold))
}

async fn wait(address: &Address, max_wait: Duration) -> Result<PgConnection> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        match take(address).await {
            Ok(Some(link)) => return Ok(link),
            Ok(None) if begun.elapsed() >= max_wait => return Err(StoreError::Taken),
            Ok(None) if told => {}
            Ok(None) => {
                tracing::info!(?max_wait, "database lock held by another service; waiting");
                told = true;
            }
            Err(PgError::Lost(reason)) if begun.elapsed() >= max_wait => {
                return Err(StoreError::Unreachable(reason));
            }
            Err(PgError::Lost(_)) => {}
            Err(fault @ (PgError::Conflict(_) | PgError::Told(_))) => return Err(fault.into_error()),
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// Opens a session and acquires the lock in it. Returns `None` when another session holds it.
async fn take(address: &Address) -> Result<Option<PgConnection>, PgError> {
    let link = PgConnection::open(address).await?;
    let told = timeout(CHECK_TIMEOUT, link.ask(TAKE)).await.unwrap_or_else(|_| Err(PgError::silent()))?;
    if told.as_deref() == Some(TRUE) {
        return Ok(Some(link));
    }
    link.close().await;
    Ok(None)
}

async fn keep(
    address: &Address,
    link: PgConnection,
    tell: &watch::Sender<bool>,
    mut given_up: oneshot::Receiver<()>,
) {
    let mut held = Some(link);
    let mut foreign_since: Option<Instant> = None;
    loop {
        let pause = if held.is_some() { CHECK_INTERVAL } else { RETRY_INTERVAL };
        if timeout(pause, &mut given_up).await.is_ok() {
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
            Ok(Some(link)) => {
                tracing::info!("database lock reacquired");
                (held, foreign_since) = (Some(link), None);
            }
            Ok(None) if foreign_since.get_or_insert_with(Instant::now).elapsed() >= FOREIGN_MAX => {
                tell.send_replace(true);
                return;
            }
            Ok(None) => {}
            Err(_) => foreign_since = None,
        }
    }
    if let Some(link) = held {
        link.close().await;
    }
}
