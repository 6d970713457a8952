//! The page of the account's machine.

use ::machine::Kernel;
use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use control::vm::MachineDescription;
use control::{Conversations, FileService, PublicCode, Vm};
use domain::machine::{ChangeReason, MachineStatus};

use crate::frame::PageFrame;
use crate::shown_size::shown_size;
use crate::texts::Texts;
use crate::visit::SignedInVisitor;
use crate::{error, paths};

#[derive(Template)]
#[template(path = "machine.html")]
struct MachinePage {
    frame: PageFrame,
    /// The state; `None` for an account without a machine.
    status: Option<StatusView>,
    /// Names and values of further facts.
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
    pub(crate) files: FileService,
    pub(crate) conversations: Conversations,
}

/// Shows the state of the machine.
pub(crate) async fn show_machine(
    State(state): State<MachineState>,
    user: SignedInVisitor,
) -> Result<Response, Response> {
    let frame = PageFrame::load(&state.conversations, &user, None).await?;
    let texts = user.visitor.texts;
    let described = match state.vm.describe_machine(&user.signed_in.principal).await {
        Ok(described) => Some(described),
        Err(error) if error.code() == PublicCode::NoMachine => None,
        Err(error) => return Err(user.failure_response(error)),
    };
    let facts = match &described {
        Some(described) => state.machine_facts(&user, described).await?,
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
    Ok(error::render_template(&MachinePage { frame, status, facts }))
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

/// Returns the isolation of the machine in words.
fn isolation_in_words(texts: Texts, described: &MachineDescription) -> String {
    match described.kernel {
        Some(Kernel::Host) => texts.get("machine-isolation-sandbox"),
        Some(Kernel::UserModeLinux) => texts.get("machine-isolation-kernel"),
        Some(Kernel::Qemu) => texts.get("machine-isolation-vm"),
        None => described.isolation.to_owned(),
    }
}

/// Returns the reason of a change in words. A technical cause is not translated.
pub(crate) fn reason_in_words(texts: Texts, reason: &ChangeReason) -> String {
    let key = match reason {
        ChangeReason::StartRequested => "machine-reason-start",
        ChangeReason::StopRequested => "machine-reason-stop",
        ChangeReason::Answer => "machine-reason-answer",
        ChangeReason::FoundRunning => "machine-reason-found-running",
        ChangeReason::FoundStopped => "machine-reason-found-stopped",
        ChangeReason::Idle => "machine-reason-idle",
        ChangeReason::IdleWithMuchMemory => "machine-reason-idle-memory",
        ChangeReason::QuotaExceeded(_) => "machine-reason-quota",
        ChangeReason::StartFailed(_) => "machine-reason-start-failed",
        ChangeReason::Lost(_) => "machine-reason-lost",
        ChangeReason::StopFailed(_) => "machine-reason-stop-failed",
        ChangeReason::Other(text) => return text.clone(),
    };
    let words = texts.get(key);
    reason.cause().map_or(words.clone(), |cause| format!("{words}: {cause}"))
}

/// Returns the driver with the kind of its limits, such as `uml (limits: cgroup2)`, in the words of the page.
pub(crate) fn driver_in_words(texts: Texts, driver: &str) -> String {
    let parts = driver.strip_suffix(')').and_then(|driver| driver.split_once(" (limits: "));
    parts.map_or_else(
        || driver.to_owned(),
        |(name, limits)| format!("{name} ({})", texts.with("machine-limits", "limits", limits)),
    )
}

impl MachineState {
    async fn machine_facts(
        &self,
        user: &SignedInVisitor,
        described: &MachineDescription,
    ) -> Result<Vec<(String, String)>, Response> {
        let texts = user.visitor.texts;
        let workspace = self
            .files
            .workspace_of(&user.signed_in.principal)
            .map_err(|error| user.failure_response(error))?;
        let usage = workspace.usage().await.map_err(|error| user.failure_response(error))?;
        let (size, files) =
            (shown_size(texts, usage.bytes), texts.with("machine-files", "count", usage.files));
        let mut facts = vec![
            (texts.get("machine-driver"), driver_in_words(texts, &described.driver)),
            (texts.get("machine-isolation"), isolation_in_words(texts, described)),
            (texts.get("machine-disk"), format!("{size} · {files}")),
        ];
        if let Some(bytes) = described.memory_bytes {
            facts.push((texts.get("machine-memory"), shown_size(texts, bytes)));
        }
        if let Some(reason) = &described.reason {
            facts.push((texts.get("machine-reason"), reason_in_words(texts, reason)));
        }
        Ok(facts)
    }
}

pub(crate) async fn start_machine(State(vm): State<Vm>, user: SignedInVisitor) -> Result<Response, Response> {
    vm.start_machine(&user.signed_in.principal).await.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to(paths::MACHINE).into_response())
}

pub(crate) async fn stop_machine(State(vm): State<Vm>, user: SignedInVisitor) -> Result<Response, Response> {
    vm.stop_machine(&user.signed_in.principal).await.map_err(|error| user.failure_response(error))?;
    Ok(Redirect::to(paths::MACHINE).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language::PageLanguage;

    #[test]
    fn driver_in_words_translates_limits() {
        let words = |driver| {
            driver_in_words(Texts(PageLanguage::Slovak), driver).replace(['\u{2068}', '\u{2069}'], "")
        };
        assert_eq!(words("uml (limits: cgroup2)"), "uml (limity: cgroup2)");
        assert_eq!(words("sandbox"), "sandbox");
    }
}
