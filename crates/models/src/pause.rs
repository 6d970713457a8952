//! A step that the vendor paused, to be continued by another request.

use serde_json::value::RawValue;

/// The output of a paused step so far, as the vendor sent it. When it is sent back, the model continues from there.
#[derive(Debug, Default)]
pub(crate) struct Pause {
    /// The blocks of content, as JSON.
    pub(crate) content: Vec<Box<RawValue>>,
    /// The identifier of the container in which the vendor's own tools run.
    pub(crate) container: Option<String>,
}
