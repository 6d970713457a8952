//! A minimal HTTP/2 client that sends many requests, and reads nothing of a response but its body.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const CONTINUATION: u8 = 9;
const ACKNOWLEDGED: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// The largest payload that each server accepts.
const FRAME_MAX_BYTES: usize = 16_384;
const INITIAL_WINDOW_SIZE: u16 = 4;
const FRAME_HEAD_BYTES: usize = 9;

/// A connection of HTTP/2.
#[derive(Debug)]
pub struct Http2 {
    stream: TcpStream,
    next: u32,
}

impl Http2 {
    /// Connects, with an initial flow-control window of `window` bytes per stream.
    ///
    /// # Errors
    /// Fails if the service cannot be reached.
    pub fn connect(address: &str, window: u32) -> io::Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(PREFACE)?;
        let mut setting = INITIAL_WINDOW_SIZE.to_be_bytes().to_vec();
        setting.extend(window.to_be_bytes());
        let mut this = Self { stream, next: 1 };
        this.write_frame(SETTINGS, 0, 0, &setting)?;
        this.write_frame(SETTINGS, ACKNOWLEDGED, 0, &[])?;
        Ok(this)
    }

    /// Sends a request without waiting for the response.
    ///
    /// # Errors
    /// Fails if the connection is broken.
    pub fn send_get(&mut self, target: &str, headers: &[(&str, &str)]) -> io::Result<()> {
        let named = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", target)];
        let mut block = Vec::new();
        for (name, value) in named.iter().chain(headers) {
            // A literal that is not indexed.
            block.push(0);
            for text in [name, value] {
                push_length(&mut block, text.len());
                block.extend(text.as_bytes());
            }
        }
        let id = self.next;
        self.next += 2;
        let mut frames = block.chunks(FRAME_MAX_BYTES).peekable();
        let (mut kind, mut flags) = (HEADERS, END_STREAM);
        while let Some(part) = frames.next() {
            flags |= if frames.peek().is_none() { END_HEADERS } else { 0 };
            self.write_frame(kind, flags, id, part)?;
            (kind, flags) = (CONTINUATION, 0);
        }
        Ok(())
    }

    /// Reads until a response ends, and returns its body; `None` if the stream is reset or the connection closed.
    pub fn read_body(&mut self, max_wait: Duration) -> Option<Vec<u8>> {
        self.stream.set_read_timeout(Some(max_wait)).ok()?;
        let mut body = Vec::new();
        loop {
            let (kind, flags, payload) = self.read_frame().ok()?;
            match kind {
                DATA => body.extend(payload),
                RST_STREAM => return None,
                _ => {}
            }
            if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
                return Some(body);
            }
        }
    }

    /// Reads for at most `max_wait`, answers pings, and returns the number of streams that the service has
    /// reset; `None` if it closed the connection.
    pub fn count_resets(&mut self, max_wait: Duration) -> Option<usize> {
        let mut resets = 0;
        self.stream.set_read_timeout(Some(max_wait)).ok()?;
        loop {
            match self.read_frame() {
                Ok((RST_STREAM, ..)) => resets += 1,
                Ok((PING, 0, payload)) => self.write_frame(PING, ACKNOWLEDGED, 0, &payload).ok()?,
                Ok(_) => {}
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Some(resets);
                }
                Err(_) => return None,
            }
        }
    }

    /// Reads a frame: its type, flags and payload.
    fn read_frame(&mut self) -> io::Result<(u8, u8, Vec<u8>)> {
        let mut head = [0; FRAME_HEAD_BYTES];
        self.stream.read_exact(&mut head)?;
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok((head[3], head[4], payload))
    }

    fn write_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
        let length = u32::try_from(payload.len()).map_err(io::Error::other)?.to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        self.stream.write_all(&frame)
    }
}

/// Appends the length of a literal that is not compressed, an integer with a prefix of seven bits.
fn push_length(block: &mut Vec<u8>, length: usize) {
    const PREFIX: usize = 127;
    let Some(mut rest) = length.checked_sub(PREFIX) else {
        return block.push(u8::try_from(length).unwrap_or(u8::MAX));
    };
    block.push(127);
    while rest >= 128 {
        block.push(0x80 | u8::try_from(rest % 128).unwrap_or_default());
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap_or_default());
}
