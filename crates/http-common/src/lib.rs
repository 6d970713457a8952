//! HTTP building blocks that are independent of routes: bounded request bodies, file downloads, event
//! streams, compression.
//!
//! This crate knows no routes: statuses, error bodies and pages belong to its users.
//!
//! # Where to look
//!
//! - Events: `events.rs`; their compression: `event_encoder.rs`; their way to the socket: `raw_sse.rs`.
//! - Downloads: `download.rs`; files that the kernel sends: `raw_file.rs`; uploads: `upload.rs`.
//! - Shares of accounts and addresses: `budget.rs`, `fair.rs`; responses under way: `outgoing.rs`; bounds: `limits.rs`.

mod address;
mod body;
mod boolean;
mod budget;
mod compression;
mod disposition;
mod download;
mod encoder;
mod error_facts;
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

pub use address::{
    IPV6_WIDER_BITS, InvalidNetwork, Network, Peer, client_address, normalize_for_counting, wider_networks,
};
pub use body::{JsonBodyError, limited_body, limited_json_body};
pub use boolean::parse_boolean;
pub use budget::{BUDGET_RETRY_AFTER, Budget, BudgetExceeded, BudgetLimits, BudgetShare, Budgets};
pub use compression::ResponseCompression;
pub use disposition::attachment_header;
pub use download::{RangeNotSatisfiable, download_response};
pub use error_facts::ErrorFacts;
pub use events::{SseEvent, data_stream, event_stream};
pub use fair::{FairGate, FairGatePermit};
pub use flow_control::{BodyAborted, Stalled};
pub use gcra::{GcraLimiter, InvalidRate, RateLimit};
pub use head::is_target_too_long;
pub use holder::{BudgetBounds, BudgetHolder};
pub use json::json_escape_into;
pub use list_header::list_header;
pub use outgoing::{HeldShares, Outgoing, ReadProgress, StreamedBody, Until, account_for};
pub use rate_limiter::{RateLimiter, RateLimits, RefusedRequests};
pub use raw_file::{abort_response_when, is_file, send_file};
pub use raw_sse::{EventWriter, is_event_stream};
pub use segments::{SHARED_MIN_BYTES, SegmentsError, to_segments};
pub use upload::{UploadError, UploadedForm, receive_upload, upload_form};
pub use upload_many::receive_uploads;
