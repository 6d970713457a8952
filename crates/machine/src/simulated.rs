//! The `simulated` driver: runs agents inside the process of the service, for tests.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use domain::id::{AccountId, InstanceId};
use tokio::io::{DuplexStream, duplex};
use tokio_util::sync::CancellationToken;

use crate::contract::DriverError;

/// The buffer of each direction of a stream.
const STREAM_BYTES: usize = 64 * 1024;

/// One connection that an agent serves: its account, the life of the agent, and the stream.
#[derive(Debug)]
pub struct SimulatedConnection {
    pub account: AccountId,
    /// The life of the agent; another after each start.
    pub instance: InstanceId,
    /// The agent's end of the stream.
    pub stream: DuplexStream,
}

type Serve = dyn Fn(SimulatedConnection) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync;

/// The driver. Clones share its state: a test keeps one to interfere.
#[derive(Clone)]
pub struct Simulated {
    serve: Arc<Serve>,
    state: Arc<Mutex<SimulatedState>>,
}

#[derive(Debug, Default)]
struct SimulatedState {
    machines: HashMap<AccountId, (InstanceId, CancellationToken)>,
    connections: HashMap<AccountId, CancellationToken>,
    failures: Vec<DriverError>,
    held: bool,
    starts: u64,
    memory_bytes: u64,
    released: Arc<tokio::sync::Notify>,
}

impl Simulated {
    /// A driver whose agents serve each connection with `serve`. The end of the machine cuts it.
    pub fn new<F, S>(serve: F) -> Self
    where
        F: Fn(SimulatedConnection) -> S + Send + Sync + 'static,
        S: Future<Output = ()> + Send + 'static,
    {
        Self { serve: Arc::new(move |connection| Box::pin(serve(connection))), state: Arc::default() }
    }

    /// Makes the next start fail with this error. Several errors are used one after another.
    pub fn fail_next_start(&self, error: DriverError) {
        self.lock_state().failures.push(error);
    }

    /// Holds every start until [`Simulated::release_starts`].
    pub fn hold_starts(&self) {
        self.lock_state().held = true;
    }

    pub fn release_starts(&self) {
        let mut state = self.lock_state();
        state.held = false;
        state.released.notify_waiters();
    }

    /// Ends the account's machine as a crash would, if it runs.
    pub fn kill_machine(&self, account: AccountId) {
        if let Some((_, life)) = self.lock_state().machines.remove(&account) {
            life.cancel();
        }
    }

    /// Cuts the newest connection to the account's agent, which continues.
    pub fn cut_connection(&self, account: AccountId) {
        if let Some(connection) = self.lock_state().connections.remove(&account) {
            connection.cancel();
        }
    }

    /// Makes every machine report this memory from now on.
    pub fn set_memory(&self, memory_bytes: u64) {
        self.lock_state().memory_bytes = memory_bytes;
    }

    pub(crate) fn machine_memory(&self, account: AccountId) -> Option<u64> {
        self.is_running(account).then(|| self.lock_state().memory_bytes)
    }

    /// Returns the number of starts, failed ones included.
    #[must_use]
    pub fn start_count(&self) -> u64 {
        self.lock_state().starts
    }

    /// Returns true if the machine of the account runs.
    #[must_use]
    pub fn is_running(&self, account: AccountId) -> bool {
        self.lock_state().machines.contains_key(&account)
    }

    pub(crate) async fn start_machine(&self, account: AccountId) -> Result<SimulatedMachine, DriverError> {
        loop {
            let released = Arc::clone(&self.lock_state().released);
            let mut released = std::pin::pin!(released.notified());
            // Registered before the check, so that no release is missed.
            released.as_mut().enable();
            if !self.lock_state().held {
                break;
            }
            released.await;
        }
        let mut state = self.lock_state();
        state.starts += 1;
        if !state.failures.is_empty() {
            return Err(state.failures.remove(0));
        }
        if state.machines.contains_key(&account) {
            return Err(DriverError::Busy);
        }
        let instance = InstanceId::from_random(account.bits() ^ u128::from(state.starts) << 64);
        let life = CancellationToken::new();
        state.machines.insert(account, (instance, life.clone()));
        Ok(SimulatedMachine {
            account,
            instance,
            life,
            serve: Arc::clone(&self.serve),
            state: Arc::clone(&self.state),
        })
    }

    pub(crate) fn attach_machine(&self, account: AccountId) -> Option<SimulatedMachine> {
        let (instance, life) = self.lock_state().machines.get(&account)?.clone();
        Some(SimulatedMachine {
            account,
            instance,
            life,
            serve: Arc::clone(&self.serve),
            state: Arc::clone(&self.state),
        })
    }

    pub(crate) fn left_over(&self) -> Vec<AccountId> {
        self.lock_state().machines.keys().copied().collect()
    }

    pub(crate) fn stop_machine(&self, account: AccountId) -> Result<(), DriverError> {
        self.kill_machine(account);
        Ok(())
    }

    fn lock_state(&self) -> MutexGuard<'_, SimulatedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Simulated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Simulated").field("state", &self.state).finish_non_exhaustive()
    }
}

/// A machine that runs.
pub struct SimulatedMachine {
    account: AccountId,
    instance: InstanceId,
    life: CancellationToken,
    serve: Arc<Serve>,
    state: Arc<Mutex<SimulatedState>>,
}

impl SimulatedMachine {
    pub(crate) fn connect_agent(&self) -> io::Result<DuplexStream> {
        if self.life.is_cancelled() {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (host, stream) = duplex(STREAM_BYTES);
        let serving =
            (self.serve)(SimulatedConnection { account: self.account, instance: self.instance, stream });
        let connection = self.life.child_token();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.connections.insert(self.account, connection.clone());
        tokio::spawn(async move {
            connection.run_until_cancelled(serving).await;
        });
        Ok(host)
    }

    pub(crate) async fn wait_until_ended(&self) {
        self.life.cancelled().await;
    }
}

impl fmt::Debug for SimulatedMachine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedMachine").field("account", &self.account).finish_non_exhaustive()
    }
}
