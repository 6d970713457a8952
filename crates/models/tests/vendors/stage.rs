//! Sets up a vendor's server, sends requests and collects the responses.

use std::sync::Arc;

use domain::citation::VendorCitation;
use domain::step::{
    CallResult, OutputBlock, Step, StepCall, StepError, StepEvent, StepOutcome, StepRequest, StopReason,
    TokenUsage, ToolSpec, TranscriptItem,
};
use domain::step_note::StepNote;
use futures_util::StreamExt;
use models::{Secret, StepTimeouts, VendorClient, VendorConfig, WireFormat};
use test_support::FakeVendorHandle;

pub(crate) const KEY: &str = "sk-a-secret-key";

/// Starts the fake vendor and returns a client in this format.
pub(crate) async fn start_stage(format: WireFormat) -> (FakeVendorHandle, VendorClient) {
    stage_with(format, StepTimeouts::default()).await
}

/// Starts the fake vendor and returns a client with these timeouts.
pub(crate) async fn stage_with(
    format: WireFormat,
    max_wait: StepTimeouts,
) -> (FakeVendorHandle, VendorClient) {
    let handle = test_support::start_server().await.unwrap();
    let vendor = vendor_client(format, &handle.root_url(), max_wait);
    (handle, vendor)
}

/// Creates a client for this address.
pub(crate) fn vendor_client(format: WireFormat, base_url: &str, max_wait: StepTimeouts) -> VendorClient {
    let key = Some(Secret::new(KEY));
    let config = VendorConfig { key, base_url: Some(base_url.to_owned()), ..VendorConfig::default() };
    VendorClient::with_timeouts(format, &config, max_wait).unwrap()
}

/// Builds a question for this model, which may reason and call `list`.
pub(crate) fn question_request(model: &str, question: &str) -> StepRequest {
    StepRequest {
        images: Vec::new(),
        model: model.to_owned(),
        instructions: "Answer.".to_owned(),
        transcript: vec![TranscriptItem::Question { text: question.to_owned(), attachments: vec![] }],
        tools: vec![ToolSpec {
            name: "list".to_owned(),
            description: "Lists a folder.".to_owned(),
            schema: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.to_owned(),
        }],
        settings: vec![("reasoningEffort".to_owned(), "MEDIUM".to_owned())],
        output_max_tokens: 8192,
    }
}

/// The result of a step: its blocks as they are stored, and its end.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct VendorStepResult {
    pub(crate) blocks: Vec<OutputBlock>,
    pub(crate) cited: Vec<VendorCitation>,
    pub(crate) notes: Vec<StepNote>,
    pub(crate) finished: Option<(StopReason, Option<TokenUsage>)>,
    pub(crate) error: Option<StepError>,
}

impl VendorStepResult {
    pub(crate) fn whole_text(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|block| if let OutputBlock::Text(text) = block { Some(&**text) } else { None })
            .collect()
    }

    pub(crate) fn whole_reasoning(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            OutputBlock::Reasoning(text) => Some(&**text),
            OutputBlock::Text(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. } => None,
        });
        texts.collect()
    }

    pub(crate) fn step_calls(&self) -> Vec<StepCall> {
        let step = Step { blocks: self.blocks.clone(), ..Step::default() };
        step.tool_calls().cloned().collect()
    }

    pub(crate) fn opaque_count(&self) -> usize {
        self.blocks.iter().filter(|block| matches!(block, OutputBlock::Opaque { .. })).count()
    }

    pub(crate) fn stop_reason(&self) -> StopReason {
        self.finished.unwrap_or_else(|| panic!("{self:?}")).0
    }

    /// Applies an event as the host does.
    pub(crate) fn apply_event(&mut self, event: Result<StepEvent, StepError>) {
        assert!(self.finished.is_none() && self.error.is_none(), "nothing follows the end");
        match event {
            Ok(StepEvent::Text(text)) => match self.blocks.last_mut() {
                Some(OutputBlock::Text(whole)) => whole.push_str(&text),
                _ => self.blocks.push(OutputBlock::Text(text)),
            },
            Ok(StepEvent::Reasoning(text)) => match self.blocks.last_mut() {
                Some(OutputBlock::Reasoning(whole)) => whole.push_str(&text),
                _ => self.blocks.push(OutputBlock::Reasoning(text)),
            },
            Ok(StepEvent::Cited(cited)) => self.cited.push(cited),
            Ok(StepEvent::Noted(note)) => self.notes.push(note),
            Ok(StepEvent::WasReasoning) => {
                let texts = std::mem::take(&mut self.blocks).into_iter().filter_map(|block| match block {
                    OutputBlock::Text(text) | OutputBlock::Reasoning(text) => Some(text),
                    OutputBlock::Call(_) | OutputBlock::Opaque { .. } => None,
                });
                self.blocks.push(OutputBlock::Reasoning(texts.collect()));
            }
            Ok(StepEvent::Call(call)) => self.blocks.push(OutputBlock::Call(call)),
            Ok(StepEvent::Opaque { format, json }) => self.blocks.push(OutputBlock::Opaque { format, json }),
            Ok(StepEvent::Finished { stop, usage }) => self.finished = Some((stop, usage)),
            Err(error) => self.error = Some(error),
        }
    }
}

/// Makes one attempt at a step.
pub(crate) async fn run_step(vendor: &VendorClient, request: StepRequest) -> VendorStepResult {
    let mut result = VendorStepResult::default();
    let mut events = vendor.stream_step(request);
    while let Some(event) = events.next().await {
        result.apply_event(event);
    }
    assert!(result.finished.is_some() != result.error.is_some(), "a step ends in one way");
    result
}

/// Adds the step to the transcript, and a result for each call.
pub(crate) fn append_step(request: &mut StepRequest, result: &VendorStepResult) {
    request
        .transcript
        .push(TranscriptItem::Step(Arc::new(Step { blocks: result.blocks.clone(), ..Step::default() })));
    for call in result.step_calls() {
        request.transcript.push(TranscriptItem::Result(Arc::new(CallResult {
            images: Vec::new(),
            call: call.id,
            tool: call.tool,
            outcome: StepOutcome::Done,
            text: "ok".to_owned(),
            passages: vec![],
            written: vec![],
            unread: Vec::new(),
        })));
    }
}

/// Builds a question with a script for the fake vendor.
pub(crate) fn script_question(json: &str) -> String {
    format!("STANDIN {json}")
}
