//! Streams an answer as its script says.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use crate::log::{Outcome, Running};
use crate::request::Request;
use crate::script::{Action, Try};

/// What is sent together at most when no time lies between.
const CHUNK_MAX_BYTES: usize = 64 * 1024;
/// How long the bytes before a cut have to leave.
const BEFORE_CUT: Duration = Duration::from_millis(5);
/// How many characters of a call's arguments go into one frame.
const ARGUMENTS_PIECE_CHARS: usize = 7;

enum Op {
    Frame(Bytes),
    /// A token that tells its number and when it is sent.
    Stamped(u32),
    Wait(Duration),
    Cut,
    Stall,
}

struct Player {
    ops: VecDeque<Op>,
    frames: Frames,
    due: Instant,
    running: Running,
}

/// The answer's bytes.
pub(crate) fn play(
    request: &Request,
    attempt: &Try,
    running: Running,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let frames =
        Frames { id: format!("chatcmpl-{:016x}", request.fingerprint), model: request.model.clone() };
    let ops = frames.ops(request, attempt);
    stream::unfold(Player { ops, frames, due: Instant::now(), running }, |mut player| async move {
        let chunk = player.next().await?;
        Some((chunk, player))
    })
}

impl Player {
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        let mut chunk = BytesMut::new();
        loop {
            match self.ops.front() {
                Some(Op::Wait(time)) if chunk.is_empty() || self.due + *time <= Instant::now() => {
                    self.due += *time;
                    self.ops.pop_front();
                    sleep_until(self.due).await;
                }
                Some(Op::Frame(frame)) if chunk.len() < CHUNK_MAX_BYTES => {
                    chunk.put_slice(frame);
                    self.ops.pop_front();
                }
                Some(Op::Stamped(number)) if chunk.len() < CHUNK_MAX_BYTES => {
                    let micros =
                        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
                    chunk.put(self.frames.delta(&json!({"content": format!("t{number}@{micros} ")})));
                    self.ops.pop_front();
                }
                _ if !chunk.is_empty() => return Some(Ok(chunk.freeze())),
                Some(Op::Stall) => std::future::pending().await,
                Some(_) => {
                    self.running.end(Outcome::Cut);
                    sleep(BEFORE_CUT).await;
                    return Some(Err(io::Error::other("the script cuts here")));
                }
                None => {
                    self.running.end(Outcome::Done);
                    return None;
                }
            }
        }
    }
}

struct Frames {
    id: String,
    model: String,
}

impl Frames {
    fn ops(&self, request: &Request, attempt: &Try) -> VecDeque<Op> {
        let mut ops = VecDeque::from([Op::Frame(self.delta(&json!({"role": "assistant", "content": ""})))]);
        let mut calls: Vec<Vec<Bytes>> = Vec::new();
        let mut called = 0;
        for action in &attempt.actions {
            if let Action::Call { tool, arguments, id } = action {
                let id = id.clone().unwrap_or_else(|| format!("call_{:016x}_{called}", request.fingerprint));
                calls.push(self.call(called, &id, tool, arguments));
                called += 1;
                continue;
            }
            flush(&mut calls, attempt.interleave, &mut ops);
            if self.act(action, attempt.pace_ms, &mut ops) {
                return ops;
            }
        }
        flush(&mut calls, attempt.interleave, &mut ops);
        let finish = match attempt.finish.as_deref() {
            Some(finish) => finish,
            None if called > 0 => "tool_calls",
            None => "stop",
        };
        if !finish.is_empty() {
            let choice = json!([{"index": 0, "delta": {}, "finish_reason": finish}]);
            ops.push_back(Op::Frame(self.chunk(&choice, &Value::Null)));
        }
        if attempt.usage && request.wants_usage {
            let written = u64::try_from(ops.len()).unwrap_or(u64::MAX);
            let read = u64::try_from(request.size_bytes / 4).unwrap_or(u64::MAX);
            let usage = json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written,
                "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}});
            ops.push_back(Op::Frame(self.chunk(&json!([]), &usage)));
        }
        for _ in 0..attempt.done {
            ops.push_back(Op::Frame(Bytes::from_static(b"data: [DONE]\n\n")));
        }
        ops
    }

