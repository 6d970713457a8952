//! The agent's loop: which entries the model is shown, which calls run when, and what is told to the host.
//!
//! ```text
//!   Open / Step -> run calls -> Returned … Acknowledged (all) -> Want next step
//!   Open / Step without calls ------------------------------------> Done
//! ```
//!
//! Repeatable calls run side by side; effectful ones one after another, in the model's order. A call runs at
//! most once in the life of a loop; its result is sent again on a new link until it is acknowledged. A call that
//! the host runs is waited for: its acknowledgement is all that comes of it here.

use super::{AgentFrame, CallNote, EntryKind, EntryNote, HostFrame, LinkStamp, Open, Output};

/// The loop of one answer in one life of the agent.
#[derive(Debug, Clone, Default)]
pub struct Loop {
    link: LinkStamp,
    entries: Vec<EntryNote>,
    context_tokens: u64,
    /// The number of the next step to ask for.
    next: u32,
    /// Whether the host is at work on that step, or has been asked for it.
    asked: bool,
    calls: Vec<Run>,
    closed: bool,
}

#[derive(Debug, Clone)]
struct Run {
    note: CallNote,
    state: RunState,
}

#[derive(Debug, Clone)]
enum RunState {
    Waiting,
    Running,
    Returned(Output),
}

/// What happens to a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A frame of the host.
    Host {
        /// The link that it came over: the stamp of that link's `Open`.
        link: LinkStamp,
        /// The frame.
        frame: HostFrame,
    },
    /// A call that was started is over.
    Finished {
        /// The call.
        call: String,
        /// What came of it.
        output: Output,
    },
}

/// What a loop wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Tell the host, if there is a link.
    Send(AgentFrame),
    /// Start the call.
    Run(CallNote),
    /// Kill everything that was started and is not over.
    KillAll,
}

impl Loop {
    /// The newest link that opened this loop.
    #[must_use]
    pub fn link(&self) -> LinkStamp {
        self.link
    }

    /// Whether the host has closed it. A closed loop is kept, so that an older link cannot open it again.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Takes one event. Frames that repeat what is known, or come over an older link, change nothing.
    pub fn on(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::Host { frame: HostFrame::Open(open), .. } => self.open(open, &mut effects),
            Event::Host { link, frame } if link == self.link && !self.closed => {
                self.hear(frame, &mut effects)
            }
            Event::Host { .. } => {}
            Event::Finished { call, output } => self.finished(&call, output, &mut effects),
        }
        effects
    }

    fn hear(&mut self, frame: HostFrame, effects: &mut Vec<Effect>) {
        match frame {
            HostFrame::Open(_) => {}
            HostFrame::Step { number, entry, calls } => {
                if number != self.next || !self.asked {
                    return;
                }
                self.learn(entry);
                self.next += 1;
                self.asked = false;
                self.calls = calls.into_iter().map(|note| Run { note, state: RunState::Waiting }).collect();
                self.go_on(effects);
            }
            HostFrame::Acknowledged { call, entry } => {
                if !self.calls.iter().any(|run| run.note.call.id == call) {
                    return;
                }
                self.learn(entry);
                self.calls.retain(|run| run.note.call.id != call);
                if self.calls.is_empty() {
                    self.go_on(effects);
                }
            }
            HostFrame::Close => {
                self.closed = true;
                self.calls.clear();
                self.entries = Vec::new(); // it is remembered for long, and they are many
                effects.push(Effect::KillAll);
            }
        }
    }

    fn open(&mut self, open: Open, effects: &mut Vec<Effect>) {
        if open.link <= self.link || self.closed {
            return;
        }
        self.link = open.link;
        self.entries = open.entries;
        self.context_tokens = open.context_tokens;
        self.next = open.next;
        self.asked = open.saying;
        let known = std::mem::take(&mut self.calls);
        self.calls = open
            .pending
            .into_iter()
            .map(|note| {
                let state = known.iter().find(|run| run.note.call.id == note.call.id);
                Run { state: state.map_or(RunState::Waiting, |run| run.state.clone()), note }
            })
            .collect();
        for run in &self.calls {
            if let RunState::Returned(output) = &run.state {
                let frame = AgentFrame::Returned { call: run.note.call.id.clone(), output: output.clone() };
                effects.push(Effect::Send(frame));
            }
        }
        self.go_on(effects);
    }

    fn finished(&mut self, call: &str, output: Output, effects: &mut Vec<Effect>) {
        let Some(run) = self.calls.iter_mut().find(|run| run.note.call.id == call) else { return };
        if !matches!(run.state, RunState::Running) {
            return;
        }
        run.state = RunState::Returned(output.clone());
        effects.push(Effect::Send(AgentFrame::Returned { call: call.to_owned(), output }));
        self.start_calls(effects);
    }

    /// Starts what may start; asks for the next step, or says that it is done, when no call is left.
    fn go_on(&mut self, effects: &mut Vec<Effect>) {
        self.start_calls(effects);
        if !self.calls.is_empty() || self.asked {
            return;
        }
        let last = self.entries.iter().rfind(|entry| entry.present);
        if last.is_some_and(|entry| entry.kind == EntryKind::Step) {
            effects.push(Effect::Send(AgentFrame::Done { number: self.next.saturating_sub(1) }));
        } else {
            self.asked = true;
            let keep = chosen(&self.entries, self.context_tokens);
            effects.push(Effect::Send(AgentFrame::Want { number: self.next, keep }));
        }
    }

    fn start_calls(&mut self, effects: &mut Vec<Effect>) {
        let mut effectful_ahead = false;
        for run in &mut self.calls {
            if run.note.hosted {
                continue;
            }
            if matches!(run.state, RunState::Waiting) && (run.note.repeatable || !effectful_ahead) {
                run.state = RunState::Running;
                effects.push(Effect::Run(run.note.clone()));
            }
            let over = matches!(run.state, RunState::Returned(_));
            effectful_ahead |= !run.note.repeatable && !over;
        }
    }

    fn learn(&mut self, entry: EntryNote) {
        if !self.entries.iter().any(|known| known.id == entry.id) {
            self.entries.push(entry);
        }
    }
}

