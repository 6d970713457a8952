//! The choice of the machine driver, and the report of its guarantees on this host.
//!
//! A driver is tried by starting and stopping a machine. The outcome is remembered, success or failure, until
//! the host reboots or the programs change; a service chooses by remembered outcomes and repeats trials only in
//! the background.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use control::{Check, CheckStatus};
use machine::{
    BootSources, DiskQuota, Driver, DriverError, Enforcement, LimitStatus, OwnKernel, Qemu, SUSPENDED_MAX,
    Sandbox, SandboxConfig, TRIAL_TIMEOUT, TrialOutcome, TrialRecord, UmlKernel, find_qemu, open_kvm,
    sweep_trials, try_kvm,
};
use machine_image::{Images, MachineImageError};
use settings::{MachineDriver, ServiceSettings};
use tokio::time::{Instant, sleep};
use workspace::Quota;

use crate::guest;

/// The time limit of a trial of any driver except KVM, which some hosts offer although nothing boots: on a busy
/// host a working kernel takes seconds. Also the limit for a configured driver and for a trial in the
/// background.
const PATIENT_TRIAL_TIMEOUT: Duration = Duration::from_secs(10);
/// The age from which a failed trial is repeated in the background, once for each start.
const REPEATED_AFTER: Duration = Duration::from_secs(60);
/// The maximum length of a reason on one line.
const REASON_MAX_CHARS: usize = 240;

/// A driver that was tried on this host.
pub(crate) struct Chosen<D = Sandbox> {
    pub(crate) driver: D,
    /// Why it was chosen, on one line, for the log and `GET /readyz?verbose`.
    pub(crate) reason: String,
    /// The way to better isolation on this host, if there is one.
    pub(crate) remedy: Option<String>,
    /// The better drivers whose trial has failed, and how long ago.
    pub(crate) failed: Vec<(MachineDriver, Duration)>,
}

/// How a host without a kernel for `uml` gets one.
const KERNEL_REMEDY: &str =
    "Linux 7.2 or later boots on any processor: the packages of Causerie bring it, `make kernel` builds it";

/// The reason why a driver is unavailable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unavailable {
    /// On one line.
    reason: String,
    /// The way to make it available on this host, if one is known.
    remedy: Option<String>,
    /// The time since the trial that has failed; `None` if it was not tried.
    failed: Option<Duration>,
}

impl Unavailable {
    fn new(reason: impl fmt::Display) -> Self {
        Self { reason: one_line(&reason.to_string()), remedy: None, failed: None }
    }

    fn with_remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }

    fn with_failure_age(self, age: Duration) -> Self {
        Self { failed: Some(age), ..self }
    }

    /// Names what is unavailable.
    fn with_subject(self, what: &str) -> Self {
        Self { reason: format!("{what}: {}", self.reason), ..self }
    }

    /// Adds the reason why another one is unavailable as well.
    fn join_reason(self, other: &Self) -> Self {
        Self { reason: format!("{}; {}", self.reason, other.reason), ..self }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, " ({remedy})"))
    }
}

/// Returns the first line of a reason; a kernel's last words have more.
fn one_line(reason: &str) -> String {
    let line = reason.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(REASON_MAX_CHARS) {
        None => line.to_owned(),
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
    }
}

/// Returns the folder that contains a folder for each machine.
pub(crate) fn machines_folder(data: &Path) -> PathBuf {
    data.join("machines")
}

/// Chooses the driver that is set; with `auto` the best one that works here: QEMU with KVM, User Mode Linux,
/// the sandbox. Removes leftovers of trials of earlier starts.
///
/// # Errors
/// The reason why this host has no such driver, with the remedy where it is known.
pub(crate) async fn choose_driver(data: &Path, settings: &ServiceSettings) -> Result<Chosen, String> {
    let trials = Trials { data, settings, ends_at: None };
    let config = trials.sandbox_config().map_err(|error| error.to_string())?;
    sweep_trials(&config.machines, &config.trial_workspaces).await;
    trials.choose_by_setting().await.map_err(|error| error.to_string())
}

