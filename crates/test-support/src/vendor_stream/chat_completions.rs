//! OpenAI's Chat Completions.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnswerEnd, CitableText, TokenSlot, ToolUse, VendorStream, data_frame};
use crate::request::VendorRefusal;
use crate::script::Cite;

pub(super) struct ChatCompletionsEncoder {
    seed: String,
    model: String,
    called: usize,
    citable: CitableText,
}

impl ChatCompletionsEncoder {
    pub(super) fn new(seed: String, model: String) -> Self {
        Self { seed, model, called: 0, citable: CitableText::default() }
    }

    fn delta_frame(&self, delta: &Value) -> Bytes {
        self.chunk_frame(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &Value::Null)
    }

    fn chunk_frame(&self, choices: &Value, usage: &Value) -> Bytes {
        data_frame(&json!({"id": format!("chatcmpl-{}", self.seed), "object": "chat.completion.chunk",
            "created": 1_700_000_000, "model": self.model, "choices": choices, "usage": usage}))
    }
}

impl VendorStream for ChatCompletionsEncoder {
    fn encode_start(&mut self, _usage: Option<u64>) -> Vec<Bytes> {
        vec![self.delta_frame(&json!({"role": "assistant", "content": ""}))]
    }

    fn encode_text(&mut self, text: &str) -> Vec<Bytes> {
        self.citable.text.push_str(text);
        vec![self.delta_frame(&json!({"content": text}))]
    }

    fn encode_reasoning(&mut self, text: &str) -> Vec<Bytes> {
        vec![self.delta_frame(&json!({"reasoning_content": text}))]
    }

    fn encode_hidden_reasoning(&mut self) -> Vec<Bytes> {
        Vec::new()
    }

    fn encode_refusal(&mut self, text: &str) -> Vec<Bytes> {
        vec![self.delta_frame(&json!({"refusal": text}))]
    }

    fn encode_calls(&mut self, calls: &[ToolUse], interleave: bool) -> Vec<Bytes> {
        let mut frames: Vec<Vec<Bytes>> = Vec::new();
        for call in calls {
            let index = self.called;
            self.called += 1;
            let id = call.id.clone().unwrap_or_else(|| format!("call_{}_{index}", self.seed));
            let function = json!({"name": call.tool, "arguments": ""});
            let mut first = json!({"index": index, "type": "function", "function": function});
            if !id.is_empty() {
                first["id"] = Value::from(id);
            }
            let mut of = vec![self.delta_frame(&json!({"tool_calls": [first]}))];
            of.extend(call.split_arguments().into_iter().map(|piece| {
                self.delta_frame(&json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
            }));
            frames.push(of);
        }
        if !interleave {
            return frames.concat();
        }
        let longest = frames.iter().map(Vec::len).max().unwrap_or(0);
        (0..longest).flat_map(|at| frames.iter().filter_map(move |of| of.get(at).cloned())).collect()
    }

    fn encode_citation(&mut self, cite: &Cite) -> Vec<Bytes> {
        if cite.url.is_empty() {
            return Vec::new();
        }
        let claim = self.citable.claim_uncited();
        let characters = |bytes: usize| self.citable.text[..bytes].trim_end().chars().count();
        let cited = json!({"url": cite.url, "title": cite.title, "content": cite.quote,
            "start_index": characters(claim.start), "end_index": characters(claim.end)});
        vec![self.delta_frame(&json!({"annotations": [{"type": "url_citation", "url_citation": cited}]}))]
    }

    fn reserve_token(&mut self) -> (Vec<Bytes>, TokenSlot) {
        (Vec::new(), TokenSlot { index: 0, number: 0 })
    }

    fn encode_token(&self, _slot: TokenSlot, text: &str) -> Bytes {
        self.delta_frame(&json!({"content": text}))
    }

    fn encode_error(&mut self, message: &str, code: &Value) -> Bytes {
        data_frame(&json!({"error": {"message": message, "type": "server_error", "code": code}}))
    }

    fn encode_end(&mut self, end: &AnswerEnd<'_>) -> Vec<Bytes> {
        let suggested = if self.called > 0 { "tool_calls" } else { "stop" };
        let finish = end.finish.unwrap_or(suggested);
        let mut frames = Vec::new();
        if !finish.is_empty() {
            let choice = json!([{"index": 0, "delta": {}, "finish_reason": finish}]);
            frames.push(self.chunk_frame(&choice, &Value::Null));
        }
        if let Some((read, written)) = end.usage {
            let usage = json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
                "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}});
            frames.push(self.chunk_frame(&json!([]), &usage));
        }
        frames.extend((0..end.done).map(|_| Bytes::from_static(b"data: [DONE]\n\n")));
        frames
    }
}

pub(super) fn refusal_body(refusal: &VendorRefusal) -> Value {
    let kind = if refusal.status < 500 { "invalid_request_error" } else { "server_error" };
    json!({"error": {"message": refusal.message, "type": kind, "param": null, "code": refusal.code}})
}

pub(super) fn model_list(names: &[&str]) -> Value {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "standin"}))
        .collect();
    json!({"object": "list", "data": data})
}
