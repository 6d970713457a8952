//! `causerie serve`: runs the service on one data folder.

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;

use app::SettingInForce;
use control::service::StartError;
use control::{CauserieService, DiskReserve, PluginsConfig, ServiceConfig, ServiceEnvironment};
use http_common::RateLimiter;
use operator::ServiceFacts;
use operator::data::{self, DataFolderHolder};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::log;
use server::{
    Frontend, HttpServer, MetricSources, ReloadableTls, RequestIds, TlsError, Traces, answer_unknown_path,
    bind_listener, monitoring_router,
};
use settings::{Effective, Loaded, ServiceSettings, SettingOrigin};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::driver_choice::DriverChoice;
use crate::{host_checks, memory, notify};

/// The reason why the service does not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    /// The data folder cannot be used.
    #[error("data folder {} unusable: {}", .0.display(), data::describe_unusable_folder(.0, .1))]
    Data(PathBuf, #[source] io::Error),
    /// Another service runs on the data folder.
    #[error("another service is running on the data folder {0}: stop it, or use another folder")]
    Taken(PathBuf),
    /// Another service took over the database.
    #[error("another service holds the database lock: stop one of them")]
    Ousted,
    /// The machine driver is unavailable.
    #[error("machine driver unavailable: {0}")]
    Driver(String),
    /// The address cannot be used.
    #[error("cannot listen on {0}: {1}{remedy}", remedy = listen_remedy(.1))]
    Listen(SocketAddr, #[source] io::Error),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A second signal was received.
    #[error("second signal: exiting immediately")]
    Hurried,
    /// The service failed to start.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Returns the remedy for an address that cannot be used.
fn listen_remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => "; another program listens there: choose another port with --listen",
        io::ErrorKind::AddrNotAvailable => "; it is not an address of this host",
        io::ErrorKind::PermissionDenied => "; ports below 1024 need root or CAP_NET_BIND_SERVICE",
        _ => "",
    }
}

/// A running service.
pub(crate) struct StartedService {
    /// Every use case.
    pub(crate) service: Arc<CauserieService>,
    /// The address it listens on.
    pub(crate) address: SocketAddr,
    tls: Option<ReloadableTls>,
    traces: Traces,
    ending: CancellationToken,
    serving: tokio::task::JoinHandle<()>,
    /// The pending choice of the machine driver.
    choice: Option<DriverChoice>,
    data: PathBuf,
    _lock: File,
}

/// Runs until a signal is received.
pub(crate) async fn serve_until_signal(loaded: Loaded) -> Result<(), ServeError> {
    // Installs the signal handlers before anything announces the service.
    let signalled = wait_for_signal();
    let mut signalled = pin!(signalled);
    let hangup = signal(SignalKind::hangup());
    report_panics();
    let mut running = tokio::select! {
        started = start_service(loaded) => started?,
        () = &mut signalled => return Ok(()),
    };
    let scheme = if running.tls.is_some() { "https" } else { "http" };
    tracing::info!("listening on {scheme}://{}", running.address);
    say_what_next(&running, scheme).await;
    let choice = running.choice.take();
    let ended = tokio::select! {
        error = begin_machines(choice, &running) => Err(error),
        () = signalled => Ok(()),
        () = running.service.lock_lost() => Err(ServeError::Ousted),
        () = reload_on_sighup(hangup, running.tls.clone()) => Ok(()),
    };
    tracing::info!("shutting down");
    notify::notify_systemd("STOPPING=1");
    let again = wait_for_signal();
    tokio::select! {
        () = running.shut_down() => ended,
        () = again => Err(ServeError::Hurried),
    }
}

/// Tells the service manager that the service is ready once the machine driver is chosen. Returns only if no
/// driver is available.
async fn begin_machines(choice: Option<DriverChoice>, running: &StartedService) -> ServeError {
    if let Some(choice) = choice
        && let Err(reason) = choice.finish_choice(&running.service, &running.ending).await
    {
        return ServeError::Driver(reason);
    }
    notify::notify_systemd("READY=1");
    std::future::pending().await
}

/// Logs the next steps for the person who started the service.
async fn say_what_next(running: &StartedService, scheme: &str) {
    let StartedService { service, address, data, .. } = running;
    let url = format!("{scheme}://{}", local_address(*address));
    let entries = service.catalog.model_entries();
    if let Some(missing) = service.catalog.missing_default() {
        tracing::warn!("default model unavailable: models.default names {missing}, which no vendor lists");
    }
    if let Some(model) = entries.iter().find(|entry| entry.default) {
        tracing::info!("default model: {}", model.id);
    }
    tracing::info!("web application: {url}/, API reference: {url}/docs");
    // A failing store is reported by the readiness checks.
    if let Ok(Some(invitation)) = service.first_owner.issue_invitation().await {
        let secret = invitation.reveal();
        tracing::info!(
            "no operator yet: create an operator's account at {url}/welcome?invitation={secret} within 24 hours, or \
             with `causerie account create --operator --data {} --email YOU@EXAMPLE.ORG --licence-until 2030-12-31 \
             --credits 10000`, then a key with `causerie key create --data {} --account YOU@EXAMPLE.ORG --name NAME`",
            data.display(),
            data.display()
        );
    }
}

