//! `POST /turn`: one answer's turn, both sides streaming JSON lines until either ends.
//!
//! The host's first line is `open`. Each line is one frame of bounded length; the host takes whatever
//! the agent sends for hostile and gives the link up at the first line that is no frame.

use domain::citation::{Passage, Place};
use domain::id::MessageId;
use domain::step::{Call, Outcome, Purpose};
use domain::turn::{self, AgentFrame, CallNote, EntryKind, EntryNote, HostFrame, LinkStamp, Open};
use serde::{Deserialize, Serialize};

use domain::image::{ImageKind, ImageRef};
use domain::unread::{UNREAD_MAX, UnreadFile, UnreadReason};

use crate::tool::{
    FoundImage, FoundPassage, FoundUnread, IMAGES_MAX, OUTPUT_PASSAGES_MAX, PASSAGE_MAX_BYTES,
    TEXT_MAX_BYTES, TITLE_MAX_BYTES, ToolOutput, URL_MAX_BYTES, WRITTEN_MAX,
};

/// The longest line of an agent, its line feed included: a tool's output within its bounds, escaped.
pub const AGENT_FRAME_MAX_BYTES: usize = 2 * 1024 * 1024;
/// The longest line of the host: a step's calls, escaped.
pub const HOST_FRAME_MAX_BYTES: usize = 32 * 1024 * 1024;

/// A line that is no frame, or says what no frame may say.
#[derive(Debug, thiserror::Error)]
pub enum NotAFrame {
    /// It is no JSON of a known form.
    #[error("the line is no frame: {0}")]
    Malformed(#[from] serde_json::Error),
    /// A field is out of its bounds.
    #[error("the frame's {0} is out of bounds")]
    OutOfBounds(&'static str),
}

/// A frame of the host on the wire.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum HostWire {
    Open {
        answer: String,
        epoch: u64,
        link: u32,
        entries: Vec<EntryWire>,
        pending: Vec<CallWire>,
        next: u32,
        saying: bool,
        context_tokens: u64,
        /// A host of the version before tells none.
        #[serde(default)]
        attached: Vec<String>,
    },
    Step {
        number: u32,
        entry: EntryWire,
        calls: Vec<CallWire>,
    },
    Acknowledged {
        call: String,
        entry: EntryWire,
    },
    Close,
}

/// A frame of the agent on the wire.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AgentWire {
    Want { number: u32, keep: Vec<u32> },
    Returned { call: String, output: ToolOutput },
    Done { number: u32 },
}

