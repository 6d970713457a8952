//! What a step has put out so far, within its bounds: the same for every format.

use std::collections::{HashSet, VecDeque};

use domain::citation::{CITED_MAX, Cited};
use domain::limits::{CALLS_MAX, STEP_MAX_BYTES};
use domain::step::{Call, Purpose, StepError, StepEvent, StopReason, Usage};
use serde_json::{Map, Value};

use crate::error;
use crate::format::Format;

/// The longest identifier of a call that is kept; a longer one is replaced.
const CALL_ID_MAX_BYTES: usize = 128;

/// Whether more is to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Yes.
    More,
    /// The step is finished.
    End,
}

/// The identifiers of calls that an exchange has.
#[derive(Debug, Default)]
pub(crate) struct CallIds(HashSet<String>);

impl CallIds {
    /// Those that are taken.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self(taken)
    }

    /// The vendor's identifier, or one of our own where it gave none or one that is taken.
    pub(crate) fn own(&mut self, given: String) -> Result<String, StepError> {
        let usable =
            !given.is_empty() && given.len() <= CALL_ID_MAX_BYTES && !given.contains(char::is_control);
        if usable && self.0.insert(given.clone()) {
            return Ok(given);
        }
        let mut bits = [0; 12];
        getrandom::fill(&mut bits).map_err(|_| error::unavailable("no random identifiers can be made"))?;
        let id = format!("call_{}", domain::hex::encode(&bits));
        self.0.insert(id.clone());
        Ok(id)
    }
}

/// A call as its vendor gave it.
#[derive(Debug, Default)]
pub(crate) struct Called {
    /// Its identifier; empty where the vendor gives none.
    pub(crate) id: String,
    /// The tool's name.
    pub(crate) tool: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
}

/// What a step has put out so far.
#[derive(Debug, Default)]
pub(crate) struct Output {
    ids: CallIds,
    /// All its text: vendors tell by places in it what they cite for what.
    said: String,
    cited: usize,
    bytes: usize,
    calls: usize,
    /// Calls whose arguments are no JSON: what a bound has cut is left out at the end.
    doubtful: Vec<Called>,
    refused: bool,
    full: bool,
}

impl Output {
    /// Nothing yet, in an exchange in which these identifiers of calls are taken.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { ids: CallIds::new(taken), ..Self::default() }
    }

    /// Counts what came and is not given yet.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn text(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        if !text.is_empty() {
            self.bytes += text.len();
            self.said.push_str(&text);
            ready.push_back(StepEvent::Text(text));
        }
    }

    /// All that was said so far.
    pub(crate) fn said(&self) -> &str {
        &self.said
    }

    /// A source that the vendor names, if it is one.
    pub(crate) fn cited(&mut self, cited: Option<Cited>, ready: &mut VecDeque<StepEvent>) {
        if let Some(cited) = cited.filter(|_| self.cited < CITED_MAX) {
            self.cited += 1;
            self.bytes += cited.size_bytes();
            ready.push_back(StepEvent::Cited(cited));
        }
    }

    /// Text by which the model refuses.
    pub(crate) fn refusal(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        self.refused |= !text.is_empty();
        self.text(text, ready);
    }

    pub(crate) fn reasoning(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        if !text.is_empty() {
            self.bytes += text.len();
            ready.push_back(StepEvent::Reasoning(text));
        }
    }

    /// An item that goes back verbatim.
    pub(crate) fn opaque(&mut self, format: Format, json: String, ready: &mut VecDeque<StepEvent>) {
        self.bytes += json.len();
        ready.push_back(StepEvent::Opaque { format: format.name().to_owned(), json });
    }

    /// A whole call; whether it is one that is given.
    pub(crate) fn call(
        &mut self,
        mut call: Called,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<bool, StepError> {
        if call.tool.is_empty() || self.full {
            return Ok(false);
        }
        if self.calls == CALLS_MAX {
            self.full = true;
            return Ok(false);
        }
        self.calls += 1;
        if call.arguments.trim().is_empty() {
            "{}".clone_into(&mut call.arguments);
        }
        self.bytes += call.id.len() + call.tool.len() + call.arguments.len();
        if serde_json::from_str::<Map<String, Value>>(&call.arguments).is_err() {
            self.doubtful.push(call);
            return Ok(false);
        }
        self.give(call, ready)?;
        Ok(true)
    }

    /// Whether it has put out as much as a step may.
    pub(crate) fn is_full(&self) -> bool {
        self.full || self.bytes > STEP_MAX_BYTES
    }

    /// The model is done.
    pub(crate) fn finish(
        &mut self,
        stop: StopReason,
        usage: Option<Usage>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<Next, StepError> {
        let doubtful = std::mem::take(&mut self.doubtful);
        if stop == StopReason::OutputFull {
            // The bound on output cut it; what it would do is not known.
            self.calls -= doubtful.len();
        } else {
            for call in doubtful {
                self.give(call, ready)?;
            }
        }
        let stop = match stop {
            StopReason::Done | StopReason::Calls if self.refused => StopReason::Refused,
            StopReason::Done | StopReason::Calls if self.calls == 0 => StopReason::Done,
            StopReason::Done | StopReason::Calls => StopReason::Calls,
            StopReason::OutputFull | StopReason::Refused | StopReason::Stopped => stop,
        };
        ready.push_back(StepEvent::Finished { stop, usage });
        Ok(Next::End)
    }

    fn give(&mut self, call: Called, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        let Called { id, tool, arguments } = call;
        let id = self.ids.own(id)?;
        ready.push_back(StepEvent::Call(Call { id, tool, arguments, purpose: Purpose::Tool }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(arguments: &str) -> Called {
        Called { id: String::new(), tool: "t".into(), arguments: arguments.into() }
    }

    #[test]
    fn a_call_that_the_bound_cut_is_not_given_and_one_that_is_no_json_is() {
        for (stop, given) in [(StopReason::OutputFull, 1), (StopReason::Done, 2)] {
            let (mut output, mut ready) = (Output::default(), VecDeque::new());
            assert!(output.call(call(" "), &mut ready).unwrap());
            assert!(!output.call(call("{\"x"), &mut ready).unwrap());
            output.finish(stop, None, &mut ready).unwrap();
            assert_eq!(ready.len(), given + 1, "{ready:?}");
        }
    }

    #[test]
    fn output_is_bounded() {
        let (mut output, mut ready) = (Output::default(), VecDeque::new());
        for _ in 0..=CALLS_MAX {
            assert!(!output.is_full());
            output.call(call("{}"), &mut ready).unwrap();
        }
        assert!(output.is_full() && ready.len() == CALLS_MAX);
        let mut output = Output::default();
        output.count(STEP_MAX_BYTES + 1);
        assert!(output.is_full());
    }

    #[test]
    fn an_identifier_of_an_earlier_step_is_replaced() {
        let mut ids = CallIds::new(HashSet::from(["call_0".to_owned()]));
        let own = ids.own("call_0".to_owned()).unwrap();
        assert!(own != "call_0" && own.starts_with("call_"));
        assert_eq!(ids.own("other".to_owned()).unwrap(), "other");
    }
}