/// Repeats the failed trials of better drivers, each once and at least a minute after the failure. The next
/// start uses a driver that works by then.
pub(crate) async fn repeat_failed(
    data: &Path,
    settings: &ServiceSettings,
    failed: Vec<(MachineDriver, Duration)>,
) {
    let began = Instant::now();
    let trials = Trials { data, settings, ends_at: None };
    for (driver, age) in failed {
        sleep(REPEATED_AFTER.saturating_sub(age).saturating_sub(began.elapsed())).await;
        let tried = match driver {
            MachineDriver::Qemu => trials.open_qemu(TrialReuse::Repeated).await,
            MachineDriver::Uml => trials.open_uml(TrialReuse::Repeated).await,
            MachineDriver::Sandbox | MachineDriver::Auto => continue,
        };
        let driver = driver.name();
        match tried {
            Ok(_) => tracing::info!(driver, "machine driver now available: the next start uses it"),
            Err(error) => tracing::debug!(driver, %error, "machine driver still unavailable"),
        }
    }
}

impl<D> Chosen<D> {
    fn from_setting(driver: D) -> Self {
        Self { driver, reason: "it is set".to_owned(), remedy: None, failed: Vec::new() }
    }
}

/// Decides among drivers that were tried, the best first.
fn choose_best<D>(
    qemu: Result<D, Unavailable>,
    uml: Option<Result<D, Unavailable>>,
    sandbox: impl FnOnce() -> Option<D>,
) -> Option<Chosen<D>> {
    let no_qemu = match qemu {
        Ok(driver) => {
            let reason = "a machine with KVM boots here".to_owned();
            return Some(Chosen { driver, reason, remedy: None, failed: Vec::new() });
        }
        Err(error) => error,
    };
    let failed = |driver, error: &Unavailable| error.failed.map(|age| (driver, age));
    let no_uml = match uml? {
        Ok(driver) => {
            let reason = format!("User Mode Linux boots here; qemu is unavailable: {}", no_qemu.reason);
            let failed = failed(MachineDriver::Qemu, &no_qemu).into_iter().collect();
            return Some(Chosen { driver, reason, remedy: no_qemu.remedy, failed });
        }
        Err(error) => error,
    };
    let driver = sandbox()?;
    let reason = format!("uml is unavailable: {}; qemu is unavailable: {}", no_uml.reason, no_qemu.reason);
    let failed = [failed(MachineDriver::Qemu, &no_qemu), failed(MachineDriver::Uml, &no_uml)];
    let remedy = no_uml.remedy.or(no_qemu.remedy);
    Some(Chosen { driver, reason, remedy, failed: failed.into_iter().flatten().collect() })
}

/// Which remembered outcomes replace a new trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialReuse {
    /// A success and a failure count.
    Counts,
    /// Only a success counts: after a failure, no other driver could be used.
    OfSuccess,
    /// The trial is repeated.
    Ignored,
    /// The trial is repeated with a long time limit, because nobody waits.
    Repeated,
}

/// The trials of drivers in a data folder.
struct Trials<'a> {
    data: &'a Path,
    settings: &'a ServiceSettings,
    /// The time at which all trials must have ended, if there is one.
    ends_at: Option<Instant>,
}

