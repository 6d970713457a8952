//! Assembles, starts and shuts down the service.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use domain::catalog::{CatalogJurisdiction, ProviderName};
use domain::id::NodeId;
use domain::machine::{MachineStatus, Rules};
use egress::WebConfig;
use machine::{Driver, MachineFolders, Machines};
use models::{Catalog, EmbeddingModel, VendorHealth, VendorsConfig};
use store::{DatabaseUrl, ExclusiveLock, Store, StoreError, succession};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Quota, Workspaces};

pub use crate::data_folder::StartError;
use crate::data_folder::{machine_folders, workspaces_folder};
use crate::disk_guard;
use crate::health::HealthChecks;
use crate::jobs::{JobKindTotals, JobMetrics, Jobs};
use crate::machine_lease;
use crate::orphans;
use crate::provisioning;
use crate::vm::StoreMachineRecords;
use crate::workspaces_marker::WorkspacesMarker;
use crate::{
    Admin, AnswerService, Authenticator, Catalogs, Check, ClientHistories, Conversations, CredentialService,
    DiskReserve, DiskReserveConfig, FileService, FirstOwner, HistoryService, Operators, Owner, Passwords,
    PlainSteps, Plugins, PluginsConfig, QuestionService, RunningService, ServiceEnvironment, SessionService,
    SingleSignOn, SingleSignOnConfig, Vm,
};
use engine::metrics::AnswerMetrics;
use engine::templates::PromptTemplates;
use engine::{
    BackgroundTasks, Dispatch, DispatchLimits, EmbeddingMetrics, EmbeddingService, WebTools,
    release_left_over,
};
use live::Live;

/// The time limit for connecting to the database at the start.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
/// The time limit for another service to release the database. A server may take half a minute to notice that a host
/// has failed.
const LOCK_PATIENCE: Duration = Duration::from_secs(40);
/// The time after which the shutdown cancels operations of the database.
const STORE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit of model discovery at the start. The next refresh finds later models.
const MODELS_TIMEOUT: Duration = Duration::from_secs(3);
/// The interval of model discovery, which is also the check of a vendor's health.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// The delay after a failed model discovery, which doubles with each further failure, and its maximum.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(1);
const REFRESH_RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

/// The configuration of a service.
#[derive(Debug)]
pub struct ServiceConfig {
    pub data: PathBuf,
    /// The database; that of the data folder if `None`.
    pub database: Option<DatabaseUrl>,
    /// True to accept a database without accounts although the data folder has workspaces.
    pub accept_empty_database: bool,
    /// The quota of each workspace.
    pub quota: Quota,
    /// The limits of concurrent work.
    pub limits: DispatchLimits,
    /// The rules of starting and stopping machines.
    pub rules: Rules,
    /// The vendors of models.
    pub vendors: VendorsConfig,
    /// The jurisdictions that questions may name.
    pub jurisdictions: Vec<CatalogJurisdiction>,
    /// A folder of prompt templates that replace built-in ones.
    pub instructions: Option<PathBuf>,
    /// The driver of machines.
    pub driver: Driver,
    /// The sources of plugins.
    pub plugins: PluginsConfig,
    /// The web access of answers.
    pub web: WebConfig,
    /// The reserve on the disk of the data folder.
    pub disk: DiskReserveConfig,
    /// The identity provider at which users sign in.
    pub single_sign_on: Option<SingleSignOnConfig>,
    /// The results of checks of the host and the driver; `None` if [`CauserieService::set_host_checks`] follows.
    pub host_checks: Option<Vec<Check>>,
}

