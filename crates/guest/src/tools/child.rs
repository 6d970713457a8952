//! Runs workers from the agent's side: one process per request.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use domain::unread::UnreadReason;
use protocol::preview::DocumentPreview;
use protocol::tool::ToolOutput;
use search_index::PassageBatch;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::{RwLock, RwLockReadGuard, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;

use super::confine::Confinement;
use super::recognize::Recognized;
use super::request::{ChildRequest, ChildTask};
use super::role::ProcessRole;
use super::{ToolLimits, kill, path};

/// The number of concurrent workers; each may use the memory that the limits allow.
const WORKERS_MAX: usize = 4;
/// The longest response of a worker, in bytes: all pieces of the longest document as JSON.
pub(super) const ANSWER_MAX_BYTES: u64 = 32 * 1024 * 1024;
/// The number of bytes that are read of a worker's standard error.
pub(super) const REPORT_MAX_BYTES: u64 = 4 * 1024;

/// Held by the one task that changes a file, from its reading to its writing: no conversation loses the changes of another.
static WRITING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
static WORKERS: Semaphore = Semaphore::const_new(WORKERS_MAX);
/// Held for reading by every call that has processes; the sweep needs the write lock.
static RUNNING: RwLock<()> = RwLock::const_new(());

/// The user whose leftover processes must be killed as soon as no call is running.
static SWEEP_DUE: Mutex<Option<u32>> = Mutex::new(None);

/// Supervisors of processes that outlive a call: MCP servers.
static PROTECTED: Mutex<Vec<i32>> = Mutex::new(Vec::new());

/// Excludes the descendants of a supervisor from sweeps until it is dropped.
#[derive(Debug)]
pub(crate) struct ProtectedProcess(i32);

impl ProtectedProcess {
    pub(crate) fn from_child(watcher: &Child) -> Option<Self> {
        let pid = i32::try_from(watcher.id()?).ok()?;
        PROTECTED.lock().unwrap_or_else(PoisonError::into_inner).push(pid);
        Some(Self(pid))
    }
}

impl Drop for ProtectedProcess {
    fn drop(&mut self) {
        let mut protected = PROTECTED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = protected.iter().position(|pid| *pid == self.0) {
            protected.swap_remove(at);
        }
    }
}

/// The response of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum WorkerAnswer {
    Output(ToolOutput),
    /// The result of `read`, and the passages of whole pages that it was made from, for the index.
    Read(ToolOutput, Option<PassageBatch>),
    /// Passages of a document, or the reason for their absence.
    Batch(Result<PassageBatch, SerializedProblem>),
    /// The recognized text of a page or image.
    Recognized(Result<Recognized, String>),
    /// The preview of a document.
    Preview(DocumentPreview),
    /// A page as a PNG, in hexadecimal digits, if it can be drawn.
    Picture(Option<String>),
    /// The languages in which text is recognized.
    Languages(Result<Vec<String>, String>),
    /// The document is an archive that a program unpacks, which this worker may not start.
    Unpack,
    /// The disk usage in bytes, if it could be measured.
    Usage(Option<u64>),
}

/// The serialized reason why a document has no passages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SerializedProblem {
    pub(crate) reason: String,
    /// An explanation for the model.
    pub(crate) text: String,
    /// True if the same file may be read later.
    #[serde(default)]
    pub(crate) passing: bool,
}

/// The reason why a worker gave no response.
#[derive(Debug)]
pub(crate) struct WorkerError {
    /// An explanation for the model.
    pub(crate) text: String,
    /// The resulting reason why the document could not be read; `None` if the failure does not concern the
    /// document.
    pub(crate) reason: Option<UnreadReason>,
}

impl WorkerError {
    /// Returns true if the document ended its worker.
    pub(super) fn is_crash(&self) -> bool {
        matches!(self.reason, Some(UnreadReason::TooMuchMemory | UnreadReason::Broken))
    }
}

impl From<String> for WorkerError {
    fn from(text: String) -> Self {
        Self { text, reason: None }
    }
}

