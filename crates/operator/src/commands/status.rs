//! `causerie status`

use std::collections::BTreeMap;

use clap::Args;
use serde::{Deserialize, Serialize};

use super::models::{ModelList, VendorState};
use crate::error::CliError;
use crate::output::{format_text, print_line};
use crate::request::{CommandReply, ExecutionContext, OperatorRequest};

/// Show the state of the service: address, version, models, machines
#[derive(Debug, Args, Serialize, Deserialize)]
#[command(after_help = "Examples:\n  causerie status --data /var/lib/causerie")]
pub struct ShowStatus;

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ServiceStatus {
    version: String,
    address: String,
    started_at: String,
    accounts: usize,
    /// The number of machines in each state.
    machines: BTreeMap<String, u64>,
    driver: String,
    default_model: Option<String>,
    vendors: Vec<VendorState>,
}

impl CommandReply for ServiceStatus {
    fn print_for_people(&self) {
        print_line(format_args!(
            "causerie {} at {}, since {}",
            self.version,
            self.address,
            format_text(&self.started_at)
        ));
        print_line(format_args!("accounts: {}", self.accounts));
        let machines: Vec<String> =
            self.machines.iter().map(|(state, count)| format!("{count} {}", state.to_lowercase())).collect();
        let machines = if machines.is_empty() { "none".to_owned() } else { machines.join(", ") };
        print_line(format_args!("machines: {machines} ({})", self.driver));
        print_line(format_args!("default model: {}", self.default_model.as_deref().unwrap_or("-")));
        for vendor in &self.vendors {
            print_line(vendor.health_line());
        }
    }
}

impl OperatorRequest for ShowStatus {
    const NAME: &'static str = "show_status";
    type Reply = ServiceStatus;

    async fn execute(self, context: &ExecutionContext<'_>) -> Result<ServiceStatus, CliError> {
        let (admin, service) = (context.admin, context.service()?);
        let mut machines = BTreeMap::<String, u64>::new();
        for machine in admin.list_machines().await? {
            let state = machine.status.map_or("UNKNOWN", |status| status.as_str());
            *machines.entry(state.to_owned()).or_default() += 1;
        }
        let models = ModelList::from_catalog(&service.catalog, None);
        Ok(ServiceStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: service.address.clone(),
            started_at: service.started_at.to_string(),
            accounts: admin.list_accounts().await?.len(),
            machines,
            driver: service.driver.to_string(),
            default_model: models.default_model().map(|model| model.id.clone()),
            vendors: models.vendors,
        })
    }
}
