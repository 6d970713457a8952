//! `POST /session`: the calls of one answer, both sides streaming JSON lines until either ends.
//!
//! The host's first line is `open`; it then sends `run`, `ack` and `cancel`, and the executor sends
//! `returned`. Each line is one frame of bounded length. The host treats all lines of the machine as
//! untrusted and ends the session at the first invalid one.

use domain::citation::{Passage, PassagePlace};
use domain::id::MessageId;
use domain::step::{Purpose, StepCall, StepOutcome};
use domain::turn::{self, ExecutorFrame, HostFrame, SessionOpening, SessionStamp};
use serde::{Deserialize, Serialize};

use domain::image::{ImageKind, ImageRef};
use domain::unread::{UNREAD_MAX, UnreadFile, UnreadReason};

use crate::tool::{
    FoundImage, FoundPassage, FoundUnread, IMAGES_MAX, OUTPUT_PASSAGES_MAX, PAGE_NAME_MAX_BYTES,
    PASSAGE_MAX_BYTES, TEXT_MAX_BYTES, TITLE_MAX_BYTES, ToolOutput, URL_MAX_BYTES, WRITTEN_MAX,
};

/// The path of a session.
pub const SESSION_PATH: &str = "/session";
/// The longest line of an executor, including the line feed: a tool's output at its limits, escaped.
pub const EXECUTOR_FRAME_MAX_BYTES: usize = 2 * 1024 * 1024;
/// The longest line of the host: a call, escaped.
pub const HOST_FRAME_MAX_BYTES: usize = 32 * 1024 * 1024;

/// A line that is not a valid frame.
#[derive(Debug, thiserror::Error)]
pub enum InvalidFrame {
    /// It is not JSON of a known form.
    #[error("invalid frame: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A field exceeds its limit.
    #[error("the frame's {0} is out of bounds")]
    OutOfBounds(&'static str),
}

/// A frame of the host in its wire format.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HostFrameWire {
    Open { answer: String, epoch: u64, session: u32, outstanding: Vec<String>, attached: Vec<String> },
    Run { call: String, tool: String, arguments: String },
    Ack { call: String },
    Cancel { call: String },
}

/// A frame of the executor in its wire format.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ExecutorWire {
    Returned { call: String, output: ToolOutput },
}

/// Encodes a frame of the host as a line, including the line feed.
#[must_use]
pub fn host_line(frame: &HostFrame) -> Vec<u8> {
    let wire = match frame {
        HostFrame::Open(open) => HostFrameWire::Open {
            answer: open.answer.to_string(),
            epoch: open.stamp.epoch,
            session: open.stamp.session,
            outstanding: open.outstanding.clone(),
            attached: open.attached.clone(),
        },
        HostFrame::Run(call) => {
            let StepCall { id, tool, arguments, purpose: _ } = call.clone();
            HostFrameWire::Run { call: id, tool, arguments }
        }
        HostFrame::Ack { call } => HostFrameWire::Ack { call: call.clone() },
        HostFrame::Cancel { call } => HostFrameWire::Cancel { call: call.clone() },
    };
    encode_line(&wire)
}

/// Decodes a line of the host.
///
/// # Errors
/// [`InvalidFrame`].
pub fn read_host_line(line: &[u8]) -> Result<HostFrame, InvalidFrame> {
    Ok(match serde_json::from_slice(line)? {
        HostFrameWire::Open { answer, epoch, session, outstanding, attached } => {
            let answer: MessageId = answer.parse().map_err(|_| InvalidFrame::OutOfBounds("answer"))?;
            let stamp = SessionStamp { epoch, session };
            HostFrame::Open(SessionOpening { answer, stamp, outstanding, attached })
        }
        HostFrameWire::Run { call: id, tool, arguments } => {
            HostFrame::Run(StepCall { id, tool, arguments, purpose: Purpose::Tool })
        }
        HostFrameWire::Ack { call } => HostFrame::Ack { call },
        HostFrameWire::Cancel { call } => HostFrame::Cancel { call },
    })
}

/// Encodes a frame of the executor as a line, including the line feed.
#[must_use]
pub fn executor_line(frame: &ExecutorFrame) -> Vec<u8> {
    let ExecutorFrame::Returned { call, output } = frame;
    encode_line(&ExecutorWire::Returned { call: call.clone(), output: output_out(output) })
}

