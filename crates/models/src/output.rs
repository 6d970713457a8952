//! The output of a step and its limits, the same for every format.

use std::collections::{HashSet, VecDeque};

use domain::citation::{CITED_MAX, VendorCitation};
use domain::limits::{CALLS_MAX, STEP_MAX_BYTES};
use domain::step::{Purpose, StepCall, StepError, StepEvent, StopReason, TokenUsage};
use domain::step_note::StepNote;
use serde_json::{Map, Value};

use crate::error;
use crate::finish::StepEnding;
use crate::format::WireFormat;

/// Longer call identifiers are replaced.
const CALL_ID_MAX_BYTES: usize = 128;

/// The progress of a step's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamProgress {
    More,
    /// The vendor paused the step; another request continues it.
    Pause,
    /// The step is finished.
    End,
}

/// The call identifiers that a transcript uses.
#[derive(Debug, Default)]
pub(crate) struct CallIds(HashSet<String>);

impl CallIds {
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self(taken)
    }

    /// Returns the vendor's identifier, or a new one when it is empty, invalid or already taken.
    pub(crate) fn claim_id(&mut self, given: String) -> Result<String, StepError> {
        let usable =
            !given.is_empty() && given.len() <= CALL_ID_MAX_BYTES && !given.contains(char::is_control);
        if usable && self.0.insert(given.clone()) {
            return Ok(given);
        }
        let mut bits = [0; 12];
        getrandom::fill(&mut bits)
            .map_err(|_| error::unavailable_step("no random identifier could be generated"))?;
        let id = format!("call_{}", domain::hex::encode_hex(&bits));
        self.0.insert(id.clone());
        Ok(id)
    }
}

/// A call as the vendor sent it.
#[derive(Debug, Default)]
pub(crate) struct VendorCall {
    /// The identifier; empty when the vendor sends none.
    pub(crate) id: String,
    pub(crate) tool: String,
    /// The arguments as the model wrote them.
    pub(crate) arguments: String,
}

/// Adds a piece to the arguments of a call. Some servers send `{}` or the whole object before or after its pieces: an object
/// replaces a complete one.
pub(crate) fn extend_arguments(arguments: &mut String, piece: &str) {
    if piece.trim_start().starts_with('{') && is_object(arguments) {
        arguments.clear();
    }
    arguments.push_str(piece);
}

/// Returns true for a complete JSON object.
pub(crate) fn is_object(json: &str) -> bool {
    json.trim_end().ends_with('}') && serde_json::from_str::<Map<String, Value>>(json).is_ok()
}

/// Keeps the largest count of each kind that was reported: some servers report zeros first or last.
pub(crate) fn merge_usage(known: &mut Option<TokenUsage>, reported: Option<TokenUsage>) {
    let Some(reported) = reported else { return };
    let known = known.get_or_insert_default();
    known.input_tokens = known.input_tokens.max(reported.input_tokens);
    known.cached_tokens = known.cached_tokens.max(reported.cached_tokens);
    known.output_tokens = known.output_tokens.max(reported.output_tokens);
    known.reasoning_tokens = known.reasoning_tokens.max(reported.reasoning_tokens);
}

/// The output of a step so far.
#[derive(Debug, Default)]
pub(crate) struct StepOutput {
    ids: CallIds,
    /// The whole text. Vendors cite by positions in it.
    written: String,
    cited: usize,
    bytes: usize,
    calls: usize,
    /// Calls whose arguments are not JSON. They are dropped at the end if a limit truncated them.
    unparsable: Vec<VendorCall>,
    /// The calls that were emitted, with the vendor's identifiers: a call that is repeated runs once.
    emitted: Vec<(String, String, String)>,
    /// The calls beyond [`CALLS_MAX`].
    left_out: u32,
    refused: bool,
}

impl StepOutput {
    /// Creates an empty output for a transcript that already uses the identifiers in `taken`.
    pub(crate) fn new(taken: HashSet<String>) -> Self {
        Self { ids: CallIds::new(taken), ..Self::default() }
    }

    /// Counts bytes that arrived but are not emitted yet.
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    pub(crate) fn emit_text(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        if !text.is_empty() {
            self.bytes += text.len();
            self.written.push_str(&text);
            ready.push_back(StepEvent::Text(text));
        }
    }

    /// Returns the whole text so far.
    pub(crate) fn written_text(&self) -> &str {
        &self.written
    }

    pub(crate) fn emit_citation(&mut self, cited: Option<VendorCitation>, ready: &mut VecDeque<StepEvent>) {
        if let Some(cited) = cited.filter(|_| self.cited < CITED_MAX) {
            self.cited += 1;
            self.bytes += cited.size_bytes();
            ready.push_back(StepEvent::Cited(cited));
        }
    }

    /// Emits text that refuses the request.
    pub(crate) fn emit_refusal(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        self.refused |= !text.is_empty();
        self.emit_text(text, ready);
    }

    pub(crate) fn emit_reasoning(&mut self, text: String, ready: &mut VecDeque<StepEvent>) {
        if !text.is_empty() {
            self.bytes += text.len();
            ready.push_back(StepEvent::Reasoning(text));
        }
    }

    /// Emits an item that must be sent back verbatim.
    pub(crate) fn emit_opaque(&mut self, format: WireFormat, json: String, ready: &mut VecDeque<StepEvent>) {
        self.bytes += json.len();
        ready.push_back(StepEvent::Opaque { format: format.name().to_owned(), json });
    }

