//! Protocol version 1, for machines that an older service left running.
//!
//! An agent of version 1 has its own loop, which requests model steps and orders calls. [`Translator`] uses
//! only its execution of calls: each `open` of version 1 says that the next step is in progress, so that the
//! loop requests none, and marks calls that must not run yet as calls of the host, for which the loop only
//! waits. Adding a call needs a new `open`, which preserves running calls and results.

use std::collections::BTreeMap;

use domain::step::Call;
use domain::turn::{ExecutorFrame, HostFrame, Open};
use serde::{Deserialize, Serialize};

use crate::session::{InvalidFrame, line, output_in};
use crate::tool::ToolOutput;

/// The path of a turn.
pub const TURN_PATH: &str = "/turn";
/// The version number.
pub const VERSION: u32 = 1;
/// The most `open`s per session: many times the bound on the waiting calls of an answer.
const LINKS_PER_SESSION: u32 = 4096;
/// The name of a call of an unknown step: only its identifier matters.
const UNKNOWN: &str = "";

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum HostWire<'a> {
    Open {
        answer: String,
        epoch: u64,
        link: u32,
        entries: [Entry; 0],
        pending: Vec<Pending<'a>>,
        next: u32,
        saying: bool,
        context_tokens: u64,
        attached: &'a [String],
    },
    Acknowledged {
        call: &'a str,
        entry: Entry,
    },
    Close,
}

#[derive(Debug, Serialize)]
struct Pending<'a> {
    id: &'a str,
    tool: &'a str,
    arguments: &'a str,
    repeatable: bool,
    hosted: bool,
}

/// An entry of the transcript, from which a loop of version 1 determines the next step. Contains no step.
#[derive(Debug, Serialize)]
struct Entry {
    id: u32,
    kind: &'static str,
    tokens: u64,
    present: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum GuestWire {
    Want(serde::de::IgnoredAny),
    Returned { call: String, output: ToolOutput },
    Done(serde::de::IgnoredAny),
}

/// The action for a frame of the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    None,
    /// Start a new exchange with this line; the previous one ends.
    Reopen(Vec<u8>),
    /// Send this line over the current exchange.
    Send(Vec<u8>),
    /// Deliver this result, which the executor returned earlier.
    Receive(ExecutorFrame),
}

/// Translates the session of one answer into turns of version 1.
#[derive(Debug, Default)]
pub struct Translator {
    open: Option<Open>,
    links: u32,
    /// Unacknowledged calls.
    run: Vec<Call>,
    /// Results of calls that the host has not requested yet.
    early: BTreeMap<String, ExecutorFrame>,
}

impl Translator {
    /// Translates a frame of the host.
    pub fn send(&mut self, frame: HostFrame) -> Action {
        match frame {
            HostFrame::Open(open) => {
                self.open = Some(open);
                Action::None
            }
            HostFrame::Run(call) => {
                let returned = self.early.remove(&call.id);
                self.run.push(call);
                returned.map_or_else(|| Action::Reopen(self.reopen()), Action::Receive)
            }
            HostFrame::Ack { call } => {
                self.settle(&call);
                let entry = Entry { id: 0, kind: "result", tokens: 0, present: true };
                Action::Send(line(&HostWire::Acknowledged { call: &call, entry }))
            }
            HostFrame::Cancel { call } => {
                self.settle(&call);
                // Version 1 kills all calls of an answer or none.
                if self.run.is_empty() { Action::Send(line(&HostWire::Close)) } else { Action::None }
            }
        }
    }

    /// Translates a line of the agent; `None` for a line without a counterpart.
    ///
    /// # Errors
    /// [`InvalidFrame`].
    pub fn receive(&mut self, line: &[u8]) -> Result<Option<ExecutorFrame>, InvalidFrame> {
        let GuestWire::Returned { call, output } = serde_json::from_slice(line)? else { return Ok(None) };
        let frame = ExecutorFrame::Returned { call: call.clone(), output: output_in(output)? };
        if self.run.iter().any(|run| run.id == call) {
            return Ok(Some(frame));
        }
        if self.open.as_ref().is_some_and(|open| open.outstanding.contains(&call)) {
            self.early.insert(call, frame);
        }
        Ok(None)
    }

    fn settle(&mut self, call: &str) {
        self.run.retain(|run| run.id != call);
        if let Some(open) = &mut self.open {
            open.outstanding.retain(|outstanding| outstanding != call);
        }
    }