/// Which entries fit: everything, or else without the oldest tool results, then without the oldest
/// exchanges. The present question and what followed its last step always stay.
#[must_use]
pub fn chosen(entries: &[EntryNote], context_tokens: u64) -> Vec<u32> {
    let mut kept: Vec<&EntryNote> = entries.iter().collect();
    let mut total: u64 = kept.iter().map(|entry| entry.tokens).sum();
    let last_step = entries.iter().rposition(|entry| entry.kind == EntryKind::Step && entry.present);
    let recent = |entry: &EntryNote| {
        let tail = last_step.is_some_and(|at| entry.id >= entries[at].id);
        tail || (entry.present && entry.kind == EntryKind::Question)
    };
    for round in [EntryKind::Result, EntryKind::Step, EntryKind::Question] {
        kept.retain(|entry| {
            let goes = total > context_tokens
                && !recent(entry)
                && (entry.kind == round || (round != EntryKind::Result && !entry.present));
            if goes {
                total -= entry.tokens;
            }
            !goes
        });
    }
    kept.iter().map(|entry| entry.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::MessageId;
    use crate::step::{Call, Outcome, Purpose};

    fn note(id: u32, kind: EntryKind, tokens: u64, present: bool) -> EntryNote {
        EntryNote { id, kind, tokens, present }
    }

    fn call(id: &str, repeatable: bool) -> CallNote {
        let call = Call {
            id: id.to_owned(),
            tool: "t".to_owned(),
            arguments: "{}".to_owned(),
            purpose: Purpose::Tool,
        };
        CallNote { call, repeatable, hosted: false }
    }

    fn output() -> Output {
        Output {
            images: Vec::new(),
            outcome: Outcome::Done,
            text: String::new(),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    fn open(epoch: u64, pending: Vec<CallNote>) -> Event {
        let link = LinkStamp { epoch, link: 1 };
        let frame = HostFrame::Open(Open {
            answer: MessageId::from_random(1),
            link,
            entries: vec![note(0, EntryKind::Question, 10, true), note(1, EntryKind::Step, 10, true)],
            pending,
            next: 1,
            saying: false,
            context_tokens: 1000,
            attached: Vec::new(),
        });
        Event::Host { link, frame }
    }

    fn started(effects: &[Effect]) -> Vec<&str> {
        let ids = effects.iter().filter_map(|effect| match effect {
            Effect::Run(note) => Some(note.call.id.as_str()),
            Effect::Send(_) | Effect::KillAll => None,
        });
        ids.collect()
    }

    #[test]
    fn effectful_calls_run_one_after_another_and_repeatable_ones_beside_them() {
        let mut turn = Loop::default();
        let effects = turn.on(open(1, vec![call("w1", false), call("r", true), call("w2", false)]));
        assert_eq!(started(&effects), ["w1", "r"]);
        assert_eq!(started(&turn.on(Event::Finished { call: "r".into(), output: output() })), [""; 0]);
        assert_eq!(started(&turn.on(Event::Finished { call: "w1".into(), output: output() })), ["w2"]);
    }

    #[test]
    fn a_call_of_the_host_is_waited_for_and_not_run() {
        let mut turn = Loop::default();
        let hosted = CallNote { hosted: true, ..call("h", true) };
        assert_eq!(turn.on(open(1, vec![hosted])), [], "neither run, nor another step, nor done");
        let link = LinkStamp { epoch: 1, link: 1 };
        let entry = note(2, EntryKind::Result, 1, true);
        let frame = HostFrame::Acknowledged { call: "h".into(), entry };
        let effects = turn.on(Event::Host { link, frame });
        assert_eq!(effects, [Effect::Send(AgentFrame::Want { number: 1, keep: vec![0, 1, 2] })]);
    }

    #[test]
    fn a_call_is_not_run_again_when_the_link_comes_back() {
        let mut turn = Loop::default();
        assert_eq!(started(&turn.on(open(1, vec![call("w", false)]))), ["w"]);
        assert_eq!(started(&turn.on(open(2, vec![call("w", false)]))), [""; 0]);
        turn.on(Event::Finished { call: "w".into(), output: output() });
        let effects = turn.on(open(3, vec![call("w", false)]));
        assert_eq!(effects, [Effect::Send(AgentFrame::Returned { call: "w".into(), output: output() })]);
        assert!(turn.on(open(2, vec![call("w", false)])).is_empty(), "an older epoch is void");
    }

    #[test]
    fn old_tool_results_go_first_and_the_question_never() {
        let entries = [
            note(0, EntryKind::Question, 50, false),
            note(1, EntryKind::Step, 50, false),
            note(2, EntryKind::Question, 50, true),
            note(3, EntryKind::Step, 50, true),
            note(4, EntryKind::Result, 500, true),
            note(5, EntryKind::Step, 50, true),
            note(6, EntryKind::Result, 300, true),
        ];
        assert_eq!(chosen(&entries, 2000), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(chosen(&entries, 600), [0, 1, 2, 3, 5, 6]);
        assert_eq!(chosen(&entries, 0), [2, 5, 6]);
    }
}
