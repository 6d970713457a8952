//! Parses event streams (SSE), as far as MCP uses them.

use std::time::Duration;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct McpSseEvent {
    /// The data; empty if the event only carries an id.
    pub(super) data: String,
    /// The id from which a later request resumes the stream.
    pub(super) id: Option<String>,
    /// The delay before that request.
    pub(super) retry: Option<Duration>,
}

/// Assembles events from chunks. The caller must bound the total input.
#[derive(Debug, Default)]
pub(super) struct McpSseParser {
    line: Vec<u8>,
    after_return: bool,
    event: McpSseEvent,
    begun: bool,
    has_data: bool,
}

impl McpSseParser {
    /// Returns the events that are completed by this chunk.
    pub(super) fn parse_chunk(&mut self, piece: &[u8]) -> Vec<McpSseEvent> {
        let mut ended = Vec::new();
        for byte in piece {
            let second = std::mem::take(&mut self.after_return) && *byte == b'\n';
            match byte {
                b'\n' if second => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    let line = std::mem::take(&mut self.line);
                    ended.extend(self.end_line(&String::from_utf8_lossy(&line)));
                }
                other => self.line.push(*other),
            }
        }
        ended
    }

    fn end_line(&mut self, line: &str) -> Option<McpSseEvent> {
        if line.is_empty() {
            self.has_data = false;
            let event = std::mem::take(&mut self.event);
            return std::mem::take(&mut self.begun).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field.trim_start_matches('\u{feff}') {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.begun = true;
            }
            "id" if !value.contains('\0') => {
                self.event.id = Some(value.to_owned());
                self.begun = true;
            }
            "retry" => {
                self.event.retry = value.parse().ok().map(Duration::from_millis);
                self.begun = true;
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_whole_in_whatever_pieces() {
        let stream = ": hello\n\nid: 1\ndata:\n\nevent: message\r\ndata: {\"a\":\r\ndata: \"č\"}\r\n\r\nretry: 5\rdata: x\r\rdata: cut";
        let wanted = [
            McpSseEvent { id: Some("1".to_owned()), ..McpSseEvent::default() },
            McpSseEvent { data: "{\"a\":\n\"č\"}".to_owned(), ..McpSseEvent::default() },
            McpSseEvent {
                data: "x".to_owned(),
                retry: Some(Duration::from_millis(5)),
                ..McpSseEvent::default()
            },
        ];
        for size in 1..stream.len() {
            let mut events = McpSseParser::default();
            let all: Vec<McpSseEvent> =
                stream.as_bytes().chunks(size).flat_map(|piece| events.parse_chunk(piece)).collect();
            assert_eq!(all, wanted, "{size}");
        }
    }
}
