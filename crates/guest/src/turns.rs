//! The turns of this life of the agent: one task owns each loop and is the only one to change it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use domain::id::MessageId;
use domain::step::Outcome;
use domain::turn::agent::{Effect, Event, Loop};
use domain::turn::{CallNote, HostFrame, LinkStamp, Output};
use protocol::tool::ToolOutput;
use protocol::turn::{agent_line, output_in};
use tokio::sync::{Semaphore, mpsc, watch};

use crate::tools::{self, Limits};

/// Inputs that wait for one turn.
const INPUTS_WAITING_MAX: usize = 64;
/// Turns that are remembered, closed ones included: a link that comes late must not open them again. More than are
/// under way at once by far.
const TURNS_MAX: usize = 4096;
/// Tools that run at once in the machine.
const TOOLS_AT_ONCE_MAX: usize = 16;

/// What comes to a turn.
pub enum Input {
    /// A frame of the host; `lines` is where to answer, given with the frame that opens a link.
    Frame {
        /// The link that it came over.
        link: LinkStamp,
        /// The frame.
        frame: HostFrame,
        /// Lines for the host.
        lines: Option<mpsc::Sender<Bytes>>,
    },
    /// A tool is over.
    Finished {
        /// Its call.
        call: String,
        /// What it gave.
        output: ToolOutput,
    },
}

/// Every turn of this life, by its answer.
pub struct Turns {
    limits: Arc<Limits>,
    running: Arc<Semaphore>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    turns: HashMap<MessageId, Place>,
    order: VecDeque<MessageId>,
}

struct Place {
    inputs: mpsc::Sender<Input>,
    closed: Arc<AtomicBool>,
}

impl Known {
    /// Forgets a turn when there are too many: the oldest that is closed. One that is not would begin anew with
    /// its next link, and run again what it has run; it goes only when all are open.
    fn make_room(&mut self) {
        if self.order.len() < TURNS_MAX {
            return;
        }
        let closed = |answer: &MessageId| {
            self.turns.get(answer).is_none_or(|place| place.closed.load(Ordering::Relaxed))
        };
        let oldest = self.order.iter().position(closed).unwrap_or(0);
        if let Some(answer) = self.order.remove(oldest) {
            self.turns.remove(&answer);
        }
    }
}

impl Turns {
    /// No turns yet.
    #[must_use]
    pub fn new(limits: Arc<Limits>) -> Self {
        Self { limits, running: Arc::new(Semaphore::new(TOOLS_AT_ONCE_MAX)), known: Mutex::default() }
    }

    /// Where the answer's turn takes its inputs; it is begun when it is not known.
    pub fn of(&self, answer: MessageId) -> mpsc::Sender<Input> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(place) = known.turns.get(&answer) {
            return place.inputs.clone();
        }
        known.make_room();
        let (inputs, waiting) = mpsc::channel(INPUTS_WAITING_MAX);
        let (kill, killed) = watch::channel(false);
        let closed = Arc::new(AtomicBool::new(false));
        let task = Task {
            turn: Loop::default(),
            closed: closed.clone(),
            lines: None,
            attached: Arc::default(),
            own: inputs.downgrade(),
            limits: self.limits.clone(),
            running: self.running.clone(),
            kill,
            killed,
        };
        tokio::spawn(task.run(waiting));
        known.turns.insert(answer, Place { inputs: inputs.clone(), closed });
        known.order.push_back(answer);
        inputs
    }
}

struct Task {
    turn: Loop,
    /// Tells whether the loop is.
    closed: Arc<AtomicBool>,
    lines: Option<mpsc::Sender<Bytes>>,
    /// What is attached to the questions of the conversation.
    attached: Arc<[String]>,
    own: mpsc::WeakSender<Input>,
    limits: Arc<Limits>,
    running: Arc<Semaphore>,
    kill: watch::Sender<bool>,
    killed: watch::Receiver<bool>,
}

