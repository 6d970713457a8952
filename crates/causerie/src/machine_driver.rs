//! The choice of the machine driver, and the report of what it guarantees on this host.

use std::path::Path;

use control::{Check, CheckStatus};
use machine::{
    DiskQuota, Driver, DriverError, Enforcement, LimitStatus, Sandbox, SandboxConfig, find_kernel,
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

/// Tries the driver that is set; with `auto` the best one that works here: User Mode Linux, then the sandbox. Trying one
/// starts a machine and takes it down again, once for each boot of the host.
///
/// # Errors
/// The reason why this host has no such driver, with the mend where it is known.
pub(crate) async fn choose(data: &Path, settings: &Settings) -> Result<Chosen, String> {
    match settings.driver {
        MachineDriver::Qemu => Err("this version has no driver `qemu`; use uml, sandbox or auto".to_owned()),
        MachineDriver::Uml => {
            let driver = uml(data, settings).await?;
            Ok(Chosen { driver, reason: "it is set".to_owned() })
        }
        MachineDriver::Sandbox => {
            let driver = sandbox(data, settings).await?;
            Ok(Chosen { driver, reason: "it is set".to_owned() })
        }
        MachineDriver::Auto => match uml(data, settings).await {
            Ok(driver) => Ok(Chosen { driver, reason: "User Mode Linux boots here".to_owned() }),
            Err(no_uml) => {
                let driver = sandbox(data, settings).await?;
                Ok(Chosen { driver, reason: format!("uml is unavailable: {no_uml}") })
            }
        },
    }
}

async fn uml(data: &Path, settings: &Settings) -> Result<Driver, String> {
    let named = settings.kernel.as_deref();
    let kernel = find_kernel(named).ok_or_else(|| match named {
        Some(named) => format!("machine.kernel: there is no program {}", named.display()),
        None => "there is no program linux.uml (Debian: `apt-get install user-mode-linux`)".to_owned(),
    })?;
    let mut config = config(data, settings)?;
    config.kernel = Some(kernel);
    open(config).await
}

async fn sandbox(data: &Path, settings: &Settings) -> Result<Driver, String> {
    open(config(data, settings)?).await
}

async fn open(config: SandboxConfig) -> Result<Driver, String> {
    let words = |error: DriverError| error.to_string();
    let sandbox = Sandbox::open(config).map_err(words)?;
    sandbox.probe_once().await.map_err(words)?;
    Ok(Driver::Sandbox(sandbox))
}

fn config(data: &Path, settings: &Settings) -> Result<SandboxConfig, String> {
    let mut config = SandboxConfig::new(data.join("machines"), guest::unpack(data)?);
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
    let mut checks = vec![Check::new("machine_driver", CheckStatus::Pass, format!("{driver}; {reason}"))];
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