impl From<&str> for WorkerError {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

impl From<WorkerError> for String {
    fn from(error: WorkerError) -> Self {
        error.text
    }
}

/// A call that has processes, until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcessCallGuard(Option<RwLockReadGuard<'static, ()>>);

impl Drop for ProcessCallGuard {
    fn drop(&mut self) {
        self.0 = None;
        // The last one runs the sweep that the others delayed.
        let _continues = sweep_if_due();
    }
}

/// Registers a call that has processes until the guard is dropped.
pub(crate) async fn register_call() -> ProcessCallGuard {
    ProcessCallGuard(Some(RUNNING.read().await))
}

/// Waits for a place among the concurrent workers.
///
/// # Errors
/// Never fails: the semaphore is never closed.
pub(super) async fn acquire_worker_place() -> Result<SemaphorePermit<'static>, &'static str> {
    WORKERS.acquire().await.map_err(|_| "no more tools can be run")
}

/// Kills leftover processes of the tools' user, or has the last running call do so when it ends. This only handles
/// processes whose supervisor was killed.
pub(super) async fn sweep_leftovers(limits: &ToolLimits) {
    let Some((user, _)) = limits.tools_user else { return };
    *SWEEP_DUE.lock().unwrap_or_else(PoisonError::into_inner) = Some(user);
    if let Some(sweeping) = sweep_if_due() {
        let _ = sweeping.await;
    }
}

/// Begins the sweep that is due, if no call is running.
fn sweep_if_due() -> Option<JoinHandle<()>> {
    let mut due = SWEEP_DUE.lock().unwrap_or_else(PoisonError::into_inner);
    // A runtime that is shutting down takes the whole machine with it.
    let (user, runtime) = ((*due)?, Handle::try_current().ok()?);
    let alone = RUNNING.try_write().ok()?;
    *due = None;
    Some(runtime.spawn_blocking(move || {
        let _alone = alone;
        // No process is started meanwhile: starting one requires the read lock.
        let spared: Vec<i32> = PROTECTED.lock().unwrap_or_else(PoisonError::into_inner).clone();
        kill::end_user(user, &spared);
    }))
}

/// Runs the task in a worker.
///
/// # Errors
/// Returns an explanation for the model if the worker exceeded its time or memory, or crashed.
pub(super) async fn ask_worker(
    task: ChildTask,
    limits: &ToolLimits,
    time_max: Duration,
) -> Result<WorkerAnswer, WorkerError> {
    let work = async {
        let writes = task.writes();
        let _alone = if writes { Some(WRITING.lock().await) } else { None };
        let _place = acquire_worker_place().await?;
        let _running = register_call().await;
        if writes
            && super::jail::Jail::free_space(&limits.workspace)
                .is_some_and(|free| free.bytes < limits.disk_free_floor_bytes)
        {
            return Err("the disk is full".into());
        }
        let confinement = match task {
            ChildTask::Recognize { .. } | ChildTask::RecognizeImage { .. } | ChildTask::Languages => {
                Confinement::of_program(limits, time_max)
            }
            _ => Confinement::of_worker(limits, time_max, writes),
        };
        let workspace = limits.workspace.clone();
        let mut request = ChildRequest { confinement, workspace, task, more: false, after_unpacking: None };
        let answer = request_answer(&request, limits).await?;
        if !matches!(answer, WorkerAnswer::Unpack) {
            return Ok(answer);
        }
        let program = Confinement::of_program(limits, time_max);
        request.after_unpacking = Some(std::mem::replace(&mut request.confinement, program));
        request_answer(&request, limits).await
    };
    let answer = tokio::time::timeout(time_max, work).await.unwrap_or_else(|_| Err(timeout_error(time_max)));
    limits.spares.refill_soon(limits);
    answer
}

/// Returns the error of a worker that was ended after this time.
pub(super) fn timeout_error(time_max: Duration) -> WorkerError {
    let text = format!("it took longer than {} s and was ended", time_max.as_secs());
    WorkerError { text, reason: Some(UnreadReason::TooSlow) }
}

/// Returns a process of the agent's program in another role, which waits for its request: the spare one, or a new one.
pub(crate) fn acquire_process(role: ProcessRole, limits: &ToolLimits) -> Result<Child, String> {
    limits.spares.take_spare(role).map_or_else(|| start_process(role, limits), Ok)
}

/// Starts the agent's program in another role.
pub(super) fn start_process(role: ProcessRole, limits: &ToolLimits) -> Result<Child, String> {
    let mut command = Command::new(agent_program(limits));
    command
        .arg(role.program_argument())
        .env_clear()
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().map_err(|error| format!("the tool's process cannot be started: {error}"))
}

fn agent_program(limits: &ToolLimits) -> PathBuf {
    let own = Path::new("/proc/self/exe");
    match &limits.program {
        Some(program) => program.clone(),
        None if own.exists() => own.to_owned(),
        None => std::env::current_exe().unwrap_or_else(|_| own.to_owned()),
    }
}

/// Serializes the request as the line that a child reads.
pub(crate) fn encode_request(request: &ChildRequest) -> Result<Vec<u8>, String> {
    let mut line =
        serde_json::to_vec(request).map_err(|error| format!("the request cannot be written: {error}"))?;
    line.push(b'\n');
    Ok(line)
}

/// Sends a request to a worker, and returns its answer.
async fn request_answer(request: &ChildRequest, limits: &ToolLimits) -> Result<WorkerAnswer, WorkerError> {
    let (status, answer, report) = exchange_with_worker(request, limits).await?;
    if !status.success() {
        return Err(explain_exit(status, &report, limits));
    }
    serde_json::from_slice(&answer).map_err(|_| "the worker's answer cannot be read".into())
}

async fn exchange_with_worker(
    request: &ChildRequest,
    limits: &ToolLimits,
) -> Result<(ExitStatus, Vec<u8>, Vec<u8>), String> {
    let line = encode_request(request)?;
    let mut child = KillGuard(acquire_process(ProcessRole::Worker, limits)?);
    let (stdin, stdout, stderr) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err("the tool's process has no pipes".to_owned());
    };
    let mut answer = Vec::new();
    let mut report = Vec::new();
    let (mut stdout, mut stderr) = (stdout.take(ANSWER_MAX_BYTES), stderr.take(REPORT_MAX_BYTES));
    let (_, read, _) = tokio::join!(
        async move {
            // A worker that died does not read; its exit status is more informative.
            let _ = stdin.write_all(&line).await;
        },
        stdout.read_to_end(&mut answer),
        stderr.read_to_end(&mut report),
    );
    let lost = |error: std::io::Error| format!("the worker was lost: {error}");
    read.map_err(lost)?;
    // Reading may have stopped at the bound while the worker is still writing.
    drop((stdout, stderr));
    let status = child.0.wait().await.map_err(lost)?;
    Ok((status, answer, report))
}

