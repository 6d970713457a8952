//! Benchmarks the built service from outside, each result beside a baseline in the same run.
//!
//! `bench [name…] [--json FILE] [--charts FOLDER]` runs the named scenarios, or all; each becomes a chart there. `CAUSERIE_BIN`
//! is the program to measure, by default `target/release/causerie`. Slowness is not a failure; an incomplete stream or a lost
//! question is.

mod bare;
mod chart;
mod http;
mod measurement;
mod pacer;
mod process;
mod scenarios;
mod service;
mod vendor;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use measurement::Measurement;

/// The result type of the benchmarks.
type BenchResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run_scenarios(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the error cannot be printed, the exit code reports it.
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run_scenarios(arguments: &[String]) -> BenchResult<()> {
    process::raise_open_files()?;
    if let Some((role, rest)) = arguments.split_first()
        && bare::run_role(role, rest)?
    {
        return Ok(());
    }
    let Arguments { names, json, charts } = parse_arguments(arguments)?;
    let mut out = io::stdout();
    measurement::print_head(&mut out)?;
    let mut all: Vec<Measurement> = Vec::new();
    for scenario in scenarios::ALL {
        if names.is_empty() || names.contains(&scenario.name) {
            let measurements = (scenario.run)().map_err(|error| format!("{}: {error}", scenario.name))?;
            measurement::print_measurements(&mut out, &measurements)?;
            if let Some(folder) = charts {
                std::fs::write(format!("{folder}/{}.svg", scenario.name), chart::draw_chart(&measurements))?;
            }
            all.extend(measurements);
        }
    }
    if let Some(file) = json {
        std::fs::write(file, format!("{:#}\n", measurement::measurements_json(&all)))?;
    }
    Ok(())
}

/// The names of scenarios, the file for JSON, and the folder for charts.
#[derive(Debug, Default, PartialEq, Eq)]
struct Arguments<'a> {
    names: Vec<&'a str>,
    json: Option<&'a str>,
    charts: Option<&'a str>,
}

fn parse_arguments(arguments: &[String]) -> BenchResult<Arguments<'_>> {
    let mut parsed = Arguments::default();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            parsed.json = Some(arguments.next().ok_or("--json needs a file")?);
        } else if argument == "--charts" {
            parsed.charts = Some(arguments.next().ok_or("--charts needs a folder")?);
        } else if scenarios::ALL.iter().any(|scenario| scenario.name == argument) {
            parsed.names.push(argument);
        } else {
            let known: Vec<&str> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
            return Err(format!("unknown scenario {argument}: choose from {}", known.join(", ")).into());
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_arguments_names_and_file() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let arguments = words(&["latency", "--json", "x", "asks"]);
        let expected = Arguments { names: vec!["latency", "asks"], json: Some("x"), charts: None };
        assert_eq!(parse_arguments(&arguments).expect("known names"), expected);
        assert!(parse_arguments(&words(&["--json"])).is_err());
        let unknown = parse_arguments(&words(&["speed"])).expect_err("no scenario").to_string();
        assert!(unknown.contains("unknown scenario speed: choose from cold-start"), "{unknown}");
    }
}
