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
    /// Also the simplest way to try a key. A machine that does not run need not be waited for before asking: a question
    /// starts it.
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
    /// Answers `STARTING` from any state; what is really the case tells the machine's state. A machine that runs goes on,
    /// one that is stopping starts once it has stopped. A question starts the machine by itself.
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
    /// Answers `STOPPING` from any state. A start under way is abandoned. Answers under way wait until the machine is
    /// started, or a new question starts it. Files stay.
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
