//! The scenarios.

mod asks;
mod documents;
mod fan_out;
mod files;
mod machines;
mod pages;
mod paging;
mod reads;
mod resume;
mod rounds;
mod start;
mod stop;
mod stream;
mod tokens;
mod tools;

use std::future::Future;
use std::io::Write;

use crate::Outcome;
use crate::measurement::Measurement;

/// A benchmark.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> Outcome<Vec<Measurement>>,
}

/// All scenarios, in order of execution.
pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "cold-start", run: start::cold_start },
    Scenario { name: "idle-memory", run: start::idle_memory },
    Scenario { name: "latency", run: || tokens::measure(&tokens::SLOW) },
    Scenario { name: "cpu-per-token", run: || tokens::measure(&tokens::FAST) },
    Scenario { name: "streams-20", run: || tokens::measure(&tokens::FEW) },
    Scenario { name: "cpu-per-answer", run: || tokens::measure(&tokens::ONE) },
    Scenario { name: "kill-resume", run: resume::kill_resume },
    Scenario { name: "streams-400", run: || tokens::measure(&tokens::MANY) },
    Scenario { name: "get-answer", run: reads::get_answer },
    Scenario { name: "asks", run: asks::asks },
    Scenario { name: "fan-out", run: fan_out::fan_out },
    Scenario { name: "paging", run: paging::paging },
    Scenario { name: "pages", run: pages::pages },
    Scenario { name: "compressed", run: tokens::compressed },
    Scenario { name: "files", run: files::files },
    Scenario { name: "tools", run: tools::tools },
    Scenario { name: "stop", run: stop::stop },
    Scenario { name: "machines", run: machines::machines },
    Scenario { name: "stream", run: stream::stream },
    Scenario { name: "documents", run: documents::documents },
    Scenario { name: "rounds", run: rounds::rounds },
];

/// Runs a load to its end on this thread.
fn block_on<T>(load: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(load)
}

/// Measures the drivers of virtual machines and compares the figures of each with those of the sandbox. QEMU is left out, with
/// the reason, where it cannot be measured.
fn beside_the_sandbox<T>(
    measure: impl Fn(&'static str) -> Outcome<T>,
    compare: impl Fn(&'static str, T, &T) -> Vec<Measurement>,
) -> Outcome<Vec<Measurement>> {
    let sandbox = measure("sandbox")?;
    let mut measurements = compare("uml", measure("uml")?, &sandbox);
    match measure("qemu") {
        Ok(qemu) => measurements.extend(compare("qemu", qemu, &sandbox)),
        Err(error) => writeln!(std::io::stdout(), "qemu is not measured: {error}")?,
    }
    Ok(measurements)
}
