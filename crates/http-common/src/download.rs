//! Creates responses with files (section 4.3 of the interface), with ranges and conditions.

use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use http_body::{Frame, SizeHint};
use workspace::{FileStream, OpenFile};

use crate::compression::Uncompressed;
use crate::disposition::attachment_header;
use crate::outgoing::StreamedBody;
use crate::raw_file::FileSlot;

/// The requested range contains no byte of the file (416).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the range is beyond the end of the file, which has {size} bytes")]
pub struct RangeNotSatisfiable {
    /// The size of the file in bytes.
    pub size: u64,
}

impl RangeNotSatisfiable {
    /// Returns the `Content-Range` of the 416 response.
    #[must_use]
    pub fn content_range(self) -> HeaderValue {
        header_value(format!("bytes */{}", self.size))
    }
}

/// Creates the response to a GET or HEAD request: 200, 206 for one range, or 304 if the client has the file.
///
/// The file is an attachment without content sniffing, has a known length, and is never compressed. Several ranges,
/// or an invalid range, get the whole file.
///
/// # Errors
/// [`RangeNotSatisfiable`].
pub fn download_response(
    file: &OpenFile,
    method: &Method,
    asked: &HeaderMap,
) -> Result<Response, RangeNotSatisfiable> {
    let modified = whole_seconds(file);
    let mut response = Response::new(Body::empty());
    let headers = response.headers_mut();
    headers.insert(header::ETAG, header_value(file.etag.clone()));
    headers.insert(header::LAST_MODIFIED, header_value(httpdate::fmt_http_date(modified)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if is_known(file, modified, asked) {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        return Ok(response);
    }
    let asked_range = if *method == Method::GET && may_be_part(file, asked) {
        asked.get(header::RANGE).and_then(|range| one_range(range.as_bytes(), file.size))
    } else {
        None
    };
    let range = match asked_range {
        None => 0..file.size,
        Some(range) if range.is_empty() => return Err(RangeNotSatisfiable { size: file.size }),
        Some(range) => {
            let shown = format!("bytes {}-{}/{}", range.start, range.end - 1, file.size);
            headers.insert(header::CONTENT_RANGE, header_value(shown));
            range
        }
    };
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(file.mime));
    headers.insert(header::CONTENT_DISPOSITION, attachment_header(&file.name));
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    if headers.contains_key(header::CONTENT_RANGE) {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    response.extensions_mut().insert(Uncompressed);
    response.extensions_mut().insert(StreamedBody);
    if *method != Method::HEAD {
        let left = range.end - range.start;
        FileSlot::mark_response(&mut response, file.transfer_range(range.clone()), left);
        *response.body_mut() = Body::new(FileBody { stream: file.stream_range(range), left });
    }
    Ok(response)
}

/// Returns true if the client has the current version of the file. Entity tags take precedence over times.
fn is_known(file: &OpenFile, modified: SystemTime, asked: &HeaderMap) -> bool {
    let mut tags = asked.get_all(header::IF_NONE_MATCH).iter().peekable();
    if tags.peek().is_some() {
        let matches =
            |tag: &[u8]| tag == b"*" || tag.strip_prefix(b"W/").unwrap_or(tag) == file.etag.as_bytes();
        return tags
            .any(|list| list.as_bytes().split(|byte| *byte == b',').any(|tag| matches(tag.trim_ascii())));
    }
    parse_date_header(asked.get(header::IF_MODIFIED_SINCE)).is_some_and(|since| modified <= since)
}

/// Returns true if a range may be sent: the client's other parts are of the current version. A date does not prove that,
/// because a file may change twice within a second (RFC 9110, sections 8.8.2.2 and 13.1.5).
fn may_be_part(file: &OpenFile, asked: &HeaderMap) -> bool {
    asked.get(header::IF_RANGE).is_none_or(|tag| tag.as_bytes() == file.etag.as_bytes())
}

/// Parses a single range of bytes, truncated to the file. Empty if the file has no byte in it; `None` if it is not a
/// single range.
fn one_range(text: &[u8], size: u64) -> Option<Range<u64>> {
    let text = str::from_utf8(text).ok()?.trim();
    let (unit, range) = text.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") || range.contains(',') {
        return None;
    }
    let (first, last) = range.trim().split_once('-')?;
    let number = |digits: &str| -> Option<u64> {
        let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        // A number that does not fit is beyond the end of any file.
        all_digits.then(|| digits.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (first.trim(), last.trim()) {
        ("", last) => (size.saturating_sub(number(last)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            if last < first {
                return None;
            }
            (first, last.saturating_add(1))
        }
    };
    Some(start.min(size)..end.min(size))
}

fn parse_date_header(value: Option<&HeaderValue>) -> Option<SystemTime> {
    httpdate::parse_http_date(value?.to_str().ok()?).ok()
}

/// Returns the modification time in whole seconds, the resolution of HTTP.
fn whole_seconds(file: &OpenFile) -> SystemTime {
    let seconds = u64::try_from(file.modified.micros() / 1_000_000).unwrap_or(0);
    // Years with five digits cannot be formatted.
    UNIX_EPOCH + Duration::from_secs(seconds.min(253_402_300_799))
}

fn header_value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// The bytes of a range of known length.
struct FileBody {
    stream: FileStream,
    left: u64,
}

impl http_body::Body for FileBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let chunk = ready!(Pin::new(&mut self.stream).poll_next(context));
        if let Some(Ok(chunk)) = &chunk {
            self.left = self.left.saturating_sub(chunk.len() as u64);
        }
        Poll::Ready(chunk.map(|chunk| chunk.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_follows_rfc_9110() {
        for (text, expected) in [
            ("bytes=0-0", Some(0..1)),
            ("bytes=0-", Some(0..10)),
            ("bytes = 3-5", Some(3..6)),
            ("BYTES=3-99999999999999999999999", Some(3..10)),
            ("bytes=-3", Some(7..10)),
            ("bytes=-30", Some(0..10)),
            ("bytes=-0", Some(10..10)),
            ("bytes=10-", Some(10..10)),
            ("bytes=99999999999999999999999-", Some(10..10)),
            ("bytes=5-3", None),
            ("bytes=0-1,3-4", None),
            ("bytes=-", None),
            ("bytes=a-b", None),
            ("bytes=+1-2", None),
            ("items=0-1", None),
            ("bytes", None),
        ] {
            assert_eq!(one_range(text.as_bytes(), 10), expected, "{text}");
        }
    }
}
