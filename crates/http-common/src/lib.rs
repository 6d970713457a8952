//! HTTP building blocks that are independent of routes: bounded request bodies, file downloads, event
//! streams, compression.
//!
//! This crate knows no routes: statuses, error bodies and pages belong to its users.

mod address;
mod body;
mod boolean;
mod budget;
mod compression;
mod disposition;
mod download;
mod encoder;
mod event_encoder;
mod events;
mod fair;
mod flow_control;
mod gcra;
mod head;
mod holder;
mod json;
pub mod limits;
mod list_header;
mod outgoing;
mod rate_limiter;
mod raw_file;
mod raw_head;
mod raw_sse;
mod segments;
mod upload;
mod upload_many;

pub use address::{IPV6_WIDER_BITS, InvalidNetwork, Network, Peer, client_address, counted, wider_networks};
pub use body::{BodyError, limited_json_body};
pub use boolean::boolean;
pub use budget::{BUDGET_RETRY_AFTER, Budget, BudgetExceeded, BudgetLimits, Budgets, Share};
pub use compression::Compression;
pub use disposition::attachment;
pub use download::{RangeNotSatisfiable, download_response};
pub use events::{Event, event_stream};
pub use fair::{FairGate, Place};
pub use flow_control::{BodyAborted, Stalled};
pub use gcra::{GcraLimiter, InvalidRate, Rate};
pub use head::is_target_too_long;
pub use holder::{Bounds, Holder};
pub use json::json_escape_into;
pub use list_header::list_header;
pub use outgoing::{HeldShares, Outgoing, ReadProgress, StreamedBody, Until, account_for};
pub use rate_limiter::{RateLimiter, RateLimits, RefusedRequests};
pub use raw_file::{is_file, send_file, until};
pub use raw_sse::{EventWriter, is_event_stream};
pub use segments::{SHARED_MIN_BYTES, SegmentsError, to_segments};
pub use upload::{UploadError, UploadForm, receive_upload, upload_form};
pub use upload_many::receive_uploads;
