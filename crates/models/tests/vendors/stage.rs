//! Sets up a vendor's server, sends requests and collects the responses.

use std::sync::Arc;

use domain::citation::Cited;
use domain::step::{
    Block, Call, CallResult, Item, Step, StepError, StepEvent, StepOutcome, StepRequest, StopReason,
    ToolSpec, Usage,
};
use domain::step_note::StepNote;
use futures_util::StreamExt;
use models::{Format, Secret, Timeouts, Vendor, VendorConfig};
use test_support::Handle;

pub(crate) const KEY: &str = "sk-a-secret-key";

/// Starts the fake vendor and returns a client in this format.
pub(crate) async fn stage(format: Format) -> (Handle, Vendor) {
    stage_with(format, Timeouts::default()).await
}

/// Starts the fake vendor and returns a client with these timeouts.
pub(crate) async fn stage_with(format: Format, max_wait: Timeouts) -> (Handle, Vendor) {
    let handle = test_support::start().await.unwrap();
    let vendor = vendor(format, &handle.root_url(), max_wait);
    (handle, vendor)
}

/// Creates a client for this address.
pub(crate) fn vendor(format: Format, base_url: &str, max_wait: Timeouts) -> Vendor {
    let key = Some(Secret::new(KEY));
    let config = VendorConfig { key, base_url: Some(base_url.to_owned()), ..VendorConfig::default() };
    Vendor::with_timeouts(format, &config, max_wait).unwrap()
}

/// Builds a question for this model, which may reason and call `list`.
pub(crate) fn request(model: &str, question: &str) -> StepRequest {
    StepRequest {
        images: Vec::new(),
        model: model.to_owned(),
        instructions: "Answer.".to_owned(),
        transcript: vec![Item::Question { text: question.to_owned(), attachments: vec![] }],
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
pub(crate) struct StepResult {
    pub(crate) blocks: Vec<Block>,
    pub(crate) cited: Vec<Cited>,
    pub(crate) notes: Vec<StepNote>,
    pub(crate) finished: Option<(StopReason, Option<Usage>)>,
    pub(crate) error: Option<StepError>,
}

impl StepResult {
    pub(crate) fn text(&self) -> String {
        self.blocks
            .iter()
            .filter_map(|block| if let Block::Text(text) = block { Some(&**text) } else { None })
            .collect()
    }

    pub(crate) fn reasoning(&self) -> String {
        let texts = self.blocks.iter().filter_map(|block| match block {
            Block::Reasoning(text) => Some(&**text),
            Block::Text(_) | Block::Call(_) | Block::Opaque { .. } => None,
        });
        texts.collect()
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        let step = Step { blocks: self.blocks.clone(), ..Step::default() };
        step.calls().cloned().collect()
    }

    pub(crate) fn opaque(&self) -> usize {
        self.blocks.iter().filter(|block| matches!(block, Block::Opaque { .. })).count()
    }

    pub(crate) fn stop(&self) -> StopReason {
        self.finished.unwrap_or_else(|| panic!("{self:?}")).0
    }

    /// Applies an event as the host does.
    pub(crate) fn take(&mut self, event: Result<StepEvent, StepError>) {
        assert!(self.finished.is_none() && self.error.is_none(), "nothing follows the end");
        match event {
            Ok(StepEvent::Text(text)) => match self.blocks.last_mut() {
                Some(Block::Text(whole)) => whole.push_str(&text),
                _ => self.blocks.push(Block::Text(text)),
            },
            Ok(StepEvent::Reasoning(text)) => match self.blocks.last_mut() {
                Some(Block::Reasoning(whole)) => whole.push_str(&text),
                _ => self.blocks.push(Block::Reasoning(text)),
            },
            Ok(StepEvent::Cited(cited)) => self.cited.push(cited),
            Ok(StepEvent::Noted(note)) => self.notes.push(note),
            Ok(StepEvent::WasReasoning) => {
                let texts = std::mem::take(&mut self.blocks).into_iter().filter_map(|block| match block {
                    Block::Text(text) | Block::Reasoning(text) => Some(text),
                    Block::Call(_) | Block::Opaque { .. } => None,
                });
                self.blocks.push(Block::Reasoning(texts.collect()));
            }
            Ok(StepEvent::Call(call)) => self.blocks.push(Block::Call(call)),
            Ok(StepEvent::Opaque { format, json }) => self.blocks.push(Block::Opaque { format, json }),
            Ok(StepEvent::Finished { stop, usage }) => self.finished = Some((stop, usage)),
            Err(error) => self.error = Some(error),
        }
    }
}

/// Makes one attempt at a step.
pub(crate) async fn run_step(vendor: &Vendor, request: StepRequest) -> StepResult {
    let mut result = StepResult::default();
    let mut events = vendor.step(request);
    while let Some(event) = events.next().await {
        result.take(event);
    }
    assert!(result.finished.is_some() != result.error.is_some(), "a step ends in one way");
    result
}

/// Adds the step to the transcript, and a result for each call.
pub(crate) fn append_step(request: &mut StepRequest, result: &StepResult) {
    request.transcript.push(Item::Step(Arc::new(Step { blocks: result.blocks.clone(), ..Step::default() })));
    for call in result.calls() {
        request.transcript.push(Item::Result(Arc::new(CallResult {
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
pub(crate) fn script(json: &str) -> String {
    format!("STANDIN {json}")
}