/// Decodes a line of the executor and checks the limits of [`crate::tool`].
///
/// # Errors
/// [`InvalidFrame`].
pub fn read_executor_line(line: &[u8]) -> Result<ExecutorFrame, InvalidFrame> {
    let ExecutorWire::Returned { call, output } = serde_json::from_slice(line)?;
    Ok(ExecutorFrame::Returned { call, output: output_in(output)? })
}

/// Converts a tool's output into the domain's type.
///
/// # Errors
/// [`InvalidFrame::OutOfBounds`] if it exceeds a limit of [`crate::tool`].
pub fn output_in(output: ToolOutput) -> Result<turn::CallOutput, InvalidFrame> {
    let bounded = |ok: bool, what| if ok { Ok(()) } else { Err(InvalidFrame::OutOfBounds(what)) };
    bounded(output.text.len() <= TEXT_MAX_BYTES, "text")?;
    bounded(output.passages.len() <= OUTPUT_PASSAGES_MAX, "passages")?;
    bounded(output.written.len() <= WRITTEN_MAX, "written paths")?;
    bounded(output.images.len() <= IMAGES_MAX, "images")?;
    let path_fits = |path: &str| {
        let plain = |name: &str| !name.is_empty() && name != "." && name != ".." && !name.contains('\0');
        path.len() <= domain::limits::PATH_MAX_BYTES
            && path.strip_prefix('/').is_some_and(|names| names.split('/').all(plain))
    };
    bounded(output.written.iter().all(|path| path_fits(path)), "written path")?;
    let mut passages = Vec::with_capacity(output.passages.len());
    for passage in output.passages {
        let FoundPassage { path, url, title, page, lines, page_name, text } = passage;
        bounded(text.len() <= PASSAGE_MAX_BYTES, "passage")?;
        let place = match url {
            Some(url) => {
                bounded(address_fits(&url), "address of a passage")?;
                bounded(title_fits(&title), "title of a passage")?;
                PassagePlace::Web { url, title }
            }
            None => {
                bounded(path_fits(&path), "path of a passage")?;
                bounded(page_name.as_deref().is_none_or(page_name_fits), "name of a passage's page")?;
                PassagePlace::File { path, page, lines, page_name }
            }
        };
        passages.push(Passage { place, text });
    }
    let mut images = Vec::with_capacity(output.images.len());
    for image in output.images {
        bounded(path_fits(&image.path), "path of an image")?;
        images.push(image_in(image).ok_or(InvalidFrame::OutOfBounds("image"))?);
    }
    bounded(output.unread.len() <= UNREAD_MAX, "unread files")?;
    bounded(output.unread.iter().all(|file| path_fits(&file.path)), "path of an unread file")?;
    // Reasons unknown to this version are dropped.
    let unread = output.unread.into_iter().filter_map(|file| {
        Some(UnreadFile { reason: UnreadReason::of_code(&file.reason)?, path: file.path })
    });
    let outcome = if output.failed { StepOutcome::Failed } else { StepOutcome::Done };
    Ok(turn::CallOutput {
        images,
        outcome,
        text: output.text,
        passages,
        written: output.written,
        unread: unread.collect(),
    })
}

fn image_in(image: FoundImage) -> Option<ImageRef> {
    let sha256 = domain::hex::decode_array(&image.sha256)?;
    Some(ImageRef { path: image.path, page: image.page, kind: ImageKind::of_mime(&image.mime)?, sha256 })
}

/// Converts an image reference into its wire format.
#[must_use]
pub fn image_out(image: &ImageRef) -> FoundImage {
    FoundImage {
        path: image.path.clone(),
        page: image.page,
        mime: image.kind.mime_type().to_owned(),
        sha256: domain::hex::encode_hex(&image.sha256),
    }
}

