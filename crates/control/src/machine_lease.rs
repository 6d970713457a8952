//! Lets the machines work as long as this process certainly serves the database.
//!
//! A database on a server may be taken over by a service on another host, which cannot see this one's machines. So machines
//! work only until [`SHARED`] after the moment at which this process was last certain to hold the lock, and a service that
//! takes over from another data folder waits as long before it starts machines. Nobody takes over a database in the data folder
//! while this host runs: there a restart of any usual length interrupts no tool.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use machine::{LeasePage, MachineFolders};
use store::ExclusiveLock;
use tokio::time::Instant;

use crate::admin::stop_left_over;

/// The time for which machines work after the last certainty of the lock on a database that another service may take.
const SHARED: Duration = Duration::from_millis(1200);
/// The time for which machines work after the end of a service whose database no other service can take over.
const OWN: Duration = Duration::from_secs(60);
/// The interval in which the deadline is moved.
const MOVE_INTERVAL: Duration = Duration::from_millis(100);

/// Moves the deadline of machines until the lock is dropped.
///
/// # Errors
/// When the page cannot be written or the thread cannot be started.
pub(crate) fn start_extending(page: LeasePage, lock: &Arc<ExclusiveLock>) -> io::Result<()> {
    extend_lease(&page, lock)?;
    let lock = Arc::downgrade(lock);
    // A separate thread, so that load on other threads does not suspend machines.
    thread::Builder::new().name("machine-lease".to_owned()).spawn(move || keep_extending(&page, &lock))?;
    Ok(())
}

fn extend_lease(page: &LeasePage, lock: &ExclusiveLock) -> io::Result<()> {
    match lock.confirmed_at() {
        Some(at) => page.extend_until(at + SHARED),
        None => page.extend_for(OWN),
    }
}

fn keep_extending(page: &LeasePage, lock: &Weak<ExclusiveLock>) {
    let mut is_failing = false;
    loop {
        thread::park_timeout(MOVE_INTERVAL);
        let Some(lock) = lock.upgrade() else { return };
        match extend_lease(page, &lock) {
            Ok(()) => is_failing = false,
            Err(error) if !is_failing => {
                tracing::error!(%error, "machine lease write failed: machines suspended");
                is_failing = true;
            }
            Err(_) => {}
        }
    }
}

/// Stops the machines that an earlier service on this data folder left running, because another service has run since
/// then. Returns when no machine of that other service works any more: [`SHARED`] after this process acquired the lock.
pub(crate) async fn succeed_another(folders: &MachineFolders, locked_at: Instant) {
    match stop_left_over(folders).await {
        Ok(stopped) if stopped.is_empty() => {}
        Ok(stopped) => {
            let machines = stopped.len();
            tracing::warn!(machines, "machines stopped: another service has run since they were started");
        }
        // They stay suspended until their task attaches to them, which stops machines that do not answer.
        Err(error) => tracing::error!(%error, "stopping machines of an earlier service failed"),
    }
    tokio::time::sleep_until(locked_at + SHARED).await;
}
