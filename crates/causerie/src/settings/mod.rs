//! The settings of the service, read once from arguments, environment and file.
//!
//! Each key is one line of [`Settings::read`], with its type, bounds and default. `docs/configuration.md` documents
//! each; a test compares both.

mod connections;
mod described;
mod form;
mod jurisdictions;
mod oidc;
mod otlp;
mod outgoing;
mod rates;
mod source;
mod vendors;
mod web;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::DispatchLimits;
use control::templates::PromptTemplates;
use control::{DatabaseUrl, DiskReserveConfig};
use domain::catalog::{Jurisdiction, builtin_jurisdictions};
use domain::machine::Rules;
use http_common::{Bounds, BudgetLimits, RateLimits};
use models::VendorsConfig;
use workspace::Quota;

pub(crate) use crate::settings::connections::Connections;
pub(crate) use crate::settings::form::listen_address;
use crate::settings::form::{address, bytes, choice, count, duration_or_never, flag, path, paths, text};
pub(crate) use crate::settings::otlp::Otlp;
pub(crate) use crate::settings::source::{Effective, Origin, Sources, environment};
use crate::tls::{Tls, TlsFiles};

/// The machine driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum MachineDriver {
    /// The best driver that works on this host
    Auto,
    /// Virtual machines
    Qemu,
    /// A kernel for each machine, as a process of the host (User Mode Linux)
    Uml,
    /// Processes in namespaces
    Sandbox,
}

const DRIVERS: &[(&str, MachineDriver)] = &[
    ("auto", MachineDriver::Auto),
    ("qemu", MachineDriver::Qemu),
    ("uml", MachineDriver::Uml),
    ("sandbox", MachineDriver::Sandbox),
];

impl MachineDriver {
    /// Returns the name used in settings.
    pub(crate) fn name(self) -> &'static str {
        DRIVERS.iter().find(|(_, driver)| *driver == self).map_or("auto", |(name, _)| name)
    }
}

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// True if a question starts a stopped machine; otherwise it is refused.
const ON_QUESTION: &[(&str, bool)] = &[("start", true), ("refuse", false)];

const LOG_FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The log filter and format.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// The format of lines.
    pub(crate) format: LogFormat,
    /// The minimum severity: a level, or several for parts of the program.
    pub(crate) level: String,
}

/// All settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The data folder.
    pub(crate) data: PathBuf,
    /// The database, if not the data folder's own.
    pub(crate) database: Option<DatabaseUrl>,
    /// Accepts an empty database although workspaces of accounts exist.
    pub(crate) accept_empty_database: bool,
    /// The address to listen on.
    pub(crate) listen: SocketAddr,
    /// The largest upload, in bytes.
    pub(crate) upload_max_bytes: Option<u64>,
    pub(crate) driver: MachineDriver,
    /// The User Mode Linux kernel, where it is not `linux.uml` in `PATH`.
    pub(crate) kernel: Option<PathBuf>,
    /// QEMU, where it is not `qemu-system-x86_64` in `PATH`.
    pub(crate) qemu: Option<PathBuf>,
    /// The kernel of QEMU's machines, where it is not the newest of `/boot`.
    pub(crate) qemu_kernel: Option<PathBuf>,
    /// The name of the image that machines show; without one they show the host's programs.
    pub(crate) image: Option<String>,
    /// The folder of images.
    pub(crate) images: PathBuf,
    /// The limits of a machine.
    pub(crate) machine: machine::sandbox::Limits,
    /// The life cycle rules of machines.
    pub(crate) rules: Rules,
    /// The concurrency limits.
    pub(crate) dispatch: DispatchLimits,
    /// The quota of an account.
    pub(crate) quota: Quota,
    /// The disk reserve.
    pub(crate) disk: DiskReserveConfig,
    /// The vendors of models, and prices.
    pub(crate) vendors: VendorsConfig,
    /// The jurisdictions that a question may name.
    pub(crate) jurisdictions: Vec<Jurisdiction>,
    /// The folder of replaced prompt templates.
    pub(crate) instructions: Option<PathBuf>,
    /// The TLS certificate; without one, plain HTTP is served.
    pub(crate) tls: Option<TlsFiles>,
    /// The limits of connections and requests.
    pub(crate) connections: Connections,
    /// The rate limits of clients.
    pub(crate) rates: RateLimits,
    /// The budgets of clients.
    pub(crate) budgets: BudgetLimits,
    /// Folders of plugins.
    pub(crate) plugins: Vec<PathBuf>,
    /// Web search, fetching and MCP servers.
    pub(crate) web: egress::WebConfig,
    /// The identity provider at which users sign in.
    pub(crate) single_sign_on: Option<control::SingleSignOnConfig>,
    /// The log.
    pub(crate) log: Log,
    /// The collector of traces.
    pub(crate) otlp: Option<Otlp>,
}

