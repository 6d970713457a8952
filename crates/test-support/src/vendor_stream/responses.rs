//! OpenAI's Responses.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{AnswerEnd, CitableText, TokenSlot, ToolUse, VendorStream, named_frame};
use crate::request::{THOUGHTFUL, seal_text};
use crate::script::Cite;

enum FakeResponsesItem {
    None,
    Text(CitableText, Vec<Value>),
    Refusal(String),
    Reasoning(String),
}

pub(super) struct Items {
    seed: String,
    model: String,
    item: FakeResponsesItem,
    /// The number of items so far.
    items: u64,
    /// The number of frames so far.
    frames: u64,
    called: usize,
    thought: bool,
    refused: bool,
}

impl Items {
    pub(super) fn new(seed: String, model: String) -> Self {
        Self {
            seed,
            model,
            item: FakeResponsesItem::None,
            items: 0,
            frames: 0,
            called: 0,
            thought: false,
            refused: false,
        }
    }

    fn event_frame(&mut self, kind: &str, mut data: Value) -> Bytes {
        data["type"] = Value::from(kind);
        data["sequence_number"] = Value::from(self.frames);
        self.frames += 1;
        named_frame(&data)
    }

    fn item_id(&self, kind: &str) -> String {
        format!("{kind}_{}_{}", self.seed, self.items.saturating_sub(1))
    }

    fn response_object(&self, status: &str) -> Value {
        json!({"id": format!("resp_{}", self.seed), "object": "response", "created_at": 1_700_000_000,
            "status": status, "model": self.model, "output": [], "error": null, "incomplete_details": null,
            "usage": null, "store": false})
    }

    fn item_added_frame(&mut self, item: Value) -> Bytes {
        let index = self.items - 1;
        self.event_frame("response.output_item.added", json!({"output_index": index, "item": item}))
    }

    fn item_done_frame(&mut self, item: Value) -> Bytes {
        let index = self.items - 1;
        self.event_frame("response.output_item.done", json!({"output_index": index, "item": item}))
    }

    /// Encodes an event of the open item's first part.
    fn part_event_frame(&mut self, kind: &str, id: &str, mut data: Value) -> Bytes {
        data["item_id"] = Value::from(id);
        data["output_index"] = Value::from(self.items - 1);
        let part = if kind.contains("summary") { "summary_index" } else { "content_index" };
        data[part] = Value::from(0);
        self.event_frame(kind, data)
    }

    fn close_item(&mut self) -> Vec<Bytes> {
        match std::mem::replace(&mut self.item, FakeResponsesItem::None) {
            FakeResponsesItem::None => Vec::new(),
            FakeResponsesItem::Text(CitableText { text, .. }, annotations) => {
                let part = json!({"type": "output_text", "text": text, "annotations": annotations});
                self.close_message("response.output_text.done", "text", &text, &part)
            }
            FakeResponsesItem::Refusal(text) => {
                let part = json!({"type": "refusal", "refusal": text});
                self.close_message("response.refusal.done", "refusal", &text, &part)
            }
            FakeResponsesItem::Reasoning(text) => {
                let id = self.item_id("rs");
                let part = json!({"type": "summary_text", "text": text});
                let item = json!({"id": id, "type": "reasoning", "summary": [part], "encrypted_content": seal_text(&id)});
                vec![
                    self.part_event_frame("response.reasoning_summary_text.done", &id, json!({"text": text})),
                    self.part_event_frame("response.reasoning_summary_part.done", &id, json!({"part": part})),
                    self.item_done_frame(item),
                ]
            }
        }
    }

    fn close_message(&mut self, kind: &str, field: &str, text: &str, part: &Value) -> Vec<Bytes> {
        let id = self.item_id("msg");
        let item = json!({"id": id, "type": "message", "role": "assistant", "status": "completed", "content": [part]});
        vec![
            self.part_event_frame(kind, &id, json!({ field: text })),
            self.part_event_frame("response.content_part.done", &id, json!({"part": part})),
            self.item_done_frame(item),
        ]
    }

    fn open_message(&mut self, part: &Value) -> Vec<Bytes> {
        let mut frames = self.close_item();
        self.items += 1;
        let id = self.item_id("msg");
        frames.push(self.item_added_frame(
            json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []}),
        ));
        frames.push(self.part_event_frame("response.content_part.added", &id, json!({"part": part})));
        frames
    }

    fn text_item(&mut self) -> Vec<Bytes> {
        if matches!(self.item, FakeResponsesItem::Text(..)) {
            return Vec::new();
        }
        let frames = self.open_message(&json!({"type": "output_text", "text": "", "annotations": []}));
        self.item = FakeResponsesItem::Text(CitableText::default(), Vec::new());
        frames
    }
}

impl VendorStream for Items {
    fn encode_start(&mut self, _usage: Option<u64>) -> Vec<Bytes> {
        let response = self.response_object("in_progress");
        vec![
            self.event_frame("response.created", json!({"response": response})),
            self.event_frame("response.in_progress", json!({"response": response})),
        ]
    }

    fn encode_text(&mut self, text: &str) -> Vec<Bytes> {
        let mut frames = self.text_item();
        if let FakeResponsesItem::Text(whole, _) = &mut self.item {
            whole.text.push_str(text);
        }
        let id = self.item_id("msg");
        let delta = json!({"delta": text, "logprobs": [], "obfuscation": "x"});
        frames.push(self.part_event_frame("response.output_text.delta", &id, delta));
        frames
    }