impl Trials<'_> {
    async fn choose_by_setting(&self) -> Result<Chosen, Unavailable> {
        match self.settings.driver {
            MachineDriver::Qemu => match self.open_qemu(TrialReuse::OfSuccess).await {
                Ok(driver) => Ok(Chosen::from_setting(driver)),
                Err(no_kvm) => {
                    let driver = self.open_emulated_qemu().await?;
                    let reason = format!("it is set; the processor is emulated, which is slow: {no_kvm}");
                    Ok(Chosen { reason, ..Chosen::from_setting(driver) })
                }
            },
            MachineDriver::Uml => self.open_uml(TrialReuse::OfSuccess).await.map(Chosen::from_setting),
            MachineDriver::Sandbox => self.open_sandbox().await.map(Chosen::from_setting),
            MachineDriver::Auto => self.try_best().await,
        }
    }

    /// Tries QEMU and User Mode Linux at the same time, and the sandbox if neither works.
    async fn try_best(&self) -> Result<Chosen, Unavailable> {
        let (mut qemu, mut uml) =
            (pin!(self.open_qemu(TrialReuse::Counts)), pin!(self.open_uml(TrialReuse::Counts)));
        let (qemu, uml) = tokio::select! {
            biased;
            qemu = &mut qemu => match qemu {
                Ok(driver) => (Ok(driver), None),
                Err(error) => (Err(error), Some(uml.await)),
            },
            uml = &mut uml => (qemu.await, Some(uml)),
        };
        let sandbox = match (&qemu, &uml) {
            (Err(_), Some(Err(_))) => Some(self.open_sandbox().await?),
            _ => None,
        };
        choose_best(qemu, uml, || sandbox).ok_or_else(|| Unavailable::new("no driver was tried"))
    }

    /// Opens the driver of virtual machines on the host's processor.
    async fn open_qemu(&self, memory: TrialReuse) -> Result<Sandbox, Unavailable> {
        open_kvm().map_err(|error| no_kvm(&error))?;
        let sources = self.boot_sources()?;
        let config = self.sandbox_config()?;
        let record = trial_record(&config, "qemu", &sources.source_files())?;
        let remembered = recall_trial(&record, memory)?;
        if !remembered {
            let limit = self.trial_limit(memory);
            if let Err(reason) = try_kvm(&config.launcher, &sources.qemu, limit).await {
                return Err(failed_now(&record, &reason));
            }
        }
        let kernel = prepare_qemu(sources, &config, false).await?;
        let config = SandboxConfig { kernel: Some(OwnKernel::Qemu(kernel)), ..config };
        open_and_try(config, &record, remembered, self.trial_limit(memory)).await
    }

    /// Opens the driver of virtual machines on a processor that QEMU emulates.
    async fn open_emulated_qemu(&self) -> Result<Sandbox, Unavailable> {
        let (sources, config) = (self.boot_sources()?, self.sandbox_config()?);
        let record = trial_record(&config, "qemu-emulated", &sources.source_files())?;
        let remembered = recall_trial(&record, TrialReuse::OfSuccess)?;
        let kernel = prepare_qemu(sources, &config, true).await?;
        let config = SandboxConfig { kernel: Some(OwnKernel::Qemu(kernel)), ..config };
        open_and_try(config, &record, remembered, self.trial_limit(TrialReuse::OfSuccess)).await
    }

    fn boot_sources(&self) -> Result<BootSources, Unavailable> {
        let named = self.settings.qemu.as_deref();
        let program = find_qemu(named).ok_or_else(|| match named {
            Some(named) => Unavailable::new(format_args!(
                "machine.qemu: program {} not found below /usr",
                named.display()
            )),
            None => Unavailable::new("program qemu-system-x86_64 not found")
                .with_remedy("Debian: `apt-get install qemu-system-x86`"),
        })?;
        let kernel = self.settings.qemu_kernel.as_deref();
        BootSources::find_sources(program, kernel, self.unpack_agent()?).map_err(Unavailable::new)
    }

    /// Opens the driver of User Mode Linux, on the first kernel that boots.
    async fn open_uml(&self, memory: TrialReuse) -> Result<Sandbox, Unavailable> {
        let named = self.settings.kernel.as_deref();
        let mut refused: Option<Unavailable> = None;
        for kernel in UmlKernel::find_all(named) {
            match self.uml_on(kernel, memory).await {
                Ok(sandbox) => return Ok(sandbox),
                Err(error) => {
                    refused = Some(refused.map_or(error.clone(), |earlier| earlier.join_reason(&error)))
                }
            }
        }
        Err(refused.unwrap_or_else(|| match named {
            Some(named) => {
                Unavailable::new(format_args!("machine.kernel: program {} not found", named.display()))
            }
            None if !cfg!(target_arch = "x86_64") => Unavailable::new("it exists for x86-64 only"),
            None => Unavailable::new("no User Mode Linux kernel found").with_remedy(KERNEL_REMEDY),
        }))
    }

    /// Opens the driver of User Mode Linux on this kernel.
    async fn uml_on(&self, kernel: UmlKernel, memory: TrialReuse) -> Result<Sandbox, Unavailable> {
        let (config, described) = (self.sandbox_config()?, kernel.to_string());
        let record = trial_record(
            &config,
            &format!("uml-{}", kernel.origin_name()),
            &[kernel.program(), &config.agent],
        )?;
        let config = SandboxConfig { kernel: Some(OwnKernel::UserModeLinux(kernel)), ..config };
        let opened = match recall_trial(&record, memory) {
            Ok(remembered) => {
                open_and_try(config, &record, remembered, self.bound_by_deadline(PATIENT_TRIAL_TIMEOUT)).await
            }
            Err(failed) => Err(failed),
        };
        opened.map_err(|error| match error.failed {
            Some(_) => error.with_subject(&described).with_remedy(KERNEL_REMEDY),
            None => error,
        })
    }

    /// Opens the driver that shares the host's kernel, whose trial takes some hundredths of a second.
    async fn open_sandbox(&self) -> Result<Sandbox, Unavailable> {
        let sandbox = Sandbox::open_driver(self.sandbox_config()?).map_err(Unavailable::new)?;
        let tried = sandbox.try_out(self.bound_by_deadline(PATIENT_TRIAL_TIMEOUT)).await;
        tried.map(|()| sandbox).map_err(|error| Unavailable::new(error).with_failure_age(Duration::ZERO))
    }

    /// Returns the longest time of a trial of KVM that begins now.
    fn trial_limit(&self, memory: TrialReuse) -> Duration {
        let has_substitute = self.settings.driver == MachineDriver::Auto && memory != TrialReuse::Repeated;
        self.bound_by_deadline(if has_substitute { TRIAL_TIMEOUT } else { PATIENT_TRIAL_TIMEOUT })
    }

    fn bound_by_deadline(&self, limit: Duration) -> Duration {
        self.ends_at.map_or(limit, |end| end.saturating_duration_since(Instant::now()).min(limit))
    }

    fn unpack_agent(&self) -> Result<PathBuf, Unavailable> {
        guest::unpack_agent(self.data).map_err(Unavailable::new)
    }

    fn sandbox_config(&self) -> Result<SandboxConfig, Unavailable> {
        let settings = self.settings;
        let mut config = SandboxConfig::new(machines_folder(self.data), self.unpack_agent()?);
        config.suspended_max = Some(SUSPENDED_MAX);
        config.trial_workspaces = control::data_folder::workspaces_folder(self.data);
        config.plugins = Some(control::plugins_folder(self.data));
        config.limits = settings.machine.clone();
        let Quota { bytes_max, files_max, .. } = settings.quota;
        config.disk_quota = Some(DiskQuota { bytes_max, files_max });
        config.image = find_image(settings).map_err(Unavailable::new)?;
        Ok(config)
    }
}

