//! The simulated model, and the outputs of calls.

use domain::agent::AgentName;
use domain::citation::{PassagePlace, VendorCitation};
use domain::id::{AgentId, SkillId};
use domain::skill::SkillName;
use domain::step::{
    Purpose, RefusedPart, StepCall, StepError, StepEvent, StepOutcome, StopReason, TokenUsage,
};
use domain::turn::CallOutput;
use domain::turn::host::TurnEvent;

use super::{SimulationWorld, TurnKey, What};

impl SimulationWorld {
    /// Creates a call with an identifier that is repeated between steps, as vendors do.
    pub(super) fn next_call(&mut self, index: u64) -> StepCall {
        let tools = ["read", "write", "write", "skill", "agent", "registry__look_up", "registry__file"];
        let awaiting = ["function", "function", "ask_user", "sign", "sign", "registry__pay", "open"];
        let tools = if self.rng.roll_percent(20) { awaiting } else { tools };
        let tool = tools[self.rng.next_below(tools.len() as u64) as usize];
        let (name, full_name) = ("b".to_owned(), "a:b".to_owned());
        // A call of a skill or agent that does not exist is a failing tool call.
        let purpose = match tool {
            "skill" if self.rng.roll_percent(80) => {
                Purpose::Skill(SkillName { id: SkillId::from_full_name("a:b"), name, full_name })
            }
            "agent" if self.rng.roll_percent(80) => {
                Purpose::Agent(AgentName { id: AgentId::from_full_name("a:b"), name, full_name })
            }
            _ => Purpose::Tool,
        };
        StepCall { id: format!("c{index}"), tool: tool.to_owned(), arguments: "{}".to_owned(), purpose }
    }

    /// Creates the output of a call.
    pub(super) fn next_output(&mut self) -> CallOutput {
        CallOutput {
            images: Vec::new(),
            outcome: if self.rng.roll_percent(80) { StepOutcome::Done } else { StepOutcome::Failed },
            text: "r".repeat(self.rng.next_below(2000) as usize),
            passages: Vec::new(),
            written: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Produces the output of a step, or one of the possible failures.
    pub(super) fn produce_step(&mut self, at: TurnKey, number: u32, attempt: u32, tools: bool) {
        let mut when = self.now + 5;
        let delta = |event| TurnEvent::ModelDelta { number, attempt, event };
        let mut events = Vec::new();
        let mut said_bytes = 0;
        for _ in 0..1 + self.rng.next_below(6) {
            let end = if self.rng.roll_percent(20) { '\n' } else { ' ' };
            let piece = format!("w{}{end}", self.rng.next_below(100));
            let reasons = self.rng.roll_percent(20);
            said_bytes += if reasons { 0 } else { piece.len() };
            events.push(delta(if reasons { StepEvent::Reasoning(piece) } else { StepEvent::Text(piece) }));
            if self.rng.roll_percent(10) {
                let at = self.rng.next_below(said_bytes as u64 + 1) as usize;
                let url = format!("https://{}.example/", self.rng.next_below(3));
                let place = PassagePlace::Web { url, title: String::new() };
                events.push(delta(StepEvent::Cited(VendorCitation { at, place, quote: String::new() })));
            }
        }
        let calls =
            if tools && number < 6 && self.rng.roll_percent(60) { 1 + self.rng.next_below(3) } else { 0 };
        for index in 0..calls {
            events.push(delta(StepEvent::Call(self.next_call(index))));
        }
        let stop = if calls > 0 { StopReason::Calls } else { StopReason::Done };
        let usage = TokenUsage {
            input_tokens: 500,
            output_tokens: 1 + self.rng.next_below(900),
            ..TokenUsage::default()
        };
        let usage = self.rng.roll_percent(90).then_some(usage);
        events.push(delta(StepEvent::Finished { stop, usage }));
        if self.rng.roll_percent(15) {
            events.truncate(self.rng.next_below(events.len() as u64) as usize);
            let error = match self.rng.next_below(20) {
                0 => StepError::TooLong,
                1 => StepError::Rejected {
                    refused: RefusedPart::Key,
                    status: Some(401),
                    reason: "key".to_owned(),
                },
                _ => StepError::Unavailable { reason: "cut".to_owned(), retry_after: None },
            };
            events.push(TurnEvent::ModelFailed { number, attempt, error, jitter: self.rng.next_u64() });
        }
        for event in events {
            when += self.rng.next_below(200);
            self.schedule_at(when, What::ToTurn { at, connection: None, event });
        }
    }
}
