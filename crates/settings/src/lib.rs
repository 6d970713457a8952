//! The settings of the service, read once from arguments, environment and file.
//!
//! Each key is one line of `ServiceSettings::from_sources`, with its type, bounds and default. `docs/configuration.md` documents
//! each; a test compares both. Values have the configuration types of the crates that need them.
//!
//! # Where to look
//!
//! - Keys of a group: the file of its name; types of values with their bounds: `form.rs`.
//! - The JSON Schema of the file: `schema.rs`.
//! - Arguments, environment and file, and the origin of each value: `source.rs`.

mod connections;
mod described;
mod form;
mod jurisdictions;
mod oidc;
mod otlp;
mod outgoing;
mod rates;
mod raw;
mod schema;
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
use domain::catalog::{CatalogJurisdiction, builtin_jurisdictions};
use domain::machine::Rules;
use http_common::{BudgetBounds, BudgetLimits, RateLimits};
use models::VendorsConfig;
use server::log::{LogFormat, LogSettings};
use server::{ConnectionLimits, ReloadableTls, TlsFiles, TraceCollector};
use workspace::Quota;

pub use crate::form::listen_address;
use crate::form::{
    address_form, byte_size_form, choice_form, count_form, duration_form, duration_or_never, flag_form,
    path_form, path_list_form, text_form,
};
pub use crate::schema::configuration_schema;
pub use crate::source::{Effective, SettingOrigin, SettingSources, environment_variables};

/// The machine driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum MachineDriver {
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
    pub fn name(self) -> &'static str {
        DRIVERS.iter().find(|(_, driver)| *driver == self).map_or("auto", |(name, _)| name)
    }
}

/// True if a question starts a stopped machine; otherwise it is refused.
const ON_QUESTION: &[(&str, bool)] = &[("start", true), ("refuse", false)];

const LOG_FORMATS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];

/// All settings.
#[derive(Debug, Clone)]
pub struct ServiceSettings {
    /// The data folder.
    pub data: PathBuf,
    /// The database, if not the data folder's own.
    pub database: Option<DatabaseUrl>,
    /// Accepts an empty database although workspaces of accounts exist.
    pub accept_empty_database: bool,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The largest upload, in bytes.
    pub upload_max_bytes: Option<u64>,
    pub driver: MachineDriver,
    /// The User Mode Linux kernel, where it is not `linux.uml` in `PATH`.
    pub kernel: Option<PathBuf>,
    /// QEMU, where it is not `qemu-system-x86_64` in `PATH`.
    pub qemu: Option<PathBuf>,
    /// The kernel of QEMU's machines, where it is not the newest of `/boot`.
    pub qemu_kernel: Option<PathBuf>,
    /// The name of the image that machines show; without one they show the host's programs.
    pub image: Option<String>,
    /// The folder of images.
    pub images: PathBuf,
    /// The limits of a machine.
    pub machine: machine::sandbox::MachineLimits,
    /// The life cycle rules of machines.
    pub rules: Rules,
    /// The concurrency limits.
    pub dispatch: DispatchLimits,
    /// The quota of an account.
    pub quota: Quota,
    /// The disk reserve.
    pub disk: DiskReserveConfig,
    /// The vendors of models, and prices.
    pub vendors: VendorsConfig,
    /// The jurisdictions that a question may name.
    pub jurisdictions: Vec<CatalogJurisdiction>,
    /// The folder of replaced prompt templates.
    pub instructions: Option<PathBuf>,
    /// The TLS certificate; without one, plain HTTP is served.
    pub tls: Option<TlsFiles>,
    /// The limits of connections and requests.
    pub connections: ConnectionLimits,
    /// The rate limits of clients.
    pub rates: RateLimits,
    /// The budgets of clients.
    pub budgets: BudgetLimits,
    /// Folders of plugins.
    pub plugins: Vec<PathBuf>,
    /// Web search, fetching and MCP servers.
    pub web: egress::WebConfig,
    /// The identity provider at which users sign in.
    pub single_sign_on: Option<control::SingleSignOnConfig>,
    /// The log.
    pub log: LogSettings,
    /// The collector of traces.
    pub otlp: Option<TraceCollector>,
}

/// Valid settings, with their origins.
#[derive(Debug)]
pub struct Loaded {
    /// The settings.
    pub settings: ServiceSettings,
    /// Each key's value and origin.
    pub effective: Vec<Effective>,
    /// Warnings: unusual but valid settings.
    pub warnings: Vec<String>,
}