/// Returns an address by which this host reaches the service: a browser cannot open a wildcard address.
pub(crate) fn local_address(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::from((Ipv6Addr::LOCALHOST, address.port())),
        _ => address,
    }
}

/// Reloads the certificate on SIGHUP. Never returns.
async fn reload_on_sighup(hangup: io::Result<Signal>, tls: Option<ReloadableTls>) {
    let Ok(mut hangup) = hangup else { return std::future::pending().await };
    while hangup.recv().await.is_some() {
        match tls.as_ref().map(ReloadableTls::reload) {
            Some(Ok(())) => tracing::info!("TLS certificate reloaded"),
            Some(Err(error)) => {
                tracing::error!(%error, "TLS certificate reload failed; keeping the current one")
            }
            None => tracing::info!("SIGHUP ignored: no TLS certificate configured"),
        }
    }
}

/// Logs panics with their location only: the message may contain user data.
fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panic");
        // The process may not survive the panic.
        log::flush_log();
    }));
}

/// Waits for SIGINT or SIGTERM.
pub(crate) fn wait_for_signal() -> impl Future<Output = ()> {
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        // Without a handler the signal itself ends the process.
        let (Ok(mut terminate), Ok(mut interrupt)) = (terminate, interrupt) else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
}

/// Raises the soft limit on open files to the hard limit and returns it: readers and machines need one descriptor
/// each.
fn open_files() -> u64 {
    let most = getrlimit(Resource::Nofile).maximum;
    // On failure the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Limits connections to half of the available descriptors, and files of uploads and downloads to an eighth: the
/// store and the machines need the rest.
fn fit_descriptor_limit(settings: &mut ServiceSettings, descriptors: u64) {
    let connections = usize::try_from(descriptors / 2).unwrap_or(usize::MAX).max(1);
    if connections < settings.connections.connections_max {
        tracing::warn!(
            descriptors,
            connections,
            "connections_max reduced: the limit on open files is too low"
        );
        settings.connections.connections_max = connections;
    }
    let transfers = &mut settings.budgets.transfers;
    transfers.all = transfers.all.min((descriptors / 8).max(1));
}

/// Prepares the data folder and locks it for this process.
async fn lock_data(folder: &Path) -> Result<(PathBuf, File), ServeError> {
    let data =
        data::prepare_data_folder(folder).map_err(|error| ServeError::Data(folder.to_owned(), error))?;
    match data::acquire_data_folder(&data).await.map_err(|error| ServeError::Data(data.clone(), error))? {
        DataFolderHolder::Us(lock) => Ok((data, lock)),
        DataFolderHolder::Service(_) | DataFolderHolder::Nobody => Err(ServeError::Taken(data)),
    }
}

/// Returns how programs that speak another protocol than `/api/v1` are served.
fn other_protocols(
    limits: api::ApiLimits,
    tls: bool,
    shutdown: &CancellationToken,
) -> (openai_api::OpenAiConfig, mcp_server::McpConfig) {
    let api::ApiLimits { upload_max_bytes, body_timeout, stall_timeout } = limits;
    let shutdown = shutdown.clone();
    let mcp = mcp_server::McpConfig { tls, body_timeout, shutdown: shutdown.clone() };
    (openai_api::OpenAiConfig { tls, upload_max_bytes, stall_timeout, shutdown }, mcp)
}

/// Starts the service. It listens before its machine driver is chosen; [`DriverChoice::finish_choice`] follows.
pub(crate) async fn start_service(loaded: Loaded) -> Result<StartedService, ServeError> {
    let in_force = loaded.effective.iter().map(setting_in_force).collect();
    let mut settings = loaded.settings;
    fit_descriptor_limit(&mut settings, open_files());
    let (data, lock) = lock_data(&settings.data).await?;
    DiskReserve::new(&data, settings.disk).make_room_to_start();
    let tls = settings.tls.clone().map(ReloadableTls::from_files).transpose()?;
    let unheard = |error| ServeError::Listen(settings.listen, error);
    let listener = bind_listener(settings.listen, &settings.connections).map_err(unheard)?;
    let address = listener.local_addr().map_err(unheard)?;
    let choice = DriverChoice::start_trials(&data, &settings);
    let judged = Arc::new(ServiceSettings { data: data.clone(), ..settings.clone() });
    let config = ServiceConfig {
        data: data.clone(),
        database: settings.database,
        accept_empty_database: settings.accept_empty_database,
        quota: settings.quota,
        limits: settings.dispatch,
        rules: settings.rules,
        vendors: settings.vendors,
        jurisdictions: settings.jurisdictions,
        instructions: settings.instructions,
        driver: choice.pending_driver(),
        host_checks: None,
        disk: settings.disk,
        plugins: PluginsConfig { folders: settings.plugins },
        web: settings.web,
        single_sign_on: settings.single_sign_on,
    };
    let environment = ServiceEnvironment::system();
    let traces = Traces::begin(settings.otlp, &environment);
    let environment = environment.with_tracer(traces.tracer());
    let started_at = environment.now();
    let process = u64::from_be_bytes(environment.random_bytes());
    let service = Arc::new(CauserieService::start(config, environment.clone()).await?);
    let ending = CancellationToken::new();
    let commands =
        operator::bind_admin_socket(&data).map_err(|error| ServeError::Data(data.clone(), error))?;
    let scheme = if tls.is_some() { "https" } else { "http" };
    let facts = ServiceFacts {
        catalog: service.catalog.clone(),
        settings: judged,
        service: service.clone(),
        address: format!("{scheme}://{address}"),
        started_at,
        driver: Arc::new(choice.pending_driver()),
        host_checks: host_checks::check_host,
    };
    tokio::spawn(operator::serve_admin_socket(commands, service.admin.clone(), facts, ending.clone()));
    let limits = api::ApiLimits {
        upload_max_bytes: settings.upload_max_bytes,
        body_timeout: settings.connections.body_timeout,
        stall_timeout: settings.connections.stall_timeout,
    };
    let guard = Arc::new(RateLimiter::new(settings.rates, settings.budgets));
    let requests = Arc::new(api::ApiMetrics::default());
    let sources = MetricSources {
        service: service.clone(),
        guard: guard.clone(),
        requests: requests.clone(),
        spans: traces.spans(),
        tls: tls.is_some(),
    };
    let (router, direct) =
        api::api_router(&service, limits, api::ApiShutdown(ending.clone()), guard.clone(), requests.clone());
    let pages = app::AppConfig {
        body_timeout: settings.connections.body_timeout,
        upload_max_bytes: limits.upload_max_bytes,
        stall_timeout: limits.stall_timeout,
        tls: tls.is_some(),
        settings: in_force,
        environment,
        ending: ending.clone(),
    };
    let (openai, mcp) = other_protocols(limits, tls.is_some(), &ending);
    let front = Frontend {
        router: router
            .merge(monitoring_router(sources))
            .merge(openai_api::openai_router(&service, openai, guard.clone()))
            .merge(mcp_server::mcp_router(&service, mcp, guard.clone()))
            .merge(app::app_router(&service, pages, guard.clone()))
            .fallback(answer_unknown_path),
        direct,
        ids: RequestIds::new(process),
        tracer: traces.tracer(),
        guard,
        metrics: requests,
        ending: api::ApiShutdown(ending.clone()),
    };
    tokio::spawn(memory::return_unused());
    let server = HttpServer::new(listener, tls.clone(), front, settings.connections);
    let serving = tokio::spawn(server.serve_until_shutdown());
    let choice = Some(choice);
    Ok(StartedService { service, address, tls, traces, ending, serving, choice, data, _lock: lock })
}

impl StartedService {
    /// Waits until the machine driver is chosen.
    pub(crate) async fn choose_driver(&mut self) -> Result<(), ServeError> {
        let Some(choice) = self.choice.take() else { return Ok(()) };
        choice.finish_choice(&self.service, &self.ending).await.map_err(ServeError::Driver)
    }

    /// Disconnects readers, returns answers in progress to the queue, and ends.
    pub(crate) async fn shut_down(self) {
        self.ending.cancel();
        // A panic was logged when it happened.
        let _ = self.serving.await;
        self.service.shutdown().await;
        self.traces.flush_and_stop().await;
    }
}

/// Converts a setting for the operators' page.
fn setting_in_force(setting: &Effective) -> SettingInForce {
    let origin = (setting.origin != SettingOrigin::Default).then(|| setting.origin.to_string());
    SettingInForce { key: setting.key.clone().into_owned(), value: setting.value.clone(), origin }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_address_opens_in_browser() {
        for (address, shown) in [
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            ("192.0.2.1:80", "192.0.2.1:80"),
            ("[::1]:80", "[::1]:80"),
        ] {
            assert_eq!(local_address(address.parse().unwrap()).to_string(), shown);
        }
    }

    #[test]
    fn listen_error_names_remedy() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let error = std::net::TcpListener::bind(address).unwrap_err();
        let text = ServeError::Listen(address, error).to_string();
        assert!(
            text.contains(&address.to_string()) && text.contains("choose another port with --listen"),
            "{text}"
        );
    }
}