/// Valid settings, with their origins.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The settings.
    pub(crate) settings: Settings,
    /// Each key's value and origin.
    pub(crate) effective: Vec<Effective>,
    /// Warnings: unusual but valid settings.
    pub(crate) warnings: Vec<String>,
}

/// Invalid settings: every problem, each with its origin.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub(crate) struct Invalid(pub(crate) Vec<String>);

impl Settings {
    /// Reads all keys.
    ///
    /// # Errors
    /// [`Invalid`].
    pub(crate) fn load(mut sources: Sources) -> Result<Loaded, Invalid> {
        let settings = Self::read(&mut sources);
        let (effective, warnings) = sources.finish().map_err(Invalid)?;
        Ok(Loaded { settings, effective, warnings })
    }

    fn read(from: &mut Sources) -> Self {
        let Places { data, database, accept_empty_database } = Places::read(from);
        let quota = quota(from);
        let images = images(from, &data);
        let outgoing = outgoing::read(from);
        Self {
            data,
            database,
            accept_empty_database,
            listen: from.key("listen", SocketAddr::from(([127, 0, 0, 1], 8080)), address()),
            upload_max_bytes: from.optional("upload_max_bytes", bytes(1..=u64::MAX >> 1)),
            driver: from.key(
                "machine.driver",
                MachineDriver::Auto,
                choice(DRIVERS, |driver| form::quoted(driver.name())),
            ),
            kernel: from.optional("machine.kernel", path()),
            qemu: from.optional("machine.qemu", path()),
            qemu_kernel: from.optional("machine.qemu_kernel", path()),
            image: image(from),
            images,
            machine: machine_limits(from, quota),
            rules: rules(from),
            dispatch: dispatch(from),
            quota,
            disk: disk(from),
            vendors: VendorsConfig { outgoing: outgoing.clone(), ..vendors::read(from) },
            jurisdictions: jurisdictions(from),
            instructions: instructions(from),
            tls: tls(from),
            connections: connections::read(from),
            rates: rates::read(from),
            budgets: budgets(from),
            plugins: from.optional("plugins", paths()).unwrap_or_default(),
            web: egress::WebConfig { outgoing: outgoing.clone(), ..web::read(from) },
            single_sign_on: oidc::read(from)
                .map(|config| control::SingleSignOnConfig { outgoing: outgoing.clone(), ..config }),
            log: log(from),
            otlp: otlp::read(from),
        }
    }
}

/// The locations of the data.
#[derive(Debug)]
pub(crate) struct Places {
    /// The data folder.
    pub(crate) data: PathBuf,
    /// The database, if not the data folder's own.
    pub(crate) database: Option<DatabaseUrl>,
    /// Accepts an empty database although workspaces of accounts exist.
    pub(crate) accept_empty_database: bool,
}

impl Places {
    fn read(from: &mut Sources) -> Self {
        const URL: &str = "database.url";
        let data = from.key("data", PathBuf::from("data"), path());
        let database = from.secret(URL, "database.url_file").map(DatabaseUrl::from);
        if let Some(Err(error)) = database.as_ref().map(DatabaseUrl::check) {
            from.refuse(URL, error);
        }
        let accept_empty_database = from.key("database.accept_empty", false, flag());
        Self { data, database, accept_empty_database }
    }
}

