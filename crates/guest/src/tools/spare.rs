//! Processes of the agent's program that are started before a call needs them: starting one takes most of the time of a
//! short call, especially on a User Mode Linux kernel.
//!
//! A spare process has done nothing yet: it waits for its request, by which it is confined. There is one for each role,
//! and none in a machine without a call for [`KEPT_FOR`].

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::Child;
use tokio::task::AbortHandle;

use super::ToolLimits;
use super::child::start_process;
use super::role::ProcessRole;

/// The roles with a spare process, the slowest to start first.
const ROLES: [ProcessRole; 2] = [ProcessRole::Command, ProcessRole::Worker];
/// The time after the last call in which spare processes are kept.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// The time that the result of a call has to leave the machine before the next spare process takes the processor.
const REFILL_AFTER: Duration = Duration::from_millis(100);

/// The spare processes of a machine. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Spares(Arc<Mutex<SpareState>>);

#[derive(Debug, Default)]
struct SpareState {
    waiting: HashMap<ProcessRole, Child>,
    /// The number of calls that run.
    calls: usize,
    keeper: Option<AbortHandle>,
}

impl Spares {
    /// Takes the spare process of a role, if one waits.
    pub(super) fn take_spare(&self, role: ProcessRole) -> Option<Child> {
        let mut spare = self.lock_state().waiting.remove(&role)?;
        // An exited process is useless.
        matches!(spare.try_wait(), Ok(None)).then_some(spare)
    }

    /// Registers a call that runs until the guard is dropped.
    pub(crate) fn register_call(&self) -> SpareCallGuard {
        self.lock_state().calls += 1;
        SpareCallGuard(self.clone())
    }

    /// Starts the first missing spare process now, because calls may come, and the others soon, unless a call has come, which
    /// needs the processor itself. Does nothing outside a runtime.
    pub(crate) fn prepare_first(&self, limits: &ToolLimits) {
        self.refill_after(Duration::ZERO, limits, |calls| calls == 0);
    }

    /// Starts the missing spare processes soon, after a call. Does nothing outside a runtime.
    pub(crate) fn refill_soon(&self, limits: &ToolLimits) {
        self.refill_after(REFILL_AFTER, limits, |_| true);
    }

    /// Starts the missing spare processes, the first after `first`, as long as `goes_on` permits it with this number of
    /// calls, and removes all after a while without calls.
    fn refill_after(&self, first: Duration, limits: &ToolLimits, goes_on: fn(usize) -> bool) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (spares, limits) = (self.clone(), limits.clone());
        let keeper = runtime.spawn(async move {
            let mut delay = first;
            for role in ROLES {
                if spares.lock_state().waiting.contains_key(&role) {
                    continue;
                }
                tokio::time::sleep(delay).await;
                delay = REFILL_AFTER;
                // The end of a call refills.
                if !goes_on(spares.lock_state().calls) {
                    break;
                }
                // Without a spare process, the call starts one and reports the failure.
                if let Ok(child) = start_process(role, &limits) {
                    spares.lock_state().waiting.insert(role, child);
                }
            }
            tokio::time::sleep(KEPT_FOR).await;
            // A process that loses its standard input exits.
            spares.lock_state().waiting.clear();
        });
        if let Some(earlier) = self.lock_state().keeper.replace(keeper.abort_handle()) {
            earlier.abort();
        }
    }

    /// Returns the number of processes that wait.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.lock_state().waiting.len()
    }

    fn lock_state(&self) -> MutexGuard<'_, SpareState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call that runs.
#[derive(Debug)]
pub(crate) struct SpareCallGuard(Spares);

impl Drop for SpareCallGuard {
    fn drop(&mut self) {
        self.0.lock_state().calls -= 1;
    }
}
