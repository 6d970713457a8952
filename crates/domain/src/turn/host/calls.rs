//! The calls of the last step: who runs them, and what comes of them.

use std::sync::Arc;

use super::{Effect, Turn};
use crate::answer::{Change, LogEntry};
use crate::citation::{self, NumberedPassage};
use crate::id::InstanceId;
use crate::image::ImageRef;
use crate::limits::SOURCES_MAX;
use crate::step::{Call, CallResult, Outcome, Purpose};
use crate::turn::{CallNote, HostFrame, Output};
use crate::unread::{UNREAD_MAX, UnreadFile, UnreadReason};

impl Turn {
    /// The calls of the last step that have no result in the log, with the life that they were given to; before the
    /// first step, the one that reads what is attached.
    pub(super) fn pending(&self) -> Vec<(InstanceId, Call)> {
        let last = self.log.iter().rposition(|entry| matches!(entry, LogEntry::Step { .. }));
        let Some((LogEntry::Step { step, instance, .. }, after)) =
            last.and_then(|at| self.log[at..].split_first())
        else {
            let attached = self.setup.attached.iter().filter(|call| !is_returned(&self.log, call));
            return attached.map(|call| (InstanceId::from_random(0), call.clone())).collect();
        };
        let returned = |call: &Call| is_returned(after, call);
        step.calls().filter(|call| !returned(call)).map(|call| (*instance, call.clone())).collect()
    }

    /// The pending calls in the model's order, with whether each may run now. Effectful ones run one after another,
    /// whoever runs them: the next one once the result of the one ahead is in the log. Only those of the agent that
    /// follow each other are given to it together, because it keeps that order itself.
    fn in_order(&self) -> Vec<(Call, bool)> {
        let (mut host_ahead, mut agent_ahead) = (false, false);
        let mut ordered = Vec::new();
        for (_, call) in self.pending() {
            let (hosted, repeats) = (self.is_hosted(&call), self.repeats(&call.tool));
            let due = repeats || !(host_ahead || hosted && agent_ahead);
            host_ahead |= hosted && !repeats;
            agent_ahead |= !hosted && !repeats;
            ordered.push((call, due));
        }
        ordered
    }

    /// The pending calls as the agent is told of them. One that is not due yet is told as the host's, for which the
    /// agent only waits; it is given out by the link that is made once it is due.
    pub(super) fn notes(&mut self) -> Vec<CallNote> {
        let ordered = self.in_order();
        let withheld = ordered.iter().filter(|(call, due)| !due && !self.is_hosted(call));
        self.withheld = withheld.map(|(call, _)| call.id.clone()).collect();
        let note = |(call, due): (Call, bool)| {
            let hosted = self.is_hosted(&call) || !due;
            CallNote { repeatable: self.repeats(&call.tool), hosted, call }
        };
        ordered.into_iter().map(note).collect()
    }

    /// Whether a call of the agent's is due of which it was told to wait for it.
    fn is_withheld_call_due(&self) -> bool {
        self.in_order().iter().any(|(call, due)| *due && self.withheld.contains(&call.id))
    }

    /// Whether the agent has a call to run.
    pub(super) fn is_agent_due(&self) -> bool {
        self.in_order().iter().any(|(call, due)| *due && !self.is_hosted(call))
    }

    fn is_hosted(&self, call: &Call) -> bool {
        self.setup.hosted.runs(&call.tool)
    }

    fn repeats(&self, tool: &str) -> bool {
        self.setup.hosted.repeats(tool)
    }

    /// Reports the calls that the host ran in an earlier lease and that are not run again: whatever ran them is gone.
    pub(super) fn report_cut(&mut self, effects: &mut Vec<Effect>) {
        for (_, call) in self.pending() {
            if self.setup.hosted.runs(&call.tool) && !self.setup.hosted.repeats(&call.tool) {
                self.commit_result(interrupted(call), effects);
            }
        }
    }

    /// Effectful calls that were given to another life of the agent and have no result are not run again.
    pub(super) fn report_interrupted(&mut self, instance: InstanceId, effects: &mut Vec<Effect>) {
        for (given_to, call) in self.pending() {
            let under_way = self.committing.iter().any(|result| result.call == call.id);
            let elsewhere = self.setup.hosted.runs(&call.tool) || self.repeats(&call.tool);
            if given_to != instance && !under_way && !elsewhere {
                self.commit_result(interrupted(call), effects);
            }
        }
    }

