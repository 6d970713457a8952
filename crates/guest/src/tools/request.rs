//! The requests that the agent sends to workers, and their handling.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use protocol::preview::{PageRequest, PreviewRequest};
use protocol::tool::{
    AttachedArguments, EditArguments, FindArguments, ListArguments, ReadArguments, ToolOutput, ViewArguments,
    WriteArguments,
};
use serde::{Deserialize, Serialize};

use super::child::Answer;
use super::confine::{Confinement, narrow};
use super::jail::Jail;
use super::output::{failed, within_bounds};
use super::recognize::Kept;
use super::{attached, edit, find, list, preview, read, recognize, unpack, usage, view, write};
use crate::documents::EmbeddedImage;

/// The timeout of measuring the workspace.
const MEASURE_TIME_MAX: Duration = Duration::from_secs(10);

/// A request to a child process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) confinement: Confinement,
    pub(crate) workspace: PathBuf,
    pub(crate) task: Task,
    /// True if the worker takes another request after this one, with the confinement that it has.
    #[serde(default)]
    pub(crate) more: bool,
    /// The confinement after a program has unpacked the document; without it none may.
    #[serde(default)]
    pub(crate) after_unpacking: Option<Confinement>,
}

/// The task of a request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    Read(ReadArguments),
    View(ViewArguments),
    Write(WriteArguments),
    Edit(EditArguments),
    List(ListArguments),
    Find(FindArguments),
    Attached(AttachedArguments),
    /// Extracts passages of a document, or of some of its pages, for the index.
    Extract {
        path: String,
        piece_max_bytes: usize,
        pages: Option<(u32, u32)>,
        /// No page is begun after this time.
        time: Duration,
    },
    /// Recognizes the text of a page of a PDF, or of an image if there is no page.
    Recognize {
        path: String,
        page: Option<u32>,
        languages: String,
    },
    /// Recognizes the text of an image inside a document.
    RecognizeImage {
        path: String,
        image: EmbeddedImage,
        /// The parts of the images that will be asked for next, in their order.
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
        server: protocol::mcp::Server,
        temp: PathBuf,
    },
}

impl Task {
    /// Returns the path of the one document that the task extracts the text of. Images are recognized by a worker that may start
    /// programs anyway.
    fn document(&self) -> Option<&str> {
        match self {
            Self::Read(arguments) => Some(&arguments.path),
            Self::Attached(arguments) => arguments.paths.first().map(String::as_str),
            Self::Extract { path, .. } => Some(path),
            Self::Preview(request) => Some(&request.path),
            Self::View(_)
            | Self::Write(_)
            | Self::Edit(_)
            | Self::List(_)
            | Self::Find(_)
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
pub(crate) fn answer(request: &Request, kept: &mut Kept) -> Answer {
    let jail = match Jail::open(&request.workspace) {
        Ok(jail) => jail,
        Err(error) => return Answer::Output(failed(&error.to_string())),
    };
    if let Some((format, file)) = request.task.document().and_then(|path| unpack::foreign(&jail, path)) {
        let Some(after) = &request.after_unpacking else { return Answer::Unpack };
        jail.set_unpacked(unpack::unpack(format, file));
        if let Err(error) = narrow(after) {
            return Answer::Output(failed(&error.to_string()));
        }
    }
    let output: Result<ToolOutput, String> = match &request.task {
        Task::Read(arguments) => match read::read(&jail, arguments) {
            Ok((output, batch)) => return Answer::Read(within_bounds(output), batch),
            Err(error) => Err(error),
        },
        Task::View(arguments) => view::view(&jail, arguments),
        Task::Write(arguments) => write::write(&jail, arguments),
        Task::Edit(arguments) => edit::edit(&jail, arguments),
        Task::List(arguments) => list::list(&jail, arguments).map_err(|error| error.to_string()),
        Task::Find(arguments) => find::find(&jail, arguments),
        Task::Attached(arguments) => attached::attached(&jail, arguments),
        Task::Extract { path, piece_max_bytes, pages, time } => {
            return Answer::Batch(read::batch(&jail, path, *piece_max_bytes, *pages, *time));
        }
        Task::Recognize { path, page, languages } => {
            return Answer::Recognized(recognize::recognize(&jail, path, *page, languages));
        }
        Task::RecognizeImage { path, image, following, languages } => {
            let recognized = recognize::recognize_image(&jail, kept, path, image, following, languages);
            return Answer::Recognized(recognized);
        }
        Task::Preview(request) => return Answer::Preview(preview::read(&jail, request)),
        Task::Picture(request) => return Answer::Picture(preview::draw(&jail, request)),
        Task::Languages => return Answer::Languages(recognize::languages()),
        Task::Measure => return Answer::Usage(usage::measure(&jail, Instant::now() + MEASURE_TIME_MAX)),
        Task::Shell { .. } | Task::Server { .. } => Err("a worker runs no command lines".to_owned()),
    };
    Answer::Output(within_bounds(output.unwrap_or_else(|error| failed(&error))))
}