/// Opens a driver, and tries it unless it is known to work.
async fn open_and_try(
    config: SandboxConfig,
    record: &TrialRecord,
    is_known: bool,
    limit: Duration,
) -> Result<Sandbox, Unavailable> {
    let sandbox = Sandbox::open_driver(config).map_err(Unavailable::new)?;
    if is_known {
        if let Err(error) = sandbox.save_template().await {
            tracing::warn!(%error, "saving a virtual machine failed: each start boots");
        }
        return Ok(sandbox);
    }
    match sandbox.try_out(limit).await {
        Ok(()) => {
            record.save_outcome(None);
            Ok(sandbox)
        }
        Err(DriverError::Refused(reason)) => Err(failed_now(record, &reason)),
        Err(error) => Err(failed_now(record, &error.to_string())),
    }
}

/// Returns the reason why the device of the processor's virtualisation cannot be opened.
fn no_kvm(error: &io::Error) -> Unavailable {
    let reason = Unavailable::new(format_args!("/dev/kvm cannot be opened: {error}"));
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            reason.with_remedy("let the service's user open it: `setfacl -m u:causerie:rw /dev/kvm`")
        }
        _ => reason,
    }
}

/// Names the record of a driver's trials with the files that decide them.
fn trial_record(config: &SandboxConfig, driver: &str, files: &[&Path]) -> Result<TrialRecord, Unavailable> {
    let image = config.image.as_ref().map(|image| image.lock.as_path());
    let files: Vec<&Path> = files.iter().copied().chain(image).collect();
    let record = std::fs::create_dir_all(&config.machines)
        .and_then(|()| TrialRecord::new(&config.machines, driver, &files, &config.limits));
    record.map_err(|error| Unavailable::new(format_args!("reading the programs of machines failed: {error}")))
}

