//! Anthropic's Messages.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnswerEnd, TokenSlot, ToolUse, VendorStream, is_too_long, named_frame};
use crate::request::{THOUGHTFUL, VendorRefusal, seal_text};
use crate::script::Cite;

#[derive(PartialEq, Eq)]
enum FakeAnthropicBlock {
    None,
    Text,
    Thinking(String),
}

pub(super) struct AnthropicEncoder {
    seed: String,
    model: String,
    block: FakeAnthropicBlock,
    /// The number of blocks so far.
    blocks: u64,
    called: usize,
    thought: bool,
    refused: bool,
    /// The open text block has its citation, so further text starts another block.
    cited: bool,
}

impl AnthropicEncoder {
    pub(super) fn new(seed: String, model: String) -> Self {
        Self {
            seed,
            model,
            block: FakeAnthropicBlock::None,
            blocks: 0,
            called: 0,
            thought: false,
            refused: false,
            cited: false,
        }
    }

    fn begin_block(&mut self, block: &Value) -> Bytes {
        self.blocks += 1;
        named_frame(&json!({"type": "content_block_start", "index": self.blocks - 1, "content_block": block}))
    }

    fn delta_frame(&self, delta: &Value) -> Bytes {
        named_frame(&json!({"type": "content_block_delta", "index": self.blocks - 1, "delta": delta}))
    }

    fn stop_block(&self) -> Bytes {
        named_frame(&json!({"type": "content_block_stop", "index": self.blocks - 1}))
    }

    fn close_block(&mut self) -> Vec<Bytes> {
        match std::mem::replace(&mut self.block, FakeAnthropicBlock::None) {
            FakeAnthropicBlock::None => Vec::new(),
            FakeAnthropicBlock::Text => vec![self.stop_block()],
            FakeAnthropicBlock::Thinking(text) => {
                let signature =
                    self.delta_frame(&json!({"type": "signature_delta", "signature": seal_text(&text)}));
                vec![signature, self.stop_block()]
            }
        }
    }

    fn text_block(&mut self) -> Vec<Bytes> {
        if self.block == FakeAnthropicBlock::Text && !self.cited {
            return Vec::new();
        }
        let mut frames = self.close_block();
        self.cited = false;
        frames.push(self.begin_block(&json!({"type": "text", "text": ""})));
        if self.blocks == 1 {
            frames.push(named_frame(&json!({"type": "ping"})));
        }
        self.block = FakeAnthropicBlock::Text;
        frames
    }
}