    fn reopen(&mut self) -> Vec<u8> {
        let Some(open) = &self.open else { return Vec::new() };
        let waits = open.outstanding.iter().filter(|id| !self.run.iter().any(|run| run.id == **id));
        let waits =
            waits.map(|id| Pending { id, tool: UNKNOWN, arguments: UNKNOWN, repeatable: true, hosted: true });
        // The host decides when a call runs: all requested calls run at once.
        let runs = self.run.iter().map(|call| Pending {
            id: &call.id,
            tool: &call.tool,
            arguments: &call.arguments,
            repeatable: true,
            hosted: false,
        });
        self.links += 1;
        line(&HostWire::Open {
            answer: open.answer.to_string(),
            epoch: open.stamp.epoch,
            link: open.stamp.session.saturating_mul(LINKS_PER_SESSION).saturating_add(self.links),
            entries: [],
            pending: runs.chain(waits).collect(),
            next: 0,
            saying: true,
            context_tokens: 0,
            attached: &open.attached,
        })
    }
}

#[cfg(test)]
mod tests {
    use domain::id::MessageId;
    use domain::step::Purpose;
    use domain::turn::SessionStamp;
    use serde_json::{Value, json};

    use super::*;

    fn run(id: &str) -> HostFrame {
        let (tool, arguments) = ("shell".to_owned(), "{}".to_owned());
        HostFrame::Run(Call { id: id.to_owned(), tool, arguments, purpose: Purpose::Tool })
    }

    fn opened() -> Translator {
        let mut translator = Translator::default();
        let outstanding = ["a", "b", "c"].map(str::to_owned).to_vec();
        let stamp = SessionStamp { epoch: 2, session: 1 };
        let attached = vec!["/x".to_owned()];
        let open = Open { answer: MessageId::from_random(1), stamp, outstanding, attached };
        assert_eq!(translator.send(HostFrame::Open(open)), Action::None);
        translator
    }

    fn json_of(action: &Action) -> Value {
        let (Action::Reopen(line) | Action::Send(line)) = action else { unreachable!("{action:?}") };
        serde_json::from_slice(line).unwrap()
    }

    fn hosted(action: &Action) -> Vec<(String, bool)> {
        let open = json_of(action)["open"].clone();
        let pending = open["pending"].as_array().unwrap().iter();
        pending.map(|call| (call["id"].as_str().unwrap().to_owned(), call["hosted"] == json!(true))).collect()
    }

    fn returned(id: &str) -> Vec<u8> {
        let output = json!({ "failed": false, "text": "x", "passages": [], "written": [] });
        json!({ "returned": { "call": id, "output": output } }).to_string().into_bytes()
    }

    #[test]
    fn calls_that_are_not_due_are_held_back_but_not_forgotten() {
        let mut translator = opened();
        let first = translator.send(run("a"));
        let as_told = |ids: &[(&str, bool)]| -> Vec<(String, bool)> {
            ids.iter().map(|(id, hosted)| ((*id).to_owned(), *hosted)).collect()
        };
        assert_eq!(hosted(&first), as_told(&[("a", false), ("b", true), ("c", true)]));
        assert_eq!(json_of(&first)["open"]["saying"], json!(true), "its loop asks for no step");
        let second = translator.send(run("c"));
        assert_eq!(hosted(&second), as_told(&[("a", false), ("c", false), ("b", true)]));
        let link = |action: &Action| json_of(action)["open"]["link"].as_u64().unwrap();
        assert!(link(&second) > link(&first));
        // The older service had already passed it to the loop.
        assert_eq!(translator.receive(&returned("b")).unwrap(), None);
        assert!(matches!(translator.receive(&returned("a")).unwrap(), Some(ExecutorFrame::Returned { .. })));
        assert!(matches!(translator.send(run("b")), Action::Receive(_)), "it does not run again");
        assert_eq!(translator.receive(&returned("z")).unwrap(), None, "nobody asked for it");
    }

    #[test]
    fn a_loop_is_closed_when_nothing_of_it_is_waited_for() {
        let mut translator = opened();
        translator.send(run("a"));
        translator.send(run("b"));
        let ack = translator.send(HostFrame::Ack { call: "a".to_owned() });
        assert_eq!(json_of(&ack)["acknowledged"]["call"], json!("a"));
        assert_eq!(json_of(&translator.send(HostFrame::Cancel { call: "b".to_owned() })), json!("close"));
        for ignored in [json!({ "want": { "number": 1, "keep": [0] } }), json!({ "done": { "number": 1 } })] {
            assert_eq!(translator.receive(ignored.to_string().as_bytes()).unwrap(), None);
        }
        assert!(translator.receive(b"{\"other\":1}").is_err());
    }
}
