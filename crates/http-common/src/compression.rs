//! Compression of responses, including event streams.
//!
//! The content type determines whether a response is compressed; an event stream is flushed after every
//! event. Existing middleware lacks three features: a window that is large enough to contain the previous
//! event, a bound on the memory of all encoders together, and flow control of event streams.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG,
    HeaderMap, HeaderValue, VARY,
};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame};

use crate::budget::{Budget, BudgetShare};
use crate::encoder::{Encoder, Encoding};
use crate::event_encoder::EventEncoder;
use crate::events::{BoxError, StreamSlot};
use crate::holder::BudgetHolder;
use crate::limits::{COMPRESSED_MIN_BYTES, READER_IN_FLIGHT_MAX_BYTES};

/// Marks a response that must not be compressed, regardless of its type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uncompressed;

/// The negotiated compression of a response: zstd, brotli or gzip.
///
/// Downloads, partial content, and small or already compressed content are not compressed. A strong entity
/// tag becomes a weak one, because the bytes differ.
#[derive(Debug, Clone, Copy)]
pub struct ResponseCompression {
    encoding: Option<Encoding>,
    is_head: bool,
}

impl ResponseCompression {
    /// Negotiates the compression of the response to a request.
    #[must_use]
    pub fn negotiate(method: &Method, headers: &HeaderMap) -> Self {
        Self {
            encoding: Encoding::negotiate(headers.get_all(ACCEPT_ENCODING).iter()),
            is_head: *method == Method::HEAD,
        }
    }

    /// Compresses the response if the budget has room for `holder`; otherwise leaves it unchanged. The result
    /// must not be compressed again.
    #[must_use]
    pub fn apply_to(self, mut response: Response, places: &Arc<Budget>, holder: BudgetHolder) -> Response {
        if self.is_head || !is_compressible(&response) {
            return response;
        }
        response.headers_mut().append(VARY, HeaderValue::from(ACCEPT_ENCODING));
        let Some(encoding) = self.encoding else { return response };
        match places.take_share(holder, 1) {
            Ok(place) => compress_response(response, encoding, place),
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

fn compress_response(response: Response, encoding: Encoding, place: BudgetShare) -> Response {
    let (mut parts, body) = response.into_parts();
    let Ok(encoder) = Encoder::new(encoding, body.size_hint().exact()) else {
        return Response::from_parts(parts, body);
    };
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.remove(ACCEPT_RANGES);
    parts.headers.insert(CONTENT_ENCODING, encoding.to_header());
    if let Some(tag) = parts.headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\""))
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        parts.headers.insert(ETAG, weak);
    }
    if let Some(stream_slot) = parts.extensions.get::<StreamSlot>() {
        stream_slot.enable_compression(EventEncoder::new(encoder, place));
        return Response::from_parts(parts, body);
    }
    let body = CompressedBody { body: Some(body), encoder: Some(encoder), unflushed: false, _place: place };
    Response::from_parts(parts, Body::new(body))
}

/// A body that is compressed while it is read.
struct CompressedBody {
    /// `None` once it has ended, so that it is not polled again.
    body: Option<Body>,
    encoder: Option<Encoder>,
    unflushed: bool,
    _place: BudgetShare,
}

impl CompressedBody {
    /// Compresses until enough output has accumulated or no more content is available for now. Returns `None`
    /// at the end of the content.
    fn poll_output(&mut self, context: &mut Context<'_>) -> Poll<Result<Option<Bytes>, BoxError>> {
        let (Some(body), Some(encoder)) = (&mut self.body, &mut self.encoder) else {
            return Poll::Ready(Ok(None));
        };
        loop {
            let frame = match Pin::new(&mut *body).poll_frame(context) {
                Poll::Ready(Some(frame)) => frame?,
                Poll::Ready(None) => break,
                Poll::Pending if self.unflushed => {
                    self.unflushed = false;
                    encoder.flush()?;
                    return Poll::Ready(Ok(Some(encoder.take_output())));
                }
                Poll::Pending => return Poll::Pending,
            };
            let Ok(data) = frame.into_data() else { continue };
            encoder.write_input(&data)?;
            self.unflushed = true;
            if encoder.ready_bytes() >= READER_IN_FLIGHT_MAX_BYTES {
                return Poll::Ready(Ok(Some(encoder.take_output())));
            }
        }
        self.body = None;
        let rest = self.encoder.take().map_or_else(|| Ok(Bytes::new()), Encoder::finish)?;
        Poll::Ready(Ok((!rest.is_empty()).then_some(rest)))
    }
}

impl http_body::Body for CompressedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let output = ready!(self.poll_output(context));
        if output.is_err() {
            (self.body, self.encoder) = (None, None);
        }
        Poll::Ready(output.transpose().map(|output| output.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }
}
