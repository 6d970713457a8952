//! The choice of the machine driver while the service already listens: machines start once it is known.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::CauserieService;
use machine::{Driver, PendingSandbox};
use settings::ServiceSettings;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::machine_driver::{self, Chosen};

/// A choice in progress. Dropping it ends the trials.
pub(crate) struct DriverChoice {
    driver: PendingSandbox,
    trials: JoinSet<Result<Chosen, String>>,
    data: PathBuf,
    settings: Arc<ServiceSettings>,
}

impl DriverChoice {
    /// Begins to choose a driver for the machines of a data folder.
    pub(crate) fn start_trials(data: &Path, settings: &ServiceSettings) -> Self {
        let (data, settings) = (data.to_owned(), Arc::new(settings.clone()));
        let driver = PendingSandbox::new(machine_driver::machines_folder(&data));
        let mut trials = JoinSet::new();
        let (tried, given) = (data.clone(), settings.clone());
        trials.spawn(async move { machine_driver::choose_driver(&tried, &given).await });
        Self { driver, trials, data, settings }
    }

    /// Returns the driver, which starts machines once it is chosen.
    pub(crate) fn pending_driver(&self) -> Driver {
        Driver::Pending(self.driver.clone())
    }

    /// Waits for the choice, and has the service use it. Trials that have failed are repeated in the background until `ending`.
    ///
    /// # Errors
    /// The reason why this host has no driver.
    pub(crate) async fn finish_choice(
        mut self,
        service: &CauserieService,
        ending: &CancellationToken,
    ) -> Result<(), String> {
        let chosen = match self.trials.join_next().await {
            Some(Ok(chosen)) => chosen?,
            // A panic was logged when it happened.
            Some(Err(_)) | None => return Err("the trials of drivers did not end".to_owned()),
        };
        let Chosen { driver, reason, remedy, failed } = chosen;
        self.driver.choose_driver(driver);
        let driver = self.pending_driver();
        tracing::info!(%driver, kernel = driver.kernel_description(), reason, "machine driver chosen");
        service.set_host_checks(machine_driver::driver_checks(&driver, &reason, remedy.as_deref()));
        if !failed.is_empty() {
            let (data, settings, ending) = (self.data, self.settings, ending.clone());
            tokio::spawn(async move {
                let repeated = machine_driver::repeat_failed(&data, &settings, failed);
                ending.run_until_cancelled(repeated).await;
            });
        }
        Ok(())
    }
}
