//! Tests the supervisor with simulated machines and simulated time.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use domain::id::AccountId;
use domain::machine::{ChangeReason, DesiredState, MachineStatus, Rules};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use machine::simulated::SimulatedConnection;
use machine::{
    Body, Driver, DriverError, GuestConnection, MachineHome, MachineRecord, MachineRecords, Machines,
    PassageEmbedder, RecordsError, Simulated, SupervisorError,
};
use protocol::index::{INDEX_PATH, IndexReport, WAIT_SECONDS};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const IDLE: Duration = Duration::from_secs(900);

/// The desired states of machines, whether a question waits, and the number of writes that will fail.
#[derive(Default)]
struct FakeMachineRecords(Mutex<HashMap<AccountId, DesiredState>>, AtomicBool, AtomicU32);

impl FakeMachineRecords {
    /// Returns true if the store fails this time.
    fn consume_failure(&self) -> bool {
        self.2.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    fn desired_state(&self, account: AccountId) -> DesiredState {
        self.0.lock().unwrap()[&account]
    }
}

impl MachineRecords for FakeMachineRecords {
    fn load_machine(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
        let desired = self.0.lock().unwrap().get(&account).copied();
        let home = MachineHome { account, ordinal: 0, workspace: "/nowhere".into() };
        Box::pin(async move { Ok(desired.map(|desired| MachineRecord { home, desired })) })
    }

    fn save_desired(
        &self,
        account: AccountId,
        desired: DesiredState,
    ) -> BoxFuture<'_, Result<(), RecordsError>> {
        if self.consume_failure() {
            return Box::pin(async { Err(RecordsError("the disk is full".into())) });
        }
        self.0.lock().unwrap().insert(account, desired);
        Box::pin(async { Ok(()) })
    }

    fn save_lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
        if self.consume_failure() {
            return Box::pin(async { Err(RecordsError("the disk is full".into())) });
        }
        let waits = self.1.load(Ordering::Relaxed);
        if !waits {
            self.0.lock().unwrap().insert(account, DesiredState::Stopped);
        }
        Box::pin(async move { Ok(waits) })
    }

    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
        let all = self.0.lock().unwrap();
        let running =
            all.iter().filter(|(_, desired)| **desired == DesiredState::Running).map(|(account, _)| *account);
        let running = running.collect();
        Box::pin(async { Ok(running) })
    }
}

/// Runs an agent with this protocol version that identifies itself at every path.
async fn serve_agent(connection: SimulatedConnection, version: u32) {
    let instance = connection.instance;
    let service = service_fn(move |request: Request<Incoming>| async move {
        let text = match request.uri().path() {
            "/hello" => format!("{{\"version\":{version},\"instance\":\"{instance}\"}}"),
            path => format!("{instance} at {path}"),
        };
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
    });
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The host may close the connection at any time.
    let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
}

struct SupervisorSite {
    account: AccountId,
    records: Arc<FakeMachineRecords>,
    driver: Simulated,
    machines: Machines,
}

impl SupervisorSite {
    fn new(desired: DesiredState) -> Self {
        Self::with_version(desired, protocol::VERSION)
    }

    fn with_version(desired: DesiredState, version: u32) -> Self {
        let account = AccountId::from_random(7);
        let records = Arc::new(FakeMachineRecords::default());
        records.0.lock().unwrap().insert(account, desired);
        let driver = Simulated::new(move |connection| serve_agent(connection, version));
        let machines = new_machines(&driver, &records);
        Self { account, records, driver, machines }
    }

    async fn status(&self) -> MachineStatus {
        self.machines.status(self.account).await.unwrap()
    }

    async fn wait_for_status(&self, status: MachineStatus) {
        wait_for_status(&self.machines, self.account, status).await;
    }
}

fn new_machines(driver: &Simulated, records: &Arc<FakeMachineRecords>) -> Machines {
    let rules = Rules { idle_timeout: Some(IDLE), ..Rules::default() };
    Machines::new(Driver::Simulated(driver.clone()), Arc::clone(records) as _, rules)
}

