//! Carries out requests: by the running service, or on the data folder if none runs.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use control::{Admin, DiskReserve, DiskReserveConfig, ServiceEnvironment};
use settings::DataLocations;
use workspace::Quota;

use crate::data::{self, DataFolderHolder};
use crate::error::CliError;
use crate::location::{Where, load_locations_as_caller, unusable_data_folder_error};
use crate::request::{DatabaseUse, ExecutionContext, OperatorRequest};
use crate::socket;

/// Carries out a request like [`carry_out`], on the data of this location.
pub(crate) async fn carry_out_at<R: OperatorRequest>(at: &Where, request: R) -> Result<R::Reply, CliError> {
    carry_out(&load_locations_as_caller(at)?, request).await
}

/// Sends the request to the service. Without a service, locks the data folder and carries out the request on it.
pub(crate) async fn carry_out<R: OperatorRequest>(
    places: &DataLocations,
    request: R,
) -> Result<R::Reply, CliError> {
    let data = places.data.as_path();
    let unusable = |error: std::io::Error| unusable_data_folder_error(data, &error);
    let needs_database = match request.database_use() {
        DatabaseUse::Created => false,
        DatabaseUse::Optional => !data.join(data::NODE).exists(),
        DatabaseUse::Required => true,
    };
    let is_missing = || match data.join(data::DATABASE).metadata() {
        Ok(metadata) => Ok(!metadata.is_file()),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(unusable(error)),
        Err(_) => Ok(true),
    };
    if needs_database
        && places.database.is_none()
        && is_missing()?
        && socket::connect_service(data).await.is_none()
    {
        return Err(missing_database_error(data));
    }
    let data = data::prepare_data_folder(data).map_err(unusable)?;
    match data::acquire_data_folder(&data).await.map_err(unusable)? {
        DataFolderHolder::Service(service) => socket::ask_service(service, &request).await,
        DataFolderHolder::Us(lock) => {
            let answered = execute_offline(&data, places, request).await;
            drop(lock);
            answered
        }
        DataFolderHolder::Nobody => {
            let message =
                format!("the data folder is locked by a process that does not respond: {}", data.display());
            Err(CliError::new("DATA_FOLDER_BUSY", message))
        }
    }
}

fn missing_database_error(data: &Path) -> CliError {
    // A service that uses PostgreSQL leaves its identity in the folder, but no database.
    let elsewhere = if data.join(data::NODE).exists() {
        "; a service with PostgreSQL used this folder: name its database with CAUSERIE_DATABASE or in the configuration"
    } else {
        ""
    };
    let message = format!(
        "no database {}: name the data folder with --data or CAUSERIE_DATA{elsewhere}",
        data.join(data::DATABASE).display()
    );
    CliError::new("NO_DATABASE", message)
}

/// Carries out a request without a service, on the data folder that this process has locked.
async fn execute_offline<R: OperatorRequest>(
    data: &Path,
    places: &DataLocations,
    request: R,
) -> Result<R::Reply, CliError> {
    let folders = control::data_folder::machine_folders(data);
    let is_optional = request.database_use() == DatabaseUse::Optional;
    // Only the environment of the service may name its database.
    if is_optional && places.database.is_none() && !data.join(data::DATABASE).exists() {
        return request.execute_without_database(&folders).await;
    }
    DiskReserve::new(data, DiskReserveConfig::default()).make_room_to_start();
    let (database, accepts_empty) = (places.database.as_ref(), places.accept_empty_database);
    let (wait, quota, environment) = (Duration::ZERO, Quota::default(), ServiceEnvironment::system());
    let opened =
        control::provisioning::open_data(data, database, accepts_empty, wait, quota, &environment).await;
    let (store, workspaces) = match opened {
        Err(_) if is_optional => return request.execute_without_database(&folders).await,
        opened => opened?,
    };
    let admin = Admin::new(store.clone(), environment, workspaces, folders, None);
    let admin = admin.with_actor(format!("operator uid {}", rustix::process::getuid().as_raw()));
    let answered = request.execute(&ExecutionContext::new(&admin, None)).await;
    store.close().await;
    answered
}
