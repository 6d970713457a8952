//! Saves a virtual machine of the driver `qemu` once, and continues others from it (see [`super::template`]).

use std::fs;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::own_kernel::{OwnKernel, Qemu};

use super::spec::{LaunchReport, LaunchTask, Spec};
use super::template::{self, Template};
use super::trial::{SAVING, TrialFolder};
use super::{Sandbox, driver_failure, files_stamp, identity, launch_timeout, unexpected_report};
use crate::contract::DriverError;

impl Sandbox {
    /// Launches a machine from the saved one, if any; boots it if that fails.
    pub(super) async fn launch_from_template(&self, spec: &mut Spec) -> Result<LaunchReport, DriverError> {
        let limit = launch_timeout(self.config.kernel.as_ref());
        self.launch_from_template_within([limit, limit], spec).await
    }

    /// Like [`Self::launch_from_template`], with time limits for both attempts.
    pub(super) async fn launch_from_template_within(
        &self,
        [continuing, booting]: [Duration; 2],
        spec: &mut Spec,
    ) -> Result<LaunchReport, DriverError> {
        let Some(template) = self.lock_template().clone() else {
            return self.launch_within(booting, spec).await;
        };
        spec.template = Some(template.file_paths());
        let launched = self.launch_within(continuing, spec).await;
        let Err(DriverError::Failed(reason)) = launched else { return launched };
        spec.template = None;
        let booted = self.launch_within(booting, spec).await;
        // If this fails as well, the saved machine may not be the cause.
        if booted.is_ok() {
            tracing::warn!(reason, "saved machine failed to resume: machines boot from now on");
            self.discard_template();
        }
        booted
    }

    /// Boots a virtual machine and saves it, so that others continue from it instead of booting; or takes the machine
    /// that an earlier service saved. Does nothing for machines of other kinds.
    ///
    /// # Errors
    /// Returns the reason if no machine was saved. Machines then boot.
    pub async fn save_template(&self) -> Result<(), DriverError> {
        self.save_template_within(launch_timeout(self.config.kernel.as_ref())).await
    }

    /// Like [`Self::save_template`], with a time limit for the boot.
    pub(super) async fn save_template_within(&self, limit: Duration) -> Result<(), DriverError> {
        let machine = self.config.kernel.as_ref().and_then(OwnKernel::virtual_machine);
        if let Some(machine) = machine.filter(|_| self.lock_template().is_none()) {
            let template = self.load_or_save_template(machine, limit).await?;
            *self.lock_template() = Some(Arc::new(template));
        }
        Ok(())
    }

    async fn load_or_save_template(&self, machine: &Qemu, limit: Duration) -> Result<Template, DriverError> {
        let failed = |error: io::Error| driver_failure("saving a machine", error);
        let trial = TrialFolder::new(&self.config, SAVING);
        let mut spec = self.trial_spec(LaunchTask::Save, &trial);
        let stamp = template_stamp(machine, &spec).map_err(failed)?;
        let (folder, memory_bytes) = (machine.boot_folder().to_owned(), self.config.limits.memory_bytes);
        let lock_path = folder.join("saving.lock");
        let locked =
            spawn_blocking(move || fs::File::create(lock_path).and_then(|lock| lock.lock().map(|()| lock)));
        let _lock = locked.await.map_err(io::Error::other).and_then(|lock| lock).map_err(failed)?;
        let (kept, known) = (folder.clone(), stamp.clone());
        let loaded = spawn_blocking(move || Template::load_template(&kept, &known, memory_bytes)).await;
        match loaded.map_err(io::Error::other).and_then(|loaded| loaded) {
            Ok(Some(template)) => return Ok(template),
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "reading the saved machine failed"),
        }
        let template = Template::create_empty(memory_bytes).map_err(failed)?;
        spec.template = Some(template.file_paths());
        trial.create_folders()?;
        let launched = self.launch_within(limit, &spec).await;
        self.remove_trial(trial).await;
        match launched? {
            LaunchReport::Saved => {}
            other => return Err(unexpected_report(&other)),
        }
        let finishing = spawn_blocking(move || template.seal_and_save(&folder, &stamp)).await;
        finishing.map_err(io::Error::other).and_then(|finished| finished).map_err(failed)
    }

    fn discard_template(&self) {
        *self.lock_template() = None;
        if let Some(machine) = self.config.kernel.as_ref().and_then(OwnKernel::virtual_machine)
            && let Err(error) = template::remove_template(machine.boot_folder())
        {
            tracing::warn!(%error, "removing the saved machine failed");
        }
    }

    fn lock_template(&self) -> MutexGuard<'_, Option<Arc<Template>>> {
        self.template.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns an identifier of all that a saved machine depends on.
fn template_stamp(machine: &Qemu, spec: &Spec) -> io::Result<String> {
    let programs = files_stamp(&[&machine.program, &machine.kernel, &machine.initramfs])?;
    Ok(format!("{} {}{programs}", identity::boot_id()?, machine.qemu_arguments(spec).join(" ")))
}