async fn wait_for_status(machines: &Machines, account: AccountId, status: MachineStatus) {
    let reached = async {
        while machines.status(account).await.unwrap() != status {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(60), reached).await.unwrap_or_else(|_| panic!("never {status:?}"));
}

async fn get_text(link: &GuestConnection, path: &str) -> String {
    let response = link.send_request(Request::get(path).body(Body::default()).unwrap()).await.unwrap();
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn account_without_machine_is_rejected() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let stranger = AccountId::from_random(8);
    assert!(matches!(site.machines.status(stranger).await, Err(SupervisorError::NoMachine)));
    assert!(matches!(site.machines.start_machine(stranger).await, Err(SupervisorError::NoMachine)));
    assert!(matches!(site.machines.stop_machine(stranger).await, Err(SupervisorError::NoMachine)));
    assert!(matches!(site.machines.ensure_running(stranger).await, Err(SupervisorError::NoMachine)));
}

/// The reason of its last stop under an earlier service does not apply to a machine that runs again.
#[tokio::test(start_paused = true)]
async fn resume_machines_gives_found_stopped_reason() {
    let site = SupervisorSite::new(DesiredState::Running);
    site.wait_for_status(MachineStatus::Running).await;
    let reason = site.machines.machine_view(site.account).await.unwrap().reason;
    assert_eq!(reason, Some(ChangeReason::FoundStopped));
}

/// Otherwise users of the store would wait for a machine that never starts.
#[tokio::test(start_paused = true)]
async fn desired_state_saved_once_store_recovers() {
    let site = SupervisorSite::new(DesiredState::Running);
    site.wait_for_status(MachineStatus::Running).await;
    site.records.2.store(5, Ordering::Relaxed);
    site.machines.stop_machine(site.account).await.unwrap();
    site.wait_for_status(MachineStatus::Stopped).await;
    assert_eq!(site.records.desired_state(site.account), DesiredState::Running, "the store fails");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped);

    site.records.2.store(1, Ordering::Relaxed);
    site.machines.start_machine(site.account).await.unwrap();
    site.machines.stop_machine(site.account).await.unwrap();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped, "what is newer counts");
}

/// A question that was accepted in the meantime waits for the machine.
#[tokio::test(start_paused = true)]
async fn late_lapse_starts_wanted_machine() {
    let site = SupervisorSite::new(DesiredState::Running);
    site.wait_for_status(MachineStatus::Running).await;
    site.records.2.store(2, Ordering::Relaxed);
    site.records.1.store(true, Ordering::Relaxed);
    sleep(IDLE).await;
    site.wait_for_status(MachineStatus::Stopped).await;
    site.wait_for_status(MachineStatus::Running).await;
}

#[tokio::test(start_paused = true)]
async fn the_table_of_the_contract_holds() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    assert_eq!(site.status().await, MachineStatus::Stopped);
    site.machines.stop_machine(site.account).await.unwrap();
    assert_eq!(site.status().await, MachineStatus::Stopped);

    site.driver.hold_starts();
    site.machines.start_machine(site.account).await.unwrap();
    assert_eq!(site.status().await, MachineStatus::Starting);
    assert_eq!(site.records.desired_state(site.account), DesiredState::Running);
    site.machines.start_machine(site.account).await.unwrap();
    assert_eq!(site.status().await, MachineStatus::Starting);
    site.driver.release_starts();
    site.wait_for_status(MachineStatus::Running).await;
    site.machines.start_machine(site.account).await.unwrap();
    assert_eq!(site.status().await, MachineStatus::Running);
    assert_eq!(site.driver.start_count(), 1);

    site.machines.stop_machine(site.account).await.unwrap();
    assert_ne!(site.status().await, MachineStatus::Running);
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped);
    site.wait_for_status(MachineStatus::Stopped).await;
    assert!(!site.driver.is_running(site.account));
}

