//! Streams an answer by its script.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::log::{Outcome, Running};
use crate::request::Request;
use crate::script::{Action, Try};
use crate::vendor_stream::{self, End, Slot, ToolUse, VendorStream};

/// Limits the bytes that are sent together without a pause.
const CHUNK_MAX_BYTES: usize = 64 * 1024;
/// The time for the bytes before a cut to be sent.
const BEFORE_CUT: Duration = Duration::from_millis(5);

enum Op {
    Frame(Bytes),
    /// A token with its number and send time.
    Stamped(u32, Slot),
    Wait(Duration),
    Cut,
    Stall,
}

struct Player {
    ops: VecDeque<Op>,
    encoder: Box<dyn VendorStream>,
    due: Instant,
    running: Running,
}

/// Streams the answer's body.
pub(crate) fn play(
    request: &Request,
    attempt: &Try,
    running: Running,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let mut encoder = vendor_stream::of(request);
    let ops = ops(encoder.as_mut(), request, attempt);
    stream::unfold(Player { ops, encoder, due: Instant::now(), running }, |mut player| async move {
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
                Some(Op::Stamped(number, slot)) if chunk.len() < CHUNK_MAX_BYTES => {
                    let micros =
                        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
                    chunk.put(self.encoder.token(*slot, &format!("t{number}@{micros} ")));
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

fn ops(encoder: &mut dyn VendorStream, request: &Request, attempt: &Try) -> VecDeque<Op> {
    let read = u64::try_from(request.size_bytes / 4).unwrap_or(u64::MAX);
    let reports_usage = attempt.usage && request.wants_usage;
    let mut ops = VecDeque::new();
    push(encoder.begin(reports_usage.then_some(read)), &mut ops);
    let mut calls = Vec::new();
    for action in &attempt.actions {
        if let Action::Call { tool, arguments, id } = action {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            calls.push(ToolUse { id: id.clone(), tool: tool.clone(), arguments });
            continue;
        }
        flush(encoder, &mut calls, attempt.interleave, &mut ops);
        if act(encoder, action, attempt.pace_ms, &mut ops) {
            return ops;
        }
    }
    flush(encoder, &mut calls, attempt.interleave, &mut ops);
    let written = u64::try_from(ops.len()).unwrap_or(u64::MAX);
    let usage = reports_usage.then_some((read, written));
    push(encoder.end(&End { finish: attempt.finish.as_deref(), usage, done: attempt.done }), &mut ops);
    ops
}

/// Appends the frames of an action. Returns true when the answer ends.
fn act(encoder: &mut dyn VendorStream, action: &Action, pace_ms: u64, ops: &mut VecDeque<Op>) -> bool {
    let mut words =
        |text: &str, encode: fn(&mut dyn VendorStream, &str) -> Vec<Bytes>, ops: &mut VecDeque<Op>| {
            for word in text.split_inclusive(' ') {
                if pace_ms > 0 {
                    ops.push_back(Op::Wait(Duration::from_millis(pace_ms)));
                }
                push(encode(encoder, word), ops);
            }
        };
    match action {
        Action::Say(text) => words(text, |encoder, word| encoder.say(word), ops),
        Action::Think(text) => words(text, |encoder, word| encoder.think(word), ops),
        Action::ThinkHidden => push(encoder.think_hidden(), ops),
        Action::Search(query) => push(encoder.search(query), ops),
        Action::Refuse(text) => words(text, |encoder, word| encoder.refuse(word), ops),
        Action::Tokens { count, every_ms, stamp } => {
            for number in 0..*count {
                ops.push_back(Op::Wait(Duration::from_millis(*every_ms)));
                if *stamp {
                    let (before, slot) = encoder.slot();
                    push(before, ops);
                    ops.push_back(Op::Stamped(number, slot));
                } else {
                    push(encoder.say(&format!("t{number} ")), ops);
                }
            }
        }
        Action::Cite(cite) => push(encoder.cite(cite), ops),
        Action::Call { .. } => {}
        Action::WaitMs(time) => ops.push_back(Op::Wait(Duration::from_millis(*time))),
        Action::Raw(text) => ops.push_back(Op::Frame(Bytes::from(text.clone()))),
        Action::Error { message, code } => {
            ops.push_back(Op::Frame(encoder.error(message, code)));
            return true;
        }
        Action::Cut => ops.push_back(Op::Cut),
        Action::CutFrame | Action::CutUtf8 => {
            let mut frames = encoder.say("příliš žluťoučký");
            let whole = frames.pop().unwrap_or_default();
            push(frames, ops);
            let character = whole.iter().position(|byte| *byte > 127).unwrap_or(0);
            // Cuts within the first two-byte character, or just before it.
            let end = if matches!(action, Action::CutUtf8) { character + 1 } else { character };
            ops.push_back(Op::Frame(whole.slice(..end)));
            ops.push_back(Op::Cut);
        }
        Action::Stall => ops.push_back(Op::Stall),
    }
    matches!(action, Action::Cut | Action::CutFrame | Action::CutUtf8 | Action::Stall)
}

fn flush(encoder: &mut dyn VendorStream, calls: &mut Vec<ToolUse>, interleave: bool, ops: &mut VecDeque<Op>) {
    if !calls.is_empty() {
        push(encoder.call(calls, interleave), ops);
        calls.clear();
    }
}

fn push(frames: Vec<Bytes>, ops: &mut VecDeque<Op>) {
    ops.extend(frames.into_iter().map(Op::Frame));
}
