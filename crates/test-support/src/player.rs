//! Streams an answer by its script.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{Stream, stream};
use tokio::time::{Instant, sleep, sleep_until};

use crate::log::{RequestOutcome, RunningAnswer};
use crate::request::VendorRequest;
use crate::script::{ScriptAction, Try};
use crate::vendor_stream::{self, AnswerEnd, TokenSlot, ToolUse, VendorStream};

/// Limits the bytes that are sent together without a pause.
const CHUNK_MAX_BYTES: usize = 64 * 1024;
/// The time for the bytes before a cut to be sent.
const BEFORE_CUT: Duration = Duration::from_millis(5);

enum PlayedFrame {
    Frame(Bytes),
    /// A token with its number and send time.
    Stamped(u32, TokenSlot),
    Wait(Duration),
    Cut,
    Stall,
}

struct Player {
    ops: VecDeque<PlayedFrame>,
    encoder: Box<dyn VendorStream>,
    due: Instant,
    running: RunningAnswer,
}

/// Streams the answer's body.
pub(crate) fn play_answer(
    request: &VendorRequest,
    attempt: &Try,
    running: RunningAnswer,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let mut encoder = vendor_stream::new_encoder(request);
    let ops = build_frames(encoder.as_mut(), request, attempt);
    stream::unfold(Player { ops, encoder, due: Instant::now(), running }, |mut player| async move {
        let chunk = player.next_chunk().await?;
        Some((chunk, player))
    })
}

impl Player {
    async fn next_chunk(&mut self) -> Option<io::Result<Bytes>> {
        let mut chunk = BytesMut::new();
        loop {
            match self.ops.front() {
                Some(PlayedFrame::Wait(time)) if chunk.is_empty() || self.due + *time <= Instant::now() => {
                    self.due += *time;
                    self.ops.pop_front();
                    sleep_until(self.due).await;
                }
                Some(PlayedFrame::Frame(frame)) if chunk.len() < CHUNK_MAX_BYTES => {
                    chunk.put_slice(frame);
                    self.ops.pop_front();
                }
                Some(PlayedFrame::Stamped(number, slot)) if chunk.len() < CHUNK_MAX_BYTES => {
                    let micros =
                        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
                    chunk.put(self.encoder.encode_token(*slot, &format!("t{number}@{micros} ")));
                    self.ops.pop_front();
                }
                _ if !chunk.is_empty() => return Some(Ok(chunk.freeze())),
                Some(PlayedFrame::Stall) => std::future::pending().await,
                Some(_) => {
                    self.running.set_outcome(RequestOutcome::Cut);
                    sleep(BEFORE_CUT).await;
                    return Some(Err(io::Error::other("the script cuts here")));
                }
                None => {
                    self.running.set_outcome(RequestOutcome::Done);
                    return None;
                }
            }
        }
    }
}

fn build_frames(
    encoder: &mut dyn VendorStream,
    request: &VendorRequest,
    attempt: &Try,
) -> VecDeque<PlayedFrame> {
    let read = u64::try_from(request.size_bytes / 4).unwrap_or(u64::MAX);
    let reports_usage = attempt.usage && request.wants_usage;
    let mut ops = VecDeque::new();
    push_frames(encoder.encode_start(reports_usage.then_some(read)), &mut ops);
    let mut calls = Vec::new();
    for action in &attempt.actions {
        if let ScriptAction::Call { tool, arguments, id } = action {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            calls.push(ToolUse { id: id.clone(), tool: tool.clone(), arguments });
            continue;
        }
        flush_calls(encoder, &mut calls, attempt.interleave, &mut ops);
        if push_action(encoder, action, attempt.pace_ms, &mut ops) {
            return ops;
        }
    }
    flush_calls(encoder, &mut calls, attempt.interleave, &mut ops);
    let written = u64::try_from(ops.len()).unwrap_or(u64::MAX);
    let usage = reports_usage.then_some((read, written));
    push_frames(
        encoder.encode_end(&AnswerEnd { finish: attempt.finish.as_deref(), usage, done: attempt.done }),
        &mut ops,
    );
    ops
}