/// Invalid settings: every problem, each with its origin.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct Invalid(pub Vec<String>);

impl ServiceSettings {
    /// Reads all keys.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn load(mut sources: SettingSources) -> Result<Loaded, Invalid> {
        let settings = Self::from_sources(&mut sources);
        let (effective, warnings) = sources.into_effective().map_err(Invalid)?;
        Ok(Loaded { settings, effective, warnings })
    }

    fn from_sources(from: &mut SettingSources) -> Self {
        let DataLocations { data, database, accept_empty_database } = DataLocations::from_sources(from);
        let quota = read_quota(from);
        let images = read_images_folder(from, &data);
        let outgoing = outgoing::read_outgoing(from);
        Self {
            data,
            database,
            accept_empty_database,
            listen: from.value_or_default("listen", SocketAddr::from(([127, 0, 0, 1], 8080)), address_form()),
            upload_max_bytes: from.optional_value("upload_max_bytes", byte_size_form(1..=u64::MAX >> 1)),
            driver: from.value_or_default(
                "machine.driver",
                MachineDriver::Auto,
                choice_form(DRIVERS, |driver| form::quote_toml(driver.name())),
            ),
            kernel: from.optional_value("machine.kernel", path_form()),
            qemu: from.optional_value("machine.qemu", path_form()),
            qemu_kernel: from.optional_value("machine.qemu_kernel", path_form()),
            image: read_image_name(from),
            images,
            machine: machine_limits(from, quota),
            rules: read_machine_rules(from),
            dispatch: read_dispatch_limits(from),
            quota,
            disk: read_disk_reserve(from),
            vendors: VendorsConfig { outgoing: outgoing.clone(), ..vendors::read_vendors(from) },
            jurisdictions: read_jurisdictions_file(from),
            instructions: read_instructions_folder(from),
            tls: read_tls_files(from),
            connections: connections::read_connection_limits(from),
            rates: rates::read_rate_limits(from),
            budgets: read_budget_limits(from),
            plugins: from.optional_value("plugins", path_list_form()).unwrap_or_default(),
            web: egress::WebConfig { outgoing: outgoing.clone(), ..web::read_web(from) },
            single_sign_on: oidc::read_single_sign_on(from)
                .map(|config| control::SingleSignOnConfig { outgoing: outgoing.clone(), ..config }),
            log: read_log_settings(from),
            otlp: otlp::read_otlp(from),
        }
    }
}

/// The locations of the data.
#[derive(Debug)]
pub struct DataLocations {
    /// The data folder.
    pub data: PathBuf,
    /// The database, if not the data folder's own.
    pub database: Option<DatabaseUrl>,
    /// Accepts an empty database although workspaces of accounts exist.
    pub accept_empty_database: bool,
}

impl DataLocations {
    fn from_sources(from: &mut SettingSources) -> Self {
        const URL: &str = "database.url";
        let data = from.value_or_default("data", PathBuf::from("data"), path_form());
        let database = from.secret_value(URL, "database.url_file").map(DatabaseUrl::from);
        if let Some(Err(error)) = database.as_ref().map(DatabaseUrl::check_syntax) {
            from.record_problem(URL, error);
        }
        let accept_empty_database = from.value_or_default("database.accept_empty", false, flag_form());
        Self { data, database, accept_empty_database }
    }
}

/// Reads the locations of the data, for commands that need no other settings.
///
/// # Errors
/// Fails if the configuration file cannot be read, or if a location is invalid.
pub fn read_locations(mut from: SettingSources) -> Result<DataLocations, Invalid> {
    let places = DataLocations::from_sources(&mut from);
    from.check_problems().map_err(Invalid)?;
    Ok(places)
}

/// Reads the folder of images, for the commands that build them.
///
/// # Errors
/// Like [`read_locations`].
pub fn images_folder(mut from: SettingSources) -> Result<PathBuf, Invalid> {
    let DataLocations { data, .. } = DataLocations::from_sources(&mut from);
    let images = read_images_folder(&mut from, &data);
    from.check_problems().map_err(Invalid)?;
    Ok(images)
}

fn read_images_folder(from: &mut SettingSources, data: &Path) -> PathBuf {
    from.optional_value("machine.images", path_form()).unwrap_or_else(|| data.join("images"))
}