#[derive(Debug, Serialize, Deserialize)]
struct EntryWire {
    id: u32,
    kind: KindWire,
    tokens: u64,
    present: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KindWire {
    Question,
    Step,
    Result,
}

#[derive(Debug, Serialize, Deserialize)]
struct CallWire {
    id: String,
    tool: String,
    arguments: String,
    repeatable: bool,
    /// A host of the version before runs none.
    #[serde(default)]
    hosted: bool,
}

/// The frame as a line, with its line feed.
#[must_use]
pub fn host_line(frame: &HostFrame) -> Vec<u8> {
    let wire = match frame {
        HostFrame::Open(open) => HostWire::Open {
            answer: open.answer.to_string(),
            epoch: open.link.epoch,
            link: open.link.link,
            entries: open.entries.iter().map(entry_out).collect(),
            pending: open.pending.iter().map(call_out).collect(),
            next: open.next,
            saying: open.saying,
            context_tokens: open.context_tokens,
            attached: open.attached.clone(),
        },
        HostFrame::Step { number, entry, calls } => HostWire::Step {
            number: *number,
            entry: entry_out(entry),
            calls: calls.iter().map(call_out).collect(),
        },
        HostFrame::Acknowledged { call, entry } => {
            HostWire::Acknowledged { call: call.clone(), entry: entry_out(entry) }
        }
        HostFrame::Close => HostWire::Close,
    };
    line(&wire)
}

/// Reads a line of the host.
///
/// # Errors
/// [`NotAFrame`].
pub fn read_host_line(line: &[u8]) -> Result<HostFrame, NotAFrame> {
    Ok(match serde_json::from_slice(line)? {
        HostWire::Open { answer, epoch, link, entries, pending, next, saying, context_tokens, attached } => {
            let answer: MessageId = answer.parse().map_err(|_| NotAFrame::OutOfBounds("answer"))?;
            HostFrame::Open(Open {
                answer,
                link: LinkStamp { epoch, link },
                entries: entries.into_iter().map(entry_in).collect(),
                pending: pending.into_iter().map(call_in).collect(),
                next,
                saying,
                context_tokens,
                attached,
            })
        }
        HostWire::Step { number, entry, calls } => HostFrame::Step {
            number,
            entry: entry_in(entry),
            calls: calls.into_iter().map(call_in).collect(),
        },
        HostWire::Acknowledged { call, entry } => HostFrame::Acknowledged { call, entry: entry_in(entry) },
        HostWire::Close => HostFrame::Close,
    })
}

/// The frame as a line, with its line feed.
#[must_use]
pub fn agent_line(frame: &AgentFrame) -> Vec<u8> {
    let wire = match frame {
        AgentFrame::Want { number, keep } => AgentWire::Want { number: *number, keep: keep.clone() },
        AgentFrame::Returned { call, output } => {
            AgentWire::Returned { call: call.clone(), output: output_out(output) }
        }
        AgentFrame::Done { number } => AgentWire::Done { number: *number },
    };
    line(&wire)
}

/// Reads a line of the agent, and holds it to the bounds of [`crate::tool`].
///
/// # Errors
/// [`NotAFrame`].
pub fn read_agent_line(line: &[u8]) -> Result<AgentFrame, NotAFrame> {
    Ok(match serde_json::from_slice(line)? {
        AgentWire::Want { number, keep } => AgentFrame::Want { number, keep },
        AgentWire::Returned { call, output } => AgentFrame::Returned { call, output: output_in(output)? },
        AgentWire::Done { number } => AgentFrame::Done { number },
    })
}

/// A tool's output in the domain's words, as the agent's own loop takes it.
///
/// # Errors
/// [`NotAFrame::OutOfBounds`] when it is longer than [`crate::tool`] allows.
pub fn output_in(output: ToolOutput) -> Result<turn::Output, NotAFrame> {
    let bounded = |ok: bool, what| if ok { Ok(()) } else { Err(NotAFrame::OutOfBounds(what)) };
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
        bounded(passage.text.len() <= PASSAGE_MAX_BYTES, "passage")?;
        let place = match passage.url {
            Some(url) => {
                bounded(address_fits(&url), "address of a passage")?;
                bounded(title_fits(&passage.title), "title of a passage")?;
                Place::Web { url, title: passage.title }
            }
            None => {
                bounded(path_fits(&passage.path), "path of a passage")?;
                Place::File { path: passage.path, page: passage.page, lines: passage.lines }
            }
        };
        passages.push(Passage { place, text: passage.text });
    }
    let mut images = Vec::with_capacity(output.images.len());
    for image in output.images {
        bounded(path_fits(&image.path), "path of an image")?;
        images.push(image_in(image).ok_or(NotAFrame::OutOfBounds("image"))?);
    }
    bounded(output.unread.len() <= UNREAD_MAX, "unread files")?;
    bounded(output.unread.iter().all(|file| path_fits(&file.path)), "path of an unread file")?;
    // A reason that this version does not know is none.
    let unread = output.unread.into_iter().filter_map(|file| {
        Some(UnreadFile { reason: UnreadReason::of_code(&file.reason)?, path: file.path })
    });
    let outcome = if output.failed { Outcome::Failed } else { Outcome::Done };
    Ok(turn::Output {
        images,
        outcome,
        text: output.text,
        passages,
        written: output.written,
        unread: unread.collect(),
    })
}

fn image_in(image: FoundImage) -> Option<ImageRef> {
    let digits = image.sha256.as_bytes();
    let mut sha256 = [0; 32];
    if digits.len() != 2 * sha256.len() {
        return None;
    }
    for (byte, pair) in sha256.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(ImageRef { path: image.path, kind: ImageKind::of_mime(&image.mime)?, sha256 })
}

