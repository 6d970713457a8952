//! The tools of the machine.
//!
//! [`run_tool`] executes one call. Code that parses documents or runs commands runs in a child process under the tools'
//! user (see [`confine`]): `causerie-guest worker` handles one request of any tool but the shell, `causerie-guest
//! command` supervises a command, `causerie-guest server` an MCP server. None of them inherits the agent's socket.
//! Results are text for a language model, within the bounds of [`protocol::tool`].

mod attached;
mod child;
mod confine;
mod edit;
mod epoll;
mod find;
mod folder;
mod glob;
mod jail;
mod kill;
mod library;
mod limits;
mod list;
mod mcp_supervisor;
mod ocr;
mod output;
mod path;
mod pictures;
mod preview;
mod read;
mod readers;
mod recognize;
mod recognized_words;
mod request;
mod role;
mod shell;
mod shown_image;
mod spare;
mod supervise;
mod unpack;
mod usage;
mod view;
pub(crate) mod watch;
mod write;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use domain::step::StepCall;
use domain::tool::MachineTool;
use protocol::tool::ToolOutput;
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;

pub(crate) use child::{ProtectedProcess, acquire_process, encode_request, register_call};
pub(crate) use confine::{Confinement, confine_process};
pub(crate) use library::keep_index;
pub use limits::ToolLimits;
pub(crate) use mcp_supervisor::run_supervisor;
pub use ocr::Recognition;
pub(crate) use output::{failed_output, within_bounds};
pub(crate) use preview::{draw_in_worker, preview_document};
pub use readers::Readers;
pub(crate) use recognize::Kept;
pub(crate) use request::{ChildRequest, ChildTask, answer_request};
pub(crate) use role::ProcessRole;
pub use spare::Spares;
pub(crate) use supervise::{CommandExit, read_request, supervise_command};

use child::{WorkerAnswer, ask_worker};

/// The timeout of a tool that accesses one file or folder.
const FILE_TIME_MAX: Duration = Duration::from_secs(60);
/// The timeout of a search, including the reading of new documents.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(30);
/// The maximum length of a passage, in bytes.
const PIECE_MAX_BYTES: usize = 1_200;

/// Runs one call. Failures are reported in the result.
///
/// `attached` are the paths of the conversation's questions, which are searched even where they are hidden.
/// When `killed` becomes true the call ends, and with it every process that it started; the result says so.
/// Dropping the future ends its processes as well.
pub async fn run_tool(
    call: &StepCall,
    limits: &ToolLimits,
    attached: &[String],
    killed: Receiver<bool>,
) -> ToolOutput {
    open_workspace(&limits.workspace);
    let Some(tool) = MachineTool::from_name(&call.tool) else {
        // Only the host knows which tools a model is offered.
        return failed_output(&format!("there is no tool `{}`", path::plain_line(&call.tool)));
    };
    let output = match dispatch_tool(tool, &call.arguments, limits, attached, wait_until_killed(killed)).await
    {
        Ok(output) => output,
        Err(text) => failed_output(&text),
    };
    within_bounds(output)
}

/// Opens the workspace's folder to its owner again, where an earlier tool closed it. The service does so on the host, but
/// the machine's kernel keeps the mode that it saw. Without the capability, on the host's kernel, this does nothing.
fn open_workspace(workspace: &Path) {
    const OWNER: u32 = 0o700;
    let Ok(mode) = workspace.metadata().map(|metadata| metadata.permissions().mode()) else { return };
    if mode & OWNER != OWNER {
        let _ = std::fs::set_permissions(workspace, PermissionsExt::from_mode(mode | OWNER));
    }
}

/// Waits until the call is killed.
pub(crate) async fn wait_until_killed(mut killed: Receiver<bool>) {
    if killed.wait_for(|killed| *killed).await.is_err() {
        std::future::pending::<()>().await;
    }
}

