//! The calls of the last step: their order, where they run, and their results.

use std::sync::Arc;

use super::{Turn, TurnEffect};
use crate::answer::{AnswerChange, LogEntry};
use crate::citation::{self, NumberedPassage, PassagePlace, Renumbered};
use crate::id::InstanceId;
use crate::image::ImageRef;
use crate::limits::SOURCES_MAX;
use crate::step::{CallResult, Purpose, StepCall, StepOutcome};
use crate::turn::{CallOutput, HostFrame};
use crate::unread::{UNREAD_MAX, UnreadFile, UnreadReason};

impl Turn {
    /// Returns the calls of the last step without a result in the log. Before the first step, returns the calls that
    /// read the instructions and the attachments.
    pub(super) fn pending_calls(&self) -> Vec<StepCall> {
        let last = self.log.iter().rposition(|entry| matches!(entry, LogEntry::Step { .. }));
        let Some((LogEntry::Step { step, .. }, after)) = last.and_then(|at| self.log[at..].split_first())
        else {
            let first = self.setup.instructions.iter().chain(&self.setup.attached);
            return first.filter(|call| !is_returned(&self.log, call)).cloned().collect();
        };
        step.tool_calls().filter(|call| !is_returned(after, call)).cloned().collect()
    }

    /// Returns the pending calls in the model's order, and whether each may run now. Repeatable calls run
    /// concurrently. Effectful ones run one after another, on the host or in the machine: each starts once
    /// the result of the previous one is in the log. A call that awaits an approval may not run yet, nor may the
    /// effectful ones after it. Calls whose results come from outside are no part of the order.
    fn in_order(&self) -> Vec<(StepCall, bool)> {
        let mut effectful_ahead = false;
        let mut ordered = Vec::new();
        for call in self.pending_calls() {
            if self.is_run_outside(&call.id) {
                continue;
            }
            let repeatable = self.is_repeatable(&call.tool);
            let is_permitted = self.awaited_kind(&call.id).is_none();
            ordered.push((call, is_permitted && (repeatable || !effectful_ahead)));
            effectful_ahead |= !repeatable;
        }
        ordered
    }

    /// Returns `true` if a call may run now, or is running.
    pub(super) fn has_due_call(&self) -> bool {
        self.in_order().iter().any(|(_, due)| *due)
    }

    /// Starts the calls that may run now and are not running yet.
    pub(super) fn start_calls(&mut self, effects: &mut Vec<TurnEffect>) {
        for (call, due) in self.in_order() {
            if !due || self.is_committing(&call.id) {
                continue;
            }
            if self.lacks_instance() && !self.is_repeatable(&call.tool) {
                return self.name_instance(effects);
            }
            if self.runs_on_host(&call) {
                if !self.running.contains(&call.id) {
                    self.running.push(call.id.clone());
                    effects.push(TurnEffect::RunTool(call));
                }
            } else if self.executor.session.is_connected()
                && !self.executor.session.sent_calls().contains(&call.id)
            {
                self.send_call(call, effects);
            }
        }
    }

    /// Returns the machine's calls that have no committed result, whether or not they may run yet.
    pub(super) fn outstanding_calls(&self) -> Vec<String> {
        let pending = self.pending_calls().into_iter();
        let of_machine = |call: &StepCall| !self.is_run_outside(&call.id) && !self.runs_on_host(call);
        pending.filter(of_machine).map(|call| call.id).collect()
    }

    /// Returns `true` if the machine has a call to run, or must be connected before one can begin.
    pub(super) fn is_machine_due(&self) -> bool {
        let lacks_instance = self.lacks_instance();
        self.in_order().iter().any(|(call, due)| {
            *due && (!self.runs_on_host(call) || (lacks_instance && !self.is_repeatable(&call.tool)))
        })
    }

    fn runs_on_host(&self, call: &StepCall) -> bool {
        self.setup.router.runs_on_host(&call.tool)
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        self.setup.router.is_repeatable(tool)
    }

    fn is_committing(&self, call: &str) -> bool {
        self.committing.iter().any(|result| result.call == call)
    }

    /// Reports the effectful calls that the host ran in an earlier lease: they are interrupted and never run again.
    pub(super) fn report_cut(&mut self, effects: &mut Vec<TurnEffect>) {
        for call in self.pending_calls() {
            let may_have_begun = self.runs_on_host(&call) && self.begun_with(&call.id).is_some();
            if may_have_begun && !self.is_run_outside(&call.id) && !self.is_repeatable(&call.tool) {
                self.commit_result(interrupted_result(call), effects);
            }
        }
    }