    /// Appends what an action sends; whether it ends the answer.
    fn act(&self, action: &Action, pace_ms: u64, ops: &mut VecDeque<Op>) -> bool {
        let words = |field: &str, text: &str, ops: &mut VecDeque<Op>| {
            for word in text.split_inclusive(' ') {
                if pace_ms > 0 {
                    ops.push_back(Op::Wait(Duration::from_millis(pace_ms)));
                }
                ops.push_back(Op::Frame(self.delta(&json!({ field: word }))));
            }
        };
        match action {
            Action::Say(text) => words("content", text, ops),
            Action::Think(text) => words("reasoning_content", text, ops),
            Action::Refuse(text) => words("refusal", text, ops),
            Action::Tokens { count, every_ms, stamp } => {
                for number in 0..*count {
                    ops.push_back(Op::Wait(Duration::from_millis(*every_ms)));
                    ops.push_back(if *stamp {
                        Op::Stamped(number)
                    } else {
                        Op::Frame(self.delta(&json!({"content": format!("t{number} ")})))
                    });
                }
            }
            Action::Call { .. } => {}
            Action::WaitMs(time) => ops.push_back(Op::Wait(Duration::from_millis(*time))),
            Action::Raw(text) => ops.push_back(Op::Frame(Bytes::from(text.clone()))),
            Action::Error { message, code } => {
                let error = json!({"error": {"message": message, "type": "server_error", "code": code}});
                ops.push_back(Op::Frame(frame(&error)));
                return true;
            }
            Action::Cut => ops.push_back(Op::Cut),
            Action::CutFrame | Action::CutUtf8 => {
                let whole = self.delta(&json!({"content": "příliš žluťoučký"}));
                let character = whole.iter().position(|byte| *byte > 127).unwrap_or(0);
                // Within the first character that has two bytes, or just before it.
                let end = if matches!(action, Action::CutUtf8) { character + 1 } else { character };
                ops.push_back(Op::Frame(whole.slice(..end)));
                ops.push_back(Op::Cut);
            }
            Action::Stall => ops.push_back(Op::Stall),
        }
        matches!(action, Action::Cut | Action::CutFrame | Action::CutUtf8 | Action::Stall)
    }

    fn call(&self, index: usize, id: &str, tool: &str, arguments: &Value) -> Vec<Bytes> {
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        let function = json!({"name": tool, "arguments": ""});
        let mut first = json!({"index": index, "type": "function", "function": function});
        if !id.is_empty() {
            first["id"] = Value::from(id);
        }
        let mut frames = vec![self.delta(&json!({"tool_calls": [first]}))];
        let characters: Vec<char> = arguments.chars().collect();
        for piece in characters.chunks(ARGUMENTS_PIECE_CHARS) {
            let piece: String = piece.iter().collect();
            let delta = json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]});
            frames.push(self.delta(&delta));
        }
        frames
    }

    fn delta(&self, delta: &Value) -> Bytes {
        self.chunk(&json!([{"index": 0, "delta": delta, "finish_reason": null}]), &Value::Null)
    }

    fn chunk(&self, choices: &Value, usage: &Value) -> Bytes {
        frame(&json!({"id": self.id, "object": "chat.completion.chunk", "created": 1_700_000_000,
            "model": self.model, "choices": choices, "usage": usage}))
    }
}

fn frame(data: &Value) -> Bytes {
    Bytes::from(format!("data: {data}\n\n"))
}

fn flush(calls: &mut Vec<Vec<Bytes>>, interleave: bool, ops: &mut VecDeque<Op>) {
    if interleave {
        let longest = calls.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..longest {
            ops.extend(calls.iter().filter_map(|call| call.get(at).cloned()).map(Op::Frame));
        }
        calls.clear();
    } else {
        ops.extend(calls.drain(..).flatten().map(Op::Frame));
    }
}
