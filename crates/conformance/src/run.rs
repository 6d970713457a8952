//! Running cases, some at a time, and telling what became of them.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What is run: a name and what shows it.
pub struct Run<'a> {
    /// Its subject and name.
    pub name: String,
    /// Panics where the promise is broken.
    pub body: Box<dyn Fn() + Send + Sync + 'a>,
}

/// What became of one.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Its name.
    pub name: String,
    /// How long it took.
    pub took: Duration,
    /// Why it failed, if it did.
    pub failure: Option<String>,
}

thread_local! {
    /// What the panic of this thread said.
    static SAID: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs all of them, so many at a time, and hands each outcome on as it comes.
pub fn run(runs: &[Run<'_>], at_once: usize, told: impl Fn(&Outcome) + Sync) -> Vec<Outcome> {
    let before = panic::take_hook();
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" ({}:{})", place.file(), place.line()));
        let said = panic.payload_as_str().unwrap_or("it failed without a word");
        SAID.set(Some(format!("{said}{}", place.unwrap_or_default())));
    }));
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(run);
                    told(&outcome);
                    outcomes.lock().expect("no thread fails holding it").push(outcome);
                }
            });
        }
    });
    panic::set_hook(before);
    outcomes.into_inner().expect("no thread fails holding it")
}

fn one(run: &Run<'_>) -> Outcome {
    let began = Instant::now();
    let ended = panic::catch_unwind(AssertUnwindSafe(|| (run.body)()));
    // A thread of the case may have said it instead; then its own words were printed when it ended.
    let failure = ended.err().map(|_| SAID.take().unwrap_or_else(|| "it failed".to_owned()));
    Outcome { name: run.name.clone(), took: began.elapsed(), failure }
}