/// A running service with every use case.
pub struct CauserieService {
    pub access: Authenticator,
    pub admin: Admin,
    /// Answers, collected and followed.
    pub answers: AnswerService,
    pub catalog: Arc<Catalog>,
    /// Catalogs of models, jurisdictions, skills and agents.
    pub catalogs: Catalogs,
    /// The way to the first account.
    pub first_owner: FirstOwner,
    pub conversations: Conversations,
    /// Passwords and emails as their owners change them.
    pub credentials: CredentialService,
    pub history: HistoryService,
    /// Histories of clients that keep them themselves.
    pub client_histories: ClientHistories,
    /// The operations of operators in the web application.
    pub operators: Operators,
    /// The owners' own operations on keys and credits.
    pub owner: Owner,
    /// Passwords of the accounts' owners.
    pub passwords: Passwords,
    /// Model steps without an agent.
    pub plain_steps: PlainSteps,
    pub questions: QuestionService,
    /// Sessions of the web application.
    pub sessions: SessionService,
    /// Signing in at the identity provider.
    pub single_sign_on: SingleSignOn,
    pub vm: Vm,
    pub files: FileService,
    store: Store,
    health: HealthChecks,
    lock: Arc<ExclusiveLock>,
    machines: Machines,
    dispatch: Dispatch,
    embeddings: Option<Arc<EmbeddingService>>,
    jobs: Jobs,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// Creates the embeddings, if they are configured. In any case, releases the credits that an earlier service has
/// reserved for embeddings and for steps without an agent.
async fn build_embeddings(
    vendors: &VendorsConfig,
    store: &Store,
    environment: &ServiceEnvironment,
) -> Result<Option<Arc<EmbeddingService>>, StartError> {
    release_left_over(store, environment).await?;
    PlainSteps::release_left_over(store, environment).await?;
    let Some(config) = &vendors.embeddings else { return Ok(None) };
    let model = EmbeddingModel::new(config, vendors)?;
    Ok(Some(EmbeddingService::new(model, store.clone(), environment.clone())))
}

fn build_machines(
    driver: Driver,
    records: StoreMachineRecords,
    rules: Rules,
    embeddings: Option<&Arc<EmbeddingService>>,
) -> Machines {
    let machines = Machines::new(driver, Arc::new(records), rules);
    match embeddings {
        Some(embeddings) => machines.with_embedder(embeddings.clone()),
        None => machines,
    }
}

/// Creates the catalog, and waits a moment for the vendors' models.
async fn discover_models(
    vendors: VendorsConfig,
    environment: &ServiceEnvironment,
) -> Result<Arc<Catalog>, StartError> {
    let catalog = Arc::new(Catalog::new(vendors, environment.clock())?);
    // The catalog logs and reports failures.
    let _asked = tokio::time::timeout(MODELS_TIMEOUT, catalog.refresh_models()).await;
    log_failed_vendors(&catalog);
    Ok(catalog)
}

/// Reads the prompt templates.
async fn read_templates(
    jurisdictions: Arc<Vec<CatalogJurisdiction>>,
    folder: Option<PathBuf>,
) -> Result<PromptTemplates, StartError> {
    let builtin = PromptTemplates::builtin(jurisdictions);
    let Some(folder) = folder else { return Ok(builtin) };
    let read = tokio::task::spawn_blocking(move || builtin.with_folder(&folder)).await;
    Ok(read.map_err(io::Error::other)??)
}

impl CauserieService {
    /// Starts a service on its data folder. Answers in progress continue.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: ServiceConfig, environment: ServiceEnvironment) -> Result<Self, StartError> {
        let disk = DiskReserve::new(&config.data, config.disk);
        let ExclusiveData { store, workspaces, marker, lock, process, locked_at, follows_another } =
            open_exclusively(&config, &environment).await?;
        let plugins = Plugins::open_plugins(config.plugins, &config.data).await?;
        let web = WebTools::new(config.web)?;
        let (jurisdictions, live) = (Arc::new(config.jurisdictions), Arc::new(Live::default()));
        let templates = Arc::new(read_templates(jurisdictions.clone(), config.instructions).await?);
        let embeddings = build_embeddings(&config.vendors, &store, &environment).await?;
        let catalog = discover_models(config.vendors, &environment).await?;
        let records = StoreMachineRecords::new(&store, &workspaces, &marker);
        let machines = build_machines(config.driver, records, config.rules, embeddings.as_ref());
        begin_machines(&machines, &lock, follows_another.then(|| (machine_folders(&config.data), locked_at)))
            .await?;
        let jobs = Jobs::with_recurring(&store, &environment, &workspaces, &machines, process).await?;
        let background = BackgroundTasks::default();
        let dispatch = Dispatch::start_claiming(engine::EngineParts {
            store: store.clone(),
            tasks: background.clone(),
            environment: environment.clone(),
            live: live.clone(),
            machines: machines.clone(),
            catalog: catalog.clone(),
            embeddings: embeddings.clone(),
            plugins: plugins.clone(),
            templates: templates.clone(),
            web: web.clone(),
            workspaces: workspaces.clone(),
            node: process,
            limits: config.limits,
        });
        let guards = (disk.clone(), marker.clone());
        let health = HealthChecks::new(&store, guards, catalog.clone(), &dispatch, config.host_checks);
        let passwords = Passwords::new(store.clone(), environment.clone());
        let sessions = SessionService::new(&store, &environment, &passwords, &workspaces);
        let single_sign_on = SingleSignOn::new(config.single_sign_on, &sessions)?;
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        spawn_refreshes(&tasks, &catalog, &plugins, &environment, &shutdown);
        tasks.spawn(jobs.clone().run_due(shutdown.clone()));
        tasks.spawn(marker.clone().watch_periodically(shutdown.clone()));
        let access =
            Authenticator::new(store.clone(), environment.clone(), workspaces.clone(), tasks.clone());
        spawn_sweeps(&tasks, (&store, &machines), &disk, &workspaces, &shutdown);
        let vm =
            Vm { machines: machines.clone(), dispatch: dispatch.clone(), background: background.clone() };
        let files = FileService::new(&workspaces, &machines, &marker, &access);
        let running = Some(RunningService { vm: vm.clone(), access: access.clone(), jobs: jobs.clone() });
        let folders = machine_folders(&config.data);
        let admin = Admin::new(store.clone(), environment.clone(), workspaces.clone(), folders, running);
        Ok(Self {
            first_owner: FirstOwner::new(&admin, &environment),
            operators: Operators { admin: admin.clone(), catalog: catalog.clone(), plugins: plugins.clone() },
            credentials: CredentialService::new(&store, &environment, &passwords, &admin.deletion),
            admin,
            answers: AnswerService::new(&store, &live, &background, &access),
            owner: Owner::new(&store, &environment, &access),
            history: HistoryService::new(&store, &background),
            client_histories: ClientHistories::new(&store, &environment, &dispatch, &background),
            single_sign_on,
            sessions,
            access,
            catalogs: Catalogs::new(&store, &plugins, &catalog, &jurisdictions),
            conversations: Conversations::new((&store, &environment), &live, &dispatch, &background, &jobs),
            passwords,
            plain_steps: PlainSteps::new(&store, &environment, &catalog, &background),
            questions: QuestionService {
                store: store.clone(),
                environment,
                live,
                dispatch: dispatch.clone(),
                background,
                machines: machines.clone(),
                catalog: catalog.clone(),
                workspaces: workspaces.clone(),
                jurisdictions: jurisdictions.clone(),
                templates,
                plugins,
                web,
                disk: disk.clone(),
                marker: marker.clone(),
                machine_started: config.rules.started_by_questions,
            },
            catalog: catalog.clone(),
            vm,
            files,
            health,
            store,
            lock,
            machines,
            dispatch,
            embeddings,
            jobs,
            tasks,
            shutdown,
        })
    }