    fn encode_reasoning(&mut self, text: &str) -> Vec<Bytes> {
        let mut frames = Vec::new();
        if !matches!(self.item, FakeResponsesItem::Reasoning(_)) {
            frames = self.close_item();
            self.items += 1;
            self.item = FakeResponsesItem::Reasoning(String::new());
            self.thought = true;
            let id = self.item_id("rs");
            frames.push(self.item_added_frame(json!({"id": id, "type": "reasoning", "summary": []})));
            let part = json!({"part": {"type": "summary_text", "text": ""}});
            frames.push(self.part_event_frame("response.reasoning_summary_part.added", &id, part));
        }
        if let FakeResponsesItem::Reasoning(whole) = &mut self.item {
            whole.push_str(text);
        }
        let id = self.item_id("rs");
        frames.push(self.part_event_frame(
            "response.reasoning_summary_text.delta",
            &id,
            json!({"delta": text}),
        ));
        frames
    }

    fn encode_hidden_reasoning(&mut self) -> Vec<Bytes> {
        let mut frames = self.close_item();
        self.items += 1;
        self.thought = true;
        let id = self.item_id("rs");
        frames.push(self.item_added_frame(json!({"id": id, "type": "reasoning", "summary": []})));
        let item = json!({"id": id, "type": "reasoning", "summary": [], "encrypted_content": seal_text(&id)});
        frames.push(self.item_done_frame(item));
        frames
    }

    fn encode_refusal(&mut self, text: &str) -> Vec<Bytes> {
        self.refused = true;
        let mut frames = Vec::new();
        if !matches!(self.item, FakeResponsesItem::Refusal(_)) {
            frames = self.open_message(&json!({"type": "refusal", "refusal": ""}));
            self.item = FakeResponsesItem::Refusal(String::new());
        }
        if let FakeResponsesItem::Refusal(whole) = &mut self.item {
            whole.push_str(text);
        }
        let id = self.item_id("msg");
        frames.push(self.part_event_frame("response.refusal.delta", &id, json!({"delta": text})));
        frames
    }

    fn encode_calls(&mut self, calls: &[ToolUse], _interleave: bool) -> Vec<Bytes> {
        let mut frames = self.close_item();
        for call in calls {
            let mark = if self.thought { THOUGHTFUL } else { "_" };
            let made_up = format!("call{mark}{}_{}", self.seed, self.called);
            let call_id = call.id.clone().unwrap_or(made_up);
            self.called += 1;
            self.items += 1;
            let id = self.item_id("fc");
            let mut item = json!({"id": id, "type": "function_call", "status": "in_progress", "call_id": call_id,
                "name": call.tool, "arguments": ""});
            frames.push(self.item_added_frame(item.clone()));
            for piece in call.split_arguments() {
                let delta = json!({"item_id": id, "output_index": self.items - 1, "delta": piece});
                frames.push(self.event_frame("response.function_call_arguments.delta", delta));
            }
            let whole = json!({"item_id": id, "output_index": self.items - 1, "arguments": call.arguments});
            frames.push(self.event_frame("response.function_call_arguments.done", whole));
            item["status"] = Value::from("completed");
            item["arguments"] = Value::from(call.arguments.as_str());
            frames.push(self.item_done_frame(item));
        }
        frames
    }

    fn encode_citation(&mut self, cite: &Cite) -> Vec<Bytes> {
        let mut frames = self.text_item();
        let FakeResponsesItem::Text(citable, annotations) = &mut self.item else { return frames };
        let claim = citable.claim_uncited();
        let characters = |bytes: usize| citable.text[..bytes].trim_end().chars().count();
        let (start, end) = (characters(claim.start), characters(claim.end));
        let annotation = match cite.document.as_str() {
            "" => json!({"type": "url_citation", "url": cite.url, "title": cite.title, "start_index": start,
                "end_index": end}),
            document => {
                json!({"type": "file_citation", "file_id": "file-1", "filename": document, "index": end})
            }
        };
        annotations.push(annotation.clone());
        let index = annotations.len() - 1;
        let id = self.item_id("msg");
        let data = json!({"annotation_index": index, "annotation": annotation});
        frames.push(self.part_event_frame("response.output_text.annotation.added", &id, data));
        frames
    }

    fn reserve_token(&mut self) -> (Vec<Bytes>, TokenSlot) {
        let frames = self.text_item();
        self.frames += 1;
        (frames, TokenSlot { index: self.items - 1, number: self.frames - 1 })
    }

    fn encode_token(&self, slot: TokenSlot, text: &str) -> Bytes {
        let id = format!("msg_{}_{}", self.seed, slot.index);
        named_frame(
            &json!({"type": "response.output_text.delta", "sequence_number": slot.number, "item_id": id,
            "output_index": slot.index, "content_index": 0, "delta": text, "logprobs": []}),
        )
    }

    fn encode_error(&mut self, message: &str, code: &Value) -> Bytes {
        self.event_frame("error", json!({"code": code, "message": message, "param": null}))
    }

    fn encode_end(&mut self, end: &AnswerEnd<'_>) -> Vec<Bytes> {
        let mut frames = self.close_item();
        let reason = end.finish.unwrap_or("stop");
        let incomplete = match reason {
            "length" => Some("max_output_tokens"),
            "content_filter" => Some("content_filter"),
            _ => None,
        };
        let status = if incomplete.is_some() { "incomplete" } else { "completed" };
        let mut response = self.response_object(status);
        if let Some(reason) = incomplete {
            response["incomplete_details"] = json!({"reason": reason});
        }
        if let Some((read, written)) = end.usage {
            response["usage"] = json!({"input_tokens": read, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": written, "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": read + written});
        }
        let kind = format!("response.{status}");
        for _ in 0..end.done {
            frames.push(self.event_frame(&kind, json!({"response": response})));
        }
        frames
    }
}
