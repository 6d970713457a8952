//! Estimates token counts, for reservations and for vendors that report no usage.

use domain::image::IMAGE_TOKENS;
use domain::step::{OutputBlock, Step, StepRequest, TokenUsage, TranscriptItem};

/// The overhead of a message.
const MESSAGE_TOKENS: u64 = 6;

/// Converts bytes to tokens: two tokens for each seven bytes, rounded up.
#[must_use]
pub fn tokens_of_bytes(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(2).div_ceil(7)
}

/// Estimates the input tokens of a request. Depends on the request alone.
#[must_use]
pub fn input_tokens(request: &StepRequest) -> u64 {
    let items: u64 = request.transcript.iter().map(item_tokens).sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| {
            MESSAGE_TOKENS + tokens_of_bytes(tool.name.len() + tool.description.len() + tool.schema.len())
        })
        .sum();
    let images = request.images.len() as u64 * IMAGE_TOKENS;
    MESSAGE_TOKENS + tokens_of_bytes(request.instructions.len()) + items + tools + images
}

/// Estimates the output tokens of a step.
#[must_use]
pub fn output_tokens(step: &Step) -> u64 {
    tokens_of_bytes(step.blocks.iter().map(block_bytes).sum())
}

/// Estimates the usage of a step whose vendor reported none.
#[must_use]
pub fn estimate_usage(request: &StepRequest, step: &Step) -> TokenUsage {
    let reasoning = step.blocks.iter().map(|block| match block {
        OutputBlock::Reasoning(text) => text.len(),
        OutputBlock::Text(_) | OutputBlock::Call(_) | OutputBlock::Opaque { .. } => 0,
    });
    TokenUsage {
        input_tokens: input_tokens(request),
        cached_tokens: 0,
        output_tokens: output_tokens(step),
        reasoning_tokens: tokens_of_bytes(reasoning.sum()),
        estimated: true,
    }
}

fn item_tokens(item: &TranscriptItem) -> u64 {
    let bytes = match item {
        TranscriptItem::Question { text, attachments } => {
            text.len() + attachments.iter().map(String::len).sum::<usize>()
        }
        TranscriptItem::Step(step) => step.blocks.iter().map(block_bytes).sum(),
        TranscriptItem::Result(result) => {
            let passages = result
                .passages
                .iter()
                .map(|passage| passage.text.len() + passage.place.to_string().len() + 8);
            result.text.len() + passages.sum::<usize>()
        }
    };
    MESSAGE_TOKENS + tokens_of_bytes(bytes)
}

fn block_bytes(block: &OutputBlock) -> usize {
    match block {
        OutputBlock::Text(text) | OutputBlock::Reasoning(text) => text.len(),
        OutputBlock::Call(call) => call.id.len() + call.tool.len() + call.arguments.len(),
        OutputBlock::Opaque { json, .. } => json.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_rounded_up() {
        assert_eq!([0, 1, 3, 4, 7, 35].map(tokens_of_bytes), [0, 1, 1, 2, 2, 10]);
    }

    #[test]
    fn everything_that_is_sent_is_counted() {
        let mut request = StepRequest {
            images: Vec::new(),
            model: "m".into(),
            instructions: String::new(),
            transcript: vec![],
            tools: vec![],
            settings: vec![],
            output_max_tokens: 1,
        };
        let empty = input_tokens(&request);
        request.instructions = "x".repeat(35);
        assert_eq!(input_tokens(&request), empty + 10);
        request.transcript.push(TranscriptItem::Question { text: "y".repeat(35), attachments: vec![] });
        assert_eq!(input_tokens(&request), empty + 20 + MESSAGE_TOKENS);
    }
}
