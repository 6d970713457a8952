//! Protocol version 1, for machines that an older service left running.
//!
//! An agent of version 1 has its own loop, which requests model steps and orders calls. [`Translator`] uses
//! only its execution of calls: each `open` of version 1 states that the next step is in progress, so that
//! the loop requests none, and marks calls that must not run yet as calls of the host, for which the loop
//! only waits. Adding a call needs a new `open`, which preserves running calls and results.

use std::collections::BTreeMap;

use domain::step::StepCall;
use domain::turn::{ExecutorFrame, HostFrame, SessionOpening};
use serde::{Deserialize, Serialize};

use crate::session::{InvalidFrame, encode_line, output_in};
use crate::tool::ToolOutput;

/// The path of a turn.
pub const TURN_PATH: &str = "/turn";
pub const VERSION: u32 = 1;
/// The maximum number of `open`s per session: many times the bound on the waiting calls of an answer.
const LINKS_PER_SESSION: u32 = 4096;
/// The name of a call of an unknown step: only its identifier matters.
const UNKNOWN: &str = "";

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum HostWireV1<'a> {
    Open {
        answer: String,
        epoch: u64,
        link: u32,
        entries: [TranscriptEntryV1; 0],
        pending: Vec<PendingCallV1<'a>>,
        next: u32,
        saying: bool,
        context_tokens: u64,
        attached: &'a [String],
    },
    Acknowledged {
        call: &'a str,
        entry: TranscriptEntryV1,
    },
    Close,
}

#[derive(Debug, Serialize)]
struct PendingCallV1<'a> {
    id: &'a str,
    tool: &'a str,
    arguments: &'a str,
    repeatable: bool,
    hosted: bool,
}

/// An entry of the transcript, from which a loop of version 1 determines the next step. Contains no step.
#[derive(Debug, Serialize)]
struct TranscriptEntryV1 {
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
pub enum TranslatorAction {
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
    open: Option<SessionOpening>,
    links: u32,
    run: Vec<StepCall>,
    /// Results of calls that the host has not requested yet.
    early: BTreeMap<String, ExecutorFrame>,
}

impl Translator {
    /// Translates a frame of the host.
    pub fn translate_host_frame(&mut self, frame: HostFrame) -> TranslatorAction {
        match frame {
            HostFrame::Open(open) => {
                self.open = Some(open);
                TranslatorAction::None
            }
            HostFrame::Run(call) => {
                let returned = self.early.remove(&call.id);
                self.run.push(call);
                returned.map_or_else(
                    || TranslatorAction::Reopen(self.reopen_session()),
                    TranslatorAction::Receive,
                )
            }
            HostFrame::Ack { call } => {
                self.settle_call(&call);
                let entry = TranscriptEntryV1 { id: 0, kind: "result", tokens: 0, present: true };
                TranslatorAction::Send(encode_line(&HostWireV1::Acknowledged { call: &call, entry }))
            }
            HostFrame::Cancel { call } => {
                self.settle_call(&call);
                // Version 1 kills all calls of an answer or none.
                if self.run.is_empty() {
                    TranslatorAction::Send(encode_line(&HostWireV1::Close))
                } else {
                    TranslatorAction::None
                }
            }
        }
    }

