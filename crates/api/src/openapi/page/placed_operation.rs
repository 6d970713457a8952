//! An operation in its place in the document.

use utoipa::openapi::path::Operation;

/// An operation with its method and path.
pub(super) struct PlacedOperation<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    pub(super) operation: &'a Operation,
}

impl<'a> PlacedOperation<'a> {
    pub(super) fn id(&self) -> &'a str {
        self.operation.operation_id.as_deref().unwrap_or_default()
    }

    pub(super) fn summary(&self) -> &'a str {
        self.operation.summary.as_deref().unwrap_or_default()
    }
}
