//! Parses event streams (SSE) into frames.

use domain::limits::STEP_MAX_BYTES;
use serde::de::IgnoredAny;

use crate::lenient;

/// The longest frame, in bytes: the whole output of a step as JSON, which the last frame of some formats repeats.
pub(crate) const FRAME_MAX_BYTES: usize = 4 * STEP_MAX_BYTES;

/// A frame of an event stream.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SseFrame {
    /// The event's name; may be empty.
    pub(crate) event: String,
    pub(crate) data: String,
}

impl SseFrame {
    /// Repairs unreadable JSON like [`lenient::mended_json`]. Returns `None` if that changes nothing.
    pub(crate) fn mend_json(&self) -> Option<Self> {
        let data = lenient::mended_json(&self.data)?;
        (data != self.data).then(|| Self { event: self.event.clone(), data })
    }
}

/// The bytes are not an event stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame is too long")]
    TooLong,
}

/// Splits bytes into frames. Buffers one frame at most, and scans each byte once.
#[derive(Debug, Default)]
pub(crate) struct SseParser {
    bytes: Vec<u8>,
    /// The start of the current line, and the position up to which its end was searched.
    line: usize,
    searched: usize,
    after_return: bool,
    started: bool,
    frame: SseFrame,
    has_data: bool,
    /// The stream has ended within the last line of the frame.
    is_cut: bool,
}

impl SseParser {
    /// Adds bytes. Call [`Self::next_frame`] until it returns `None` before adding more.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.line);
        self.searched -= self.line;
        self.line = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next complete frame that has data.
    pub(crate) fn next_frame(&mut self) -> Result<Option<SseFrame>, FrameError> {
        while let Some(found) =
            self.bytes[self.searched..].iter().position(|byte| matches!(byte, b'\n' | b'\r'))
        {
            let end = self.searched + found;
            let start = std::mem::replace(&mut self.line, end + 1);
            self.searched = end + 1;
            let returned = self.bytes[end] == b'\r';
            if std::mem::replace(&mut self.after_return, returned) && !returned && start == end {
                continue;
            }
            if start == end {
                if let Some(frame) = self.take_frame() {
                    return Ok(Some(frame));
                }
            } else {
                let line = std::mem::take(&mut self.bytes);
                let read = self.read_line(&line[start..end]);
                self.bytes = line;
                if let Some(frame) = read? {
                    return Ok(Some(frame));
                }
            }
        }
        self.searched = self.bytes.len();
        if self.bytes.len() - self.line > FRAME_MAX_BYTES { Err(FrameError::TooLong) } else { Ok(None) }
    }

    /// Returns the next of the last frames when the stream ends without the blank line. A line that the end may have cut
    /// counts if it completes its frame.
    pub(crate) fn take_rest_frame(&mut self) -> Option<SseFrame> {
        let line = std::mem::take(&mut self.bytes).split_off(std::mem::take(&mut self.line));
        self.searched = 0;
        if line.starts_with(b"data:") || line.starts_with(b"error:") {
            self.is_cut = true;
            if let Some(before) = self.read_line(&line).ok()? {
                return Some(before);
            }
        }
        let is_cut = self.is_cut;
        self.take_frame().filter(|frame| {
            let data = frame.data.trim_end();
            !is_cut || is_complete(data) || data.ends_with('}') && lenient::mended_json(data).is_some()
        })
    }

    fn take_frame(&mut self) -> Option<SseFrame> {
        let frame = std::mem::take(&mut self.frame);
        std::mem::take(&mut self.has_data).then_some(frame)
    }

    /// Reads a line. Returns the frame before it, if the server leaves out the blank line between frames. Replaces bytes that
    /// are not UTF-8.
    fn read_line(&mut self, line: &[u8]) -> Result<Option<SseFrame>, FrameError> {
        let line = String::from_utf8_lossy(line);
        let line: &str = if self.started { &line } else { line.strip_prefix('\u{feff}').unwrap_or(&line) };
        self.started = true;
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        let begins_frame = match field {
            "data" => value.starts_with('{') || value.starts_with("[DONE]"),
            "event" => !self.frame.event.is_empty(),
            _ => false,
        };
        let before = if begins_frame && self.has_data && is_complete(&self.frame.data) {
            self.take_frame()
        } else {
            None
        };
        match field {
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.has_data = true;
                self.frame.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.frame.event),
            // Some servers send errors in a field of this name.
            "error" => {
                "error".clone_into(&mut self.frame.event);
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            _ => {}
        }
        if self.frame.data.len() + self.frame.event.len() > FRAME_MAX_BYTES {
            Err(FrameError::TooLong)
        } else {
            Ok(before)
        }
    }
}