impl Task {
    async fn run(mut self, mut waiting: mpsc::Receiver<Input>) {
        while let Some(input) = waiting.recv().await {
            let effects = match input {
                Input::Frame { link, frame, lines } => {
                    if lines.is_some() && link > self.turn.link() {
                        self.lines = lines;
                        if let HostFrame::Open(open) = &frame {
                            self.attached = open.attached.clone().into();
                        }
                    }
                    self.turn.on(Event::Host { link, frame })
                }
                Input::Finished { call, output } => {
                    self.turn.on(Event::Finished { call, output: within_bounds(output) })
                }
            };
            for effect in effects {
                self.carry_out(effect).await;
            }
            if self.turn.is_closed() {
                self.closed.store(true, Ordering::Relaxed);
                self.lines = None; // ends the response; the loop stays, so that no older link opens it again
            }
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Send(frame) => {
                // Without a link nothing is lost: the next one begins with what the host has.
                if let Some(lines) = &self.lines
                    && lines.send(Bytes::from(agent_line(&frame))).await.is_err()
                {
                    self.lines = None;
                }
            }
            Effect::Run(note) => self.start(note),
            Effect::KillAll => {
                self.kill.send_replace(true);
            }
        }
    }

    fn start(&self, note: CallNote) {
        let (limits, running, killed) = (self.limits.clone(), self.running.clone(), self.killed.clone());
        let attached = self.attached.clone();
        let Some(own) = self.own.upgrade() else { return };
        tokio::spawn(async move {
            let Ok(_place) = running.acquire_owned().await else { return };
            let output = tools::run(&note.call, &limits, &attached, killed).await;
            // The turn is gone only when the agent ends.
            let _ = own.send(Input::Finished { call: note.call.id, output }).await;
        });
    }
}

/// Tools keep to the bounds; should one not, its result says so instead of breaking the link.
fn within_bounds(output: ToolOutput) -> Output {
    output_in(output).unwrap_or_else(|error| Output {
        images: Vec::new(),
        outcome: Outcome::Failed,
        text: format!("the tool's result could not be sent: {error}"),
        passages: Vec::new(),
        written: Vec::new(),
        unread: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use domain::turn::Open;

    use super::*;

    fn limits() -> Limits {
        Limits {
            memory_bytes: 1,
            memory_counted: false,
            processes: 1,
            sockets: 1,
            shell_seconds: 1,
            workspace_bytes: 1,
            file_bytes: 1,
            disk_free_floor_bytes: 1,
            tools_user: None,
            workspace: "/nowhere".into(),
            temp: "/nowhere".into(),
            library: None,
            servers: None,
            program: None,
        }
    }

    async fn open(turns: &Turns, answer: MessageId) -> (mpsc::Sender<Input>, mpsc::Receiver<Bytes>) {
        let link = LinkStamp { epoch: 1, link: 1 };
        let open = Open {
            answer,
            link,
            entries: Vec::new(),
            pending: Vec::new(),
            next: 0,
            saying: false,
            context_tokens: 1,
            attached: Vec::new(),
        };
        let (lines, said) = mpsc::channel(4);
        let inputs = turns.of(answer);
        let frame = Input::Frame { link, frame: HostFrame::Open(open), lines: Some(lines) };
        assert!(inputs.send(frame).await.is_ok());
        (inputs, said)
    }

    async fn close(inputs: &mpsc::Sender<Input>, mut said: mpsc::Receiver<Bytes>) {
        let link = LinkStamp { epoch: 1, link: 1 };
        assert!(inputs.send(Input::Frame { link, frame: HostFrame::Close, lines: None }).await.is_ok());
        while said.recv().await.is_some() {}
    }

    #[tokio::test]
    async fn turns_that_are_over_are_forgotten_before_those_under_way() {
        let turns = Turns::new(Arc::new(limits()));
        let id = |number: usize| MessageId::from_random(number as u128);
        let (under_way, _said) = open(&turns, id(0)).await;
        let (first_over, said) = open(&turns, id(1)).await;
        close(&first_over, said).await;
        for number in 2..TURNS_MAX {
            let (inputs, said) = open(&turns, id(number)).await;
            close(&inputs, said).await;
        }
        assert!(turns.of(id(1)).same_channel(&first_over), "there is room for it still");
        open(&turns, id(TURNS_MAX)).await;
        assert!(turns.of(id(0)).same_channel(&under_way), "what it ran must not run again");
        let known = turns.known.lock().expect("nobody panics with it");
        assert_eq!((known.turns.len(), known.order.len()), (TURNS_MAX, TURNS_MAX));
        assert!(!known.turns.contains_key(&id(1)), "the oldest that is over");
    }
}
