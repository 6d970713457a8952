//! Workers that read many documents for the index, one after another: starting a process takes longer than reading a
//! short document. Others recognize the images in the files of one archive, of which they keep what they have unpacked.
//!
//! Only requests of [`Task::Extract`] and [`Task::RecognizeImage`] are sent to them. A worker that fails is dropped, and the document that it failed on
//! is tried once more in a new one, so that no document suffers from those before it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Take};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::SemaphorePermit;
use tokio::time::Instant;

use super::Limits;
use super::child::{
    ANSWER_MAX_BYTES, Answer, KillGuard, REPORT_MAX_BYTES, RunningCall, WorkerError, ask, failure, late,
    line, place, running, spawn,
};
use super::confine::Confinement;
use super::request::{Request, Task};
use super::role::Role;

/// The number of documents that a worker reads.
const DOCUMENTS_MAX: u32 = 200;
/// A worker is given no further document after this time.
const AGE_MAX: Duration = Duration::from_secs(60);
/// The number of idle workers that are kept.
const IDLE_MAX: usize = 2;

/// The idle workers. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Readers(Arc<Mutex<Vec<Reader>>>);

/// The work that a reader is confined for.
#[derive(Debug, PartialEq, Eq)]
enum Work {
    Documents,
    /// The images of the document with this path.
    Images(String),
}

#[derive(Debug)]
struct Reader {
    work: Work,
    child: KillGuard,
    stdin: ChildStdin,
    stdout: BufReader<Take<ChildStdout>>,
    stderr: ChildStderr,
    documents: u32,
    started: Instant,
    /// It counts as a worker, and its processes are no leftovers.
    _place: SemaphorePermit<'static>,
    _running: RunningCall,
}

impl Readers {
    /// Ends the idle workers.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    /// Takes a reader for this work. If there is none, one for other work is ended, so that its place is free.
    fn take(&self, work: &Work) -> Option<Reader> {
        let mut idle = self.lock();
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

    fn put(&self, reader: Reader) {
        let mut idle = self.lock();
        if reader.documents < DOCUMENTS_MAX && idle.len() < IDLE_MAX {
            idle.push(reader);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Reader>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Extracts passages in a worker that may have read other documents before.
///
/// # Errors
/// Returns an explanation for the model if the worker exceeded its time or memory, or crashed.
///
/// Cancel safe: the worker is killed.
pub(super) async fn extract(task: Task, limits: &Limits, time_max: Duration) -> Result<Answer, WorkerError> {
    let confinement = Confinement::of_worker(limits, AGE_MAX + time_max, false);
    let workspace = limits.workspace.clone();
    let request = Request { confinement, workspace, task, more: true, after_unpacking: None };
    match exchange(Work::Documents, &request, limits, time_max).await {
        // These read many documents, so they may not start a program for one.
        Ok(Answer::Unpack) => ask(request.task, limits, time_max).await,
        answer => answer,
    }
}

/// Recognizes an image in a worker that may have recognized others of the same document before.
///
/// # Errors
/// As [`extract`].
///
/// Cancel safe: the worker is killed.
pub(super) async fn recognize(
    path: String,
    task: Task,
    limits: &Limits,
    time_max: Duration,
) -> Result<Answer, WorkerError> {
    let confinement = Confinement::of_program(limits, AGE_MAX + time_max);
    let workspace = limits.workspace.clone();
    let request = Request { confinement, workspace, task, more: true, after_unpacking: None };
    exchange(Work::Images(path), &request, limits, time_max).await
}

/// Sends a request to a reader that is idle, or to a new one.
async fn exchange(
    work: Work,
    request: &Request,
    limits: &Limits,
    time_max: Duration,
) -> Result<Answer, WorkerError> {
    let line = line(request)?;
    let exchanged = async {
        if let Some(mut used) = limits.readers.take(&work)
            && let Ok(answer) = used.exchange(&line, limits).await
        {
            limits.readers.put(used);
            return Ok(answer);
        }
        let mut fresh = Reader::start(work, limits).await?;
        let answer = fresh.exchange(&line, limits).await?;
        limits.readers.put(fresh);
        Ok(answer)
    };
    tokio::time::timeout(time_max, exchanged).await.unwrap_or_else(|_| Err(late(time_max)))
}

impl Reader {
    async fn start(work: Work, limits: &Limits) -> Result<Self, WorkerError> {
        let (place, running) = (place().await?, running().await);
        let mut child = KillGuard(spawn(Role::Worker, limits)?);
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
    async fn exchange(&mut self, line: &[u8], limits: &Limits) -> Result<Answer, WorkerError> {
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
            Ok(status) => Err(failure(status, &report, limits)),
            Err(error) => Err(format!("the worker was lost: {error}").into()),
        }
    }
}