fn read_image_name(from: &mut SettingSources) -> Option<String> {
    const KEY: &str = "machine.image";
    let name = from.optional_value(KEY, text_form())?;
    if let Err(error) = name.parse::<machine_image::Reference>() {
        from.record_problem(KEY, error);
    }
    Some(name)
}

fn read_quota(from: &mut SettingSources) -> Quota {
    let default = Quota::default();
    Quota {
        bytes_max: from.value_or_default(
            "quota.bytes_max",
            default.bytes_max,
            byte_size_form(1 << 20..=1 << 50),
        ),
        files_max: from.value_or_default("quota.files_max", default.files_max, count_form(1..=1_000_000_000)),
        disk_free_min_bytes: from.value_or_default(
            "quota.disk_free_min_bytes",
            default.disk_free_min_bytes,
            byte_size_form(0..=1 << 50),
        ),
        ..default
    }
}

fn read_disk_reserve(from: &mut SettingSources) -> DiskReserveConfig {
    let default = DiskReserveConfig::default();
    DiskReserveConfig {
        free_min_bytes: from.value_or_default(
            "disk.free_min_bytes",
            default.free_min_bytes,
            byte_size_form(0..=1 << 50),
        ),
        reserve_bytes: from.value_or_default(
            "disk.reserve_bytes",
            default.reserve_bytes,
            byte_size_form(0..=1 << 40),
        ),
    }
}

fn machine_limits(from: &mut SettingSources, quota: Quota) -> machine::sandbox::MachineLimits {
    let default = machine::sandbox::MachineLimits::default();
    machine::sandbox::MachineLimits {
        memory_bytes: from.value_or_default(
            "machine.memory_bytes",
            default.memory_bytes,
            byte_size_form(128 << 20..=1 << 42),
        ),
        processes: from.value_or_default(
            "machine.processes_max",
            default.processes,
            count_form(16..=100_000),
        ),
        cpu_percent: from.value_or_default(
            "machine.cpu_percent",
            default.cpu_percent,
            count_form(1..=100_000),
        ),
        file_bytes: from.value_or_default(
            "machine.file_bytes_max",
            default.file_bytes,
            byte_size_form(1 << 20..=1 << 50),
        ),
        temporary_bytes: from.value_or_default(
            "machine.temporary_bytes_max",
            default.temporary_bytes,
            byte_size_form(1 << 20..=1 << 40),
        ),
        open_files: from.value_or_default(
            "machine.open_files_max",
            default.open_files,
            count_form(64..=1_000_000),
        ),
        // One limit applies to uploads and to files written by tools.
        workspace_bytes: quota.bytes_max,
    }
}

fn read_machine_rules(from: &mut SettingSources) -> Rules {
    let default = Rules::default();
    let bounds = Duration::from_secs(1)..=Duration::from_hours(24 * 365);
    Rules {
        idle_timeout: from.value_or_default(
            "machine.idle_timeout",
            default.idle_timeout,
            duration_or_never(bounds),
        ),
        grown_from_bytes: from.value_or_default(
            "machine.idle_memory_bytes",
            default.grown_from_bytes,
            byte_size_form(32 << 20..=1 << 42),
        ),
        started_by_questions: from.value_or_default(
            "machine.on_question",
            default.started_by_questions,
            choice_form(ON_QUESTION, |starts| form::quote_toml(if *starts { "start" } else { "refuse" })),
        ),
        ..default
    }
}

/// The largest number of steps that may be set. Each step is reserved and paid for.
const STEPS_LIMIT: u32 = 1000;

fn read_dispatch_limits(from: &mut SettingSources) -> DispatchLimits {
    let default = DispatchLimits::default();
    DispatchLimits {
        turns_per_account: read_bounded_u32(from, "machine.answers_max", default.turns_per_account, 10_000),
        turns: read_bounded_u32(from, "limits.answers_max", default.turns, 100_000),
        steps: read_bounded_u32(from, "limits.steps_max", default.steps, STEPS_LIMIT),
        delegated_steps: read_bounded_u32(
            from,
            "limits.subagent_steps_max",
            default.delegated_steps,
            STEPS_LIMIT,
        ),
        reply_timeout: from.value_or_default(
            "limits.reply_timeout",
            default.reply_timeout,
            duration_form(Duration::from_secs(1)..=Duration::from_hours(24 * 365)),
        ),
    }
}

