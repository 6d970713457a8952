//! Compression of responses, event streams among them.
//!
//! What is compressed is decided by the type of the content; an event stream is flushed after every event. It
//! is done here and not by a ready-made layer for the sake of three things: a window that is large enough to
//! find the event before, a bound on the memory of all encoders together, and the pace of event streams.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, VARY,
};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::encoder::{Encoder, Encoding};
use crate::limits::{COMPRESSED_MAX, COMPRESSED_MIN_BYTES, READER_IN_FLIGHT_MAX_BYTES};
use crate::pace::Pace;

/// Marks a response that is sent as it is, whatever its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uncompressed;

/// Places for responses that are being compressed. When all are taken, responses go as they are.
static PLACES: Semaphore = Semaphore::const_new(COMPRESSED_MAX);

/// How a response is to be compressed: with zstd, brotli or gzip, as the client accepts it.
///
/// Downloads, parts of content, and small or already compressed content go as they are. A strong entity tag
/// becomes a weak one, as other bytes are sent than those that it names.
#[derive(Debug, Clone, Copy)]
pub struct Compression {
    encoding: Option<Encoding>,
    is_head: bool,
}

impl Compression {
    /// As the request asks for it.
    #[must_use]
    pub fn asked(request: &Request) -> Self {
        Self {
            encoding: Encoding::negotiated(request.headers().get_all(ACCEPT_ENCODING).iter()),
            is_head: *request.method() == Method::HEAD,
        }
    }

    /// Compresses the response to that request. Nothing may compress it again.
    #[must_use]
    pub fn of(self, mut response: Response) -> Response {
        if self.is_head || !is_compressible(&response) {
            return response;
        }
        response.headers_mut().append(VARY, HeaderValue::from(ACCEPT_ENCODING));
        let Some(encoding) = self.encoding else { return response };
        match PLACES.try_acquire() {
            Ok(place) => compressed(response, encoding, place),
            Err(_) => response,
        }
    }
}

fn is_compressible(response: &Response) -> bool {
    let headers = response.headers();
    let bodiless = [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED, StatusCode::PARTIAL_CONTENT];
    !bodiless.contains(&response.status())
        && response.extensions().get::<Uncompressed>().is_none()
        && !headers.contains_key(CONTENT_ENCODING)
        && !headers.contains_key(CONTENT_RANGE)
        && response.body().size_hint().exact().is_none_or(|size| size >= COMPRESSED_MIN_BYTES)
        && is_text(content_type(headers))
}

fn content_type(headers: &HeaderMap) -> &str {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    text.split(';').next().unwrap_or_default().trim()
}

fn is_text(content_type: &str) -> bool {
    content_type.starts_with("text/")
        || ["/json", "+json", "/javascript", "/xml", "+xml", "/yaml", "+yaml"]
            .iter()
            .any(|end| content_type.ends_with(end))
}

fn compressed(response: Response, encoding: Encoding, place: SemaphorePermit<'static>) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(encoder) = Encoder::new(encoding, body.size_hint().exact()) else {
        return Response::from_parts(parts, body);
    };
    let pace = (content_type(&parts.headers) == "text/event-stream").then(Pace::new);
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(ACCEPT_RANGES);
    parts.headers.insert(CONTENT_ENCODING, encoding.header());
    if let Some(tag) = parts.headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""))
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        parts.headers.insert(ETAG, weak);
    }
    let body = Compressed {
        body: Some(body),
        encoder: Some(encoder),
        pace,
        output: Bytes::new(),
        unflushed: false,
        _place: place,
    };
    Response::from_parts(parts, Body::new(body))
}

/// A body whose content is compressed as it comes.
struct Compressed {
    /// Nothing once it has ended: it is not asked again.
    body: Option<Body>,
    encoder: Option<Encoder>,
    /// Of an event stream, which is flushed after every event.
    pace: Option<Pace>,
    /// What is on its way out.
    output: Bytes,
    unflushed: bool,
    _place: SemaphorePermit<'static>,
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

impl Compressed {
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        loop {
            if !self.output.is_empty() {
                return self.poll_piece(context).map_ok(Some);
            }
            if self.body.is_none() {
                return Poll::Ready(Ok(None));
            }
            if let Some(pace) = &mut self.pace {
                ready!(pace.poll_sent(context))?;
            }
            self.output = match ready!(self.poll_input(context))? {
                Some(output) => output,
                None => {
                    self.body = None;
                    self.encoder.take().map_or_else(|| Ok(Bytes::new()), Encoder::finish)?
                }
            };
        }
    }

    /// Hands over what is on its way out, in pieces where there is a pace.
    fn poll_piece(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, BoxError>> {
        let Some(pace) = &mut self.pace else { return Poll::Ready(Ok(std::mem::take(&mut self.output))) };
        ready!(pace.poll_room(context))?;
        let length = self.output.len().min(READER_IN_FLIGHT_MAX_BYTES);
        Poll::Ready(Ok(pace.wrap(self.output.split_to(length))))
    }

    /// Compresses content until there is something to be sent: an event is whole, enough has gathered, or
    /// nothing more comes for now. Nothing when the content ends.
    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        let (Some(body), Some(encoder)) = (&mut self.body, &mut self.encoder) else {
            return Poll::Ready(Ok(None));
        };
        loop {
            let frame = match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(frame)) => frame?,
                Poll::Ready(None) => return Poll::Ready(Ok(None)),
                Poll::Pending if self.unflushed => {
                    self.unflushed = false;
                    return Poll::Ready(flushed(encoder).map(Some));
                }
                Poll::Pending => return Poll::Pending,
            };
            let Ok(data) = frame.into_data() else { continue };
            encoder.write(&data)?;
            self.unflushed = true;
            if self.pace.is_some() && data.ends_with(b"\n\n") {
                self.unflushed = false;
                return Poll::Ready(flushed(encoder).map(Some));
            }
            if encoder.ready() >= READER_IN_FLIGHT_MAX_BYTES {
                return Poll::Ready(Ok(Some(encoder.take())));
            }
        }
    }
}

fn flushed(encoder: &mut Encoder) -> Result<Bytes, BoxError> {
    let flushed: io::Result<()> = encoder.flush();
    flushed?;
    Ok(encoder.take())
}

impl http_body::Body for Compressed {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let output = ready!(self.poll_output(context));
        if output.is_err() {
            (self.body, self.encoder, self.output) = (None, None, Bytes::new());
        }
        Poll::Ready(output.transpose().map(|output| output.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none() && self.output.is_empty()
    }

    /// What is there already.
    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.output.len() as u64);
        hint
    }
}
