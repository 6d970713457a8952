//! The bounds of what one client may send, hold and wait for.

use std::time::Duration;

/// Bytes of a JSON body.
pub const JSON_BODY_MAX_BYTES: usize = 4 << 20;

/// Within this a JSON body must have come in whole, unless the operator sets another bound.
pub const JSON_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of the request line and all headers; for whoever serves the connections.
pub const HEADERS_MAX_BYTES: usize = 64 << 10;

/// Bytes of a target: path and query. The longest path fits, each byte of it percent-encoded.
pub const TARGET_MAX_BYTES: usize = 16 << 10;

/// Within this the headers must have come in; for whoever serves the connections.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);

/// A body of which nothing comes for this long is given up.
pub const BODY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Parts of an upload form.
pub const FORM_PARTS_MAX: usize = 16;

/// Bytes of each part of an upload form but the file.
pub const FORM_FIELD_MAX_BYTES: usize = 64 << 10;

/// Bytes between the parts of an upload form: a boundary and the headers of the part after it.
pub const FORM_HEADERS_MAX_BYTES: u64 = 16 << 10;

/// When a form is refused, so much of it is still read, so that the client gets to read why.
pub const REFUSED_BODY_MAX_BYTES: usize = 8 << 20;

/// When a form is refused, it is still read for so long.
pub const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// Between two comments on an event stream, by which both sides learn that the other is there.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// A reader of an event stream that takes nothing for this long is let go.
pub const READER_STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Bytes of an event stream that are handed to the connection and not yet sent.
pub const READER_IN_FLIGHT_MAX_BYTES: usize = 64 << 10;

/// Pieces of an event stream that are handed to the connection and not yet sent. Fewer than a connection
/// queues before it stops asking for more, which the stalling of a reader is told by.
pub const READER_IN_FLIGHT_MAX_PIECES: usize = 8;

/// Bytes that a client may say while an event stream is written to it; more is left to its next request.
pub const EARLY_MAX_BYTES: usize = 8 << 10;

/// Responses that are being compressed at once; each holds some megabytes. The others go as they are.
pub const COMPRESSED_MAX: usize = 256;

/// A response that is known to be smaller is not worth compressing.
pub const COMPRESSED_MIN_BYTES: u64 = 256;