fn read_bounded_u32(from: &mut SettingSources, key: &'static str, default: u32, most: u32) -> u32 {
    let value = from.value_or_default(key, u64::from(default), count_form(1..=u64::from(most)));
    u32::try_from(value).unwrap_or(default)
}

fn read_jurisdictions_file(from: &mut SettingSources) -> Vec<CatalogJurisdiction> {
    const KEY: &str = "jurisdictions_file";
    let Some(file) = from.optional_value(KEY, path_form()) else { return builtin_jurisdictions() };
    jurisdictions::read_jurisdictions(&file).unwrap_or_else(|error| {
        from.record_problem(KEY, error);
        Vec::new()
    })
}

/// Reads a folder of templates, which is parsed here to report errors early.
fn read_instructions_folder(from: &mut SettingSources) -> Option<PathBuf> {
    const KEY: &str = "instructions_folder";
    let folder = from.optional_value(KEY, path_form())?;
    if let Err(error) = PromptTemplates::builtin(Arc::default()).with_folder(&folder) {
        from.record_problem(KEY, error);
    }
    Some(folder)
}

fn read_tls_files(from: &mut SettingSources) -> Option<TlsFiles> {
    const KEYS: [&str; 2] = ["tls.certificate_file", "tls.key_file"];
    match KEYS.map(|key| from.optional_value(key, path_form())) {
        [Some(certificate), Some(key)] => {
            let files = TlsFiles { certificate, key };
            if let Err(error) = ReloadableTls::from_files(files.clone()) {
                from.record_problem(KEYS[0], error);
            }
            from.warn_when_open(&files.key);
            Some(files)
        }
        [None, None] => None,
        [one, _] => {
            let (is, lacks) = if one.is_some() { (KEYS[0], KEYS[1]) } else { (KEYS[1], KEYS[0]) };
            from.record_problem(is, format!("{lacks} is required as well"));
            None
        }
    }
}

fn read_budget_limits(from: &mut SettingSources) -> BudgetLimits {
    let default = BudgetLimits::default();
    let number = || count_form(1..=10_000_000);
    let size = || byte_size_form(1 << 20..=1 << 40);
    BudgetLimits {
        requests: BudgetBounds {
            each: from.value_or_default("limits.requests_per_account", default.requests.each, number()),
            all: from.value_or_default("limits.requests_max", default.requests.all, number()),
        },
        transfers: BudgetBounds {
            each: from.value_or_default("limits.transfers_per_account", default.transfers.each, number()),
            all: from.value_or_default("limits.transfers_max", default.transfers.all, number()),
        },
        body_bytes: BudgetBounds {
            each: from.value_or_default("limits.body_bytes_per_account", default.body_bytes.each, size()),
            all: from.value_or_default("limits.body_bytes_max", default.body_bytes.all, size()),
        },
    }
}

fn read_log_settings(from: &mut SettingSources) -> LogSettings {
    let show: fn(&LogFormat) -> String = |format| {
        form::quote_toml(
            LOG_FORMATS.iter().find(|(_, known)| known == format).map_or("text", |(name, _)| name),
        )
    };
    let format = from.value_or_default("log.format", LogFormat::Text, choice_form(LOG_FORMATS, show));
    let level = from.value_or_default("log.level", "info".to_owned(), text_form());
    if !is_log_filter(&level) {
        from.record_problem(
            "log.level",
            "expected off, error, warn, info, debug or trace, or several separated by commas, such as \
             info,requests=warn",
        );
    }
    LogSettings { format, level }
}

/// Returns true for a valid log filter. A part without `=` must be a level: the filter library would treat any
/// other word as a module and log everything from it.
fn is_log_filter(text: &str) -> bool {
    let levels = ["off", "error", "warn", "info", "debug", "trace"];
    let is_level = |part: &str| levels.iter().any(|level| part.eq_ignore_ascii_case(level));
    let is_known = |part: &str| is_level(part.trim()) || part.contains(['=', '[']);
    tracing_subscriber::EnvFilter::try_new(text).is_ok() && text.split(',').all(is_known)
}

/// Returns the sources of a command: arguments, environment, and the configuration file that one of them names.
pub fn command_sources(
    config: Option<&Path>,
    arguments: Vec<(&'static str, &'static str, String)>,
) -> SettingSources {
    let sources = SettingSources::new(arguments, environment_variables());
    match config.map(Path::to_owned).or_else(|| sources.named_file()) {
        Some(file) => sources.with_file(&file),
        None => sources,
    }
}

#[cfg(test)]
mod tests;
