//! Limits and timeouts of clients.

use std::time::Duration;

/// The largest JSON body, in bytes.
pub const JSON_BODY_MAX_BYTES: usize = 4 << 20;

/// The default time within which a JSON body must be complete.
pub const JSON_BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// The largest request line and headers together, in bytes; for the server of the connections.
pub const HEADERS_MAX_BYTES: usize = 64 << 10;

/// The size in bytes from which on an incomplete head is counted.
pub const HEAD_COUNTED_BYTES: usize = 8 << 10;

/// The maximum number of connections of one address with such a head; further ones are closed.
pub const HEADS_EACH: u64 = 512;

/// The maximum number of connections of all addresses with such a head.
pub const HEADS_MAX: u64 = 1_024;

/// The longest target (path and query), in bytes. The longest path fits with all bytes percent-encoded.
pub const TARGET_MAX_BYTES: usize = 16 << 10;

/// The time within which the headers must be complete; for the server of the connections.
pub const HEADERS_TIMEOUT: Duration = Duration::from_secs(15);

/// The default time after which a request or response body without progress is aborted. Event streams have
/// [`READER_STALL_TIMEOUT`].
pub const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The time without data after which a stalled upload is flushed from memory to disk.
pub const UPLOAD_FLUSH_AFTER: Duration = Duration::from_secs(1);

/// The maximum number of parts of an upload form.
pub const FORM_PARTS_MAX: usize = 16;

/// The maximum number of files of one upload form of a page.
pub const UPLOADED_TOGETHER_MAX: usize = 100;

/// The largest part of an upload form except the file, in bytes.
pub const FORM_FIELD_MAX_BYTES: usize = 64 << 10;

/// The maximum number of bytes between the parts of an upload form: a boundary and the headers of the next part.
pub const FORM_HEADERS_MAX_BYTES: u64 = 16 << 10;

/// The bytes of a rejected form that are still read, so that the client can read the response.
pub const REFUSED_BODY_MAX_BYTES: usize = 8 << 20;

/// The time for which a rejected form is still read.
pub const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of comments on an event stream, by which both sides detect a lost connection.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// The time after which a reader of an event stream that takes no data is disconnected.
pub const READER_STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum number of bytes of an event stream in flight.
pub const READER_IN_FLIGHT_MAX_BYTES: usize = 64 << 10;

/// The maximum number of pieces of an event stream in flight. Fewer than a connection queues before it stops
/// polling, so that a stalled reader is detected.
pub const READER_IN_FLIGHT_MAX_PIECES: usize = 8;

/// The bytes that a client may send during an event stream; more is left to its next request.
pub const EARLY_MAX_BYTES: usize = 8 << 10;

/// The maximum number of responses of one account that are compressed at once, with some megabytes each. Others
/// are not compressed.
pub const COMPRESSED_EACH: u64 = 32;

/// The maximum number of responses of all accounts that are compressed at once.
pub const COMPRESSED_MAX: u64 = 128;

/// The maximum number of concurrent requests of one account, including open streams.
pub const REQUESTS_EACH: u64 = 8_000;

/// The maximum number of concurrent requests of all accounts.
pub const REQUESTS_MAX: u64 = 20_000;

/// The maximum number of concurrent uploads and downloads of one account.
pub const TRANSFERS_EACH: u64 = 128;

/// The maximum number of concurrent uploads and downloads of all accounts.
pub const TRANSFERS_MAX: u64 = 1_024;

/// The maximum number of bytes of bodies in memory for one account: of questions while they are received, of
/// responses until they are sent.
pub const BODY_BYTES_EACH: u64 = 32 << 20;

/// The maximum number of bytes of bodies in memory for all accounts.
pub const BODY_BYTES_MAX: u64 = 256 << 20;

/// The maximum number of responses of one account that are created at once from much data: listings, pages of
/// conversations. Others wait.
pub const MADE_EACH: u64 = 4;

/// The maximum number of such responses of all accounts that are created at once.
pub const MADE_MAX: u64 = 8;

/// The maximum number of previews of documents that the machine of one account makes at once, and the machines
/// of all accounts. Others wait.
pub const PREVIEWS_EACH: u64 = 3;
pub const PREVIEWS_MAX: u64 = 32;

/// The maximum number of bytes in memory of responses without a valid key, per address.
pub const STRANGER_BYTES_EACH: u64 = 4 << 20;

/// The maximum number of bytes in memory of responses without a valid key, for all addresses.
pub const STRANGER_BYTES_MAX: u64 = 32 << 20;

/// The size in bytes up to which a response is not counted, because its connection costs more.
pub const OUTGOING_SMALL_BYTES: u64 = 4 << 10;

/// The maximum number of bytes of a response in flight.
pub const OUTGOING_IN_FLIGHT_BYTES: usize = 128 << 10;

/// The bytes of a response that are passed at once to a connection that reports its client's progress.
pub const OUTGOING_PIECE_BYTES: usize = 64 << 10;

/// The bytes that are passed at once over HTTP/2, where progress is measured by the pieces taken.
pub const OUTGOING_STREAM_PIECE_BYTES: usize = 16 << 10;

/// The length below which a part of a file is copied, because taking over the connection saves nothing.
pub const RAW_FILE_MIN_BYTES: u64 = 64 << 10;

/// The size in bytes below which a response is not compressed.
pub const COMPRESSED_MIN_BYTES: u64 = 256;