/// Returns `true` for URLs that answers may link to: http or https, with a host, without a user.
fn address_fits(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or("");
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    url.len() <= URL_MAX_BYTES
        && !host.is_empty()
        && !host.contains('@')
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

fn page_name_fits(name: &str) -> bool {
    name.len() <= PAGE_NAME_MAX_BYTES && !name.contains(char::is_control)
}

fn title_fits(title: &str) -> bool {
    title.len() <= TITLE_MAX_BYTES && !title.contains(char::is_control)
}

fn output_out(output: &turn::CallOutput) -> ToolOutput {
    let passages = output.passages.iter().map(|passage| {
        let text = passage.text.clone();
        match &passage.place {
            PassagePlace::File { path, page, lines, page_name } => FoundPassage {
                path: path.clone(),
                page: *page,
                lines: *lines,
                page_name: page_name.clone(),
                text,
                ..FoundPassage::default()
            },
            PassagePlace::Web { url, title } => {
                FoundPassage { url: Some(url.clone()), title: title.clone(), text, ..FoundPassage::default() }
            }
        }
    });
    ToolOutput {
        images: output.images.iter().map(image_out).collect(),
        failed: !matches!(output.outcome, StepOutcome::Done),
        text: output.text.clone(),
        passages: passages.collect(),
        written: output.written.clone(),
        unread: output.unread.iter().map(FoundUnread::from).collect(),
    }
}

pub(crate) fn encode_line(wire: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(wire).expect("frames are plain strings and numbers");
    line.push(b'\n');
    line
}

/// Splits a stream of bytes into lines of bounded length.
#[derive(Debug)]
pub struct LineReader {
    buffer: Vec<u8>,
    /// The offset of the first line that was not returned yet.
    start: usize,
    /// The offset up to which no line feed was found.
    searched: usize,
    bytes_max: usize,
}

impl LineReader {
    /// Creates a reader of lines up to `bytes_max` bytes: [`EXECUTOR_FRAME_MAX_BYTES`] or
    /// [`HOST_FRAME_MAX_BYTES`].
    #[must_use]
    pub const fn of_at_most(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, bytes_max }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        // Consumed bytes are removed only once they are the greater part, so that each byte is moved a
        // bounded number of times.
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete line without its line feed, if one has arrived.
    ///
    /// # Errors
    /// [`InvalidFrame::OutOfBounds`] if the line is too long.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, InvalidFrame> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map_or(self.buffer.len(), |at| self.searched + at);
        if end - self.start >= self.bytes_max {
            return Err(InvalidFrame::OutOfBounds("length"));
        }
        if found.is_none() {
            self.searched = end;
            return Ok(None);
        }
        let line = self.buffer[self.start..end].to_vec();
        self.start = end + 1;
        self.searched = self.start;
        Ok(Some(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_the_wire() {
        let call = StepCall {
            id: "c".into(),
            tool: "shell".into(),
            arguments: "{\n}".into(),
            purpose: Purpose::Tool,
        };
        let frames = [
            HostFrame::Open(SessionOpening {
                answer: MessageId::from_random(1),
                stamp: SessionStamp { epoch: 2, session: 3 },
                outstanding: vec!["c".into()],
                attached: vec!["/uploads/.tmp/1/a.pdf".into()],
            }),
            HostFrame::Run(call),
            HostFrame::Ack { call: "c".into() },
            HostFrame::Cancel { call: "d".into() },
        ];
        let mut lines = LineReader::of_at_most(EXECUTOR_FRAME_MAX_BYTES);
        for frame in &frames {
            for byte in host_line(frame) {
                lines.push(&[byte]);
            }
        }
        for frame in frames {
            let line = lines.next_line().unwrap().unwrap();
            assert_eq!(read_host_line(&line).unwrap(), frame);
        }
        assert!(lines.next_line().unwrap().is_none());
    }

    #[test]
    fn read_executor_line_refuses_out_of_bounds() {
        let output = |text: String, path: &str| ToolOutput {
            text,
            written: vec![path.to_owned()],
            ..ToolOutput::default()
        };
        let paths = ["a", "/a/../b", "/./a", "//a", "/", "/a\0"].map(|path| output(String::new(), path));
        for bad in paths.into_iter().chain([output("x".repeat(TEXT_MAX_BYTES + 1), "/a")]) {
            let line = encode_line(&ExecutorWire::Returned { call: "c".into(), output: bad });
            assert!(matches!(read_executor_line(&line), Err(InvalidFrame::OutOfBounds(_))));
        }
        for bad in ["javascript:alert(1)", "https://", "https://user@example.org/", "https://example.org/a b"]
        {
            let passages = vec![FoundPassage { url: Some(bad.to_owned()), ..FoundPassage::default() }];
            let output = ToolOutput { passages, ..ToolOutput::default() };
            let line = encode_line(&ExecutorWire::Returned { call: "c".into(), output });
            assert!(matches!(read_executor_line(&line), Err(InvalidFrame::OutOfBounds(_))), "{bad}");
        }
        assert!(matches!(read_executor_line(b"{\"run\":1}"), Err(InvalidFrame::Malformed(_))));
        let mut lines = LineReader::of_at_most(EXECUTOR_FRAME_MAX_BYTES);
        lines.push(&vec![b' '; EXECUTOR_FRAME_MAX_BYTES]);
        assert!(lines.next_line().is_err());
    }
}
