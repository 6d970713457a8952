//! The machine (section 4.1).

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use control::Vm;
use control::access::Caller;
use control::vm::MachineError;
use domain::machine::MachineStatus;

use crate::error::{Answered, ApiError};
use crate::wire::VmStatus;

/// `GET /vm`.
pub(crate) async fn status(
    State(vm): State<Vm>,
    Extension(caller): Extension<Caller>,
) -> Answered<Json<VmStatus>> {
    match vm.status(caller.account).await {
        Ok(status) => Ok(Json(VmStatus::of(status))),
        Err(error @ MachineError::NoMachine) => Err(ApiError::from(error).with_status(StatusCode::NOT_FOUND)),
        Err(error) => Err(error.into()),
    }
}

/// `POST /vm/start`.
pub(crate) async fn start(
    State(vm): State<Vm>,
    Extension(caller): Extension<Caller>,
) -> Answered<(StatusCode, Json<VmStatus>)> {
    vm.start(caller.account).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::of(MachineStatus::Starting))))
}

/// `POST /vm/stop`.
pub(crate) async fn stop(
    State(vm): State<Vm>,
    Extension(caller): Extension<Caller>,
) -> Answered<(StatusCode, Json<VmStatus>)> {
    vm.stop(caller.account).await?;
    Ok((StatusCode::ACCEPTED, Json(VmStatus::of(MachineStatus::Stopping))))
}