/// A child process that is killed on drop.
#[derive(Debug)]
pub(super) struct KillGuard(pub(super) Child);

impl Drop for KillGuard {
    fn drop(&mut self) {
        let _ = self.0.start_kill();
    }
}

/// Explains why a worker exited without a response.
pub(super) fn explain_exit(status: ExitStatus, report: &[u8], limits: &ToolLimits) -> WorkerError {
    let memory = limits.memory_bytes / (1 << 20);
    let (text, reason) = match status.signal() {
        Some(libc::SIGABRT | libc::SIGKILL) => (
            format!("it needs more than the {memory} MiB of memory that a tool may use, and was ended"),
            Some(UnreadReason::TooMuchMemory),
        ),
        Some(libc::SIGSEGV | libc::SIGBUS) => {
            ("the document crashed its reader".to_owned(), Some(UnreadReason::Broken))
        }
        Some(libc::SIGXCPU) => {
            ("it took too much computing time and was ended".to_owned(), Some(UnreadReason::TooSlow))
        }
        Some(libc::SIGXFSZ) => ("the file would be larger than a tool may write".to_owned(), None),
        Some(signal) => (format!("the tool was ended by signal {signal}"), None),
        None => {
            let report = path::plain_line(&String::from_utf8_lossy(report));
            (format!("the tool failed: {report}"), None)
        }
    };
    WorkerError { text, reason }
}
