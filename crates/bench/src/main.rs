//! Benchmarks the built service from outside, each result beside a baseline in the same run.
//!
//! `bench [name…] [--json FILE] [--charts FOLDER]` runs the named scenarios, or all; each becomes a chart there. `CAUSERIE_BIN` is the program to measure, by default
//! `target/release/causerie`. Slowness is no failure; an incomplete stream or a lost question is.

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
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If the error cannot be printed, the exit code reports it.
            let _ = writeln!(io::stderr(), "bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Outcome<()> {
    process::raise_open_files()?;
    if let Some((role, rest)) = arguments.split_first()
        && bare::run(role, rest)?
    {
        return Ok(());
    }
    let Arguments { names, json, charts } = parse(arguments)?;
    let mut out = io::stdout();
    measurement::print_head(&mut out)?;
    let mut all: Vec<Measurement> = Vec::new();
    for scenario in scenarios::ALL {
        if names.is_empty() || names.contains(&scenario.name) {
            let measurements = (scenario.run)().map_err(|error| format!("{}: {error}", scenario.name))?;
            measurement::print(&mut out, &measurements)?;
            if let Some(folder) = charts {
                std::fs::write(format!("{folder}/{}.svg", scenario.name), chart::draw(&measurements))?;
            }
            all.extend(measurements);
        }
    }
    if let Some(file) = json {
        std::fs::write(file, format!("{:#}\n", measurement::document(&all)))?;
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

fn parse(arguments: &[String]) -> Outcome<Arguments<'_>> {
    let mut parsed = Arguments::default();
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        if argument == "--json" {
            parsed.json = Some(arguments.next().ok_or("--json wants a file")?);
        } else if argument == "--charts" {
            parsed.charts = Some(arguments.next().ok_or("--charts wants a folder")?);
        } else if scenarios::ALL.iter().any(|scenario| scenario.name == argument) {
            parsed.names.push(argument);
        } else {
            let known: Vec<&str> = scenarios::ALL.iter().map(|scenario| scenario.name).collect();
            return Err(format!("there is no scenario {argument}; there are {}", known.join(", ")).into());
        }
    }
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_the_file_are_told_apart() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<String>>();
        let arguments = words(&["latency", "--json", "x", "asks"]);
        let expected = Arguments { names: vec!["latency", "asks"], json: Some("x"), charts: None };
        assert_eq!(parse(&arguments).expect("known names"), expected);
        assert!(parse(&words(&["--json"])).is_err());
        let unknown = parse(&words(&["speed"])).expect_err("no scenario").to_string();
        assert!(unknown.contains("there is no scenario speed; there are cold-start"), "{unknown}");
    }
}
