//! A vendor's server, what is asked of it, and what it said.

use std::sync::Arc;

use domain::citation::Cited;
use domain::step::{
    Block, Call, CallResult, Item, Step, StepError, StepEvent, StepOutcome, StepRequest, StopReason,
    ToolSpec, Usage,
};
use futures_util::StreamExt;
use models::{Format, Secret, Timeouts, Vendor, VendorConfig};
use test_support::Handle;

/// The key that is configured.
pub(crate) const KEY: &str = "sk-a-secret-key";

/// The stand-in, and the provider that speaks to it in this format.
pub(crate) async fn stage(format: Format) -> (Handle, Vendor) {
    stage_with(format, Timeouts::default()).await
}

/// The same, waited for as said.
pub(crate) async fn stage_with(format: Format, max_wait: Timeouts) -> (Handle, Vendor) {
    let handle = test_support::start().await.unwrap();
    let vendor = vendor(format, &handle.root_url(), max_wait);
    (handle, vendor)
}

/// A provider of the server at this address.
pub(crate) fn vendor(format: Format, base_url: &str, max_wait: Timeouts) -> Vendor {
    let key = Some(Secret::new(KEY));
    let config = VendorConfig { key, base_url: Some(base_url.to_owned()), ..VendorConfig::default() };
    Vendor::with_timeouts(format, &config, max_wait).unwrap()
}

/// A question to this model, which may think and call `list`.
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

/// What a step gave: its blocks as they will be kept, and how it ended.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Said {
    pub(crate) blocks: Vec<Block>,
    pub(crate) cited: Vec<Cited>,
    pub(crate) finished: Option<(StopReason, Option<Usage>)>,
    pub(crate) error: Option<StepError>,
}

impl Said {
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

    /// Takes an event as the host does.
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
            Ok(StepEvent::Call(call)) => self.blocks.push(Block::Call(call)),
            Ok(StepEvent::Opaque { format, json }) => self.blocks.push(Block::Opaque { format, json }),
            Ok(StepEvent::Finished { stop, usage }) => self.finished = Some((stop, usage)),
            Err(error) => self.error = Some(error),
        }
    }
}

/// One attempt at a step.
pub(crate) async fn say(vendor: &Vendor, request: StepRequest) -> Said {
    let mut said = Said::default();
    let mut events = vendor.step(request);
    while let Some(event) = events.next().await {
        said.take(event);
    }
    assert!(said.finished.is_some() != said.error.is_some(), "a step ends in one way");
    said
}

/// Puts what was said into the exchange, and a result behind each call.
pub(crate) fn go_on(request: &mut StepRequest, said: &Said) {
    request.transcript.push(Item::Step(Arc::new(Step { blocks: said.blocks.clone(), ..Step::default() })));
    for call in said.calls() {
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

/// A question that carries this script.
pub(crate) fn script(json: &str) -> String {
    format!("STANDIN {json}")
}
