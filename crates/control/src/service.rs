//! The whole service put together, started and ended.

use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::catalog::Jurisdiction;
use domain::id::NodeId;
use domain::machine::{MachineStatus, Rules};
use domain::time::Timestamp;
use machine::{Driver, MachineError, Machines};
use models::{Catalog, Misconfigured, VendorsConfig};
use store::{DatabaseUrl, Options, Store, StoreError, Tenure, audit, conversations, questions};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use web::WebConfig;
use workspace::{Quota, Workspaces};

use crate::catalogs::PluginsError;
use crate::dispatch::{self, Dispatch, DispatchLimits, Web};
use crate::figures::Figures;
use crate::guide::{Guide, TemplateError};
use crate::health::Health;
use crate::live::Live;
use crate::provisioning;
use crate::vm::Records;
use crate::{
    Access, Admin, Answers, Catalogs, Check, Conversations, Disk, DiskConfig, Environment, Passwords,
    Plugins, PluginsConfig, Questions, Vm,
};

/// How long the start waits for a database that can't be reached, and how long between two attempts.
const DATABASE_PATIENCE: Duration = Duration::from_secs(60);
const DATABASE_AGAIN: Duration = Duration::from_secs(1);
/// How long it waits for another service to leave the database: a server may take half a minute to see that the
/// host of one is gone.
const TENURE_PATIENCE: Duration = Duration::from_secs(40);
/// Room that the database's files are given on the disk beyond their ends.
const SLACK_BYTES: u64 = 8 << 20;
/// How long the end waits for the database before what it does is cancelled.
const STORE_SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// How long the start waits for the vendors to tell their models. Later ones are found by the next look.
const MODELS_TIMEOUT: Duration = Duration::from_secs(3);
/// How often vendors are asked for their models, and so whether they answer; sooner after one did not.
const REFRESH_EVERY: Duration = Duration::from_secs(300);
const REFRESH_AGAIN: Duration = Duration::from_secs(10);
/// How often what is deleted or out of date is swept, how soon again when there is more, and how much at once.
const SWEEP_EVERY: Duration = Duration::from_secs(20);
const SWEEP_AGAIN: Duration = Duration::from_millis(200);
const SWEEP_ROWS: u32 = 500;
/// How long the audit log is kept: 400 days.
const AUDIT_KEPT_MICROS: i64 = 400 * 24 * 60 * 60 * 1_000_000;

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
    pub disk: DiskConfig,
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
    Vendor(#[from] Misconfigured),
    /// What leads to the web cannot be used.
    #[error("the web: {0}")]
    Web(#[from] web::ConfigError),
    /// The plugins cannot be used.
    #[error("the plugins: {0}")]
    Plugins(#[from] PluginsError),
    /// What models are told cannot be read.
    #[error("the instructions: {0}")]
    Guide(#[from] TemplateError),
    /// The machines cannot be taken over.
    #[error("the machines: {0}")]
    Machines(#[from] MachineError),
}

/// A running service: every use case, ready for the edges.
pub struct Service {
    /// Keys.
    pub access: Access,
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
    health: Health,
    tenure: Tenure,
    machines: Machines,
    dispatch: Dispatch,
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
    patience: Duration,
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
            Err(StoreError::Unreachable(reason)) if begun.elapsed() < patience => {
                tracing::warn!(%database, reason, waited = ?begun.elapsed(), "the database is not reachable yet");
                tokio::time::sleep(DATABASE_AGAIN).await;
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
async fn read_guide(
    jurisdictions: Arc<Vec<Jurisdiction>>,
    folder: Option<PathBuf>,
) -> Result<Guide, StartError> {
    let builtin = Guide::builtin(jurisdictions);
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
        let disk = Disk::new(&config.data, config.disk);
        let (database, accepts_empty) = (config.database.as_ref(), config.accept_empty_database);
        let (store, workspaces) =
            provisioning::open(&config.data, database, accepts_empty, DATABASE_PATIENCE, config.quota)
                .await?;
        let tenure = store.tenure(TENURE_PATIENCE).await?;
        provisioning::ensure_all(&store, &workspaces).await?;
        let node = node_id(&config.data, &environment)?;
        let plugins = Plugins::open(config.plugins, &config.data).await?;
        let web = Web::new(config.web)?;
        let jurisdictions = Arc::new(config.jurisdictions);
        let guide = Arc::new(read_guide(jurisdictions.clone(), config.instructions).await?);
        let live = Arc::new(Live::default());
        let catalog = Arc::new(Catalog::new(config.vendors, environment.clock())?);
        let told = tokio::time::timeout(MODELS_TIMEOUT, refresh(&catalog)).await.unwrap_or(false);
        let records = Records { store: store.clone(), workspaces: workspaces.clone() };
        let machines = Machines::new(config.driver, Arc::new(records), config.rules);
        machines.begin().await?;
        let dispatch = Dispatch::begin(dispatch::Parts {
            store: store.clone(),
            environment: environment.clone(),
            live: live.clone(),
            machines: machines.clone(),
            catalog: catalog.clone(),
            plugins: plugins.clone(),
            guide: guide.clone(),
            web: web.clone(),
            workspaces: workspaces.clone(),
            node,
            limits: config.limits,
        })
        .await?;
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        tasks.spawn(keep_fresh(catalog.clone(), told, shutdown.clone()));
        tasks.spawn(keep_read(plugins.clone(), shutdown.clone()));
        tasks.spawn(disk.clone().keep(shutdown.clone()));
        tasks.spawn(sweep(store.clone(), environment.clone(), shutdown.clone()));
        let access = Access::new(store.clone(), environment.clone(), workspaces.clone());
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
                guide,
                plugins,
                web,
                disk: disk.clone(),
                machine_started: config.rules.started_by_questions,
            },
            catalog,
            jurisdictions,
            vm: Vm { machines: machines.clone(), dispatch: dispatch.clone() },
            workspaces,
            health: Health::new(store.clone(), disk, config.host_checks),
            store,
            tenure,
            machines,
            dispatch,
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
    pub async fn ousted(&self) {
        self.tenure.lost().await;
    }

    /// What answers did here.
    #[must_use]
    pub fn figures(&self) -> &Figures {
        self.dispatch.figures()
    }

    /// What the store did, and who waits for it.
    #[must_use]
    pub fn store_figures(&self) -> (&store::Figures, store::Waiting) {
        (self.store.figures(), self.store.waiting())
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
            tracing::warn!("shutdown takes long: database operations cancelled");
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

/// Asks the vendors for their models; whether all told.
async fn refresh(catalog: &Catalog) -> bool {
    let told = catalog.refresh().await;
    if let Err(error) = &told {
        tracing::warn!(%error, "a vendor did not tell its models");
    }
    told.is_ok()
}

async fn keep_fresh(catalog: Arc<Catalog>, mut told: bool, shutdown: CancellationToken) {
    let every = async {
        loop {
            tokio::time::sleep(if told { REFRESH_EVERY } else { REFRESH_AGAIN }).await;
            told = refresh(&catalog).await;
        }
    };
    shutdown.run_until_cancelled(every).await;
}

async fn keep_read(plugins: Plugins, shutdown: CancellationToken) {
    shutdown.run_until_cancelled(plugins.keep_fresh()).await;
}

async fn sweep(store: Store, environment: Environment, shutdown: CancellationToken) {
    let every = async {
        let mut pause = SWEEP_EVERY;
        loop {
            tokio::time::sleep(pause).await;
            pause = match sweep_some(&store, environment.now()).await {
                Ok(swept) if swept >= u64::from(SWEEP_ROWS) => SWEEP_AGAIN,
                Ok(_) => SWEEP_EVERY,
                Err(error) => {
                    tracing::warn!(%error, "what is out of date could not be swept");
                    SWEEP_EVERY
                }
            };
        }
    };
    shutdown.run_until_cancelled(every).await;
}

/// Sweeps a bounded number of rows and tells how many of the kind of which there were most.
async fn sweep_some(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    store
        .write(move |tx| {
            let deleted = conversations::sweep_deleted(tx, SWEEP_ROWS)?;
            let deleted = deleted.max(audit::sweep(tx, now.micros() - AUDIT_KEPT_MICROS, SWEEP_ROWS)?);
            Ok(deleted.max(questions::sweep_idempotency(tx, now, SWEEP_ROWS)?))
        })
        .await
}
