//! Parses Server-Sent Events from chunks of any size.

use crate::error::Error;

/// The longest line or frame in the buffer: enough for an answer of several megabytes with all its parts.
pub(crate) const FRAME_MAX_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EventFrame {
    /// Its name; empty when the frame has none.
    pub(crate) event: String,
    /// Its data.
    pub(crate) data: String,
    /// Its id, when the frame has one.
    pub(crate) id: Option<String>,
}

/// Parses frames from chunks of bytes.
#[derive(Debug, Default)]
pub(crate) struct EventFrameParser {
    /// Unparsed bytes.
    held: Vec<u8>,
    /// The length of the prefix of `held` without a line end.
    searched: usize,
    frame: EventFrame,
    has_data: bool,
    lived: bool,
    retry_millis: Option<u64>,
}

impl EventFrameParser {
    /// Appends a chunk.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.held.len() + bytes.len() + self.frame.data.len() > FRAME_MAX_BYTES {
            return Err(Error::TooLong { limit_bytes: FRAME_MAX_BYTES });
        }
        self.held.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the next complete frame.
    pub(crate) fn next_frame(&mut self) -> Option<EventFrame> {
        let mut taken = 0;
        let mut found = None;
        while found.is_none()
            && let Some(at) = self.held[self.searched..].iter().position(|byte| *byte == b'\n')
        {
            let end = self.searched + at;
            let line = String::from_utf8_lossy(&self.held[taken..end]).into_owned();
            taken = end + 1;
            self.searched = taken;
            found = self.parse_line(line.trim_end_matches('\r'));
        }
        self.held.drain(..taken);
        self.searched = if found.is_some() { 0 } else { self.held.len() };
        found
    }

    /// Returns the reconnect delay that the service requests.
    pub(crate) fn retry_millis(&self) -> Option<u64> {
        self.retry_millis
    }

    /// Returns true once an event or a comment has arrived. The service sends a comment every ten seconds, so a
    /// connection without either has failed.
    pub(crate) fn has_lived(&self) -> bool {
        self.lived
    }

    fn parse_line(&mut self, line: &str) -> Option<EventFrame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            self.lived |= self.has_data;
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        self.lived |= line.starts_with(':');
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.frame.event),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            "id" if !value.contains('\0') => self.frame.id = Some(value.to_owned()),
            "retry" => self.retry_millis = value.parse().ok().or(self.retry_millis),
            // Comments (an empty field) and unknown fields are ignored.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "retry: 1000\nevent: message\ndata: {\"text\":\"žluťoučký\"}\nid: m:1.1\n\n: beat\n\n\
        event: completed\r\ndata: a\r\ndata: b\r\nunknown: x\r\nid: m:1.2\r\n\r\ndata: cut";

    fn parse_frames(pieces: &[&[u8]]) -> Vec<EventFrame> {
        let mut frames = EventFrameParser::default();
        let mut out = Vec::new();
        for piece in pieces {
            frames.push(piece).unwrap();
            while let Some(frame) = frames.next_frame() {
                out.push(frame);
            }
        }
        assert_eq!(frames.retry_millis(), Some(1000));
        out
    }

    #[test]
    fn frame_parser_ignores_chunk_boundaries() {
        let frame = |event: &str, data: &str, id: &str| EventFrame {
            event: event.to_owned(),
            data: data.to_owned(),
            id: Some(id.to_owned()),
        };
        let expected =
            vec![frame("message", "{\"text\":\"žluťoučký\"}", "m:1.1"), frame("completed", "a\nb", "m:1.2")];
        let bytes = STREAM.as_bytes();
        assert_eq!(parse_frames(&[bytes]), expected);
        for cut in 1..bytes.len() {
            assert_eq!(parse_frames(&[&bytes[..cut], &bytes[cut..]]), expected, "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(parse_frames(&single), expected);
    }

    #[test]
    fn endless_frame_is_rejected() {
        let mut frames = EventFrameParser::default();
        let piece = vec![b'x'; FRAME_MAX_BYTES / 4];
        let refused = (0..8).any(|_| frames.push(&piece).is_err());
        assert!(refused);
    }
}