    /// Reports the effectful calls that may have begun with another machine instance: they are interrupted and never run
    /// again.
    pub(super) fn report_interrupted(&mut self, instance: InstanceId, effects: &mut Vec<TurnEffect>) {
        for call in self.pending_calls() {
            let elsewhere =
                self.is_run_outside(&call.id) || self.runs_on_host(&call) || self.is_repeatable(&call.tool);
            let is_lost = self.begun_with(&call.id).is_some_and(|named| named != instance);
            if is_lost && !elsewhere && !self.is_committing(&call.id) {
                self.commit_result(interrupted_result(call), effects);
            }
        }
    }

    /// Handles the output of a call and returns whether it was expected: the machine must not return a call
    /// of the host, or one that it was not sent.
    pub(super) fn accept_output(
        &mut self,
        call: &str,
        output: CallOutput,
        by_host: bool,
        effects: &mut Vec<TurnEffect>,
    ) -> bool {
        let started = if by_host { self.running.as_slice() } else { self.executor.session.sent_calls() };
        if self.ending.is_some() || self.is_committing(call) || !started.iter().any(|id| id == call) {
            return false;
        }
        let Some(call) = self.pending_calls().into_iter().find(|pending| pending.id == call) else {
            return false;
        };
        let room = SOURCES_MAX.saturating_sub(self.next_source - 1) as usize;
        let numbered = output.passages.into_iter().take(room).zip(self.next_source..);
        let passages: Vec<_> = numbered
            .map(|(passage, number)| NumberedPassage { number, place: passage.place, text: passage.text })
            .collect();
        let text = match call.purpose {
            // Its marks are indexes into its own passages.
            Purpose::Agent(_) => citation::renumber_marks(&output.text, |place| {
                let passage = (place as usize).checked_sub(1).and_then(|index| passages.get(index));
                passage.map_or(Renumbered::Dropped, |passage| Renumbered::To(passage.number))
            }),
            Purpose::Tool | Purpose::Skill(_) | Purpose::WebSearch { .. } => output.text,
        };
        self.next_source += u32::try_from(passages.len()).unwrap_or(0);
        let mut images = output.images;
        if !self.setup.sees_images {
            images.retain(|image| image.page.is_none());
        }
        let unread = self.unread_by_model(output.unread, &images, &passages);
        let result = CallResult {
            images,
            call: call.id,
            tool: call.tool,
            outcome: output.outcome,
            text,
            passages,
            written: output.written,
            unread,
        };
        self.commit_result(result, effects);
        true
    }

    pub(super) fn commit_result(&mut self, result: CallResult, effects: &mut Vec<TurnEffect>) {
        let result = Arc::new(result);
        self.committing.push(result.clone());
        effects.push(TurnEffect::CommitResult { number: self.next_step_number().saturating_sub(1), result });
    }

    pub(super) fn result_committed(&mut self, call: &str, effects: &mut Vec<TurnEffect>) {
        let Some(at) = self.committing.iter().position(|result| result.call == call) else { return };
        let result = self.committing.remove(at);
        let entry =
            LogEntry::Result { number: self.next_step_number().saturating_sub(1), result: result.clone() };
        self.transcript.add_log_entry(&entry);
        self.log.push(entry);
        self.publish_change(AnswerChange::Resulted { result }, effects);
        self.running.retain(|running| running != call);
        if self.executor.session.remove_call(call) {
            effects.push(TurnEffect::Send(HostFrame::Ack { call: call.to_owned() }));
        }
    }
}

impl Turn {
    /// Returns the unread files from the model's view: images count as read if they are shown to it, or if it is given
    /// their recognized text.
    fn unread_by_model(
        &self,
        mut unread: Vec<UnreadFile>,
        images: &[ImageRef],
        passages: &[NumberedPassage],
    ) -> Vec<UnreadFile> {
        if self.setup.sees_images {
            unread.retain(|file| file.reason != UnreadReason::Image);
        } else {
            let image =
                |image: &ImageRef| UnreadFile { path: image.path.clone(), reason: UnreadReason::Image };
            let is_text = |image: &&ImageRef| {
                let of_it = |place: &PassagePlace| matches!(place, PassagePlace::File { path, .. } if *path == image.path);
                passages.iter().any(|passage| of_it(&passage.place))
            };
            unread.extend(images.iter().filter(|image| !is_text(image)).map(image));
        }
        unread.truncate(UNREAD_MAX);
        unread
    }
}

fn is_returned(log: &[LogEntry], call: &StepCall) -> bool {
    log.iter().any(|entry| match entry {
        LogEntry::Result { result, .. } => result.call == call.id,
        LogEntry::Step { .. } | LogEntry::Summary { .. } => false,
    })
}

/// Creates the result of a call that may have run and is not run again.
fn interrupted_result(call: StepCall) -> CallResult {
    CallResult {
        images: Vec::new(),
        call: call.id,
        tool: call.tool,
        outcome: StepOutcome::Interrupted,
        text: "Interrupted by a restart: this call may or may not have run, and was not run again."
            .to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}