    /// Translates a line of the agent; `None` for a line without a counterpart.
    ///
    /// # Errors
    /// [`InvalidFrame`].
    pub fn translate_agent_line(&mut self, line: &[u8]) -> Result<Option<ExecutorFrame>, InvalidFrame> {
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

    fn settle_call(&mut self, call: &str) {
        self.run.retain(|run| run.id != call);
        if let Some(open) = &mut self.open {
            open.outstanding.retain(|outstanding| outstanding != call);
        }
    }

    fn reopen_session(&mut self) -> Vec<u8> {
        let Some(open) = &self.open else { return Vec::new() };
        let waits = open.outstanding.iter().filter(|id| !self.run.iter().any(|run| run.id == **id));
        let waits = waits.map(|id| PendingCallV1 {
            id,
            tool: UNKNOWN,
            arguments: UNKNOWN,
            repeatable: true,
            hosted: true,
        });
        // The host decides when a call runs: all requested calls run at once.
        let runs = self.run.iter().map(|call| PendingCallV1 {
            id: &call.id,
            tool: &call.tool,
            arguments: &call.arguments,
            repeatable: true,
            hosted: false,
        });
        self.links += 1;
        encode_line(&HostWireV1::Open {
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

    fn run_frame(id: &str) -> HostFrame {
        let (tool, arguments) = ("shell".to_owned(), "{}".to_owned());
        HostFrame::Run(StepCall { id: id.to_owned(), tool, arguments, purpose: Purpose::Tool })
    }

    fn open_translator() -> Translator {
        let mut translator = Translator::default();
        let outstanding = ["a", "b", "c"].map(str::to_owned).to_vec();
        let stamp = SessionStamp { epoch: 2, session: 1 };
        let attached = vec!["/x".to_owned()];
        let open = SessionOpening { answer: MessageId::from_random(1), stamp, outstanding, attached };
        assert_eq!(translator.translate_host_frame(HostFrame::Open(open)), TranslatorAction::None);
        translator
    }

    fn json_of(action: &TranslatorAction) -> Value {
        let (TranslatorAction::Reopen(line) | TranslatorAction::Send(line)) = action else {
            unreachable!("{action:?}")
        };
        serde_json::from_slice(line).unwrap()
    }

    fn hosted_calls(action: &TranslatorAction) -> Vec<(String, bool)> {
        let open = json_of(action)["open"].clone();
        let pending = open["pending"].as_array().unwrap().iter();
        pending.map(|call| (call["id"].as_str().unwrap().to_owned(), call["hosted"] == json!(true))).collect()
    }

    fn returned_line(id: &str) -> Vec<u8> {
        let output = json!({ "failed": false, "text": "x", "passages": [], "written": [] });
        json!({ "returned": { "call": id, "output": output } }).to_string().into_bytes()
    }

    #[test]
    fn translator_holds_back_undue_calls() {
        let mut translator = open_translator();
        let first = translator.translate_host_frame(run_frame("a"));
        let as_told = |ids: &[(&str, bool)]| -> Vec<(String, bool)> {
            ids.iter().map(|(id, hosted)| ((*id).to_owned(), *hosted)).collect()
        };
        assert_eq!(hosted_calls(&first), as_told(&[("a", false), ("b", true), ("c", true)]));
        assert_eq!(json_of(&first)["open"]["saying"], json!(true), "its loop asks for no step");
        let second = translator.translate_host_frame(run_frame("c"));
        assert_eq!(hosted_calls(&second), as_told(&[("a", false), ("c", false), ("b", true)]));
        let link = |action: &TranslatorAction| json_of(action)["open"]["link"].as_u64().unwrap();
        assert!(link(&second) > link(&first));
        // The older service had already passed it to the loop.
        assert_eq!(translator.translate_agent_line(&returned_line("b")).unwrap(), None);
        assert!(matches!(
            translator.translate_agent_line(&returned_line("a")).unwrap(),
            Some(ExecutorFrame::Returned { .. })
        ));
        assert!(
            matches!(translator.translate_host_frame(run_frame("b")), TranslatorAction::Receive(_)),
            "it does not run again"
        );
        assert_eq!(translator.translate_agent_line(&returned_line("z")).unwrap(), None, "it is unsolicited");
    }

    #[test]
    fn translator_closes_unawaited_loop() {
        let mut translator = open_translator();
        translator.translate_host_frame(run_frame("a"));
        translator.translate_host_frame(run_frame("b"));
        let ack = translator.translate_host_frame(HostFrame::Ack { call: "a".to_owned() });
        assert_eq!(json_of(&ack)["acknowledged"]["call"], json!("a"));
        assert_eq!(
            json_of(&translator.translate_host_frame(HostFrame::Cancel { call: "b".to_owned() })),
            json!("close")
        );
        for ignored in [json!({ "want": { "number": 1, "keep": [0] } }), json!({ "done": { "number": 1 } })] {
            assert_eq!(translator.translate_agent_line(ignored.to_string().as_bytes()).unwrap(), None);
        }
        assert!(translator.translate_agent_line(b"{\"other\":1}").is_err());
    }
}
