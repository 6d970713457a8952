//! Google's `streamGenerateContent`.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnswerEnd, CitableText, TokenSlot, ToolUse, VendorStream, data_frame, is_too_long};
use crate::request::{VendorRefusal, seal_text};
use crate::script::Cite;

pub(super) struct Contents {
    seed: String,
    model: String,
    called: usize,
    thought: bool,
    refused: bool,
    citable: CitableText,
    /// The cited pages; their claims are in `supports`.
    chunks: Vec<Value>,
    supports: Vec<Value>,
}

impl Contents {
    pub(super) fn new(seed: String, model: String) -> Self {
        Self {
            seed,
            model,
            called: 0,
            thought: false,
            refused: false,
            citable: CitableText::default(),
            chunks: Vec::new(),
            supports: Vec::new(),
        }
    }

    fn part_frame(&self, part: &Value) -> Bytes {
        self.candidate_frame(&json!({"content": {"role": "model", "parts": [part]}, "index": 0}), None)
    }

    fn candidate_frame(&self, candidate: &Value, usage: Option<(u64, u64)>) -> Bytes {
        let mut chunk =
            json!({"candidates": [candidate], "modelVersion": self.model, "responseId": self.seed});
        if let Some((read, written)) = usage {
            chunk["usageMetadata"] = json!({"promptTokenCount": read, "candidatesTokenCount": written,
                "totalTokenCount": read + written});
        }
        data_frame(&chunk)
    }
}

impl VendorStream for Contents {
    fn encode_start(&mut self, _usage: Option<u64>) -> Vec<Bytes> {
        Vec::new()
    }

    fn encode_text(&mut self, text: &str) -> Vec<Bytes> {
        self.citable.text.push_str(text);
        vec![self.part_frame(&json!({"text": text}))]
    }

    fn encode_reasoning(&mut self, text: &str) -> Vec<Bytes> {
        self.thought = true;
        vec![self.part_frame(&json!({"text": text, "thought": true}))]
    }

    fn encode_hidden_reasoning(&mut self) -> Vec<Bytes> {
        vec![self.part_frame(&json!({"text": "", "thoughtSignature": seal_text("")}))]
    }

    fn encode_refusal(&mut self, text: &str) -> Vec<Bytes> {
        self.refused = true;
        self.encode_text(text)
    }

    fn encode_calls(&mut self, calls: &[ToolUse], _interleave: bool) -> Vec<Bytes> {
        let mut frames = Vec::new();
        for call in calls {
            // The format cannot represent arguments other than objects: the vendor stops with a special reason.
            let args: Value = serde_json::from_str(&call.arguments).unwrap_or_else(|_| json!({}));
            let args = if args.is_null() { json!({}) } else { args };
            let mut part = json!({"functionCall": {"name": call.tool, "args": args}});
            if let Some(id) = call.id.as_deref().filter(|id| !id.is_empty()) {
                part["functionCall"]["id"] = Value::from(id);
            }
            // Only the first of adjacent calls is signed.
            if self.called == 0 {
                part["thoughtSignature"] = Value::from(seal_text(&format!("{}{args}", call.tool)));
            }
            self.called += 1;
            frames.push(self.part_frame(&part));
        }
        frames
    }

    fn encode_citation(&mut self, cite: &Cite) -> Vec<Bytes> {
        let claim = self.citable.claim_uncited();
        self.chunks.push(match cite.document.as_str() {
            "" => json!({"web": {"uri": cite.url, "title": cite.title}}),
            document => {
                json!({"retrievedContext": {"uri": "fileSearchStores/a/documents/b", "title": document,
                "text": cite.quote}})
            }
        });
        let (text, index) = (self.citable.text[claim.clone()].trim_end(), self.chunks.len() - 1);
        let segment = json!({"startIndex": claim.start, "endIndex": claim.start + text.len(), "text": text});
        self.supports.push(json!({"segment": segment, "groundingChunkIndices": [index]}));
        Vec::new() // sent with the end
    }

    fn reserve_token(&mut self) -> (Vec<Bytes>, TokenSlot) {
        (Vec::new(), TokenSlot { index: 0, number: 0 })
    }

    fn encode_token(&self, _slot: TokenSlot, text: &str) -> Bytes {
        self.part_frame(&json!({"text": text}))
    }

    fn encode_error(&mut self, message: &str, code: &Value) -> Bytes {
        let code = code.as_u64().unwrap_or(503);
        data_frame(&json!({"error": {"code": code, "message": message, "status": status_name(code)}}))
    }

    fn encode_end(&mut self, end: &AnswerEnd<'_>) -> Vec<Bytes> {
        let suggested = if self.refused { "SAFETY" } else { "STOP" };
        let reason = match end.finish {
            None => suggested,
            Some("stop" | "tool_calls") => "STOP",
            Some("length") => "MAX_TOKENS",
            Some("content_filter") => "SAFETY",
            Some(other) => other,
        };
        // The stop reason is the only end marker.
        let marks = if reason.is_empty() { 0 } else { end.done };
        let part = if self.thought {
            json!({"text": "", "thoughtSignature": seal_text("")})
        } else {
            json!({"text": ""})
        };
        let content = json!({"role": "model", "parts": [part]});
        (0..marks)
            .map(|_| {
                let mut candidate = json!({"content": content, "finishReason": reason, "index": 0});
                if !self.chunks.is_empty() {
                    candidate["groundingMetadata"] = json!({"webSearchQueries": ["a query"],
                        "groundingChunks": self.chunks, "groundingSupports": self.supports});
                }
                self.candidate_frame(&candidate, end.usage)
            })
            .collect()
    }
}

fn status_name(code: u64) -> &'static str {
    match code {
        400 => "INVALID_ARGUMENT",
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        503 | 529 => "UNAVAILABLE",
        _ => "INTERNAL",
    }
}

pub(super) fn refusal_body(refusal: &VendorRefusal) -> Value {
    let message = if is_too_long(refusal) {
        "The input token count (5000) exceeds the maximum number of tokens allowed (4096)."
    } else {
        &refusal.message
    };
    json!({"error": {"code": refusal.status, "message": message, "status": status_name(refusal.status.into())}})
}

pub(super) fn model_list(names: &[&str]) -> Value {
    let models: Vec<Value> = names
        .iter()
        .map(|name| {
            json!({"name": format!("models/{name}"), "displayName": name, "inputTokenLimit": 100_000,
                "outputTokenLimit": 32_000, "supportedGenerationMethods": ["generateContent", "countTokens"]})
        })
        .collect();
    json!({"models": models})
}
