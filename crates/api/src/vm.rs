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
    get_vm = get "/api/v1/vm" as "getVm" => status;
    needs: &Permission::ALL;
    schema:
        tag = "Machine",
        responses((status = 200, description = "The machine's state", body = VmStatus), error_responses::VmStatus),
}

pub(crate) async fn status(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<Json<VmStatus>> {
    Ok(Json(VmStatus::of(vm.status(&principal).await?)))
}

operation! {
    /// Start the machine
    ///
    /// Answers `STARTING` from any state; what is really the case tells the machine's state. A machine that runs goes on,
    /// one that is stopping starts once it has stopped. A question starts the machine by itself.
    start_vm = post "/api/v1/vm/start" as "startVm" => start;
    needs: &[Machine];
    schema:
        tag = "Machine",
        responses(
            (status = 202, description = "The machine will start", body = VmStatus, example = json!({"status": "STARTING"})),
            error_responses::VmCommand,
        ),
}

pub(crate) async fn start(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<(StatusCode, Json<VmStatus>)> {
    vm.start(&principal).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::of(MachineStatus::Starting))))
}

operation! {
    /// Stop the machine
    ///
    /// Answers `STOPPING` from any state. A start under way is abandoned. Answers under way wait until the machine is
    /// started, or a new question starts it. Files stay.
    stop_vm = post "/api/v1/vm/stop" as "stopVm" => stop;
    needs: &[Machine];
    schema:
        tag = "Machine",
        responses(
            (status = 202, description = "The machine will stop", body = VmStatus, example = json!({"status": "STOPPING"})),
            error_responses::VmCommand,
        ),
}

pub(crate) async fn stop(
    State(vm): State<Vm>,
    Extension(principal): Extension<Principal>,
) -> ApiResult<(StatusCode, Json<VmStatus>)> {
    vm.stop(&principal).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::of(MachineStatus::Stopping))))
}
