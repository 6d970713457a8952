//! Runs cases concurrently and reports their outcomes.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A named test to be run.
pub struct CaseRun<'a> {
    /// Its subject and name.
    pub name: String,
    /// The test; panics if a promise is broken.
    pub body: Box<dyn Fn() + Send + Sync + 'a>,
}

/// The outcome of a run.
#[derive(Debug, Clone)]
pub struct CaseOutcome {
    pub name: String,
    pub took: Duration,
    /// The reason of a failure.
    pub failure: Option<String>,
}

thread_local! {
    /// The panic message of this thread.
    static PANIC_MESSAGE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs all tests, `at_once` of them concurrently, and reports each outcome when it is known.
pub fn run_all(
    runs: &[CaseRun<'_>],
    at_once: usize,
    report: impl Fn(&CaseOutcome) + Sync,
) -> Vec<CaseOutcome> {
    let before = panic::take_hook();
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
        let message = panic.payload_as_str().unwrap_or("it failed without a message");
        PANIC_MESSAGE.set(Some(format!("{message}{}", place.unwrap_or_default())));
    }));
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = run_one(run);
                    report(&outcome);
                    outcomes.lock().expect("no thread fails holding it").push(outcome);
                }
            });
        }
    });
    panic::set_hook(before);
    outcomes.into_inner().expect("no thread fails holding it")
}

fn run_one(run: &CaseRun<'_>) -> CaseOutcome {
    let began = Instant::now();
    let ended = panic::catch_unwind(AssertUnwindSafe(|| (run.body)()));
    // If another thread of the case panicked, its message was already printed.
    let failure = ended.err().map(|_| PANIC_MESSAGE.take().unwrap_or_else(|| "it failed".to_owned()));
    CaseOutcome { name: run.name.clone(), took: began.elapsed(), failure }
}
