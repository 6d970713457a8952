//! What both HTTP faces of the service share: bodies that come in within bounds, files that go out, event
//! streams, compression.
//!
//! Nothing here knows what is said over them: statuses, error bodies and pages belong to the faces.

mod address;
mod body;
mod budget;
mod compression;
mod direct;
mod disposition;
mod download;
mod encoder;
mod events;
mod fair;
mod guard;
mod head;
mod json;
pub mod limits;
mod outgoing;
mod pace;
mod rate;
mod segments;
mod upload;

pub use address::{Network, NotANetwork, Peer, client_address, counted};
pub use body::{BodyError, limited_json_body};
pub use budget::{BUDGET_RETRY_AFTER, Bounds, Budget, BudgetLimits, Budgets, Holder, Share, Spent};
pub use compression::Compression;
pub use direct::{EventWriter, is_event_stream};
pub use disposition::attachment;
pub use download::{RangeNotSatisfiable, download_response};
pub use events::{Event, event_stream};
pub use fair::{FairGate, Place};
pub use guard::{Guard, RateLimits, Refused};
pub use head::{Oversize, oversize};
pub use json::json_escape_into;
pub use outgoing::{BrokenOff, Outgoing, Piecewise, Progress, Shares, Until, account_for};
pub use pace::Stalled;
pub use rate::{Limiter, NotARate, Rate};
pub use segments::{SHARED_MIN_BYTES, SegmentsError, to_segments};
pub use upload::{UploadError, UploadForm, receive_upload, upload_form};
