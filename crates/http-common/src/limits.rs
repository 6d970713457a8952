//! The bounds of what one client may send, hold and wait for.

use std::time::Duration;

/// Bytes of a JSON body.
pub const JSON_BODY_MAX_BYTES: usize = 4 << 20;

/// Within this a JSON body must have come in whole, unless the operator sets another bound.
pub const JSON_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of the request line and all headers; for whoever serves the connections.
pub const HEADERS_MAX_BYTES: usize = 64 << 10;

/// A head of which so much has come, and not the rest, is counted.
pub const HEAD_COUNTED_BYTES: usize = 8 << 10;

/// Connections of one address with such a head; further ones are cut.
pub const HEADS_EACH: u64 = 512;

/// Connections of all addresses with such a head.
pub const HEADS_MAX: u64 = 1_024;

/// Bytes of a target: path and query. The longest path fits, each byte of it percent-encoded.
pub const TARGET_MAX_BYTES: usize = 16 << 10;

/// Within this the headers must have come in; for whoever serves the connections.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);

/// A body, coming in or going out, of which nothing is sent or taken for this long is given up, unless the operator sets
/// another bound. Event streams have [`READER_STALL_TIMEOUT`].
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// When nothing of an upload comes for this long, what came is written to disk, and no longer in memory.
pub const UPLOAD_FLUSH_AFTER: Duration = Duration::from_secs(1);

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

/// Responses of one account that are being compressed at once; each holds some megabytes. The others go as they are.
pub const COMPRESSED_EACH: u64 = 32;

/// Responses of all accounts that are being compressed at once.
pub const COMPRESSED_MAX: u64 = 128;

/// Requests of one account that are under way, open streams among them.
pub const REQUESTS_EACH: u64 = 8_000;

/// Requests of all accounts that are under way.
pub const REQUESTS_MAX: u64 = 20_000;

/// Uploads and downloads of one account that are under way.
pub const TRANSFERS_EACH: u64 = 128;

/// Uploads and downloads of all accounts that are under way.
pub const TRANSFERS_MAX: u64 = 1_024;

/// Bytes of bodies that one account has held: of questions as they come in, of responses until they are taken.
pub const BODY_BYTES_EACH: u64 = 32 << 20;

/// Bytes of bodies that all accounts have held.
pub const BODY_BYTES_MAX: u64 = 256 << 20;

/// Responses of one account that are made at once from much that is read: listings, pages of conversations. Others wait.
pub const MADE_EACH: u64 = 4;

/// Such responses of all accounts that are made at once.
pub const MADE_MAX: u64 = 8;

/// Bytes of responses that an address has held without a valid key.
pub const STRANGER_BYTES_EACH: u64 = 4 << 20;

/// Bytes of responses that all addresses have held without a valid key.
pub const STRANGER_BYTES_MAX: u64 = 32 << 20;

/// A response that is not larger costs its connection no more than the rest of it does, and is not counted.
pub const OUTGOING_SMALL_BYTES: u64 = 4 << 10;

/// Bytes of a response that are handed to the connection and not yet sent.
pub const OUTGOING_IN_FLIGHT_BYTES: usize = 128 << 10;

/// Bytes of a response that are handed over at once to a connection that takes what its client takes.
pub const OUTGOING_PIECE_BYTES: usize = 64 << 10;

/// The same over HTTP/2, where the progress of a client is told by the pieces that it has taken.
pub const OUTGOING_STREAM_PIECE_BYTES: usize = 16 << 10;

/// Parts of files that are shorter are copied: taking the connection for them saves nothing.
pub const RAW_FILE_MIN_BYTES: u64 = 64 << 10;

/// A response that is known to be smaller is not worth compressing.
pub const COMPRESSED_MIN_BYTES: u64 = 256;
