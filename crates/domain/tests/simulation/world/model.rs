//! The simulated model, and the outputs of calls.

use domain::agent::AgentName;
use domain::citation::{Cited, Place};
use domain::id::{AgentId, SkillId};
use domain::skill::SkillName;
use domain::step::{Call, Purpose, Refused, StepError, StepEvent, StepOutcome, StopReason, Usage};
use domain::turn::Output;
use domain::turn::host::Event;

use super::{TurnKey, What, World};

impl World {
    /// Creates a call with an identifier that is repeated between steps, as vendors do.
    pub(super) fn call(&mut self, index: u64) -> Call {
        let tools = ["read", "write", "write", "skill", "agent", "registry__look_up", "registry__file"];
        let tool = tools[self.rng.below(tools.len() as u64) as usize];
        let (name, full_name) = ("b".to_owned(), "a:b".to_owned());
        // A call of a skill or agent that does not exist is a failing tool call.
        let purpose = match tool {
            "skill" if self.rng.chance(80) => {
                Purpose::Skill(SkillName { id: SkillId::of("a:b"), name, full_name })
            }
            "agent" if self.rng.chance(80) => {
                Purpose::Agent(AgentName { id: AgentId::of("a:b"), name, full_name })
            }
            _ => Purpose::Tool,
        };
        Call { id: format!("c{index}"), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose }
    }

    /// Creates the output of a call.
    pub(super) fn output(&mut self) -> Output {
        Output {
            images: Vec::new(),
            outcome: if self.rng.chance(80) { StepOutcome::Done } else { StepOutcome::Failed },
            text: "r".repeat(self.rng.below(2000) as usize),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Produces the output of a step, or one of the possible failures.
    pub(super) fn say(&mut self, at: TurnKey, number: u32, attempt: u32, tools: bool) {
        let mut when = self.now + 5;
        let delta = |event| Event::ModelDelta { number, attempt, event };
        let mut events = Vec::new();
        let mut said_bytes = 0;
        for _ in 0..1 + self.rng.below(6) {
            let end = if self.rng.chance(20) { '\n' } else { ' ' };
            let piece = format!("w{}{end}", self.rng.below(100));
            let reasons = self.rng.chance(20);
            said_bytes += if reasons { 0 } else { piece.len() };
            events.push(delta(if reasons { StepEvent::Reasoning(piece) } else { StepEvent::Text(piece) }));
            if self.rng.chance(10) {
                let at = self.rng.below(said_bytes as u64 + 1) as usize;
                let url = format!("https://{}.example/", self.rng.below(3));
                let place = Place::Web { url, title: String::new() };
                events.push(delta(StepEvent::Cited(Cited { at, place, quote: String::new() })));
            }
        }
        let calls = if tools && number < 6 && self.rng.chance(60) { 1 + self.rng.below(3) } else { 0 };
        for index in 0..calls {
            events.push(delta(StepEvent::Call(self.call(index))));
        }
        let stop = if calls > 0 { StopReason::Calls } else { StopReason::Done };
        let usage = Usage { input_tokens: 500, output_tokens: 1 + self.rng.below(900), ..Usage::default() };
        let usage = self.rng.chance(90).then_some(usage);
        events.push(delta(StepEvent::Finished { stop, usage }));
        if self.rng.chance(15) {
            events.truncate(self.rng.below(events.len() as u64) as usize);
            let error = match self.rng.below(20) {
                0 => StepError::TooLong,
                1 => {
                    StepError::Rejected { refused: Refused::Key, status: Some(401), reason: "key".to_owned() }
                }
                _ => StepError::Unavailable { reason: "cut".to_owned(), retry_after: None },
            };
            events.push(Event::ModelFailed { number, attempt, error, jitter: self.rng.next() });
        }
        for event in events {
            when += self.rng.below(200);
            self.at(when, What::ToTurn { at, connection: None, event });
        }
    }
}
