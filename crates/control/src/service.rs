//! The whole service put together, started and ended.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::catalog::{Jurisdiction, ProviderName};
use domain::id::NodeId;
use domain::machine::{MachineStatus, Rules};
use egress::WebConfig;
use machine::{Driver, MachineError, Machines};
use models::{Catalog, VendorConfigError, VendorHealth, VendorsConfig};
use store::{DatabaseUrl, ExclusiveLock, Options, Store, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use workspace::{Quota, Workspaces};

use crate::health::HealthChecks;
use crate::jobs::{JobCounts, JobMetrics, Jobs};
use crate::provisioning;
use crate::vm::StoreMachineRecords;
use crate::{
    Admin, Answers, Authenticator, Catalogs, Check, Conversations, DiskReserve, DiskReserveConfig,
    Environment, Passwords, Plugins, PluginsConfig, Questions, Vm,
};
use engine::metrics::AnswerMetrics;
use engine::templates::{PromptTemplates, TemplateError};
use engine::{Dispatch, DispatchLimits, PluginsError, Web};
use live::Live;

/// How long the start waits for a database that can't be reached, and how long between two attempts.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);
const CONNECT_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How long it waits for another service to leave the database: a server may take half a minute to see that the
/// host of one is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(40);
/// Room that the database's files are given on the disk beyond their ends.
const SLACK_BYTES: u64 = 8 << 20;
/// How long the end waits for the database before what it does is cancelled.
const STORE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the start waits for the vendors to tell their models. Later ones are found by the next look.
const MODELS_TIMEOUT: Duration = Duration::from_secs(3);
/// How often a vendor is asked for its models, and so whether it answers.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// How soon again after it did not, twice as long after each further time, and how long at most.
const REFRESH_RETRY_DELAY: Duration = Duration::from_secs(1);
const REFRESH_RETRY_DELAY_MAX: Duration = Duration::from_secs(60);

/// What a service is started with.
#[derive(Debug)]
pub struct ServiceConfig {
    /// The data folder.
    pub data: PathBuf,
    /// The database, when it is not the data folder's own.
    pub database: Option<DatabaseUrl>,
    /// Whether a database without accounts is worked with although there are workspaces of accounts.
    pub accept_empty_database: bool,
    /// Bounds of each workspace.
    pub quota: Quota,
    /// How much is worked on at once.
    pub limits: DispatchLimits,
    /// How machines live.
    pub rules: Rules,
    /// The vendors.
    pub vendors: VendorsConfig,
    /// What questions may name.
    pub jurisdictions: Vec<Jurisdiction>,
    /// A folder of templates in place of what models are told otherwise.
    pub instructions: Option<PathBuf>,
    /// How machines are made.
    pub driver: Driver,
    /// Where plugins come from.
    pub plugins: PluginsConfig,
    /// What of the web answers may use.
    pub web: WebConfig,
    /// What is kept free on the disk of the data folder.
    pub disk: DiskReserveConfig,
    /// What was found out about the host and the driver of machines.
    pub host_checks: Vec<Check>,
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error("the data folder: {0}")]
    Data(#[from] io::Error),
    /// The database cannot be used.
    #[error("the database: {0}")]
    Store(#[from] StoreError),
    /// The database is not that of the workspaces.
    #[error(
        "the database is missing or empty, but the data folder has {0} workspaces; restore a backup into an empty data \
         folder, or set database.accept_empty to begin without accounts"
    )]
    EmptyDatabase(usize),
    /// A vendor's configuration cannot be used.
    #[error("the vendors: {0}")]
    Vendor(#[from] VendorConfigError),
    /// What leads to the web cannot be used.
    #[error("the web: {0}")]
    Web(#[from] egress::ConfigError),
    /// The plugins cannot be used.
    #[error("the plugins: {0}")]
    Plugins(#[from] PluginsError),
    /// What models are told cannot be read.
    #[error("the instructions: {0}")]
    PromptTemplates(#[from] TemplateError),
    /// The machines cannot be taken over.
    #[error("the machines: {0}")]
    Machines(#[from] MachineError),
}

/// A running service: every use case, ready for the edges.
pub struct Service {
    /// Keys.
    pub access: Authenticator,
    /// Operators' commands.
    pub admin: Admin,
    /// Answers, collected and followed.
    pub answers: Answers,
    /// Models.
    pub catalog: Arc<Catalog>,
    /// Skills and agents.
    pub catalogs: Catalogs,
    /// Conversations.
    pub conversations: Conversations,
    /// Jurisdictions.
    pub jurisdictions: Arc<Vec<Jurisdiction>>,
    /// Passwords of the accounts' owners.
    pub passwords: Passwords,
    /// Questions.
    pub questions: Questions,
    /// Machines, as owners control them.
    pub vm: Vm,
    /// Files.
    pub workspaces: Workspaces,
    store: Store,
    health: HealthChecks,
    lock: ExclusiveLock,
    machines: Machines,
    dispatch: Dispatch,
    jobs: Jobs,
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

/// The database in a data folder.
pub const DATABASE: &str = "causerie.db";

/// The database of a data folder, or another one. One that can't be reached is waited for that long.
///
/// # Errors
/// [`StartError::Store`].
pub async fn open_store(
    data: &Path,
    database: Option<&DatabaseUrl>,
    max_wait: Duration,
) -> Result<Store, StartError> {
    let own = data.join(DATABASE);
    let Some(database) = database.cloned() else {
        let options = Options { slack_bytes: SLACK_BYTES, ..Options::default() };
        return Ok(off_thread(move || Store::open_with(&own, options)).await?);
    };
    database.check()?;
    let begun = Instant::now();
    loop {
        let url = database.clone();
        match off_thread(move || Store::connect(url.reveal())).await {
            Err(StoreError::Unreachable(reason)) if begun.elapsed() < max_wait => {
                tracing::warn!(%database, reason, waited = ?begun.elapsed(), "database unreachable; retrying");
                tokio::time::sleep(CONNECT_RETRY_INTERVAL).await;
            }
            opened => return Ok(opened?),
        }
    }
}

async fn off_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(StoreError::Panicked))
}

/// What models are told.
async fn read_templates(
    jurisdictions: Arc<Vec<Jurisdiction>>,
    folder: Option<PathBuf>,
) -> Result<PromptTemplates, StartError> {
    let builtin = PromptTemplates::builtin(jurisdictions);
    let Some(folder) = folder else { return Ok(builtin) };
    let read = tokio::task::spawn_blocking(move || builtin.with_folder(&folder)).await;
    Ok(read.map_err(io::Error::other)??)
}

/// The workspaces of a data folder.
///
/// # Errors
/// [`StartError::Data`].
pub fn open_workspaces(data: &Path, quota: Quota) -> Result<Workspaces, StartError> {
    Ok(Workspaces::new(data.join("workspaces"), quota)?)
}

impl Service {
    /// Starts a service on its data folder: answers that were under way go on.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(config: ServiceConfig, environment: Environment) -> Result<Self, StartError> {
        let disk = DiskReserve::new(&config.data, config.disk);
        let (database, accepts_empty) = (config.database.as_ref(), config.accept_empty_database);
        let (store, workspaces) =
            provisioning::open(&config.data, database, accepts_empty, CONNECT_TIMEOUT, config.quota).await?;
        let lock = store.lock_exclusively(LOCK_PATIENCE).await?;
        provisioning::ensure_all(&store, &workspaces).await?;
        let node = node_id(&config.data, &environment)?;
        let plugins = Plugins::open(config.plugins, &config.data).await?;
        let web = Web::new(config.web)?;
        let jurisdictions = Arc::new(config.jurisdictions);
        let templates = Arc::new(read_templates(jurisdictions.clone(), config.instructions).await?);
        let live = Arc::new(Live::default());
        let catalog = Arc::new(Catalog::new(config.vendors, environment.clock())?);
        // Whatever comes of it is told and logged by the catalog.
        let _asked = tokio::time::timeout(MODELS_TIMEOUT, catalog.refresh()).await;
        log_failed_vendors(&catalog);
        let records = StoreMachineRecords { store: store.clone(), workspaces: workspaces.clone() };
        let machines = Machines::new(config.driver, Arc::new(records), config.rules);
        machines.begin().await?;
        let jobs = Jobs::begin(store.clone(), environment.clone(), workspaces.clone(), node).await?;
        let dispatch = Dispatch::begin(engine::Parts {
            store: store.clone(),
            environment: environment.clone(),
            live: live.clone(),
            machines: machines.clone(),
            catalog: catalog.clone(),
            plugins: plugins.clone(),
            templates: templates.clone(),
            web: web.clone(),
            workspaces: workspaces.clone(),
            node,
            limits: config.limits,
        })
        .await?;
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        for provider in catalog.providers() {
            let kept = refresh_models_loop(catalog.clone(), provider, environment.clone(), shutdown.clone());
            tasks.spawn(kept);
        }
        tasks.spawn(watch_plugins(plugins.clone(), shutdown.clone()));
        tasks.spawn(disk.clone().run(shutdown.clone()));
        tasks.spawn(jobs.clone().run(shutdown.clone()));
        let access =
            Authenticator::new(store.clone(), environment.clone(), workspaces.clone(), tasks.clone());
        let running = Some((machines.clone(), access.clone()));
        Ok(Self {
            admin: Admin::new(store.clone(), environment.clone(), workspaces.clone(), running),
            access,
            answers: Answers { store: store.clone(), live: live.clone(), dispatch: dispatch.clone() },
            catalogs: Catalogs { store: store.clone(), plugins: plugins.clone() },
            conversations: Conversations {
                store: store.clone(),
                environment: environment.clone(),
                live: live.clone(),
                dispatch: dispatch.clone(),
                jobs: jobs.clone(),
            },
            passwords: Passwords::new(store.clone(), environment.clone()),
            questions: Questions {
                store: store.clone(),
                environment,
                live,
                dispatch: dispatch.clone(),
                machines: machines.clone(),
                catalog: catalog.clone(),
                workspaces: workspaces.clone(),
                jurisdictions: jurisdictions.clone(),
                templates,
                plugins,
                web,
                disk: disk.clone(),
                machine_started: config.rules.started_by_questions,
            },
            catalog: catalog.clone(),
            jurisdictions,
            vm: Vm { machines: machines.clone(), dispatch: dispatch.clone() },
            workspaces,
            health: HealthChecks::new(store.clone(), disk, catalog, config.host_checks),
            store,
            lock,
            machines,
            dispatch,
            jobs,
            tasks,
            shutdown,
        })
    }

    /// How many answers are being worked on here.
    #[must_use]
    pub fn turns(&self) -> usize {
        self.dispatch.turns()
    }

    /// What readiness rests on, and what is known of the host. Requests can be served when no check failed.
    pub async fn checks(&self) -> Vec<Check> {
        self.health.checks().await
    }

    /// Waits until another service has taken the database over. This one is of no use then.
    pub async fn lock_lost(&self) {
        self.lock.lost().await;
    }

    /// What answers did here.
    #[must_use]
    pub fn metrics(&self) -> &AnswerMetrics {
        self.dispatch.metrics()
    }

    /// What the store did, and who waits for it.
    #[must_use]
    pub fn store_metrics(&self) -> (&store::StoreMetrics, store::QueueDepths) {
        (self.store.metrics(), self.store.waiting())
    }

    /// How each configured vendor of models fares, with the reason where it cannot be counted on.
    #[must_use]
    pub fn vendors(&self) -> Vec<VendorHealth> {
        self.catalog.vendors()
    }

    /// What background jobs did here.
    #[must_use]
    pub fn job_metrics(&self) -> &JobMetrics {
        self.jobs.metrics()
    }

    /// How many background jobs there are, by kind and state, wherever they run or wait.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn job_counts(&self) -> Result<Vec<JobCounts>, StoreError> {
        let counted = self.store.read(|tx| store::jobs::counts(tx)).await?;
        Ok(JobCounts::by_known_kind(&counted))
    }

    /// How many answers are in progress, wherever they are worked on or wait.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn answers_open(&self) -> Result<u64, StoreError> {
        self.store.read(|tx| store::turns::open_answers(tx)).await
    }

    /// The state of each machine that was used since the start, and what makes them.
    #[must_use]
    pub fn machine_states(&self) -> (Vec<MachineStatus>, String) {
        (self.machines.states(), self.machines.driver().to_string())
    }

    /// Ends the service. Answers under way are given back and go on after the next start; machines run on. A database
    /// that is slow is not waited for long: what it does then is cancelled, and the next start takes the answers over.
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

/// This data folder's own identity as a holder of leases: kept, so that a restart takes up its own work.
fn node_id(data: &Path, environment: &Environment) -> io::Result<NodeId> {
    let file = data.join("node");
    if let Ok(text) = std::fs::read_to_string(&file)
        && let Ok(node) = text.trim().parse()
    {
        return Ok(node);
    }
    let node = NodeId::from_random(environment.bits());
    std::fs::write(&file, format!("{node}\n"))?;
    Ok(node)
}

/// Tells operators of vendors that have not answered at all by the time the service starts.
fn log_failed_vendors(catalog: &Catalog) {
    for vendor in catalog.vendors().into_iter().filter(|vendor| vendor.up.is_none()) {
        let (provider, base_url) = (vendor.provider.as_str(), vendor.base_url);
        tracing::warn!(
            vendor = provider,
            base_url,
            "a vendor has not told its models yet; it is asked again"
        );
    }
}

/// Asks a vendor for its models for as long as the service runs.
async fn refresh_models_loop(
    catalog: Arc<Catalog>,
    provider: ProviderName,
    environment: Environment,
    shutdown: CancellationToken,
) {
    let told = |vendor: VendorHealth| vendor.provider == provider && vendor.up == Some(true);
    let mut failed = u32::from(!catalog.vendors().into_iter().any(told));
    let every = async {
        loop {
            tokio::time::sleep(retry_delay(failed, u64::from_be_bytes(environment.bytes()))).await;
            failed = match catalog.refresh_vendor(provider).await {
                Ok(()) => 0,
                Err(_) => failed.saturating_add(1),
            };
        }
    };
    shutdown.run_until_cancelled(every).await;
}

/// How long until a vendor is asked again that has failed to tell its models so often in a row; a random number keeps
/// services apart that began together.
fn retry_delay(failed: u32, random: u64) -> Duration {
    let whole = match failed.checked_sub(1) {
        None => REFRESH_INTERVAL,
        Some(doublings) => {
            REFRESH_RETRY_DELAY.saturating_mul(2_u32.saturating_pow(doublings)).min(REFRESH_RETRY_DELAY_MAX)
        }
    };
    // Between three quarters of it and the whole.
    whole.mul_f64(0.75 + 0.25 * (random >> 11) as f64 / (1_u64 << 53) as f64)
}

async fn watch_plugins(plugins: Plugins, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(plugins.keep_fresh()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vendor_that_fails_is_asked_again_soon_and_ever_more_rarely_within_bounds() {
        let between = |failed, random| retry_delay(failed, random).as_secs_f64();
        for (failed, whole) in [(0, 300.0), (1, 1.0), (2, 2.0), (5, 16.0), (7, 60.0), (u32::MAX, 60.0)] {
            assert!((between(failed, 0) - 0.75 * whole).abs() < 0.001, "{failed}");
            assert!((between(failed, u64::MAX) - whole).abs() < 0.001, "{failed}");
        }
    }
}