    /// Lets the host run those pending calls that are its own and may run now.
    pub(super) fn run_hosted(&mut self, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        for (call, due) in self.in_order() {
            let committing = self.committing.iter().any(|result| result.call == call.id);
            if due && self.is_hosted(&call) && !committing && !self.running.contains(&call.id) {
                self.running.push(call.id.clone());
                effects.push(Effect::Run(call));
            }
        }
    }

    /// Takes what came of a call from whoever was to run it, and tells whether it was due: an agent has no say in a
    /// call of the host's, nor in one that it was not given yet.
    pub(super) fn returned(
        &mut self,
        call: &str,
        output: Output,
        by_host: bool,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let over = self.ending.is_some();
        let under_way = over || self.committing.iter().any(|result| result.call == call);
        let pending = self.in_order().into_iter().find(|(pending, _)| pending.id == call);
        let theirs = |call: &Call| self.is_hosted(call) == by_host;
        let Some((call, _)) = pending.filter(|(call, due)| !under_way && *due && theirs(call)) else {
            return false;
        };
        let room = SOURCES_MAX.saturating_sub(self.next_source - 1) as usize;
        let numbered = output.passages.into_iter().take(room).zip(self.next_source..);
        let passages: Vec<_> = numbered
            .map(|(passage, number)| NumberedPassage { number, place: passage.place, text: passage.text })
            .collect();
        let text = match call.purpose {
            // It cites its passages by their places among them.
            Purpose::Agent(_) => citation::renumber(&output.text, |place| {
                Some(passages.get((place as usize).checked_sub(1)?)?.number)
            }),
            Purpose::Tool | Purpose::Skill(_) | Purpose::WebSearch { .. } => output.text,
        };
        self.next_source += u32::try_from(passages.len()).unwrap_or(0);
        let unread = self.unread_by_model(output.unread, &output.images);
        let result = CallResult {
            images: output.images,
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

    fn commit_result(&mut self, result: CallResult, effects: &mut Vec<Effect>) {
        let result = Arc::new(result);
        self.committing.push(result.clone());
        effects.push(Effect::CommitResult { number: self.next().saturating_sub(1), result });
    }

    pub(super) fn result_committed(&mut self, call: &str, effects: &mut Vec<Effect>) {
        let Some(at) = self.committing.iter().position(|result| result.call == call) else { return };
        let result = self.committing.remove(at);
        let entry = LogEntry::Result { number: self.next().saturating_sub(1), result: result.clone() };
        let note = self.transcript.add(&entry);
        self.log.push(entry);
        self.publish(Change::Resulted { result }, effects);
        if let Some(note) = note
            && self.opened
        {
            let call = call.to_owned();
            effects.push(Effect::Send(HostFrame::Acknowledged { call, entry: note }));
        }
        self.running.retain(|running| running != call);
        self.run_hosted(effects);
        if self.opened && self.ending.is_none() && self.is_withheld_call_due() {
            self.unlinked();
            effects.push(Effect::Relink);
        }
    }
}

impl Turn {
    /// The files that the model could not read: images are read by those that are shown them.
    fn unread_by_model(&self, mut unread: Vec<UnreadFile>, images: &[ImageRef]) -> Vec<UnreadFile> {
        if self.setup.sees_images {
            unread.retain(|file| file.reason != UnreadReason::Image);
        } else {
            let image =
                |image: &ImageRef| UnreadFile { path: image.path.clone(), reason: UnreadReason::Image };
            unread.extend(images.iter().map(image));
        }
        unread.truncate(UNREAD_MAX);
        unread
    }
}

fn is_returned(log: &[LogEntry], call: &Call) -> bool {
    log.iter().any(|entry| match entry {
        LogEntry::Result { result, .. } => result.call == call.id,
        LogEntry::Step { .. } | LogEntry::Summary { .. } => false,
    })
}

/// What a call comes to that may have run and is not run again.
fn interrupted(call: Call) -> CallResult {
    CallResult {
        images: Vec::new(),
        call: call.id,
        tool: call.tool,
        outcome: Outcome::Interrupted,
        text: "Interrupted by a restart: this call may or may not have run, and was not run again."
            .to_owned(),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    }
}
