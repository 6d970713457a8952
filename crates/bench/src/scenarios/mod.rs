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

use crate::BenchResult;
use crate::measurement::Measurement;

pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: fn() -> BenchResult<Vec<Measurement>>,
}

/// All scenarios, in order of execution.
pub(crate) const ALL: &[Scenario] = &[
    Scenario { name: "cold-start", run: start::cold_start },
    Scenario { name: "idle-memory", run: start::idle_memory },
    Scenario { name: "latency", run: || tokens::measure_tokens(&tokens::SLOW) },
    Scenario { name: "cpu-per-token", run: || tokens::measure_tokens(&tokens::FAST) },
    Scenario { name: "streams-20", run: || tokens::measure_tokens(&tokens::FEW) },
    Scenario { name: "cpu-per-answer", run: || tokens::measure_tokens(&tokens::ONE) },
    Scenario { name: "kill-resume", run: resume::kill_resume },
    Scenario { name: "streams-400", run: || tokens::measure_tokens(&tokens::MANY) },
    Scenario { name: "markdown-20", run: || tokens::measure_tokens(&tokens::FEW_MARKDOWN) },
    Scenario { name: "markdown-100", run: || tokens::measure_tokens(&tokens::FAST_MARKDOWN) },
    Scenario { name: "markdown-400", run: || tokens::measure_tokens(&tokens::MANY_MARKDOWN) },
    Scenario { name: "markdown-long", run: || tokens::measure_tokens(&tokens::LONG_MARKDOWN) },
    Scenario { name: "get-answer", run: reads::get_answer },
    Scenario { name: "asks", run: asks::measure_asks },
    Scenario { name: "fan-out", run: fan_out::fan_out },
    Scenario { name: "paging", run: paging::measure_paging },
    Scenario { name: "pages", run: pages::measure_pages },
    Scenario { name: "compressed", run: tokens::measure_compressed_stream },
    Scenario { name: "files", run: files::measure_files },
    Scenario { name: "tools", run: tools::measure_tools },
    Scenario { name: "stop", run: stop::measure_stop },
    Scenario { name: "machines", run: machines::measure_machines },
    Scenario { name: "stream", run: stream::measure_stream },
    Scenario { name: "documents", run: documents::measure_documents },
    Scenario { name: "rounds", run: rounds::measure_rounds },
];

/// Runs a load to its end on this thread.
fn block_on<T>(load: impl Future<Output = BenchResult<T>>) -> BenchResult<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(load)
}

/// Measures the drivers of virtual machines and compares the figures of each with the sandbox. QEMU is left out, with the
/// reason, where it cannot be measured.
fn compare_with_sandbox<T>(
    measure: impl Fn(&'static str) -> BenchResult<T>,
    compare: impl Fn(&'static str, T, &T) -> Vec<Measurement>,
) -> BenchResult<Vec<Measurement>> {
    let sandbox = measure("sandbox")?;
    let mut measurements = compare("uml", measure("uml")?, &sandbox);
    match measure("qemu") {
        Ok(qemu) => measurements.extend(compare("qemu", qemu, &sandbox)),
        Err(error) => writeln!(std::io::stdout(), "qemu is not measured: {error}")?,
    }
    Ok(measurements)
}