/// Reads the locations of the data, for commands that need no other settings.
///
/// # Errors
/// Fails if the configuration file cannot be read, or if a location is invalid.
pub(crate) fn places(mut from: Sources) -> Result<Places, Invalid> {
    let places = Places::read(&mut from);
    from.check().map_err(Invalid)?;
    Ok(places)
}

/// Reads the folder of images, for the commands that build them.
///
/// # Errors
/// Like [`places`].
pub(crate) fn images_folder(mut from: Sources) -> Result<PathBuf, Invalid> {
    let Places { data, .. } = Places::read(&mut from);
    let images = images(&mut from, &data);
    from.check().map_err(Invalid)?;
    Ok(images)
}

fn images(from: &mut Sources, data: &Path) -> PathBuf {
    from.optional("machine.images", path()).unwrap_or_else(|| data.join("images"))
}

fn image(from: &mut Sources) -> Option<String> {
    const KEY: &str = "machine.image";
    let name = from.optional(KEY, text())?;
    if let Err(error) = name.parse::<machine_image::Reference>() {
        from.refuse(KEY, error);
    }
    Some(name)
}

fn quota(from: &mut Sources) -> Quota {
    let default = Quota::default();
    Quota {
        bytes_max: from.key("quota.bytes_max", default.bytes_max, bytes(1 << 20..=1 << 50)),
        files_max: from.key("quota.files_max", default.files_max, count(1..=1_000_000_000)),
        disk_free_min_bytes: from.key(
            "quota.disk_free_min_bytes",
            default.disk_free_min_bytes,
            bytes(0..=1 << 50),
        ),
        ..default
    }
}

fn disk(from: &mut Sources) -> DiskReserveConfig {
    let default = DiskReserveConfig::default();
    DiskReserveConfig {
        free_min_bytes: from.key("disk.free_min_bytes", default.free_min_bytes, bytes(0..=1 << 50)),
        reserve_bytes: from.key("disk.reserve_bytes", default.reserve_bytes, bytes(0..=1 << 40)),
    }
}

fn machine_limits(from: &mut Sources, quota: Quota) -> machine::sandbox::Limits {
    let default = machine::sandbox::Limits::default();
    machine::sandbox::Limits {
        memory_bytes: from.key("machine.memory_bytes", default.memory_bytes, bytes(128 << 20..=1 << 42)),
        processes: from.key("machine.processes_max", default.processes, count(16..=100_000)),
        cpu_percent: from.key("machine.cpu_percent", default.cpu_percent, count(1..=100_000)),
        file_bytes: from.key("machine.file_bytes_max", default.file_bytes, bytes(1 << 20..=1 << 50)),
        temporary_bytes: from.key(
            "machine.temporary_bytes_max",
            default.temporary_bytes,
            bytes(1 << 20..=1 << 40),
        ),
        open_files: from.key("machine.open_files_max", default.open_files, count(64..=1_000_000)),
        // One limit applies to uploads and to files written by tools.
        workspace_bytes: quota.bytes_max,
    }
}

fn rules(from: &mut Sources) -> Rules {
    let default = Rules::default();
    let bounds = Duration::from_secs(1)..=Duration::from_hours(24 * 365);
    Rules {
        idle_timeout: from.key("machine.idle_timeout", default.idle_timeout, duration_or_never(bounds)),
        grown_from_bytes: from.key(
            "machine.idle_memory_bytes",
            default.grown_from_bytes,
            bytes(32 << 20..=1 << 42),
        ),
        started_by_questions: from.key(
            "machine.on_question",
            default.started_by_questions,
            choice(ON_QUESTION, |starts| form::quoted(if *starts { "start" } else { "refuse" })),
        ),
        ..default
    }
}

/// The largest number of steps that may be set. Each step is reserved and paid for.
const STEPS_LIMIT: u32 = 1000;

fn dispatch(from: &mut Sources) -> DispatchLimits {
    let default = DispatchLimits::default();
    DispatchLimits {
        turns_per_account: narrow(from, "machine.answers_max", default.turns_per_account, 10_000),
        turns: narrow(from, "limits.answers_max", default.turns, 100_000),
        steps: narrow(from, "limits.steps_max", default.steps, STEPS_LIMIT),
        delegated_steps: narrow(from, "limits.subagent_steps_max", default.delegated_steps, STEPS_LIMIT),
    }
}