async fn dispatch_tool(
    tool: MachineTool,
    arguments: &str,
    limits: &ToolLimits,
    attached: &[String],
    stopped: impl Future<Output = ()>,
) -> Result<ToolOutput, String> {
    let task = match tool {
        MachineTool::Shell => {
            return shell::run_command(parse_arguments(tool, arguments)?, limits, stopped).await;
        }
        MachineTool::Search => {
            let arguments = library::resolve_spellings(parse_arguments(tool, arguments)?, limits).await;
            let library = limits.library.as_ref().ok_or("this machine has no index to search")?;
            let read = |wanted| library::extract_document(wanted, limits);
            let output = tokio::select! {
                output = library.search_documents(&arguments, attached, SEARCH_TIME_MAX, read) => output,
                () = stopped => return Err(STOPPED.to_owned()),
            };
            limits.readers.clear();
            return Ok(library::with_missing(output, attached, limits).await);
        }
        MachineTool::Read => {
            return tokio::select! {
                output = library::read_document(parse_arguments(tool, arguments)?, limits) => output,
                () = stopped => Err(STOPPED.to_owned()),
            };
        }
        // It is not killed: it ends by itself in a minute.
        MachineTool::AttachedFiles => {
            return match serde_json::from_str(arguments) {
                Ok(arguments) => Ok(library::read_attachments(&arguments, limits).await),
                Err(_) => Err("the arguments are not valid".to_owned()),
            };
        }
        MachineTool::View
        | MachineTool::Write
        | MachineTool::Edit
        | MachineTool::List
        | MachineTool::Find => {
            ChildTask::Tool { name: tool.name().to_owned(), arguments: arguments.to_owned() }
        }
    };
    tokio::select! {
        answer = ask_worker(task, limits, FILE_TIME_MAX) => match answer? {
            WorkerAnswer::Output(output) => Ok(output),
            WorkerAnswer::Read(..)
            | WorkerAnswer::Batch(_)
            | WorkerAnswer::Usage(_)
            | WorkerAnswer::Languages(_)
            | WorkerAnswer::Recognized(_)
            | WorkerAnswer::Preview(_)
            | WorkerAnswer::Picture(_)
            | WorkerAnswer::Unpack => {
                Err("the tool gave an unexpected kind of answer".to_owned())
            }
        },
        () = stopped => Err(STOPPED.to_owned()),
    }
}

/// Runs a tool that needs nothing but the files, in its worker.
pub(crate) fn run_file_tool(name: &str, arguments: &str, jail: &jail::Jail) -> Result<ToolOutput, String> {
    let tool = MachineTool::from_name(name).ok_or("there is no such tool")?;
    match tool {
        MachineTool::View => view::view_document(jail, &parse_arguments(tool, arguments)?),
        MachineTool::Write => write::write_file(jail, &parse_arguments(tool, arguments)?),
        MachineTool::Edit => edit::edit_file(jail, &parse_arguments(tool, arguments)?),
        MachineTool::List => {
            list::list_folder(jail, &parse_arguments(tool, arguments)?).map_err(|error| error.to_string())
        }
        MachineTool::Find => find::find_files(jail, &parse_arguments(tool, arguments)?),
        MachineTool::Shell | MachineTool::Search | MachineTool::Read | MachineTool::AttachedFiles => {
            Err("a worker cannot run this tool alone".to_owned())
        }
    }
}

/// The result of a killed call.
const STOPPED: &str = "stopped before it was done";

/// Returns the arguments as the tool takes them, or advice for the model.
fn parse_arguments<T: DeserializeOwned>(tool: MachineTool, arguments: &str) -> Result<T, String> {
    // Models omit the arguments where none are required.
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(arguments).map_err(|error| {
        format!(
            "the arguments of {} are not valid: {}. Their schema is {}",
            tool.name(),
            path::plain_line(&error.to_string()),
            tool.facts().schema
        )
    })
}
