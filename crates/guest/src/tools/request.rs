//! The requests that the agent sends to workers, and their handling.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use documents::EmbeddedImage;
use domain::tool::{CallEffect, facts_of};
use protocol::preview::{PageRequest, PreviewRequest};
use protocol::tool::{AttachedArguments, ToolOutput};
use serde::{Deserialize, Serialize};

use super::child::WorkerAnswer;
use super::confine::{Confinement, narrow_to_worker};
use super::jail::Jail;
use super::output::{failed_output, within_bounds};
use super::read::ReadArguments;
use super::recognize::Kept;
use super::{attached, preview, read, recognize, run_file_tool, unpack, usage};

/// The timeout of measuring the workspace.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(10);

/// A request to a child process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ChildRequest {
    pub(crate) confinement: Confinement,
    pub(crate) workspace: PathBuf,
    pub(crate) task: ChildTask,
    /// True if the worker takes another request after this one, with the same confinement.
    #[serde(default)]
    pub(crate) more: bool,
    /// The confinement after a program has unpacked the document; `None` forbids programs.
    #[serde(default)]
    pub(crate) after_unpacking: Option<Confinement>,
}

/// The task of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ChildTask {
    /// Runs a tool, by its name, that needs nothing but the files.
    Tool {
        name: String,
        arguments: String,
    },
    Read(ReadArguments),
    Attached(AttachedArguments),
    /// Extracts passages of a document, or of some of its pages, for the index.
    Extract {
        path: String,
        piece_max_bytes: usize,
        pages: Option<(u32, u32)>,
        /// No page is started after this time.
        time: Duration,
    },
    /// Recognizes the text of a page of a PDF, or of an image if no page is given.
    Recognize {
        path: String,
        page: Option<u32>,
        languages: String,
    },
    /// Recognizes the text of an image inside a document.
    RecognizeImage {
        path: String,
        image: EmbeddedImage,
        /// The parts of the images that will be requested next, in their order.
        following: Vec<String>,
        languages: String,
    },
    /// Reads a document for its preview.
    Preview(PreviewRequest),
    /// Draws a page for its preview.
    Picture(PageRequest),
    /// Lists the languages in which text is recognized.
    Languages,
    /// Measures the disk usage of the workspace.
    Measure,
    /// Runs a command; only for `causerie-guest command`.
    Shell {
        command: String,
        temp: PathBuf,
    },
    /// Runs an MCP server; only for `causerie-guest server`.
    Server {
        server: protocol::mcp::McpServerSpec,
        temp: PathBuf,
    },
}

impl ChildTask {
    /// Returns true if the task changes files.
    pub(super) fn writes(&self) -> bool {
        match self {
            Self::Tool { name, .. } => {
                facts_of(name).is_some_and(|facts| facts.effect == CallEffect::Effectful)
            }
            _ => false,
        }
    }

    /// Returns the path of the one document that the task extracts the text of. Images are recognized by a worker that may start
    /// programs anyway.
    fn document_path(&self) -> Option<&str> {
        match self {
            Self::Read(arguments) => Some(&arguments.path),
            Self::Attached(arguments) => arguments.paths.first().map(String::as_str),
            Self::Extract { path, .. } => Some(path),
            Self::Preview(request) => Some(&request.path),
            Self::Tool { .. }
            | Self::Recognize { .. }
            | Self::RecognizeImage { .. }
            | Self::Picture(_)
            | Self::Languages
            | Self::Measure
            | Self::Shell { .. }
            | Self::Server { .. } => None,
        }
    }
}

/// Handles a request in a confined worker.
pub(crate) fn answer_request(request: &ChildRequest, kept: &mut Kept) -> WorkerAnswer {
    let jail = match Jail::open_workspace(&request.workspace) {
        Ok(jail) => jail,
        Err(error) => return WorkerAnswer::Output(failed_output(&error.to_string())),
    };
    if let Some((format, file)) =
        request.task.document_path().and_then(|path| unpack::open_foreign(&jail, path))
    {
        let Some(after) = &request.after_unpacking else { return WorkerAnswer::Unpack };
        jail.set_unpacked(unpack::unpack_archive(format, file));
        if let Err(error) = narrow_to_worker(after) {
            return WorkerAnswer::Output(failed_output(&error.to_string()));
        }
    }
    let output: Result<ToolOutput, String> = match &request.task {
        ChildTask::Read(arguments) => match read::read_file(&jail, arguments) {
            Ok((output, batch)) => return WorkerAnswer::Read(within_bounds(output), batch),
            Err(error) => Err(error),
        },
        ChildTask::Tool { name, arguments } => run_file_tool(name, arguments, &jail),
        ChildTask::Attached(arguments) => attached::describe_attached(&jail, arguments),
        ChildTask::Extract { path, piece_max_bytes, pages, time } => {
            return WorkerAnswer::Batch(read::read_batch(&jail, path, *piece_max_bytes, *pages, *time));
        }
        ChildTask::Recognize { path, page, languages } => {
            return WorkerAnswer::Recognized(recognize::recognize_text(&jail, path, *page, languages));
        }
        ChildTask::RecognizeImage { path, image, following, languages } => {
            let recognized = recognize::recognize_image(&jail, kept, path, image, following, languages);
            return WorkerAnswer::Recognized(recognized);
        }
        ChildTask::Preview(request) => return WorkerAnswer::Preview(preview::read_preview(&jail, request)),
        ChildTask::Picture(request) => return WorkerAnswer::Picture(preview::draw_page(&jail, request)),
        ChildTask::Languages => return WorkerAnswer::Languages(recognize::list_languages()),
        ChildTask::Measure => {
            return WorkerAnswer::Usage(usage::measure_usage(&jail, Instant::now() + MEASURE_TIME_MAX));
        }
        ChildTask::Shell { .. } | ChildTask::Server { .. } => {
            Err("a worker cannot run command lines".to_owned())
        }
    };
    WorkerAnswer::Output(within_bounds(output.unwrap_or_else(|error| failed_output(&error))))
}