#[tokio::test(start_paused = true)]
async fn a_stop_abandons_a_start() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    site.driver.hold_starts();
    site.machines.start_machine(site.account).await.unwrap();
    site.machines.stop_machine(site.account).await.unwrap();
    site.wait_for_status(MachineStatus::Stopped).await;
    site.driver.release_starts();
    sleep(Duration::from_secs(60)).await;
    assert_eq!(site.status().await, MachineStatus::Stopped);
    assert_eq!(site.driver.start_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn ensure_running_starts_machine_and_connects() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let link = site.machines.ensure_running(site.account).await.unwrap();
    assert_eq!(get_text(&link, "/turn").await, format!("{} at /turn", link.instance()));
    let again = site.machines.ensure_running(site.account).await.unwrap();
    assert_eq!(again.instance(), link.instance());
    assert_eq!(site.driver.start_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn dead_machine_restarts_for_turn() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let turn = site.machines.register_turn(site.account).await.unwrap();
    let link = site.machines.ensure_running(site.account).await.unwrap();
    site.driver.kill_machine(site.account);
    link.wait_until_closed().await;
    let other =
        timeout(Duration::from_secs(30), site.machines.when_running(site.account)).await.unwrap().unwrap();
    assert_ne!(other.instance(), link.instance());
    drop(turn);
    sleep(Duration::from_secs(1)).await;
    site.driver.kill_machine(site.account);
    site.wait_for_status(MachineStatus::Stopped).await;
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn ended_machine_restarts_for_waiting_question() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let link = site.machines.ensure_running(site.account).await.unwrap();
    site.records.1.store(true, Ordering::Relaxed);
    site.driver.kill_machine(site.account);
    link.wait_until_closed().await;
    let other = timeout(Duration::from_secs(30), site.machines.when_running(site.account)).await;
    assert_ne!(other.unwrap().unwrap().instance(), link.instance());
    assert_eq!(site.records.desired_state(site.account), DesiredState::Running);
    sleep(IDLE + Duration::from_secs(1)).await;
    site.wait_for_status(MachineStatus::Running).await;
    site.records.1.store(false, Ordering::Relaxed);
    sleep(IDLE + Duration::from_secs(1)).await;
    assert_eq!(site.status().await, MachineStatus::Stopped);
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn turns_of_a_stopped_machine_wait() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let _turn = site.machines.register_turn(site.account).await.unwrap();
    site.machines.ensure_running(site.account).await.unwrap();
    site.machines.stop_machine(site.account).await.unwrap();
    site.wait_for_status(MachineStatus::Stopped).await;
    let waiting = site.machines.when_running(site.account).await;
    assert!(matches!(waiting, Err(SupervisorError::Stopped)), "a waiting turn does not start it");
    assert_eq!(site.status().await, MachineStatus::Stopped);
    let waiting = site.machines.when_running(site.account);
    let (waiting, started) = tokio::join!(waiting, async {
        sleep(Duration::from_millis(500)).await;
        site.machines.start_machine(site.account).await
    });
    started.unwrap();
    waiting.unwrap();
}

#[tokio::test(start_paused = true)]
async fn idle_machine_stops_busy_one_stays() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let turn = site.machines.register_turn(site.account).await.unwrap();
    site.machines.ensure_running(site.account).await.unwrap();
    sleep(IDLE * 3).await;
    assert_eq!(site.status().await, MachineStatus::Running);
    drop(turn);
    sleep(IDLE - Duration::from_secs(1)).await;
    assert_eq!(site.status().await, MachineStatus::Running);
    site.wait_for_status(MachineStatus::Stopped).await;
    assert_eq!(site.records.desired_state(site.account), DesiredState::Stopped);
}

