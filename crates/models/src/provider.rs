//! Who answers a step.

use std::pin::Pin;
use std::sync::Arc;

use domain::step::{StepError, StepEvent, StepRequest};
use futures_util::{Stream, StreamExt, stream};

use crate::attempt::Vendor;
use crate::reader;

/// The events of one step, the last of which is `SpanData` or an error. Dropping it ends the step at once,
/// at the vendor's server too.
pub type StepStream = Pin<Box<dyn Stream<Item = Result<StepEvent, StepError>> + Send>>;

/// Who answers a step: a vendor by its wire format, or the built-in reader. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Provider {
    /// A vendor's server, which knows its own format.
    Vendor(Arc<Vendor>),
    /// The built-in reader.
    Reader,
}

/// A model that a vendor's server says it has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Discovered {
    /// The vendor's name for it.
    pub name: String,
    /// How many tokens it reads and writes together, where the server says so.
    pub context_tokens: Option<u32>,
    /// The most tokens that it writes in one step, where the server says so.
    pub output_max_tokens: Option<u32>,
    /// What people call it, where the server says so.
    pub label: Option<String>,
    /// Whether it takes an effort of reasoning, where the server says so.
    pub reasons: Option<bool>,
    /// Whether the vendor has others in its place.
    pub deprecated: bool,
    /// When it was made, in seconds since 1970; 0 where the server does not say.
    pub created: u64,
}

impl Provider {
    /// Makes one attempt at a step. Nothing happens until the stream is polled.
    #[must_use]
    pub fn step(&self, request: StepRequest) -> StepStream {
        match self {
            Self::Vendor(vendor) => vendor.step(request),
            Self::Reader => {
                // The work is done when the stream is polled, not before.
                let events =
                    stream::once(async move { stream::iter(reader::deltas(reader::step(&request))) });
                Box::pin(events.flatten().map(Ok))
            }
        }
    }

    /// The models that the server has, in its order. Also the cheap probe of whether it answers.
    ///
    /// # Errors
    /// Why the server does not tell.
    pub async fn models(&self) -> Result<Vec<Discovered>, StepError> {
        match self {
            Self::Vendor(vendor) => vendor.models().await,
            Self::Reader => Ok(Vec::new()),
        }
    }
}
