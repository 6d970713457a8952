//! The choice of the machine driver, and the report of what it guarantees on this host.

use std::path::{Path, PathBuf};

use control::{Check, CheckStatus};
use machine::{
    BootSources, DiskQuota, Driver, DriverError, Enforcement, LimitStatus, OwnKernel, SUSPENDED_MAX, Sandbox,
    SandboxConfig, UmlKernel, find_qemu, try_kvm,
};
use machine_image::{ImageError, Images};

use workspace::Quota;

use crate::guest;
use crate::settings::{MachineDriver, Settings};

/// A driver that was tried on this host.
pub(crate) struct Chosen {
    pub(crate) driver: Driver,
    /// Why it was chosen, for the log and `GET /readyz?verbose`.
    pub(crate) reason: String,
}

/// Tries the driver that is set; with `auto` the best one that works here: QEMU with KVM, User Mode Linux, the sandbox.
/// Trying one starts a machine and takes it down again, once for each boot of the host.
///
/// # Errors
/// The reason why this host has no such driver, with the mend where it is known.
pub(crate) async fn choose(data: &Path, settings: &Settings) -> Result<Chosen, String> {
    let set = |driver| Chosen { driver, reason: "it is set".to_owned() };
    match settings.driver {
        MachineDriver::Qemu => match qemu(data, settings).await {
            Ok(driver) => Ok(set(driver)),
            Err(no_kvm) => {
                let driver = emulated(data, settings).await?;
                let reason = format!("it is set; the processor is emulated, which is slow: {no_kvm}");
                Ok(Chosen { driver, reason })
            }
        },
        MachineDriver::Uml => uml(data, settings).await.map(set),
        MachineDriver::Sandbox => sandbox(data, settings).await.map(set),
        MachineDriver::Auto => best(data, settings).await,
    }
}

async fn best(data: &Path, settings: &Settings) -> Result<Chosen, String> {
    let no_qemu = match qemu(data, settings).await {
        Ok(driver) => return Ok(Chosen { driver, reason: "a machine with KVM boots here".to_owned() }),
        Err(why) => why,
    };
    match uml(data, settings).await {
        Ok(driver) => {
            let reason = format!("User Mode Linux boots here; qemu is unavailable: {no_qemu}");
            Ok(Chosen { driver, reason })
        }
        Err(no_uml) => {
            let driver = sandbox(data, settings).await?;
            let reason = format!("uml is unavailable: {no_uml}; qemu is unavailable: {no_qemu}");
            Ok(Chosen { driver, reason })
        }
    }
}

/// Opens the driver of virtual machines on the host's processor.
///
/// # Errors
/// The reason why there are none on this host.
pub(crate) async fn qemu(data: &Path, settings: &Settings) -> Result<Driver, String> {
    try_kvm(&qemu_program(settings)?).await?;
    virtual_machines(data, settings, false).await
}

/// Opens the driver of virtual machines on a processor that QEMU emulates.
async fn emulated(data: &Path, settings: &Settings) -> Result<Driver, String> {
    virtual_machines(data, settings, true).await
}

fn qemu_program(settings: &Settings) -> Result<PathBuf, String> {
    let named = settings.qemu.as_deref();
    find_qemu(named).ok_or_else(|| match named {
        Some(named) => format!("machine.qemu: there is no program {} below /usr", named.display()),
        None => {
            "there is no program qemu-system-x86_64 (Debian: `apt-get install qemu-system-x86`)".to_owned()
        }
    })
}

async fn virtual_machines(data: &Path, settings: &Settings, emulated: bool) -> Result<Driver, String> {
    let mut config = config(data, settings)?;
    let kernel = settings.qemu_kernel.as_deref();
    let sources = BootSources::find(qemu_program(settings)?, kernel, config.agent.clone())?;
    let folder = config.machines.join(".qemu");
    let prepared = tokio::task::spawn_blocking(move || sources.prepare(&folder, emulated)).await;
    let prepared = prepared.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
    config.kernel = Some(OwnKernel::Qemu(prepared));
    open(config).await
}

async fn uml(data: &Path, settings: &Settings) -> Result<Driver, String> {
    let named = settings.kernel.as_deref();
    let mut refused = Vec::new();
    for kernel in UmlKernel::find_all(named) {
        let described = kernel.to_string();
        let mut config = config(data, settings)?;
        config.kernel = Some(OwnKernel::UserModeLinux(kernel));
        match open(config).await {
            Ok(driver) => return Ok(driver),
            Err(why) => refused.push(format!("{described} does not boot: {why}")),
        }
    }
    Err(match named {
        _ if !refused.is_empty() => refused.join("; "),
        Some(named) => format!("machine.kernel: there is no program {}", named.display()),
        None => "there is no User Mode Linux kernel: `make kernel` builds one, Debian's is in the package \
                 user-mode-linux"
            .to_owned(),
    })
}

async fn sandbox(data: &Path, settings: &Settings) -> Result<Driver, String> {
    open(config(data, settings)?).await
}

async fn open(config: SandboxConfig) -> Result<Driver, String> {
    let words = |error: DriverError| error.to_string();
    let sandbox = Sandbox::open(config).map_err(words)?;
    if let Err(error) = sandbox.save_template().await {
        tracing::warn!(%error, "no virtual machine could be saved, so that each start boots");
    }
    sandbox.probe_once().await.map_err(words)?;
    Ok(Driver::Sandbox(sandbox))
}

fn config(data: &Path, settings: &Settings) -> Result<SandboxConfig, String> {
    let mut config = SandboxConfig::new(data.join("machines"), guest::unpack(data)?);
    config.suspended_max = Some(SUSPENDED_MAX);
    config.plugins = Some(control::plugins_folder(data));
    config.limits = settings.machine.clone();
    let Quota { bytes_max, files_max, .. } = settings.quota;
    config.disk_quota = Some(DiskQuota { bytes_max, files_max });
    config.image = image(settings)?;
    Ok(config)
}

/// Finds the image that is set.
pub(crate) fn image(settings: &Settings) -> Result<Option<machine::Image>, String> {
    let Some(name) = &settings.image else { return Ok(None) };
    let reference = name.parse().map_err(|error: ImageError| error.to_string())?;
    let image = Images::at(settings.images.clone()).find(&reference).map_err(|error| {
        let folder = settings.images.display();
        format!("machine.image: {error} (in {folder}; `causerie image build` makes one)")
    })?;
    Ok(Some(machine::Image { tree: image.tree(), lock: image.lock() }))
}

/// Reports the driver, and for each limit of machines what enforces it on this host.
pub(crate) fn checks(chosen: &Chosen) -> Vec<Check> {
    let Chosen { driver, reason } = chosen;
    let kernel = driver.kernel_description().map(|kernel| format!("; kernel: {kernel}")).unwrap_or_default();
    let described = format!("{driver}{kernel}; {reason}");
    let mut checks = vec![Check::new("machine_driver", CheckStatus::Pass, described)];
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
