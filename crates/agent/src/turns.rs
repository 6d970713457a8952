//! The turns of this life of the agent: one task owns each loop and is the only one to change it.

use std::collections::{HashMap, VecDeque};
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
/// Turns that are remembered, closed ones included: an older link must not open them again.
const TURNS_MAX: usize = 16 * 1024;
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
    turns: HashMap<MessageId, mpsc::Sender<Input>>,
    order: VecDeque<MessageId>,
}

impl Turns {
    /// No turns yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits: Arc::new(limits),
            running: Arc::new(Semaphore::new(TOOLS_AT_ONCE_MAX)),
            known: Mutex::default(),
        }
    }

    /// Where the answer's turn takes its inputs; it is begun when it is not known.
    pub fn of(&self, answer: MessageId) -> mpsc::Sender<Input> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(inputs) = known.turns.get(&answer) {
            return inputs.clone();
        }
        let (inputs, waiting) = mpsc::channel(INPUTS_WAITING_MAX);
        let (kill, killed) = watch::channel(false);
        let task = Task {
            turn: Loop::default(),
            lines: None,
            own: inputs.downgrade(),
            limits: self.limits.clone(),
            running: self.running.clone(),
            kill,
            killed,
        };
        tokio::spawn(task.run(waiting));
        known.turns.insert(answer, inputs.clone());
        known.order.push_back(answer);
        if known.order.len() > TURNS_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.turns.remove(&oldest);
        }
        inputs
    }
}

struct Task {
    turn: Loop,
    lines: Option<mpsc::Sender<Bytes>>,
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
        let Some(own) = self.own.upgrade() else { return };
        tokio::spawn(async move {
            let Ok(_place) = running.acquire_owned().await else { return };
            let output = tools::run(&note.call, &limits, killed).await;
            // The turn is gone only when the agent ends.
            let _ = own.send(Input::Finished { call: note.call.id, output }).await;
        });
    }
}

/// Tools keep to the bounds; should one not, its result says so instead of breaking the link.
fn within_bounds(output: ToolOutput) -> Output {
    output_in(output).unwrap_or_else(|error| Output {
        outcome: Outcome::Failed,
        text: format!("the tool's result could not be sent: {error}"),
        passages: Vec::new(),
        written: Vec::new(),
    })
}
