//! A minimal HTTP client: cheap, and with a timestamp for each byte.

use std::net::SocketAddr;

use bytes::{Buf, BytesMut};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::BenchResult;
use crate::pacer::now_micros;

/// Limits the head of a response and the line of a chunk.
const HEAD_MAX_BYTES: usize = 64 * 1024;
/// The buffer space for each read.
const READ_BYTES: usize = 64 * 1024;
/// The buffer space for the first read: a thousand idle readers must not cost this process much memory.
const FIRST_READ_BYTES: usize = 2048;

/// Builds a request as bytes, which can be sent any number of times.
pub(crate) fn build_request(method: &str, path: &str, key: Option<&str>, body: Option<&Value>) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nhost: bench\r\n");
    if let Some(key) = key {
        text.push_str(&format!("x-api-key: {key}\r\n"));
    }
    match body.map(Value::to_string) {
        Some(body) => {
            text.push_str(&format!(
                "content-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            ));
            text.push_str(&body);
        }
        None => text.push_str("\r\n"),
    }
    text.into_bytes()
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct BenchResponseHead {
    pub(crate) status: u16,
    /// `None` when the body is chunked.
    length: Option<usize>,
}

/// A connection with one request at a time.
#[derive(Debug)]
pub(crate) struct BenchConnection {
    stream: TcpStream,
    buffer: BytesMut,
    /// The time of the last read, on the pacer's clock.
    pub(crate) read_at: u64,
}

impl BenchConnection {
    pub(crate) async fn open(address: SocketAddr) -> BenchResult<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, buffer: BytesMut::with_capacity(FIRST_READ_BYTES), read_at: 0 })
    }

    /// Sends a request and reads its response, which must have this status; the body is JSON or empty.
    pub(crate) async fn call_json(&mut self, request: &[u8], status: u16) -> BenchResult<Value> {
        let (head, body) = self.exchange_request(request).await?;
        if head.status != status {
            let body = String::from_utf8_lossy(&body).into_owned();
            return Err(format!("status {} instead of {status}: {body}", head.status).into());
        }
        Ok(serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Sends a request and reads its response.
    pub(crate) async fn exchange_request(
        &mut self,
        request: &[u8],
    ) -> BenchResult<(BenchResponseHead, Vec<u8>)> {
        let head = self.read_response_head(request).await?;
        let mut body = Vec::new();
        match head.length {
            Some(length) => {
                while self.buffer.len() < length {
                    self.fill_buffer().await?;
                }
                body.extend_from_slice(&self.buffer[..length]);
                self.buffer.advance(length);
            }
            None => while self.read_chunk(&mut body).await? {},
        }
        Ok((head, body))
    }

    /// Sends a request, discards the response and returns the length of its body.
    pub(crate) async fn discard_response(
        &mut self,
        request: &[u8],
    ) -> BenchResult<(BenchResponseHead, usize)> {
        let head = self.read_response_head(request).await?;
        let length = head.length.ok_or("a response has no length")?;
        let mut left = length;
        loop {
            let now = self.buffer.len().min(left);
            self.buffer.advance(now);
            left -= now;
            if left == 0 {
                return Ok((head, length));
            }
            self.fill_buffer().await?;
        }
    }

    /// Sends a part of a request.
    pub(crate) async fn send_bytes(&mut self, bytes: &[u8]) -> BenchResult<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    /// Sends a request, or the rest of it, and reads the head of its response.
    pub(crate) async fn read_response_head(&mut self, request: &[u8]) -> BenchResult<BenchResponseHead> {
        self.stream.write_all(request).await?;
        let end = loop {
            if let Some(at) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                break at;
            }
            if self.buffer.len() > HEAD_MAX_BYTES {
                return Err("the head of a response does not end".into());
            }
            self.fill_buffer().await?;
        };
        let head = parse_response_head(&self.buffer[..end])?;
        self.buffer.advance(end + 4);
        Ok(head)
    }

    /// Appends the next chunk of a body. Returns false at its end.
    pub(crate) async fn read_chunk(&mut self, into: &mut Vec<u8>) -> BenchResult<bool> {
        let end = loop {
            if let Some(at) = self.buffer.windows(2).position(|window| window == b"\r\n") {
                break at;
            }
            if self.buffer.len() > HEAD_MAX_BYTES {
                return Err("the line of a chunk does not end".into());
            }
            self.fill_buffer().await?;
        };
        let line = std::str::from_utf8(&self.buffer[..end])?;
        let length = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16)?;
        self.buffer.advance(end + 2);
        while self.buffer.len() < length + 2 {
            self.fill_buffer().await?;
        }
        into.extend_from_slice(&self.buffer[..length]);
        self.buffer.advance(length + 2);
        Ok(length > 0)
    }

    /// Reads the next event of the service's stream into `into`. Returns false at the end. A chunk may contain a part
    /// of an event, and only its last chunk ends with an empty line.
    pub(crate) async fn read_event(&mut self, into: &mut Vec<u8>) -> BenchResult<bool> {
        into.clear();
        while self.read_chunk(into).await? {
            if into.ends_with(b"\n\n") {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn fill_buffer(&mut self) -> BenchResult<()> {
        if self.buffer.capacity() - self.buffer.len() < FIRST_READ_BYTES / 2 {
            self.buffer.reserve(READ_BYTES);
        }
        if self.stream.read_buf(&mut self.buffer).await? == 0 {
            return Err("the connection was cut".into());
        }
        self.read_at = now_micros();
        Ok(())
    }
}

fn parse_response_head(head: &[u8]) -> BenchResult<BenchResponseHead> {
    let head = std::str::from_utf8(head)?;
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).ok_or("a response has no status")?;
    let mut length = Some(0);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.trim().parse()?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            length = None;
        }
    }
    Ok(BenchResponseHead { status: status.parse()?, length })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_tell_status_and_length() {
        let head =
            parse_response_head(b"HTTP/1.1 202 Accepted\r\nContent-Length: 12\r\nx: y").expect("a head");
        assert_eq!((head.status, head.length), (202, Some(12)));
        let head = parse_response_head(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked").expect("a head");
        assert_eq!((head.status, head.length), (200, None));
        assert!(parse_response_head(b"hello").is_err());
    }

    #[test]
    fn requests_carry_key_and_body() {
        let bytes = build_request("POST", "/x", Some("api-1"), Some(&serde_json::json!({"a": 1})));
        let text = String::from_utf8(bytes).expect("text");
        assert!(text.starts_with("POST /x HTTP/1.1\r\n") && text.contains("x-api-key: api-1\r\n"));
        assert!(text.ends_with("content-length: 7\r\n\r\n{\"a\":1}"));
    }
}
