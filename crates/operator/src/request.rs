//! A request of an operator: how it is carried out, and its reply.
//!
//! The command and the service exchange both as JSON. The command prints the reply: as JSON, or for people.

use std::sync::Arc;

use control::{Admin, Catalog, CauserieService, Check};
use domain::time::Timestamp;
use futures_util::future::BoxFuture;
use machine::MachineFolders;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use settings::ServiceSettings;

use crate::error::CliError;
use crate::output;

/// A request of an operator. `commands.rs` lists all of them.
pub(crate) trait OperatorRequest: Serialize + DeserializeOwned + Send + Sync {
    /// The name on the socket.
    const NAME: &'static str;
    /// The result.
    type Reply: CommandReply;

    /// Carries out the request: in the service or, if none runs, on the locked data folder.
    fn execute(
        self,
        context: &ExecutionContext<'_>,
    ) -> impl Future<Output = Result<Self::Reply, CliError>> + Send;

    /// Returns how the request uses the database of a data folder without a service.
    fn database_use(&self) -> DatabaseUse {
        DatabaseUse::Required
    }

    /// Carries out a request with [`DatabaseUse::Optional`] without the database.
    fn execute_without_database(
        self,
        _folders: &MachineFolders,
    ) -> impl Future<Output = Result<Self::Reply, CliError>> + Send {
        async { Err(CliError::new("NO_DATABASE", "the command needs a database")) }
    }
}

/// The use of the database by a request without a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseUse {
    /// A missing one is created.
    Created,
    /// A missing one is an error, because the name of the data folder is probably mistyped.
    Required,
    /// The request can do without.
    Optional,
}

/// A reply, printed by its command.
pub(crate) trait CommandReply: Serialize + DeserializeOwned + Send {
    /// Prints the reply for people: by default one line per field.
    fn print_for_people(&self) {
        output::print_fields(self);
    }

    /// Returns the failure of what the command has started, if it failed.
    fn failure(&self) -> Option<CliError> {
        None
    }

    /// Prints the reply, as JSON or for people.
    fn print(&self, as_json: bool) {
        if as_json { output::print_json(self) } else { self.print_for_people() }
    }
}

/// The means to carry out a request.
pub(crate) struct ExecutionContext<'a> {
    /// The operators' use cases, on the database.
    pub(crate) admin: &'a Admin,
    service: Option<&'a ServiceFacts>,
}

impl<'a> ExecutionContext<'a> {
    pub(crate) const fn new(admin: &'a Admin, service: Option<&'a ServiceFacts>) -> Self {
        Self { admin, service }
    }

    /// Returns the running service.
    pub(crate) fn service(&self) -> Result<&'a ServiceFacts, CliError> {
        self.service.ok_or_else(|| {
            CliError::new(
                "SERVICE_UNREACHABLE",
                "no service is running on this data folder: start one with `causerie serve`",
            )
        })
    }
}

/// Checks the host's support for settings: disk, machine drivers, programs. The program that contains the guest program
/// provides it, because trying a driver starts a machine.
pub type HostChecks = for<'a> fn(&'a ServiceSettings) -> BoxFuture<'a, Vec<Check>>;

/// Facts about the running service for its operators.
#[derive(Clone)]
pub struct ServiceFacts {
    pub catalog: Arc<Catalog>,
    pub settings: Arc<ServiceSettings>,
    pub service: Arc<CauserieService>,
    /// The URL at which it listens.
    pub address: String,
    pub started_at: Timestamp,
    /// The machine driver.
    pub driver: Arc<machine::Driver>,
    /// Checks the host.
    pub host_checks: HostChecks,
}

/// A text that is serialized on the socket but not shown in debug output.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct RequestSecret(pub(crate) String);

impl std::fmt::Debug for RequestSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}