    /// Returns the number of turns that run in this process.
    #[must_use]
    pub fn turn_count(&self) -> usize {
        self.dispatch.turn_count()
    }

    /// Returns the readiness checks and the checks of the host. The service is ready if none failed.
    pub async fn run_checks(&self) -> Vec<Check> {
        self.health.run_checks().await
    }

    /// Sets the results of the checks of the host and the driver. The service is not ready before.
    pub fn set_host_checks(&self, checks: Vec<Check>) {
        self.health.set_host_checks(checks);
    }

    /// Waits until another service has taken over the database.
    pub async fn lock_lost(&self) {
        self.lock.wait_until_lost().await;
    }

    /// Returns the metrics of answers in this process.
    #[must_use]
    pub fn metrics(&self) -> &AnswerMetrics {
        self.dispatch.metrics()
    }

    /// Returns the metrics of embeddings, if they are configured.
    #[must_use]
    pub fn embedding_metrics(&self) -> Option<&EmbeddingMetrics> {
        self.embeddings.as_deref().map(EmbeddingService::metrics)
    }

    /// Returns the metrics of the store and the depths of its queues.
    #[must_use]
    pub fn store_metrics(&self) -> (&store::StoreMetrics, store::QueueDepths) {
        (self.store.metrics(), self.store.queue_depths())
    }

    /// Returns the health of each configured vendor, with the cause of a failure.
    #[must_use]
    pub fn vendors_health(&self) -> Vec<VendorHealth> {
        self.catalog.vendors_health()
    }

