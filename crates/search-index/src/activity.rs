//! The work on the index and the changes that it waits for: searches interrupt the reading in the background, and reports of the
//! states of files wait for changes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::walk::{FoundFile, is_hidden};

/// The maximum number of hidden files that are read although no question names them; the first are forgotten.
const NAMED_MAX: usize = 1_000;

/// The state that the tasks of a library share.
#[derive(Debug)]
pub(super) struct IndexActivity {
    changed: Notify,
    /// True if the workspace must be walked again.
    touched: AtomicBool,
    searches: watch::Sender<u32>,
    seen: watch::Sender<IndexRevision>,
    named: Mutex<BTreeSet<String>>,
    files: Mutex<Arc<[FoundFile]>>,
    /// The files that could not be read again.
    put_off: Mutex<BTreeSet<String>>,
}

/// The revision of the states of files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IndexRevision {
    pub(super) number: u64,
    /// The number of updates in progress.
    pub(super) working: u32,
    /// True once the workspace was walked.
    pub(super) walked: bool,
}

impl Default for IndexActivity {
    fn default() -> Self {
        Self {
            changed: Notify::new(),
            touched: AtomicBool::new(false),
            searches: watch::Sender::new(0),
            // Another instance of the agent must not continue this one's numbers.
            seen: watch::Sender::new(IndexRevision { number: first_revision(), working: 0, walked: false }),
            named: Mutex::default(),
            files: Mutex::new(Arc::new([])),
            put_off: Mutex::default(),
        }
    }
}

fn first_revision() -> u64 {
    let mut bits = [0; 8];
    // Without randomness, a host would confuse a report of this instance with another's until the next change.
    let _ = getrandom::fill(&mut bits);
    u64::from_le_bytes(bits) >> 16
}

/// A search or another call that waits or runs. Reading in the background continues when it is dropped.
pub struct Searching<'a>(&'a IndexActivity);

impl Drop for Searching<'_> {
    fn drop(&mut self) {
        self.0.searches.send_modify(|searches| *searches = searches.saturating_sub(1));
        self.0.changed.notify_one();
    }
}

/// An update in progress.
pub(super) struct UpdateGuard<'a>(&'a IndexActivity);

impl Drop for UpdateGuard<'_> {
    fn drop(&mut self) {
        self.0.seen.send_modify(|seen| {
            seen.working = seen.working.saturating_sub(1);
            seen.number += 1;
        });
    }
}

impl IndexActivity {
    pub(super) fn begin_search(&self) -> Searching<'_> {
        self.searches.send_modify(|searches| *searches += 1);
        Searching(self)
    }

    pub(super) fn begin_update(&self) -> UpdateGuard<'_> {
        self.seen.send_modify(|seen| {
            seen.working += 1;
            seen.number += 1;
        });
        UpdateGuard(self)
    }

    /// Schedules a walk of the workspace, and the reading of the hidden files among these paths.
    pub(super) fn touch_files(&self, paths: impl IntoIterator<Item = String>) {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.extend(paths.into_iter().filter(|path| is_hidden(path)));
        while named.len() > NAMED_MAX {
            named.pop_first();
        }
        self.touched.store(true, Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Returns the hidden files that are read.
    pub(super) fn hidden_files(&self) -> Vec<String> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Prevents this instance of the agent from reading a file again that was read before.
    pub(super) fn put_off_until_restart(&self, path: &str) {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
    }

    /// Returns the files that are not read again.
    pub(super) fn put_off(&self) -> BTreeSet<String> {
        self.put_off.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until something may have changed. Cancel safe.
    pub(super) async fn wait_for_change(&self) {
        self.changed.notified().await;
        self.touched.store(false, Ordering::Relaxed);
    }

    /// Returns true if the workspace must be walked since [`Self::changed`] returned.
    pub(super) fn is_touched(&self) -> bool {
        self.touched.load(Ordering::Relaxed)
    }

    /// Waits until no search runs or waits. Cancel safe.
    pub(super) async fn no_search(&self) {
        let _ = self.searches.subscribe().wait_for(|searches| *searches == 0).await;
    }

    /// Waits until a search runs or waits. Cancel safe.
    pub(super) async fn any_search(&self) {
        let _ = self.searches.subscribe().wait_for(|searches| *searches > 0).await;
    }

    /// Records that the state of a file has changed.
    pub(super) fn record_progress(&self) {
        self.seen.send_modify(|seen| seen.number += 1);
    }

    /// Replaces the files of the workspace by the result of a walk.
    pub(super) fn replace_walked_files(&self, files: &[FoundFile]) {
        let mut known = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = !self.seen.borrow().walked;
        if is_first || **known != *files {
            *known = files.into();
            self.seen.send_modify(|seen| {
                seen.number += 1;
                seen.walked = true;
            });
        }
    }

    /// Returns the files of the last walk.
    pub(super) fn walked_files(&self) -> Arc<[FoundFile]> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits for another revision than the seen one, at most this long, and returns the present one. Cancel safe.
    pub(super) async fn wait_for_revision(&self, seen: Option<u64>, time: Duration) -> IndexRevision {
        let mut revisions = self.seen.subscribe();
        let is_new = |revision: &IndexRevision| revision.walked && seen != Some(revision.number);
        let _ = tokio::time::timeout(time, revisions.wait_for(is_new)).await;
        *revisions.borrow()
    }
}
