//! A minimal HTTP/1.1 client that sends requests unchanged. A library would normalize the very things that
//! the service must withstand: dots in paths, odd bytes, missing lengths.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::Value;

use crate::address::Address;
use crate::met;
use crate::wire::Wire;

/// The longest body that is read as a whole.
const BODY_MAX_BYTES: u64 = 256 * 1024 * 1024;
/// The longest line of a head or of a chunk's size.
const LINE_MAX_BYTES: u64 = 64 * 1024;

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    chunked: bool,
}

impl Request {
    /// Creates a request for a target, which is sent unchanged.
    #[must_use]
    pub fn new(method: &str, target: &str) -> Self {
        Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            chunked: false,
        }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the body. Adds no `Content-Type`.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends the body in chunks, without a length.
    #[must_use]
    pub fn chunked(mut self) -> Self {
        self.chunked = true;
        self
    }

    /// Sends the request and reads the head of the response.
    ///
    /// # Panics
    /// If the service cannot be reached or does not respond with HTTP/1.1.
    #[must_use]
    pub fn open(self, address: impl Into<Address>) -> Streaming {
        self.try_open(address).expect("an HTTP/1.1 response")
    }

    /// Sends the request and reads the complete response.
    ///
    /// # Panics
    /// Like [`Request::open`], and if the body is incomplete.
    #[must_use]
    pub fn send(self, address: impl Into<Address>) -> Response {
        let request = format!("{} {}", self.method, self.target);
        let result = self.try_send(address);
        result.unwrap_or_else(|error| refuse(&format!("{request}: {error}")))
    }

    /// Sends the request like [`Request::send`], for a service that may be down or shutting down.
    ///
    /// # Errors
    /// If the service cannot be reached or the connection breaks.
    pub fn try_send(self, address: impl Into<Address>) -> io::Result<Response> {
        self.try_open(address)?.try_whole()
    }

    /// Sends the request like [`Request::open`], for a service that may be down or shutting down.
    ///
    /// # Errors
    /// If the service cannot be reached or does not respond with HTTP/1.1.
    pub fn try_open(self, address: impl Into<Address>) -> io::Result<Streaming> {
        let address = address.into();
        let mut wire = Wire::connect(&address)?;
        // The service may respond and close the connection before it has read everything, so a failed write
        // is ignored.
        let _ = self.write(&mut wire, &address);
        let mut streaming = Streaming::read(BufReader::new(wire), &self.method)?;
        streaming.asked = Some((self.method, self.target));
        Ok(streaming)
    }

