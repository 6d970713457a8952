//! Providers of steps.

use std::sync::Arc;

use domain::step::{StepError, StepRequest};
use futures_util::{StreamExt, stream};

use crate::attempt::StepStream;
use crate::listing::Discovered;
use crate::vendor::VendorClient;

/// A provider of steps: a vendor, or the built-in reader. Cheap to clone.
#[derive(Debug, Clone)]
pub enum StepProvider {
    Vendor(Arc<VendorClient>),
    Reader,
}

impl StepProvider {
    /// Makes one attempt at a step. Does nothing until the stream is polled.
    #[must_use]
    pub fn stream_step(&self, request: StepRequest) -> StepStream {
        match self {
            Self::Vendor(vendor) => vendor.stream_step(request),
            Self::Reader => {
                // Work starts when the stream is polled, not before.
                let events =
                    stream::once(
                        async move { stream::iter(reader::split_deltas(reader::reader_step(&request))) },
                    );
                Box::pin(events.flatten().map(Ok))
            }
        }
    }

    /// Lists the server's models, in its order. Also serves as a cheap probe.
    ///
    /// # Errors
    /// Fails when the server does not return a list.
    pub async fn list_models(&self) -> Result<Vec<Discovered>, StepError> {
        match self {
            Self::Vendor(vendor) => vendor.list_models().await,
            Self::Reader => Ok(Vec::new()),
        }
    }
}