/// Returns true if the driver is known to work.
///
/// # Errors
/// The reason if it is known to fail.
fn recall_trial(record: &TrialRecord, memory: TrialReuse) -> Result<bool, Unavailable> {
    if matches!(memory, TrialReuse::Ignored | TrialReuse::Repeated) {
        return Ok(false);
    }
    match record.last_trial() {
        None => Ok(false),
        Some(TrialOutcome { failure: None, .. }) => Ok(true),
        Some(TrialOutcome { failure: Some(reason), age }) if memory == TrialReuse::Counts => {
            Err(Unavailable::new(reason).with_failure_age(age))
        }
        Some(_) => Ok(false),
    }
}

fn failed_now(record: &TrialRecord, reason: &str) -> Unavailable {
    tracing::debug!(reason, "machine driver trial failed");
    record.save_outcome(Some(reason));
    Unavailable::new(reason).with_failure_age(Duration::ZERO)
}

async fn prepare_qemu(
    sources: BootSources,
    config: &SandboxConfig,
    emulated: bool,
) -> Result<Qemu, Unavailable> {
    let folder = config.machines.join(".qemu");
    let prepared = tokio::task::spawn_blocking(move || sources.prepare_files(&folder, emulated)).await;
    prepared.map_err(Unavailable::new)?.map_err(Unavailable::new)
}

/// The outcomes of trials of all drivers, for `causerie doctor`.
pub(crate) struct TrialFindings {
    /// Each driver, with its description or the reason why it is unavailable.
    pub(crate) drivers: Vec<(MachineDriver, Result<String, Unavailable>)>,
    /// The driver that a service would choose.
    pub(crate) chosen: Result<Chosen<Driver>, Unavailable>,
}

/// Tries all drivers at the same time, in this folder and within this time.
pub(crate) async fn try_all(folder: &Path, settings: &ServiceSettings, limit: Duration) -> TrialFindings {
    let mut trials = Trials { data: folder, settings, ends_at: None };
    // The programs are unpacked once, which does not count towards the time of the trials.
    let _ = trials.unpack_agent();
    trials.ends_at = Some(Instant::now() + limit);
    let (qemu, uml, sandbox) = tokio::join!(
        trials.open_qemu(TrialReuse::Ignored),
        trials.open_uml(TrialReuse::Ignored),
        trials.open_sandbox()
    );
    let [qemu, uml, sandbox] = [qemu, uml, sandbox].map(|tried| tried.map(Driver::Sandbox));
    let found = |tried: &Result<Driver, Unavailable>| match tried {
        Ok(driver) => Ok(driver.to_string()),
        Err(error) => Err(error.clone()),
    };
    let drivers = vec![
        (MachineDriver::Qemu, found(&qemu)),
        (MachineDriver::Uml, found(&uml)),
        (MachineDriver::Sandbox, found(&sandbox)),
    ];
    let chosen = match settings.driver {
        MachineDriver::Qemu => match qemu {
            Ok(driver) => Ok(Chosen::from_setting(driver)),
            Err(no_kvm) => trials.open_emulated_qemu().await.map(|driver| {
                let reason = format!("it is set; the processor is emulated, which is slow: {no_kvm}");
                Chosen { reason, ..Chosen::from_setting(Driver::Sandbox(driver)) }
            }),
        },
        MachineDriver::Uml => uml.map(Chosen::from_setting),
        MachineDriver::Sandbox => sandbox.map(Chosen::from_setting),
        MachineDriver::Auto => {
            let refused = sandbox.as_ref().err().cloned();
            choose_best(qemu, Some(uml), || sandbox.ok())
                .ok_or_else(|| refused.unwrap_or_else(|| Unavailable::new("no driver works here")))
        }
    };
    TrialFindings { drivers, chosen }
}