/// Returns true for JSON that needs no further line.
fn is_complete(data: &str) -> bool {
    data == "[DONE]" || (data.ends_with('}') && serde_json::from_str::<IgnoredAny>(data).is_ok())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn split_frames(bytes: &[u8], size: usize) -> Result<Vec<(String, String)>, FrameError> {
        let mut frames = SseParser::default();
        let mut out = Vec::new();
        for chunk in bytes.chunks(size) {
            frames.push_bytes(chunk);
            while let Some(frame) = frames.next_frame()? {
                out.push((frame.event, frame.data));
            }
        }
        while let Some(frame) = frames.take_rest_frame() {
            out.push((frame.event, frame.data));
        }
        Ok(out)
    }

    #[test]
    fn frames_split_at_any_boundary() {
        let stream = "\u{feff}data: příliš\r\n\r\n: comment\n\ndata:a\ndata: b\n\nevent: x\rdata: c\r\rid: 1\n\nerror: {}\n\ndata: end\n";
        let expected: Vec<(String, String)> =
            [("", "příliš"), ("", "a\nb"), ("x", "c"), ("error", "{}"), ("", "end")]
                .map(|(event, data)| (event.to_owned(), data.to_owned()))
                .into();
        for size in 1..20 {
            assert_eq!(split_frames(stream.as_bytes(), size).as_ref(), Ok(&expected), "{size}");
        }
    }

    #[test]
    fn frame_bounded_odd_bytes_replaced() {
        let long = vec![b'a'; FRAME_MAX_BYTES + 2];
        assert_eq!(split_frames(&long, 65_536), Err(FrameError::TooLong));
        let many = "data: 0123456789\n".repeat(FRAME_MAX_BYTES / 10);
        assert_eq!(split_frames(many.as_bytes(), 65_536), Err(FrameError::TooLong));
        assert_eq!(split_frames(b"data: \xc5x\n\n", 100).unwrap()[0].1, "\u{fffd}x", "it is replaced");
    }

    #[test]
    fn frames_split_at_single_newline() {
        let stream = "data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n";
        let data = |stream: &str| {
            split_frames(stream.as_bytes(), 7)
                .unwrap()
                .into_iter()
                .map(|(event, data)| event + &data)
                .collect::<Vec<_>>()
        };
        assert_eq!(data(stream), ["{\"a\":1}", "{\"b\":2}", "[DONE]"]);
        let named = "event: x\ndata: {\"a\":1}\nevent: y\ndata: {\"b\":2}\n";
        assert_eq!(data(named), ["x{\"a\":1}", "y{\"b\":2}"]);
        let pretty = "data: {\ndata: \"a\":\ndata: {\ndata: }\ndata: }\n\n";
        assert_eq!(data(pretty), ["{\n\"a\":\n{\n}\n}"]);
        assert_eq!(data("data: {}\nevent: late\n\n"), ["late{}"]);
    }

    #[test]
    fn last_frame_counts_when_whole() {
        let data = |stream: &str| -> Vec<String> {
            split_frames(stream.as_bytes(), 7)
                .unwrap()
                .into_iter()
                .map(|(event, data)| event + &data)
                .collect()
        };
        for (stream, expected) in [
            ("data: {\"a\":1}", &["{\"a\":1}"][..]),
            ("event: x\ndata: {\"a\":\ndata: 1}", &["x{\"a\":\n1}"]),
            ("data: {\"a\":1}\ndata: [DONE]", &["{\"a\":1}", "[DONE]"]),
            ("data: {\"a\":1}\ndata: {\"b\":{}", &["{\"a\":1}"]),
            ("data: {\"a\":1}\nevent: hal", &["{\"a\":1}"]),
            ("data: {\"a\":NaN}", &["{\"a\":NaN}"]),
            ("data: {\"a\":\"}", &[]),
            ("data: [DON", &[]),
            ("data: x", &[]),
            ("error: {}", &["error{}"]),
        ] {
            assert_eq!(data(stream), expected, "{stream}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), size in 1_usize..50) {
            let _read = split_frames(&bytes, size);
        }
    }
}
