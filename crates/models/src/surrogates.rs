//! Joins halves of surrogate pairs that arrive in separate frames.
//!
//! JavaScript cuts strings between UTF-16 units: a character such as an emoji may arrive as `\ud83d` at the end of one delta
//! and `\ude00` at the beginning of the next. JSON parsers reject either frame. So a private character replaces each half
//! before the frame is parsed, and the events are joined: consecutive halves of a stream become their character, any other
//! half U+FFFD.

use std::collections::VecDeque;

use domain::step::StepEvent;

/// The first of the private characters that replace halves, U+10F800 to U+10FFFF. They keep their meaning in streams
/// without halves.
const REPLACEMENTS: u32 = 0x10_f800;
/// The first half, the first one that is the latter of a pair, and the number of halves.
const FIRST: u32 = 0xd800;
const FIRST_LOW: u32 = 0xdc00;
const HALVES: u32 = 0x800;
/// The length of an escape such as `\ud83d`.
const ESCAPE_BYTES: usize = 6;

/// The stream of text that an event continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TextStream {
    Text,
    Reasoning,
}

/// The state of a response: a half that awaits the other one.
#[derive(Debug, Default)]
pub(crate) struct Surrogates {
    occurred: bool,
    high: Option<(TextStream, u32)>,
}

impl Surrogates {
    /// Replaces the halves in JSON without the other half beside them.
    pub(crate) fn replace_lone(&mut self, json: &mut String) {
        if let Some(replaced) = replace_in_json(json) {
            self.occurred = true;
            *json = replaced;
        }
    }

    /// Joins the halves in the events from this index on.
    pub(crate) fn join_halves(&mut self, ready: &mut VecDeque<StepEvent>, from: usize) {
        if !self.occurred {
            return;
        }
        let events: Vec<_> = ready.drain(from..).collect();
        for mut event in events {
            match &mut event {
                StepEvent::Text(text) => {
                    self.append_text(TextStream::Text, text, ready);
                    continue;
                }
                StepEvent::Reasoning(text) => {
                    self.append_text(TextStream::Reasoning, text, ready);
                    continue;
                }
                // A source is next to the text and does not interrupt it.
                StepEvent::Cited(cited) => cited.quote = join_whole(&cited.quote),
                StepEvent::Call(call) => {
                    self.close_half(ready);
                    call.arguments = join_whole(&call.arguments);
                }
                StepEvent::Opaque { json, .. } => {
                    self.close_half(ready);
                    *json = join_whole(json);
                }
                StepEvent::WasReasoning | StepEvent::Finished { .. } => self.close_half(ready),
                StepEvent::Noted(_) => {}
            }
            ready.push_back(event);
        }
    }

    /// Joins the halves in a complete text.
    pub(crate) fn join_text(&self, text: &str) -> String {
        if self.occurred { join_whole(text) } else { text.to_owned() }
    }

    fn append_text(&mut self, stream: TextStream, text: &str, ready: &mut VecDeque<StepEvent>) {
        if self.high.is_some_and(|(of, _)| of != stream) {
            self.close_half(ready);
        }
        let mut high = self.high.take().map(|(_, high)| high);
        push_event(stream, join_onto(&mut high, text), ready);
        self.high = high.map(|high| (stream, high));
    }

    /// Gives up waiting for the other half.
    fn close_half(&mut self, ready: &mut VecDeque<StepEvent>) {
        if let Some((stream, _)) = self.high.take() {
            push_event(stream, char::REPLACEMENT_CHARACTER.to_string(), ready);
        }
    }
}

fn push_event(stream: TextStream, text: String, ready: &mut VecDeque<StepEvent>) {
    if !text.is_empty() {
        ready.push_back(match stream {
            TextStream::Text => StepEvent::Text(text),
            TextStream::Reasoning => StepEvent::Reasoning(text),
        });
    }
}

fn join_whole(text: &str) -> String {
    let mut high = None;
    let mut joined = join_onto(&mut high, text);
    if high.is_some() {
        joined.push(char::REPLACEMENT_CHARACTER);
    }
    joined
}

