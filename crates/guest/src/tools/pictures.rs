//! Pictures of pages and marks on them: between the types of the documents and of the protocol.

use documents::{PassageMark, PictureSize};
use domain::image::IMAGE_MAX_BYTES;
use protocol::preview::{PageSize, PreviewMark, Viewer};

/// Returns the size of a picture for its viewer.
pub(super) const fn picture_size(viewer: Viewer) -> PictureSize {
    match viewer {
        Viewer::Person => PictureSize { pixels: |size| page_size_out(size).picture_size(), max_bytes: None },
        Viewer::Model => PictureSize {
            pixels: |size| page_size_out(size).picture_for_model(),
            max_bytes: Some(IMAGE_MAX_BYTES),
        },
    }
}

pub(super) const fn page_size_out(size: documents::PageSize) -> PageSize {
    PageSize { width: size.width, height: size.height }
}

pub(super) const fn mark_out(mark: PassageMark) -> PreviewMark {
    PreviewMark { left: mark.left, top: mark.top, width: mark.width, height: mark.height }
}