impl VendorStream for AnthropicEncoder {
    fn encode_start(&mut self, usage: Option<u64>) -> Vec<Bytes> {
        let mut message = json!({"id": format!("msg_{}", self.seed), "type": "message", "role": "assistant",
            "content": [], "model": self.model, "stop_reason": null, "stop_sequence": null});
        if let Some(read) = usage {
            message["usage"] = json!({"input_tokens": read, "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0, "output_tokens": 1});
        }
        vec![named_frame(&json!({"type": "message_start", "message": message}))]
    }

    fn encode_text(&mut self, text: &str) -> Vec<Bytes> {
        let mut frames = self.text_block();
        frames.push(self.delta_frame(&json!({"type": "text_delta", "text": text})));
        frames
    }

    fn encode_reasoning(&mut self, text: &str) -> Vec<Bytes> {
        let mut frames = Vec::new();
        if !matches!(self.block, FakeAnthropicBlock::Thinking(_)) {
            frames = self.close_block();
            frames.push(self.begin_block(&json!({"type": "thinking", "thinking": "", "signature": ""})));
            self.block = FakeAnthropicBlock::Thinking(String::new());
            self.thought = true;
        }
        if let FakeAnthropicBlock::Thinking(whole) = &mut self.block {
            whole.push_str(text);
        }
        frames.push(self.delta_frame(&json!({"type": "thinking_delta", "thinking": text})));
        frames
    }

    fn encode_hidden_reasoning(&mut self) -> Vec<Bytes> {
        let mut frames = self.close_block();
        let data = format!("{}{}", seal_text("hidden"), self.seed);
        frames.push(self.begin_block(&json!({"type": "redacted_thinking", "data": data})));
        frames.push(self.stop_block());
        self.thought = true;
        frames
    }

    fn encode_refusal(&mut self, text: &str) -> Vec<Bytes> {
        self.refused = true;
        self.encode_text(text)
    }

    fn encode_calls(&mut self, calls: &[ToolUse], _interleave: bool) -> Vec<Bytes> {
        let mut frames = self.close_block();
        for call in calls {
            let mark = if self.thought { THOUGHTFUL } else { "_" };
            let made_up = format!("toolu{mark}{}_{}", self.seed, self.called);
            let id = call.id.clone().unwrap_or(made_up);
            self.called += 1;
            frames.push(
                self.begin_block(&json!({"type": "tool_use", "id": id, "name": call.tool, "input": {}})),
            );
            let piece =
                |piece: &str| self.delta_frame(&json!({"type": "input_json_delta", "partial_json": piece}));
            frames.push(piece(""));
            frames.extend(call.split_arguments().iter().map(|of| piece(of)));
            frames.push(self.stop_block());
        }
        frames
    }

    fn encode_search(&mut self, query: &str) -> Vec<Bytes> {
        let mut frames = self.close_block();
        let id = format!("srvtoolu_{}_{}", self.seed, self.blocks);
        let input = json!({"query": query}).to_string();
        let (start, end) = input.split_at(input.len() / 2);
        frames.push(
            self.begin_block(
                &json!({"type": "server_tool_use", "id": id, "name": "web_search", "input": {}}),
            ),
        );
        for piece in ["", start, end] {
            frames.push(self.delta_frame(&json!({"type": "input_json_delta", "partial_json": piece})));
        }
        frames.push(self.stop_block());
        let found = json!([{"type": "web_search_result", "url": "https://found.example/", "title": query,
            "encrypted_content": seal_text(query), "page_age": null}]);
        frames.push(
            self.begin_block(&json!({"type": "web_search_tool_result", "tool_use_id": id, "content": found})),
        );
        frames.push(self.stop_block());
        frames
    }

    fn encode_citation(&mut self, cite: &Cite) -> Vec<Bytes> {
        let mut frames = if self.block == FakeAnthropicBlock::Text { Vec::new() } else { self.text_block() };
        self.cited = true;
        let citation = match (cite.document.as_str(), cite.page) {
            ("", _) => json!({"type": "web_search_result_location", "url": cite.url, "title": cite.title,
                "encrypted_index": seal_text(&cite.url), "cited_text": cite.quote}),
            (document, Some(page)) => json!({"type": "page_location", "document_index": 0,
                "document_title": document, "start_page_number": page, "end_page_number": page + 1,
                "cited_text": cite.quote}),
            (document, None) => json!({"type": "char_location", "document_index": 0,
                "document_title": document, "start_char_index": 0,
                "end_char_index": cite.quote.chars().count(), "cited_text": cite.quote}),
        };
        frames.push(self.delta_frame(&json!({"type": "citations_delta", "citation": citation})));
        frames
    }

    fn reserve_token(&mut self) -> (Vec<Bytes>, TokenSlot) {
        (self.text_block(), TokenSlot { index: self.blocks - 1, number: 0 })
    }

    fn encode_token(&self, slot: TokenSlot, text: &str) -> Bytes {
        let delta = json!({"type": "text_delta", "text": text});
        named_frame(&json!({"type": "content_block_delta", "index": slot.index, "delta": delta}))
    }

    fn encode_error(&mut self, message: &str, code: &Value) -> Bytes {
        let kind = code.as_str().unwrap_or("api_error");
        named_frame(&json!({"type": "error", "error": {"type": kind, "message": message}}))
    }

    fn encode_end(&mut self, end: &AnswerEnd<'_>) -> Vec<Bytes> {
        let mut frames = self.close_block();
        let suggested = match (self.refused, self.called) {
            (true, _) => "refusal",
            (false, 0) => "end_turn",
            (false, _) => "tool_use",
        };
        let reason = match end.finish {
            None => suggested,
            Some("stop") => "end_turn",
            Some("length") => "max_tokens",
            Some("content_filter") => "refusal",
            Some("tool_calls") => "tool_use",
            Some(other) => other,
        };
        if !reason.is_empty() {
            let mut delta =
                json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}});
            if let Some((_, written)) = end.usage {
                delta["usage"] = json!({"output_tokens": written});
            }
            frames.push(named_frame(&delta));
        }
        frames.extend((0..end.done).map(|_| named_frame(&json!({"type": "message_stop"}))));
        frames
    }
}

pub(super) fn refusal_body(refusal: &VendorRefusal) -> Value {
    let kind = match refusal.status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    let message = if is_too_long(refusal) {
        "prompt is too long: 5000 tokens > 4096 maximum"
    } else {
        &refusal.message
    };
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_standin"})
}

pub(super) fn model_list(names: &[&str]) -> Value {
    let data: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z",
                "lifecycle": "active", "max_input_tokens": 100_000, "max_tokens": 32_000})
        })
        .collect();
    json!({"data": data, "first_id": names.first(), "last_id": names.last(), "has_more": false})
}