#[tokio::test(start_paused = true)]
async fn failed_start_retries_then_gives_reason() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    site.driver.fail_next_start(DriverError::Failed("a hiccup".into()));
    site.machines.ensure_running(site.account).await.unwrap();
    assert_eq!(site.driver.start_count(), 2);
    site.machines.stop_machine(site.account).await.unwrap();
    site.wait_for_status(MachineStatus::Stopped).await;

    for _ in 0..Rules::default().start_attempts_max {
        site.driver.fail_next_start(DriverError::Failed("no luck".into()));
    }
    let outcome = site.machines.ensure_running(site.account).await;
    assert!(matches!(outcome, Err(SupervisorError::GivenUp(reason)) if reason == "no luck"));
    assert_eq!(site.status().await, MachineStatus::Stopped);
    let view = site.machines.machine_view(site.account).await.unwrap();
    assert_eq!(view.failure.as_deref(), Some("no luck"));
    site.machines.ensure_running(site.account).await.unwrap();
    assert_eq!(site.machines.machine_view(site.account).await.unwrap().failure, None);
}

#[tokio::test(start_paused = true)]
async fn refused_start_is_not_retried() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    site.driver.fail_next_start(DriverError::Refused("user namespaces are off".into()));
    let outcome = site.machines.ensure_running(site.account).await;
    assert!(
        matches!(outcome, Err(SupervisorError::GivenUp(reason)) if reason.contains("user namespaces are off"))
    );
    assert_eq!(site.driver.start_count(), 1);
}

#[tokio::test(start_paused = true)]
async fn agent_of_other_version_is_rejected() {
    let site = SupervisorSite::with_version(DesiredState::Stopped, protocol::VERSION + 1);
    let outcome = site.machines.ensure_running(site.account).await;
    assert!(matches!(outcome, Err(SupervisorError::GivenUp(reason)) if reason.contains("version")));
    assert!(!site.driver.is_running(site.account));
}

#[tokio::test(start_paused = true)]
async fn next_service_attaches_running_machines() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let link = site.machines.ensure_running(site.account).await.unwrap();
    site.machines.shutdown().await;
    assert!(matches!(site.machines.start_machine(site.account).await, Err(SupervisorError::ShuttingDown)));
    assert!(site.driver.is_running(site.account));

    let next = new_machines(&site.driver, &site.records);
    next.resume_machines().await.unwrap();
    let again = next.when_running(site.account).await.unwrap();
    assert_eq!(again.instance(), link.instance());
    assert_eq!(site.driver.start_count(), 1);
    next.shutdown().await;

    // A machine that has ended is started again, and an unwanted one is stopped.
    site.driver.kill_machine(site.account);
    let third = new_machines(&site.driver, &site.records);
    third.resume_machines().await.unwrap();
    third.when_running(site.account).await.unwrap();
    assert_eq!(site.driver.start_count(), 2);
    third.shutdown().await;
    site.records.save_desired(site.account, DesiredState::Stopped).await.unwrap();
    let fourth = new_machines(&site.driver, &site.records);
    fourth.resume_machines().await.unwrap();
    wait_for_status(&fourth, site.account, MachineStatus::Stopped).await;
    assert!(!site.driver.is_running(site.account));
}

/// A service that exceeds this number reconnects without limit.
const CONNECTIONS_MAX: u32 = 10_000;

/// Runs an agent that identifies itself and closes the connection, again and again.
#[tokio::test(start_paused = true)]
async fn agent_closing_connections_is_given_up() {
    let account = AccountId::from_random(7);
    let records = Arc::new(FakeMachineRecords::default());
    records.0.lock().unwrap().insert(account, DesiredState::Stopped);
    let connections = Arc::new(AtomicU32::new(0));
    let counted = connections.clone();
    let driver = Simulated::new(move |connection| {
        let number = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            if number < CONNECTIONS_MAX {
                let _ = timeout(Duration::from_millis(1), serve_agent(connection, protocol::VERSION)).await;
            } else {
                std::future::pending().await
            }
        }
    });
    let machines = new_machines(&driver, &records);
    let _turn = machines.register_turn(account).await.unwrap();
    machines.ensure_running(account).await.unwrap();
    let given_up = async {
        while machines.machine_view(account).await.unwrap().failure.is_none() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    timeout(Duration::from_secs(600), given_up).await.unwrap();
    let starts = u32::try_from(driver.start_count()).unwrap();
    assert_eq!(starts, Rules::default().start_attempts_max);
    assert!(connections.load(Ordering::Relaxed) <= starts * 10, "{connections:?} connections");
}

