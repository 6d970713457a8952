//! Operations on the machine (section 4.1).

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use control::{Principal, Vm};
use domain::machine::MachineStatus;
use domain::scope::Permission::{self, Machine};

use crate::error::ApiResult;
use crate::openapi::error_responses;
use crate::operations::operation;
use crate::wire::VmStatus;

operation! {
    /// Get the machine's state
    ///
    /// Also the simplest way to check a key. Before asking, there is no need to wait for a machine that is not
    /// running: a question starts it.
    get_vm = get "/api/v1/vm" as "getVm" => read_machine_status;
    needs: &Permission::ALL;
    schema:
        tag = "Machine",
        responses((status = 200, description = "The machine's state", body = VmStatus), error_responses::VmStatus),
}

pub(crate) async fn read_machine_status(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<Json<VmStatus>> {
    Ok(Json(VmStatus::from_status(vm.machine_status(&principal).await?)))
}

operation! {
    /// Start the machine
    ///
    /// Returns `STARTING` in any state; get the machine's state for its progress. A running machine keeps
    /// running, and a stopping one starts once it has stopped. A question starts the machine by itself.
    start_vm = post "/api/v1/vm/start" as "startVm" => start_machine;
    needs: &[Machine];
    schema:
        tag = "Machine",
        responses(
            (status = 202, description = "The machine will start", body = VmStatus, example = json!({"status": "STARTING"})),
            error_responses::VmCommand,
        ),
}

pub(crate) async fn start_machine(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<(StatusCode, Json<VmStatus>)> {
    vm.start_machine(&principal).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::from_status(MachineStatus::Starting))))
}

operation! {
    /// Stop the machine
    ///
    /// Returns `STOPPING` in any state. A start in progress is cancelled. Answers in progress wait until the
    /// machine is started, by this API or by a new question. Files are kept.
    stop_vm = post "/api/v1/vm/stop" as "stopVm" => stop_machine;
    needs: &[Machine];
    schema:
        tag = "Machine",
        responses(
            (status = 202, description = "The machine will stop", body = VmStatus, example = json!({"status": "STOPPING"})),
            error_responses::VmCommand,
        ),
}

pub(crate) async fn stop_machine(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<(StatusCode, Json<VmStatus>)> {
    vm.stop_machine(&principal).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::from_status(MachineStatus::Stopping))))
}
