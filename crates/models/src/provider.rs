//! Who answers a step.

use std::sync::Arc;

use domain::step::{StepError, StepRequest};
use futures_util::{StreamExt, stream};

use crate::attempt::StepStream;
use crate::listing::Discovered;
use crate::reader;
use crate::vendor::Vendor;

/// Who answers a step: a vendor by its wire format, or the built-in reader. Cheap to clone.
#[derive(Debug, Clone)]
pub enum Provider {
    /// A vendor's server, which knows its own format.
    Vendor(Arc<Vendor>),
    /// The built-in reader.
    Reader,
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