    /// Returns the metrics of background jobs in this process.
    #[must_use]
    pub fn job_metrics(&self) -> &JobMetrics {
        self.jobs.metrics()
    }

    /// Counts the background jobs of all processes by kind and state.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn job_counts(&self) -> Result<Vec<JobKindTotals>, StoreError> {
        let counted = self.store.read(|tx| store::jobs::count_jobs(tx)).await?;
        Ok(JobKindTotals::by_known_kind(&counted))
    }

    /// Counts the answers in progress of all processes.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn answers_open(&self) -> Result<u64, StoreError> {
        self.store.read(|tx| store::turns::open_answers(tx)).await
    }

    /// Returns the state of each machine that was used since the start, and the driver.
    #[must_use]
    pub fn machine_states(&self) -> (Vec<MachineStatus>, String) {
        (self.machines.machine_states(), self.machines.driver().to_string())
    }

    /// Shuts down the service. Answers in progress are released and continue after the next start. Machines keep running.
    /// After [`STORE_SHUTDOWN_TIMEOUT`], operations of the database are cancelled; the next start takes over their answers.
    pub async fn shutdown(&self) {
        self.shutdown.cancel();
        self.tasks.close();
        let ending = async {
            self.dispatch.shutdown().await;
            self.machines.shutdown().await;
            self.tasks.wait().await;
            self.store.close().await;
        };
        let mut ending = pin!(ending);
        if tokio::time::timeout(STORE_SHUTDOWN_TIMEOUT, &mut ending).await.is_err() {
            tracing::warn!("shutdown slow: database operations cancelled");
            self.store.abort();
            ending.await;
        }
    }
}

/// A database that this process alone serves, with the folder of its workspaces.
struct ExclusiveData {
    store: Store,
    workspaces: Workspaces,
    marker: WorkspacesMarker,
    lock: Arc<ExclusiveLock>,
    /// This process as a holder of leases.
    process: NodeId,
    /// When the lock was acquired.
    locked_at: Instant,
    /// The last service had another data folder, and may have machines on another host.
    follows_another: bool,
}

/// Opens the database and the workspaces, and waits until no other process serves them.
async fn open_exclusively(
    config: &ServiceConfig,
    environment: &ServiceEnvironment,
) -> Result<ExclusiveData, StartError> {
    let (data, database, accepts_empty) =
        (&config.data, config.database.as_ref(), config.accept_empty_database);
    let (store, workspaces) =
        provisioning::open_data(data, database, accepts_empty, CONNECT_TIMEOUT, config.quota, environment)
            .await?;
    let marker = WorkspacesMarker::find_marker(&store, workspaces_folder(data)).await?;
    let process = NodeId::from_random(environment.random_bits());
    let lock = Arc::new(store.lock_exclusively(LOCK_PATIENCE, process).await?);
    let locked_at = Instant::now();
    let is_succession = begin_serving(&store, process, folder_id(data, environment)?).await?;
    provisioning::ensure_all(&store, &workspaces).await?;
    let follows_another = is_succession && lock.confirmed_at().is_some();
    Ok(ExclusiveData { store, workspaces, marker, lock, process, locked_at, follows_another })
}

/// Lets machines work, attaches to running machines, and starts the ones that should run. `left` has the machines that
/// a service before another one may have left, and the time when the lock was acquired.
async fn begin_machines(
    machines: &Machines,
    lock: &Arc<ExclusiveLock>,
    left: Option<(MachineFolders, Instant)>,
) -> Result<(), StartError> {
    if let Some((folders, locked_at)) = left {
        machine_lease::succeed_another(&folders, locked_at).await;
    }
    if let Some(page) = machines.driver().lease_page()? {
        machine_lease::start_extending(page, lock)?;
    }
    Ok(machines.resume_machines().await?)
}

/// Makes this process the one that serves the database, and ends the leases of earlier ones. Returns true if the last
/// of them had another data folder. The caller holds the exclusive lock.
async fn begin_serving(store: &Store, process: NodeId, folder: NodeId) -> Result<bool, StoreError> {
    let begun = store.write(move |tx| succession::begin_succession(tx, process, folder)).await?;
    let succession::Succession { folder_before, answers, jobs } = begun;
    if answers + jobs > 0 {
        tracing::info!(answers, jobs, "took over work of a terminated service");
    }
    Ok(folder_before.is_some_and(|before| before != folder))
}