/// Finds the image that is set.
pub(crate) fn find_image(settings: &ServiceSettings) -> Result<Option<machine::MachineImage>, String> {
    let Some(name) = &settings.image else { return Ok(None) };
    let reference = name.parse().map_err(|error: MachineImageError| error.to_string())?;
    let image = Images::from_folder(settings.images.clone()).find_version(&reference).map_err(|error| {
        let folder = settings.images.display();
        format!("machine.image: {error} (in {folder}): build one with `causerie image build`")
    })?;
    Ok(Some(machine::MachineImage { tree: image.tree_path(), lock: image.lock_path() }))
}

/// Reports the driver, and the enforcement of each limit of machines on this host. A driver that isolates less
/// than the host could is a warning.
pub(crate) fn driver_checks(driver: &Driver, reason: &str, remedy: Option<&str>) -> Vec<Check> {
    let (status, better) = match remedy {
        None => (CheckStatus::Pass, String::new()),
        Some(remedy) => (CheckStatus::Warn, format!("; this host can isolate machines better: {remedy}")),
    };
    let kernel = driver.kernel_description().map(|kernel| format!("; kernel: {kernel}")).unwrap_or_default();
    let mut checks =
        vec![Check::new("machine_driver", status, format!("{driver}{kernel}; {reason}{better}"))];
    checks.extend(driver.limits_report().into_iter().map(|LimitStatus { limit, enforced_by, detail }| {
        let status = match enforced_by {
            Enforcement::Kernel => CheckStatus::Pass,
            Enforcement::Watch | Enforcement::Nothing => CheckStatus::Warn,
        };
        let reason = format!("enforced by {}: {detail}", enforced_by.as_str());
        Check::new(format!("machine_limit_{limit}"), status, reason)
    }));
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unavailable_driver(reason: &str) -> Result<&'static str, Unavailable> {
        Err(Unavailable::new(reason))
    }

    fn best_driver(
        qemu: Result<&'static str, Unavailable>,
        uml: Result<&'static str, Unavailable>,
    ) -> Chosen<&'static str> {
        choose_best(qemu, Some(uml), || Some("sandbox")).expect("the sandbox works")
    }

    #[test]
    fn choose_best_gives_driver_and_reason() {
        assert_eq!(best_driver(Ok("qemu"), unavailable_driver("x")).driver, "qemu");
        let uml = best_driver(unavailable_driver("no KVM"), Ok("uml"));
        assert_eq!((uml.driver, uml.remedy), ("uml", None));
        assert_eq!(uml.reason, "User Mode Linux boots here; qemu is unavailable: no KVM");
        let sandbox = best_driver(unavailable_driver("no KVM"), unavailable_driver("it panics"));
        assert_eq!(sandbox.driver, "sandbox");
        assert_eq!(sandbox.reason, "uml is unavailable: it panics; qemu is unavailable: no KVM");
    }

    #[test]
    fn choose_best_names_possible_remedy() {
        let missing = || Err(Unavailable::new("there is no program").with_remedy("install it"));
        assert_eq!(best_driver(missing(), Ok("uml")).remedy.as_deref(), Some("install it"));
        assert_eq!(
            best_driver(unavailable_driver("no KVM"), missing()).remedy.as_deref(),
            Some("install it")
        );
        assert_eq!(best_driver(Ok("qemu"), missing()).remedy, None);
    }

    #[test]
    fn choose_best_repeats_better_failures() {
        let failed = |seconds| Err(Unavailable::new("no").with_failure_age(Duration::from_secs(seconds)));
        assert_eq!(best_driver(failed(1), Ok("uml")).failed, [(MachineDriver::Qemu, Duration::from_secs(1))]);
        assert_eq!(
            best_driver(unavailable_driver("no program"), failed(2)).failed,
            [(MachineDriver::Uml, Duration::from_secs(2))]
        );
        assert_eq!(best_driver(Ok("qemu"), failed(3)).failed, []);
    }

    #[test]
    fn kernel_last_words_fit_line() {
        let words = format!("\nbooting: {}\nKernel panic\n more", "x".repeat(1000));
        let line = one_line(&words);
        assert!(line.starts_with("booting: xxx") && line.ends_with('…') && !line.contains('\n'), "{line}");
        assert_eq!(line.chars().count(), REASON_MAX_CHARS + 1);
        assert_eq!(one_line(""), "");
    }
}