fn narrow(from: &mut Sources, key: &'static str, default: u32, most: u32) -> u32 {
    let value = from.key(key, u64::from(default), count(1..=u64::from(most)));
    u32::try_from(value).unwrap_or(default)
}

fn jurisdictions(from: &mut Sources) -> Vec<Jurisdiction> {
    const KEY: &str = "jurisdictions_file";
    let Some(file) = from.optional(KEY, path()) else { return builtin_jurisdictions() };
    jurisdictions::read(&file).unwrap_or_else(|error| {
        from.refuse(KEY, error);
        Vec::new()
    })
}

/// Reads a folder of templates, which is parsed here to report errors early.
fn instructions(from: &mut Sources) -> Option<PathBuf> {
    const KEY: &str = "instructions_folder";
    let folder = from.optional(KEY, path())?;
    if let Err(error) = PromptTemplates::builtin(Arc::default()).with_folder(&folder) {
        from.refuse(KEY, error);
    }
    Some(folder)
}

fn tls(from: &mut Sources) -> Option<TlsFiles> {
    const KEYS: [&str; 2] = ["tls.certificate_file", "tls.key_file"];
    match KEYS.map(|key| from.optional(key, path())) {
        [Some(certificate), Some(key)] => {
            let files = TlsFiles { certificate, key };
            if let Err(error) = Tls::open(files.clone()) {
                from.refuse(KEYS[0], error);
            }
            from.warn_when_open(&files.key);
            Some(files)
        }
        [None, None] => None,
        [one, _] => {
            let (is, lacks) = if one.is_some() { (KEYS[0], KEYS[1]) } else { (KEYS[1], KEYS[0]) };
            from.refuse(is, format!("{lacks} is required, too"));
            None
        }
    }
}

fn budgets(from: &mut Sources) -> BudgetLimits {
    let default = BudgetLimits::default();
    let number = || count(1..=10_000_000);
    let size = || bytes(1 << 20..=1 << 40);
    BudgetLimits {
        requests: Bounds {
            each: from.key("limits.requests_per_account", default.requests.each, number()),
            all: from.key("limits.requests_max", default.requests.all, number()),
        },
        transfers: Bounds {
            each: from.key("limits.transfers_per_account", default.transfers.each, number()),
            all: from.key("limits.transfers_max", default.transfers.all, number()),
        },
        body_bytes: Bounds {
            each: from.key("limits.body_bytes_per_account", default.body_bytes.each, size()),
            all: from.key("limits.body_bytes_max", default.body_bytes.all, size()),
        },
    }
}

fn log(from: &mut Sources) -> Log {
    let show: fn(&LogFormat) -> String = |format| {
        form::quoted(LOG_FORMATS.iter().find(|(_, known)| known == format).map_or("text", |(name, _)| name))
    };
    let format = from.key("log.format", LogFormat::Text, choice(LOG_FORMATS, show));
    let level = from.key("log.level", "info".to_owned(), text());
    if !is_log_filter(&level) {
        from.refuse(
            "log.level",
            "expected off, error, warn, info, debug or trace, or several separated by commas, such as \
             info,requests=warn",
        );
    }
    Log { format, level }
}

/// Returns true for a valid log filter. A part without `=` must be a level: the filter library would take any other
/// word for a module and log everything of it.
fn is_log_filter(text: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |part: &str| levels.iter().any(|level| part.eq_ignore_ascii_case(level));
    let is_known = |part: &str| is_level(part.trim()) || part.contains(['=', '[']);
    tracing_subscriber::EnvFilter::try_new(text).is_ok() && text.split(',').all(is_known)
}

/// Returns the sources of a command: arguments, environment, and the configuration file that one of them names.
pub(crate) fn sources(
    config: Option<&Path>,
    arguments: Vec<(&'static str, &'static str, String)>,
) -> Sources {
    let sources = Sources::new(arguments, environment());
    match config.map(Path::to_owned).or_else(|| sources.named_file()) {
        Some(file) => sources.with_file(&file),
        None => sources,
    }
}

#[cfg(test)]
mod tests;