/// An image as it travels.
#[must_use]
pub fn image_out(image: &ImageRef) -> FoundImage {
    FoundImage {
        path: image.path.clone(),
        mime: image.kind.mime().to_owned(),
        sha256: image.sha256.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// Whether answers may lead there: http or https, with a host, without a user.
fn address_fits(url: &str) -> bool {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).unwrap_or("");
    let host = rest.split(['/', '?', '#']).next().unwrap_or("");
    url.len() <= URL_MAX_BYTES
        && !host.is_empty()
        && !host.contains('@')
        && url.bytes().all(|byte| byte.is_ascii_graphic())
}

fn title_fits(title: &str) -> bool {
    title.len() <= TITLE_MAX_BYTES && !title.contains(char::is_control)
}

fn output_out(output: &turn::Output) -> ToolOutput {
    let passages = output.passages.iter().map(|passage| {
        let text = passage.text.clone();
        match &passage.place {
            Place::File { path, page, lines } => FoundPassage {
                path: path.clone(),
                page: *page,
                lines: *lines,
                text,
                ..FoundPassage::default()
            },
            Place::Web { url, title } => {
                FoundPassage { url: Some(url.clone()), title: title.clone(), text, ..FoundPassage::default() }
            }
        }
    });
    ToolOutput {
        images: output.images.iter().map(image_out).collect(),
        failed: !matches!(output.outcome, Outcome::Done),
        text: output.text.clone(),
        passages: passages.collect(),
        written: output.written.clone(),
        unread: output.unread.iter().map(FoundUnread::from).collect(),
    }
}

fn line(wire: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(wire).expect("frames are plain strings and numbers");
    line.push(b'\n');
    line
}

fn entry_out(entry: &EntryNote) -> EntryWire {
    let kind = match entry.kind {
        EntryKind::Question => KindWire::Question,
        EntryKind::Step => KindWire::Step,
        EntryKind::Result => KindWire::Result,
    };
    EntryWire { id: entry.id, kind, tokens: entry.tokens, present: entry.present }
}

fn entry_in(entry: EntryWire) -> EntryNote {
    let kind = match entry.kind {
        KindWire::Question => EntryKind::Question,
        KindWire::Step => EntryKind::Step,
        KindWire::Result => EntryKind::Result,
    };
    EntryNote { id: entry.id, kind, tokens: entry.tokens, present: entry.present }
}

fn call_out(note: &CallNote) -> CallWire {
    let Call { id, tool, arguments, purpose: _ } = note.call.clone();
    CallWire { id, tool, arguments, repeatable: note.repeatable, hosted: note.hosted }
}

fn call_in(call: CallWire) -> CallNote {
    let CallWire { id, tool, arguments, repeatable, hosted } = call;
    CallNote { call: Call { id, tool, arguments, purpose: Purpose::Tool }, repeatable, hosted }
}

/// Cuts a stream of bytes into lines of bounded length.
#[derive(Debug)]
pub struct Lines {
    buffer: Vec<u8>,
    /// Where the first line that was not taken begins.
    start: usize,
    /// How far a line feed was looked for.
    searched: usize,
    bytes_max: usize,
}

impl Lines {
    /// Lines of at most so many bytes: [`AGENT_FRAME_MAX_BYTES`] or [`HOST_FRAME_MAX_BYTES`].
    #[must_use]
    pub const fn of_at_most(bytes_max: usize) -> Self {
        Self { buffer: Vec::new(), start: 0, searched: 0, bytes_max }
    }

    /// Adds what has arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        // What was taken goes only when it is the greater part, so that each byte is moved a bounded number of times.
        if self.start > self.buffer.len() / 2 {
            self.buffer.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line without its line feed, if one has arrived.
    ///
    /// # Errors
    /// [`NotAFrame::OutOfBounds`] when the line is longer than it may be.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, NotAFrame> {
        let found = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
        let end = found.map_or(self.buffer.len(), |at| self.searched + at);
        if end - self.start >= self.bytes_max {
            return Err(NotAFrame::OutOfBounds("length"));
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
        let call = CallNote {
            call: Call {
                id: "c".into(),
                tool: "shell".into(),
                arguments: "{\n}".into(),
                purpose: Purpose::Tool,
            },
            repeatable: false,
            hosted: true,
        };
        let entry = EntryNote { id: 3, kind: EntryKind::Step, tokens: 7, present: true };
        let frames = [
            HostFrame::Open(Open {
                answer: MessageId::from_random(1),
                link: LinkStamp { epoch: 2, link: 3 },
                entries: vec![entry],
                pending: vec![call.clone()],
                next: 1,
                saying: true,
                context_tokens: 9,
                attached: vec!["/uploads/.tmp/1/a.pdf".into()],
            }),
            HostFrame::Step { number: 1, entry, calls: vec![call] },
            HostFrame::Acknowledged { call: "c".into(), entry },
            HostFrame::Close,
        ];
        let mut lines = Lines::of_at_most(AGENT_FRAME_MAX_BYTES);
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
    fn an_agent_cannot_say_more_than_a_frame_may() {
        let output = |text: String, path: &str| ToolOutput {
            text,
            written: vec![path.to_owned()],
            ..ToolOutput::default()
        };
        let paths = ["a", "/a/../b", "/./a", "//a", "/", "/a\0"].map(|path| output(String::new(), path));
        for bad in paths.into_iter().chain([output("x".repeat(TEXT_MAX_BYTES + 1), "/a")]) {
            let line = line(&AgentWire::Returned { call: "c".into(), output: bad });
            assert!(matches!(read_agent_line(&line), Err(NotAFrame::OutOfBounds(_))));
        }
        for bad in ["javascript:alert(1)", "https://", "https://user@example.org/", "https://example.org/a b"]
        {
            let passages = vec![FoundPassage { url: Some(bad.to_owned()), ..FoundPassage::default() }];
            let output = ToolOutput { passages, ..ToolOutput::default() };
            let line = line(&AgentWire::Returned { call: "c".into(), output });
            assert!(matches!(read_agent_line(&line), Err(NotAFrame::OutOfBounds(_))), "{bad}");
        }
        assert!(matches!(read_agent_line(b"{\"want\":1}"), Err(NotAFrame::Malformed(_))));
        let mut lines = Lines::of_at_most(AGENT_FRAME_MAX_BYTES);
        lines.push(&vec![b' '; AGENT_FRAME_MAX_BYTES]);
        assert!(lines.next_line().is_err());
    }
}