/// Returns the data folder's identity. It is stored, so that a service knows whether the one before it had the same machines.
fn folder_id(data: &Path, environment: &ServiceEnvironment) -> io::Result<NodeId> {
    let file = data.join("node");
    if let Ok(text) = std::fs::read_to_string(&file)
        && let Ok(folder) = text.trim().parse()
    {
        return Ok(folder);
    }
    let folder = NodeId::from_random(environment.random_bits());
    // A torn file would be another identity after the next start.
    let new = data.join("node.new");
    let mut written = std::fs::File::create(&new)?;
    written.write_all(format!("{folder}\n").as_bytes())?;
    written.sync_all()?;
    std::fs::rename(new, file)?;
    Ok(folder)
}

/// Logs the vendors whose model discovery has not succeeded by the end of the start.
fn log_failed_vendors(catalog: &Catalog) {
    for vendor in catalog.vendors_health().into_iter().filter(|vendor| vendor.up.is_none()) {
        let (provider, base_url) = (vendor.provider.as_str(), vendor.base_url);
        tracing::warn!(vendor = provider, base_url, "model discovery has not succeeded yet; retrying");
    }
}

/// Removes machines without an account and watches the disk until the shutdown.
fn spawn_sweeps(
    tasks: &TaskTracker,
    (store, machines): (&Store, &Machines),
    disk: &DiskReserve,
    workspaces: &Workspaces,
    shutdown: &CancellationToken,
) {
    tasks.spawn(disk.clone().run_maintenance(shutdown.clone()));
    tasks.spawn(orphans::remove_periodically(store.clone(), machines.clone(), shutdown.clone()));
    let guarded = (disk.clone(), workspaces.clone(), machines.clone());
    tasks.spawn(disk_guard::watch_periodically(guarded, shutdown.clone()));
}

/// Repeats the model discovery of each vendor and keeps plugins fresh until the shutdown.
fn spawn_refreshes(
    tasks: &TaskTracker,
    catalog: &Arc<Catalog>,
    plugins: &Plugins,
    environment: &ServiceEnvironment,
    shutdown: &CancellationToken,
) {
    tasks.spawn(watch_plugins(plugins.clone(), shutdown.clone()));
    for provider in catalog.providers() {
        tasks.spawn(refresh_models_loop(catalog.clone(), provider, environment.clone(), shutdown.clone()));
    }
}

/// Repeats a vendor's model discovery until the shutdown.
async fn refresh_models_loop(
    catalog: Arc<Catalog>,
    provider: ProviderName,
    environment: ServiceEnvironment,
    shutdown: CancellationToken,
) {
    let is_up = |vendor: VendorHealth| vendor.provider == provider && vendor.up == Some(true);
    let mut failed = u32::from(!catalog.vendors_health().into_iter().any(is_up));
    let every = async {
        loop {
            tokio::time::sleep(retry_delay(failed, u64::from_be_bytes(environment.random_bytes()))).await;
            failed = match catalog.refresh_vendor(provider).await {
                Ok(()) => 0,
                Err(_) => failed.saturating_add(1),
            };
        }
    };
    shutdown.run_until_cancelled(every).await;
}

/// Returns the delay until the next model discovery after `failed` failures in a row. The random number desynchronizes
/// services that started together.
fn retry_delay(failed: u32, random: u64) -> Duration {
    let whole = match failed.checked_sub(1) {
        None => REFRESH_INTERVAL,
        Some(doublings) => {
            REFRESH_RETRY_DELAY.saturating_mul(2_u32.saturating_pow(doublings)).min(REFRESH_RETRY_DELAY_MAX)
        }
    };
    // Between three quarters of the delay and all of it.
    whole.mul_f64(0.75 + 0.25 * (random >> 11) as f64 / (1_u64 << 53) as f64)
}

async fn watch_plugins(plugins: Plugins, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(plugins.keep_fresh()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendor_retry_backs_off_within_bounds() {
        let between = |failed, random| retry_delay(failed, random).as_secs_f64();
        for (failed, whole) in [(0, 300.0), (1, 1.0), (2, 2.0), (5, 16.0), (7, 60.0), (u32::MAX, 60.0)] {
            assert!((between(failed, 0) - 0.75 * whole).abs() < 0.001, "{failed}");
            assert!((between(failed, u64::MAX) - whole).abs() < 0.001, "{failed}");
        }
    }
}