    fn write(&self, stream: &mut Wire, address: &Address) -> io::Result<()> {
        let (method, target, prefix) = (&self.method, &self.target, address.prefix());
        let mut head =
            format!("{method} {prefix}{target} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if self.chunked {
            head.push_str("transfer-encoding: chunked\r\n");
        } else if !self.body.is_empty() || matches!(self.method.as_str(), "POST" | "PUT" | "PATCH") {
            head.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())?;
        if self.chunked {
            for chunk in self.body.chunks(7919) {
                write!(stream, "{:x}\r\n", chunk.len())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")?;
        } else {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub struct Streaming {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Body,
    asked: Option<(String, String)>,
}

impl Streaming {
    /// Reads the head of the response to a request with this method.
    pub(crate) fn read(mut reader: BufReader<Wire>, method: &str) -> io::Result<Self> {
        let status_line = line(&mut reader)?;
        let status = status_line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok())
            .ok_or_else(|| broken(&format!("status line {status_line:?}")))?;
        let mut headers = Vec::new();
        loop {
            let line = line(&mut reader)?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| broken("a header without a colon"))?;
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let left = extent(method, status, &headers)?;
        Ok(Self { status, headers, body: Body { reader, left }, asked: None })
    }

    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns the body for incremental reading.
    #[must_use]
    pub fn into_body(self) -> Body {
        if let Some((method, target)) = &self.asked {
            met::note(method, target, self.status, None);
        }
        self.body
    }

    /// Reads the complete response.
    ///
    /// # Panics
    /// If the body is incomplete.
    #[must_use]
    pub fn whole(self) -> Response {
        self.try_whole().expect("a whole body")
    }

    /// Reads the complete response like [`Self::whole`], for a connection that may break.
    ///
    /// # Errors
    /// If the body is incomplete.
    pub fn try_whole(self) -> io::Result<Response> {
        self.whole_and_rest().map(|(response, _)| response)
    }

    /// Reads the complete response and returns the connection with it.
    pub(crate) fn whole_and_rest(mut self) -> io::Result<(Response, BufReader<Wire>)> {
        let mut body = Vec::new();
        self.body.by_ref().take(BODY_MAX_BYTES).read_to_end(&mut body)?;
        let response = Response { status: self.status, headers: self.headers, body };
        if let Some((method, target)) = &self.asked {
            met::note(method, target, response.status, Some(&response.body));
        }
        Ok((response, self.body.reader))
    }
}

/// A complete response.
#[derive(Debug, Clone)]
pub struct Response {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Returns the values of a header that may occur several times.
    pub fn header_values(&self, name: &str) -> impl Iterator<Item = &str> {
        let named = self.headers.iter().filter(move |(header, _)| header.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// Parses the body as JSON.
    ///
    /// # Panics
    /// If it is not JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| refuse(&format!("{error}, in {} {:?}", self.status, self.text())))
    }

    /// Returns the body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The rest of a body.
#[derive(Debug, Clone, Copy)]
enum Left {
    Bytes(u64),
    /// The remaining bytes of the current chunk.
    Chunk(u64),
    UntilClosed,
}

/// A body, decoded from its chunks while it is read.
#[derive(Debug)]
pub struct Body {
    reader: BufReader<Wire>,
    left: Left,
}

impl Read for Body {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.left {
            Left::UntilClosed => self.reader.read(into),
            Left::Bytes(0) => Ok(0),
            Left::Bytes(left) => {
                let read = self.some(into, left)?;
                self.left = Left::Bytes(left - read);
                Ok(usize::try_from(read).expect("no more than the buffer"))
            }
            Left::Chunk(0) => {
                let size = line(&mut self.reader)?;
                let size = size.split(';').next().unwrap_or("").trim();
                let size = u64::from_str_radix(size, 16).map_err(|_| broken("a chunk without size"))?;
                if size == 0 {
                    while !line(&mut self.reader)?.is_empty() {}
                    self.left = Left::Bytes(0);
                    return Ok(0);
                }
                self.left = Left::Chunk(size);
                self.read(into)
            }
            Left::Chunk(left) => {
                let read = self.some(into, left)?;
                if read == left && !line(&mut self.reader)?.is_empty() {
                    return Err(broken("a chunk that is longer than its size"));
                }
                self.left = Left::Chunk(left - read);
                Ok(usize::try_from(read).expect("no more than the buffer"))
            }
        }
    }
}

impl Body {
    fn some(&mut self, into: &mut [u8], left: u64) -> io::Result<u64> {
        let read = self.reader.by_ref().take(left).read(into)?;
        if read == 0 && !into.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(read as u64)
    }
}

fn extent(method: &str, status: u16, headers: &[(String, String)]) -> io::Result<Left> {
    if method == "HEAD" || status < 200 || status == 204 || status == 304 {
        return Ok(Left::Bytes(0));
    }
    if find(headers, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return Ok(Left::Chunk(0));
    }
    match find(headers, "content-length") {
        Some(length) => length.parse().map(Left::Bytes).map_err(|_| broken("a length that is not a number")),
        None => Ok(Left::UntilClosed),
    }
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

fn line(reader: &mut BufReader<Wire>) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let line = String::from_utf8(line).map_err(|_| broken("a head that is not UTF-8"))?;
    Ok(line.trim_end().to_owned())
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

#[expect(clippy::panic, reason = "this is how a test of the suite fails")]
fn refuse(what: &str) -> ! {
    panic!("{what}")
}
