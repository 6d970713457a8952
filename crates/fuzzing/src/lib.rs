//! Fuzz targets: for each parser of external bytes, a function that runs one input and panics if a promise is broken.
//!
//! The programs in `fuzz/` pass inputs from libFuzzer to these functions, on nightly. The test of this crate passes the
//! inputs in `fuzz/seeds`, unchanged and mutated, on stable.
#![expect(clippy::panic, reason = "a broken promise is reported by a panic")]

mod container;
mod document;
mod markdown;
mod mcp_pipes;
mod plugin_folder;
mod session_frames;
mod upload_form;
mod vendor_stream;
mod web_page;
mod workspace_paths;

pub use container::try_input as container;
pub use document::try_input as document;
pub use markdown::try_input as markdown;
pub use mcp_pipes::try_input as mcp_pipes;
pub use plugin_folder::try_input as plugin_folder;
pub use session_frames::try_input as session_frames;
pub use upload_form::try_input as upload_form;
pub use vendor_stream::try_input as vendor_stream;
pub use web_page::try_input as web_page;
pub use workspace_paths::try_input as workspace_paths;

/// A name, and the function that runs one input.
pub type Target = (&'static str, fn(&[u8]));

/// All targets. Their names are also the names of the programs and the input folders.
pub const TARGETS: &[Target] = &[
    ("container", container),
    ("document", document),
    ("markdown", markdown),
    ("mcp_pipes", mcp_pipes),
    ("plugin_folder", plugin_folder),
    ("session_frames", session_frames),
    ("upload_form", upload_form),
    ("vendor_stream", vendor_stream),
    ("web_page", web_page),
    ("workspace_paths", workspace_paths),
];