/// Its memory is measured when its last turn ends.
#[tokio::test(start_paused = true)]
async fn grown_machine_stops_after_last_turn() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let soon = Rules::default().grown_idle_timeout + Duration::from_secs(1);
    for (bytes, status) in [(40 << 20, MachineStatus::Running), (600 << 20, MachineStatus::Stopped)] {
        site.driver.set_memory(bytes);
        let turn = site.machines.register_turn(site.account).await.unwrap();
        site.machines.ensure_running(site.account).await.unwrap();
        sleep(soon).await;
        assert_eq!(site.status().await, MachineStatus::Running, "a turn needs it");
        drop(turn);
        sleep(soon).await;
        assert_eq!(site.status().await, status, "{bytes}");
    }
    let reason = site.machines.machine_view(site.account).await.unwrap().reason;
    assert_eq!(reason, Some(ChangeReason::IdleWithMuchMemory));
}

/// A machine whose connection breaks occasionally is reconnected at once.
#[tokio::test(start_paused = true)]
async fn broken_connection_is_reopened() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    let link = site.machines.ensure_running(site.account).await.unwrap();
    site.driver.cut_connection(site.account);
    link.wait_until_closed().await;
    let again = timeout(Duration::from_secs(1), site.machines.when_running(site.account)).await;
    assert_eq!(again.unwrap().unwrap().instance(), link.instance());
    assert_eq!(site.driver.start_count(), 1);
}

/// A turn begins as soon as its question is accepted, which may be before the machine is started.
#[tokio::test(start_paused = true)]
async fn earlier_give_up_permits_next_start() {
    let site = SupervisorSite::new(DesiredState::Stopped);
    site.driver.fail_next_start(DriverError::Refused("not now".into()));
    assert!(site.machines.ensure_running(site.account).await.is_err());
    let waiting = site.machines.when_running(site.account).await;
    assert!(matches!(waiting, Err(SupervisorError::GivenUp(reason)) if reason.contains("not now")));
    let waiting = site.machines.when_running(site.account);
    let (waiting, started) = tokio::join!(waiting, async {
        sleep(Duration::from_millis(500)).await;
        site.machines.start_machine(site.account).await
    });
    started.unwrap();
    waiting.unwrap();
}

/// Records that hold one load after it has read.
#[derive(Default)]
struct HeldRecords {
    records: FakeMachineRecords,
    is_held: AtomicBool,
    loaded: Notify,
    released: Notify,
}

impl MachineRecords for HeldRecords {
    fn load_machine(&self, account: AccountId) -> BoxFuture<'_, Result<Option<MachineRecord>, RecordsError>> {
        let loaded = self.records.load_machine(account);
        Box::pin(async move {
            let record = loaded.await;
            if self.is_held.swap(false, Ordering::Relaxed) {
                self.loaded.notify_one();
                self.released.notified().await;
            }
            record
        })
    }

    fn save_desired(
        &self,
        account: AccountId,
        desired: DesiredState,
    ) -> BoxFuture<'_, Result<(), RecordsError>> {
        self.records.save_desired(account, desired)
    }

    fn save_lapse(&self, account: AccountId) -> BoxFuture<'_, Result<bool, RecordsError>> {
        self.records.save_lapse(account)
    }

    fn meant_to_run(&self) -> BoxFuture<'_, Result<Vec<AccountId>, RecordsError>> {
        self.records.meant_to_run()
    }
}

