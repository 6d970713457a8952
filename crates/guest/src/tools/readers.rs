//! Workers that read many documents for the index, one after another: starting a process takes longer than reading a
//! short document. Others recognize the images in the files of one archive, whose unpacked files they keep.
//!
//! Only requests of [`ChildTask::Extract`] and [`ChildTask::RecognizeImage`] are sent to them. A worker that fails is dropped, and the
//! document that it failed on is tried again in a new one, so that earlier documents do not affect it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::ToolLimits;
use super::child::{
    ANSWER_MAX_BYTES, KillGuard, ProcessCallGuard, REPORT_MAX_BYTES, WorkerAnswer, WorkerError,
    acquire_process, acquire_worker_place, ask_worker, encode_request, explain_exit, register_call,
    timeout_error,
};
use super::confine::Confinement;
use super::request::{ChildRequest, ChildTask};
use super::role::ProcessRole;

/// The number of documents that a worker reads.
const DOCUMENTS_MAX: u32 = 200;
/// A worker is given no further document after this time.
const AGE_MAX: Duration = Duration::from_secs(60);
/// The number of idle workers that are kept.
const IDLE_MAX: usize = 2;

/// The idle workers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readers(Arc<Mutex<Vec<DocumentReader>>>);

/// The work that a reader is confined for.
#[derive(Debug, PartialEq, Eq)]
enum ReaderWork {
    Documents,
    /// The images of the document with this path.
    Images(String),
}

#[derive(Debug)]
struct DocumentReader {
    work: ReaderWork,
    child: KillGuard,
    stdin: ChildStdin,
    stdout: BufReader<Take<ChildStdout>>,
    stderr: ChildStderr,
    documents: u32,
    started: Instant,
    /// It counts as a worker, and its processes are not leftovers.
    _place: SemaphorePermit<'static>,
    _running: ProcessCallGuard,
}

impl Readers {
    /// Ends the idle workers.
    pub(super) fn clear(&self) {
        self.lock_idle().clear();
    }

    /// Takes a reader for this work. If none is idle, a reader for other work is ended to free its place.
    fn take_idle(&self, work: &ReaderWork) -> Option<DocumentReader> {
        let mut idle = self.lock_idle();
        idle.retain(|reader| reader.started.elapsed() < AGE_MAX);
        let found = idle.iter().rposition(|reader| reader.work == *work);
        match found {
            Some(at) => Some(idle.remove(at)),
            None => {
                idle.pop();
                None
            }
        }
    }

    fn put_idle(&self, reader: DocumentReader) {
        let mut idle = self.lock_idle();
        if reader.documents < DOCUMENTS_MAX && idle.len() < IDLE_MAX {
            idle.push(reader);
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<DocumentReader>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extracts passages in a worker that may have read other documents before.
///
/// # Errors
/// Returns an explanation for the model if the worker exceeded its time or memory, or crashed.
///
/// Cancel safe: the worker is killed.
pub(super) async fn extract_in_reader(
    task: ChildTask,
    limits: &ToolLimits,
    time_max: Duration,
) -> Result<WorkerAnswer, WorkerError> {
    let confinement = Confinement::of_worker(limits, AGE_MAX + time_max, false);
    let workspace = limits.workspace.clone();
    let request = ChildRequest { confinement, workspace, task, more: true, after_unpacking: None };
    match exchange_with_reader(ReaderWork::Documents, &request, limits, time_max).await {
        // They read many documents, so they may not start programs.
        Ok(WorkerAnswer::Unpack) => ask_worker(request.task, limits, time_max).await,
        answer => answer,
    }
}

/// Recognizes an image in a worker that may have recognized others of the same document before.
///
/// # Errors
/// Like [`extract_in_reader`].
///
/// Cancel safe: the worker is killed.
pub(super) async fn recognize_in_reader(
    path: String,
    task: ChildTask,
    limits: &ToolLimits,
    time_max: Duration,
) -> Result<WorkerAnswer, WorkerError> {
    let confinement = Confinement::of_program(limits, AGE_MAX + time_max);
    let workspace = limits.workspace.clone();
    let request = ChildRequest { confinement, workspace, task, more: true, after_unpacking: None };
    exchange_with_reader(ReaderWork::Images(path), &request, limits, time_max).await
}

/// Sends a request to a reader that is idle, or to a new one.
async fn exchange_with_reader(
    work: ReaderWork,
    request: &ChildRequest,
    limits: &ToolLimits,
    time_max: Duration,
) -> Result<WorkerAnswer, WorkerError> {
    let line = encode_request(request)?;
    let exchanged = async {
        if let Some(mut used) = limits.readers.take_idle(&work)
            && let Ok(answer) = used.exchange_line(&line, limits).await
        {
            limits.readers.put_idle(used);
            return Ok(answer);
        }
        let mut fresh = DocumentReader::start_reader(work, limits).await?;
        let answer = fresh.exchange_line(&line, limits).await?;
        limits.readers.put_idle(fresh);
        Ok(answer)
    };
    tokio::time::timeout(time_max, exchanged).await.unwrap_or_else(|_| Err(timeout_error(time_max)))
}

impl DocumentReader {
    async fn start_reader(work: ReaderWork, limits: &ToolLimits) -> Result<Self, WorkerError> {
        let (place, running) = (acquire_worker_place().await?, register_call().await);
        let mut child = KillGuard(acquire_process(ProcessRole::Worker, limits)?);
        let pipes = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err("the tool's process has no pipes".into());
        };
        Ok(Self {
            work,
            child,
            stdin,
            stdout: BufReader::new(stdout.take(0)),
            stderr,
            documents: 0,
            started: Instant::now(),
            _place: place,
            _running: running,
        })
    }

    /// Sends a request and reads the line of the answer.
    async fn exchange_line(&mut self, line: &[u8], limits: &ToolLimits) -> Result<WorkerAnswer, WorkerError> {
        self.documents += 1;
        self.stdout.get_mut().set_limit(ANSWER_MAX_BYTES);
        let mut answer = Vec::new();
        // A worker that died does not read; its exit status is more informative.
        let _ = self.stdin.write_all(line).await;
        let read = self.stdout.read_until(b'\n', &mut answer).await;
        if read.is_ok() && answer.pop() == Some(b'\n') {
            return serde_json::from_slice(&answer).map_err(|_| "the worker's answer cannot be read".into());
        }
        let mut report = Vec::new();
        let _ = (&mut self.stderr).take(REPORT_MAX_BYTES).read_to_end(&mut report).await;
        let _ = self.child.0.start_kill();
        match self.child.0.wait().await {
            Ok(status) => Err(explain_exit(status, &report, limits)),
            Err(error) => Err(format!("the worker was lost: {error}").into()),
        }
    }
}