/// Appends the frames of an action. Returns true when the answer ends.
fn push_action(
    encoder: &mut dyn VendorStream,
    action: &ScriptAction,
    pace_ms: u64,
    ops: &mut VecDeque<PlayedFrame>,
) -> bool {
    let mut words = |text: &str,
                     encode: fn(&mut dyn VendorStream, &str) -> Vec<Bytes>,
                     ops: &mut VecDeque<PlayedFrame>| {
        for word in text.split_inclusive(' ') {
            if pace_ms > 0 {
                ops.push_back(PlayedFrame::Wait(Duration::from_millis(pace_ms)));
            }
            push_frames(encode(encoder, word), ops);
        }
    };
    match action {
        ScriptAction::Say(text) => words(text, |encoder, word| encoder.encode_text(word), ops),
        ScriptAction::Think(text) => words(text, |encoder, word| encoder.encode_reasoning(word), ops),
        ScriptAction::ThinkHidden => push_frames(encoder.encode_hidden_reasoning(), ops),
        ScriptAction::Search(query) => push_frames(encoder.encode_search(query), ops),
        ScriptAction::Refuse(text) => words(text, |encoder, word| encoder.encode_refusal(word), ops),
        ScriptAction::Tokens { count, every_ms, stamp } => {
            for number in 0..*count {
                ops.push_back(PlayedFrame::Wait(Duration::from_millis(*every_ms)));
                if *stamp {
                    let (before, slot) = encoder.reserve_token();
                    push_frames(before, ops);
                    ops.push_back(PlayedFrame::Stamped(number, slot));
                } else {
                    push_frames(encoder.encode_text(&format!("t{number} ")), ops);
                }
            }
        }
        ScriptAction::Cite(cite) => push_frames(encoder.encode_citation(cite), ops),
        ScriptAction::Call { .. } => {}
        ScriptAction::WaitMs(time) => ops.push_back(PlayedFrame::Wait(Duration::from_millis(*time))),
        ScriptAction::Raw(text) => ops.push_back(PlayedFrame::Frame(Bytes::from(text.clone()))),
        ScriptAction::Error { message, code } => {
            ops.push_back(PlayedFrame::Frame(encoder.encode_error(message, code)));
            return true;
        }
        ScriptAction::Cut => ops.push_back(PlayedFrame::Cut),
        ScriptAction::CutFrame | ScriptAction::CutUtf8 => {
            let mut frames = encoder.encode_text("příliš žluťoučký");
            let whole = frames.pop().unwrap_or_default();
            push_frames(frames, ops);
            let character = whole.iter().position(|byte| *byte > 127).unwrap_or(0);
            // Cuts within the first two-byte character, or just before it.
            let end = if matches!(action, ScriptAction::CutUtf8) { character + 1 } else { character };
            ops.push_back(PlayedFrame::Frame(whole.slice(..end)));
            ops.push_back(PlayedFrame::Cut);
        }
        ScriptAction::Stall => ops.push_back(PlayedFrame::Stall),
    }
    matches!(action, ScriptAction::Cut | ScriptAction::CutFrame | ScriptAction::CutUtf8 | ScriptAction::Stall)
}

fn flush_calls(
    encoder: &mut dyn VendorStream,
    calls: &mut Vec<ToolUse>,
    interleave: bool,
    ops: &mut VecDeque<PlayedFrame>,
) {
    if !calls.is_empty() {
        push_frames(encoder.encode_calls(calls, interleave), ops);
        calls.clear();
    }
}

fn push_frames(frames: Vec<Bytes>, ops: &mut VecDeque<PlayedFrame>) {
    ops.extend(frames.into_iter().map(PlayedFrame::Frame));
}