    /// Emits a complete call. Returns false when it is dropped or postponed.
    pub(crate) fn accept_call(
        &mut self,
        mut call: VendorCall,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<bool, StepError> {
        if call.tool.is_empty() {
            return Ok(false);
        }
        if call.arguments.trim().is_empty() {
            "{}".clone_into(&mut call.arguments);
        }
        let repeated = |(id, tool, arguments): &(String, String, String)| {
            (id, tool, arguments) == (&call.id, &call.tool, &call.arguments)
        };
        if !call.id.is_empty() && self.emitted.iter().any(repeated) {
            return Ok(false);
        }
        self.bytes += call.id.len() + call.tool.len() + call.arguments.len();
        if self.calls == CALLS_MAX {
            self.left_out = self.left_out.saturating_add(1);
            return Ok(false);
        }
        self.calls += 1;
        self.emitted.push((call.id.clone(), call.tool.clone(), call.arguments.clone()));
        if serde_json::from_str::<Map<String, Value>>(&call.arguments).is_err() {
            self.unparsable.push(call);
            return Ok(false);
        }
        self.emit_call(call, ready)?;
        Ok(true)
    }

    /// Returns true when the step has calls.
    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Returns true once something of the step has arrived.
    pub(crate) fn has_begun(&self) -> bool {
        self.bytes > 0
    }

    /// Returns true when the step has reached a limit.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes > STEP_MAX_BYTES
    }

    pub(crate) fn finish_step(
        &mut self,
        ending: StepEnding,
        usage: Option<TokenUsage>,
        ready: &mut VecDeque<StepEvent>,
    ) -> Result<StreamProgress, StepError> {
        let StepEnding { stop: Some(stop), is_unknown } = ending else {
            return Err(error::unavailable_step("its stream ended early"));
        };
        let unparsable = std::mem::take(&mut self.unparsable);
        if stop == StopReason::OutputFull {
            // The output limit truncated the call, so its arguments are unknown.
            self.calls -= unparsable.len();
        } else {
            for call in unparsable {
                self.emit_call(call, ready)?;
            }
        }
        let stop = match stop {
            StopReason::Done | StopReason::Calls if self.refused => StopReason::Refused,
            StopReason::Done | StopReason::Calls if self.calls == 0 => StopReason::Done,
            StopReason::Done | StopReason::Calls => StopReason::Calls,
            StopReason::OutputFull | StopReason::Refused | StopReason::Filtered | StopReason::Stopped => stop,
        };
        if self.left_out > 0 {
            ready.push_back(StepEvent::Noted(StepNote::CallsLeftOut(self.left_out)));
        }
        if is_unknown {
            ready.push_back(StepEvent::Noted(StepNote::UnknownStop));
        }
        ready.push_back(StepEvent::Finished { stop, usage });
        Ok(StreamProgress::End)
    }

    fn emit_call(&mut self, call: VendorCall, ready: &mut VecDeque<StepEvent>) -> Result<(), StepError> {
        let VendorCall { id, tool, arguments } = call;
        let id = self.ids.claim_id(id)?;
        ready.push_back(StepEvent::Call(StepCall { id, tool, arguments, purpose: Purpose::Tool }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vendor_call(arguments: &str) -> VendorCall {
        VendorCall { id: String::new(), tool: "t".into(), arguments: arguments.into() }
    }

    #[test]
    fn truncated_call_dropped_invalid_json_kept() {
        for (stop, given) in [(StopReason::OutputFull, 1), (StopReason::Done, 2)] {
            let (mut output, mut ready) = (StepOutput::default(), VecDeque::new());
            assert!(output.accept_call(vendor_call(" "), &mut ready).unwrap());
            assert!(!output.accept_call(vendor_call("{\"x"), &mut ready).unwrap());
            let ending = StepEnding { stop: Some(stop), is_unknown: false };
            output.finish_step(ending, None, &mut ready).unwrap();
            assert_eq!(ready.len(), given + 1, "{ready:?}");
        }
    }

    #[test]
    fn output_is_bounded() {
        let (mut output, mut ready) = (StepOutput::default(), VecDeque::new());
        for _ in 0..CALLS_MAX + 38 {
            output.accept_call(vendor_call("{}"), &mut ready).unwrap();
        }
        assert_eq!(ready.len(), CALLS_MAX);
        let ending = StepEnding { stop: Some(StopReason::Calls), is_unknown: false };
        output.finish_step(ending, None, &mut ready).unwrap();
        assert_eq!(ready[CALLS_MAX], StepEvent::Noted(StepNote::CallsLeftOut(38)));
        let mut output = StepOutput::default();
        output.count_bytes(STEP_MAX_BYTES + 1);
        assert!(output.is_full());
    }

    #[test]
    fn repeated_call_emitted_once() {
        let (mut output, mut ready) = (StepOutput::default(), VecDeque::new());
        let named = |id: &str| VendorCall { id: id.into(), ..vendor_call("{}") };
        for id in ["a", "a", "b", "", ""] {
            output.accept_call(named(id), &mut ready).unwrap();
        }
        assert_eq!(ready.len(), 4, "{ready:?}");
    }

    #[test]
    fn whole_and_partial_arguments_taken_once() {
        for pieces in [&["{}", "{\"a\":", "1}"][..], &["{\"a\":", "1}"], &["{\"a\":1}", "{\"a\":1}"]] {
            let mut arguments = String::new();
            pieces.iter().for_each(|piece| extend_arguments(&mut arguments, piece));
            assert_eq!(arguments, "{\"a\":1}", "{pieces:?}");
        }
    }

    #[test]
    fn repeated_call_id_is_replaced() {
        let mut ids = CallIds::new(HashSet::from(["call_0".to_owned()]));
        let own = ids.claim_id("call_0".to_owned()).unwrap();
        assert!(own != "call_0" && own.starts_with("call_"));
        assert_eq!(ids.claim_id("other".to_owned()).unwrap(), "other");
    }
}
