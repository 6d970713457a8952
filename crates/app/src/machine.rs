//! The page of the account's machine.

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use control::vm::MachineDescription;
use control::{Conversations, Files, PublicCode, Vm};
use domain::machine::MachineStatus;

use crate::frame::Frame;
use crate::shown_size::shown_size;
use crate::texts::Texts;
use crate::visit::User;
use crate::{error, paths};

#[derive(Template)]
#[template(path = "machine.html")]
struct MachinePage {
    frame: Frame,
    /// The state; `None` for an account without a machine.
    status: Option<StatusView>,
    /// Names and values of what is known besides.
    facts: Vec<(String, String)>,
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
    pub(crate) files: Files,
    pub(crate) conversations: Conversations,
}

/// Shows the state of the machine.
pub(crate) async fn show(State(state): State<MachineState>, user: User) -> Result<Response, Response> {
    let frame = Frame::load(&state.conversations, &user, None).await?;
    let texts = user.visitor.texts;
    let described = match state.vm.describe(&user.signed_in.principal).await {
        Ok(described) => Some(described),
        Err(error) if error.code() == PublicCode::NoMachine => None,
        Err(error) => return Err(user.failed(error)),
    };
    let facts = match &described {
        Some(described) => state.facts(&user, described).await?,
        None => Vec::new(),
    };
    let status = described.map(|described| {
        let status = described.status;
        let text = state_in_words(texts, status);
        let (word, explanation) = match status {
            MachineStatus::Running => ("running", texts.get("machine-running-note")),
            MachineStatus::Stopped => ("stopped", texts.get("machine-stopped-note")),
            MachineStatus::Starting => ("starting", texts.get("machine-changing-note")),
            MachineStatus::Stopping => ("stopping", texts.get("machine-changing-note")),
        };
        let is_changing = matches!(status, MachineStatus::Starting | MachineStatus::Stopping);
        let is_running = matches!(status, MachineStatus::Running | MachineStatus::Starting);
        StatusView { word, text, explanation, is_changing, is_running }
    });
    Ok(error::rendered(&MachinePage { frame, status, facts }))
}

/// Returns a state of a machine in words.
pub(crate) fn state_in_words(texts: Texts, status: MachineStatus) -> String {
    texts.get(match status {
        MachineStatus::Running => "machine-running",
        MachineStatus::Stopped => "machine-stopped",
        MachineStatus::Starting => "machine-starting",
        MachineStatus::Stopping => "machine-stopping",
    })
}

impl MachineState {
    async fn facts(
        &self,
        user: &User,
        described: &MachineDescription,
    ) -> Result<Vec<(String, String)>, Response> {
        let texts = user.visitor.texts;
        let workspace = self.files.of(&user.signed_in.principal).map_err(|error| user.failed(error))?;
        let usage = workspace.usage().await.map_err(|error| user.failed(error))?;
        let (size, files) =
            (shown_size(texts, usage.bytes), texts.with("machine-files", "count", usage.files));
        let mut facts = vec![
            (texts.get("machine-driver"), described.driver.clone()),
            (texts.get("machine-isolation"), described.isolation.to_owned()),
            (texts.get("machine-disk"), format!("{size} · {files}")),
        ];
        if let Some(bytes) = described.memory_bytes {
            facts.push((texts.get("machine-memory"), shown_size(texts, bytes)));
        }
        if let Some(reason) = &described.reason {
            facts.push((texts.get("machine-reason"), reason.clone()));
        }
        Ok(facts)
    }
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
