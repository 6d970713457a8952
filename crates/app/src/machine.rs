//! The page of the account's machine.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use control::{Conversations, PublicCode, Vm};
use domain::machine::MachineStatus;

use crate::frame::Frame;
use crate::visit::User;
use crate::{error, paths};

#[derive(Template)]
#[template(path = "machine.html")]
struct MachinePage {
    frame: Frame,
    /// The state; `None` for an account without a machine.
    status: Option<StatusView>,
}

struct StatusView {
    /// `running`, `stopped`, `starting` or `stopping`.
    word: &'static str,
    text: String,
    explanation: String,
    is_changing: bool,
    is_running: bool,
}

/// The use cases of the page.
#[derive(Clone)]
pub(crate) struct MachineState {
    pub(crate) vm: Vm,
    pub(crate) conversations: Conversations,
}

/// Shows the state of the machine.
pub(crate) async fn show(State(state): State<MachineState>, user: User) -> Result<Response, Response> {
    let frame = Frame::load(&state.conversations, &user, None).await?;
    let texts = user.visitor.texts;
    let status = match state.vm.status(&user.signed_in.principal).await {
        Ok(status) => Some(status),
        Err(error) if error.code() == PublicCode::NoMachine => None,
        Err(error) => return Err(user.failed(error)),
    };
    let status = status.map(|status| {
        let (word, text, explanation) = match status {
            MachineStatus::Running => {
                ("running", texts.get("machine-running"), texts.get("machine-running-note"))
            }
            MachineStatus::Stopped => {
                ("stopped", texts.get("machine-stopped"), texts.get("machine-stopped-note"))
            }
            MachineStatus::Starting => {
                ("starting", texts.get("machine-starting"), texts.get("machine-changing-note"))
            }
            MachineStatus::Stopping => {
                ("stopping", texts.get("machine-stopping"), texts.get("machine-changing-note"))
            }
        };
        let is_changing = matches!(status, MachineStatus::Starting | MachineStatus::Stopping);
        let is_running = matches!(status, MachineStatus::Running | MachineStatus::Starting);
        StatusView { word, text, explanation, is_changing, is_running }
    });
    Ok(error::rendered(&MachinePage { frame, status }))
}

/// Starts the machine.
pub(crate) async fn start(State(vm): State<Vm>, user: User) -> Result<Response, Response> {
    vm.start(&user.signed_in.principal).await.map_err(|error| user.failed(error))?;
    Ok(Redirect::to(paths::MACHINE).into_response())
}

/// Stops the machine.
pub(crate) async fn stop(State(vm): State<Vm>, user: User) -> Result<Response, Response> {
    vm.stop(&user.signed_in.principal).await.map_err(|error| user.failed(error))?;
    Ok(Redirect::to(paths::MACHINE).into_response())
}