/// Otherwise its task would start the machine of a deleted account.
#[tokio::test(start_paused = true)]
async fn removed_account_is_not_supervised() {
    let (gone, other) = (AccountId::from_random(7), AccountId::from_random(8));
    let records = Arc::new(HeldRecords::default());
    records.records.0.lock().unwrap().extend([(gone, DesiredState::Running), (other, DesiredState::Stopped)]);
    let driver = Simulated::new(move |connection| serve_agent(connection, protocol::VERSION));
    let machines = Machines::new(Driver::Simulated(driver), Arc::clone(&records) as _, Rules::default());
    for (account, is_gone) in [(gone, true), (other, false)] {
        records.is_held.store(true, Ordering::Relaxed);
        let (turn, ()) = tokio::join!(machines.register_turn(account), async {
            records.loaded.notified().await;
            records.records.0.lock().unwrap().remove(&gone);
            machines.remove_account(gone).await.unwrap();
            records.released.notify_one();
        });
        assert_eq!(matches!(turn, Err(SupervisorError::NoMachine)), is_gone);
        assert_eq!(machines.machine_states().len(), usize::from(!is_gone));
    }
}

/// Counts the attempts to embed passages.
#[derive(Default)]
struct EmbeddingCounter(AtomicU32, Notify);

impl PassageEmbedder for EmbeddingCounter {
    fn embed_machine_passages(&self, _: AccountId, _: GuestConnection) -> BoxFuture<'_, Option<Duration>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.1.notify_one();
        Box::pin(async { None })
    }
}

/// Runs machines whose agents answer requests for reports with `report`, from the first one on. Returns the number of
/// requests.
fn machines_with_reports<F, R>(report: F) -> (Machines, AccountId, Arc<EmbeddingCounter>, Arc<AtomicU32>)
where
    F: Fn(u32) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Response<Full<Bytes>>> + Send,
{
    let account = AccountId::from_random(7);
    let records = Arc::new(FakeMachineRecords::default());
    records.0.lock().unwrap().insert(account, DesiredState::Stopped);
    let (embeddings, requests) = (Arc::new(EmbeddingCounter::default()), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&requests);
    let driver = Simulated::new(move |connection| {
        let (instance, counted, report) = (connection.instance, Arc::clone(&counted), report.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (counted, report) = (Arc::clone(&counted), report.clone());
            async move {
                let hello = format!("{{\"version\":{},\"instance\":\"{instance}\"}}", protocol::VERSION);
                Ok::<_, Infallible>(match request.uri().path() {
                    INDEX_PATH => report(counted.fetch_add(1, Ordering::Relaxed)).await,
                    _ => Response::new(Full::new(Bytes::from(hello))),
                })
            }
        });
        let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        async move {
            let _ = server.serve_connection(TokioIo::new(connection.stream), service).await;
        }
    });
    let machines = new_machines(&driver, &records).with_embedder(Arc::clone(&embeddings) as _);
    (machines, account, embeddings, requests)
}

/// A failed report does not affect later ones.
#[tokio::test(start_paused = true)]
async fn index_reports_followed_while_connected() {
    let (machines, account, embeddings, _) = machines_with_reports(async |number| {
        let report = IndexReport { revision: 1, working: false, files: Some(Vec::new()) };
        match number {
            0 => Response::builder().status(500).body(Full::default()).unwrap(),
            1 => Response::new(Full::from("no report")),
            2 => std::future::pending().await,
            3 => Response::new(Full::from(serde_json::to_vec(&report).unwrap())),
            _ => std::future::pending().await,
        }
    });
    let _turn = machines.register_turn(account).await.unwrap();
    machines.ensure_running(account).await.unwrap();
    let embedded = timeout(Duration::from_secs(2 * WAIT_SECONDS + 60), embeddings.1.notified()).await;
    embedded.expect("the report is followed");
}

#[tokio::test(start_paused = true)]
async fn machine_without_index_asked_once() {
    let (machines, account, embeddings, requests) =
        machines_with_reports(async |_| Response::builder().status(404).body(Full::default()).unwrap());
    let _turn = machines.register_turn(account).await.unwrap();
    machines.ensure_running(account).await.unwrap();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((requests.load(Ordering::Relaxed), embeddings.0.load(Ordering::Relaxed)), (1, 0));
}