/// Joins the halves of a text that follows `high`. Leaves its last half in `high` if the other one may follow.
fn join_onto(high: &mut Option<u32>, text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    for letter in text.chars() {
        match (high.take(), half_of(letter)) {
            (Some(first), Some(second)) if is_low(second) => joined.push(pair_halves(first, second)),
            (before, half) => {
                if before.is_some() {
                    joined.push(char::REPLACEMENT_CHARACTER);
                }
                match half {
                    None => joined.push(letter),
                    Some(low) if is_low(low) => joined.push(char::REPLACEMENT_CHARACTER),
                    Some(first) => *high = Some(first),
                }
            }
        }
    }
    joined
}

/// Returns the half that a private character replaces.
fn half_of(letter: char) -> Option<u32> {
    u32::from(letter).checked_sub(REPLACEMENTS).map(|offset| FIRST + offset)
}

const fn is_low(half: u32) -> bool {
    half >= FIRST_LOW
}

fn pair_halves(high: u32, low: u32) -> char {
    let code = 0x1_0000 + ((high - FIRST) << 10) + (low - FIRST_LOW);
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// Returns the JSON with its lone halves replaced; `None` if it has none.
fn replace_in_json(json: &str) -> Option<String> {
    let bytes = json.as_bytes();
    let (mut replaced, mut kept, mut at) = (String::new(), 0, 0);
    while let Some(found) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        let escape = at + found;
        let Some(half) = escaped_half(bytes, escape) else {
            // Skips any escaped character, including a backslash.
            at = escape + 2;
            continue;
        };
        at = escape + ESCAPE_BYTES;
        if !is_low(half) && escaped_half(bytes, at).is_some_and(is_low) {
            at += ESCAPE_BYTES;
            continue;
        }
        replaced.push_str(&json[kept..escape]);
        replaced.extend(char::from_u32(REPLACEMENTS + half - FIRST));
        kept = at;
    }
    (kept > 0).then(|| replaced + &json[kept..])
}

/// Returns the half that is escaped at this position.
fn escaped_half(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let unit = u32::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    (FIRST..FIRST + HALVES).contains(&unit).then_some(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_halves_are_replaced() {
        for whole in [r#"{"a":"\ud83d\ude00 \u010d \\ud83d \\\\ude00"}"#, r#""\u00e9\n""#, "", r"\", r"\u12"]
        {
            assert_eq!(replace_in_json(whole), None, "{whole}");
        }
        let halves =
            replace_in_json(r#"["\ud83d","\\\uDE00","\ud83d\ud83d\ude00","\ud83dx","č\ud83d\u0041"]"#)
                .unwrap();
        let texts: Vec<String> = serde_json::from_str(&halves).unwrap();
        let joined: Vec<_> = texts.iter().map(|text| join_whole(text)).collect();
        assert_eq!(joined, ["\u{fffd}", "\\\u{fffd}", "\u{fffd}😀", "\u{fffd}x", "č\u{fffd}A"]);
    }

    #[test]
    fn halves_join_within_own_stream() {
        let text = |text: &str| StepEvent::Text(serde_json::from_str(&replaced_or(text)).unwrap());
        let thought = |text: &str| StepEvent::Reasoning(serde_json::from_str(&replaced_or(text)).unwrap());
        let mut surrogates = Surrogates { occurred: true, high: None };
        let mut ready = VecDeque::from([
            text(r#""Hi \ud83d""#),
            text(r#""\ude00!\ud83d""#),
            thought(r#""\ude00 so""#),
            text(r#""\ud83d""#),
            StepEvent::Finished { stop: domain::step::StopReason::Done, usage: None },
        ]);
        surrogates.join_halves(&mut ready, 0);
        let said: Vec<_> = ready
            .iter()
            .map(|event| match event {
                StepEvent::Text(text) => format!("text {text}"),
                StepEvent::Reasoning(text) => format!("thought {text}"),
                _ => "end".to_owned(),
            })
            .collect();
        let expected =
            ["text Hi ", "text 😀!", "text \u{fffd}", "thought \u{fffd} so", "text \u{fffd}", "end"];
        assert_eq!(said, expected);
    }

    fn replaced_or(json: &str) -> String {
        replace_in_json(json).unwrap_or_else(|| json.to_owned())
    }
}
