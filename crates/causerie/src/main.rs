//! The program: the service, its demonstration, a client, and operators' commands.

mod admin;
mod agent;
mod ask;
mod commands;
mod data;
mod demo;
mod failure;
mod http;
mod serve;
mod socket;

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, Command};
use failure::Failure;

/// The exit code of a wrong command line.
const MISUSED: u8 = 2;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == machine::sandbox::LAUNCH_ARGUMENT) {
        // Before anything else: the launcher has one thread and may not return.
        machine::sandbox::launch_main();
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    log(&cli.command);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime: {error}")),
    };
    runtime.block_on(run(cli.command))
}

async fn run(command: Command) -> ExitCode {
    let done = match command {
        Command::Serve(options) => serve::run(options).await.map_err(|error| error.to_string()),
        Command::Demo(options) => demo::run(options).await,
        Command::Ask(options) => {
            let outcome = ask::ask(options.into()).await;
            if let Err(error) = &outcome {
                failed(&error.to_string());
            }
            return ExitCode::from(ask::exit_code(&outcome));
        }
        Command::Admin(command) => {
            let as_json = command.as_json();
            return admin::run(command)
                .await
                .map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
    };
    done.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

/// Logs go to standard error: of a service what it does, of other commands what goes wrong. `RUST_LOG` sets
/// more.
fn log(command: &Command) {
    let default = if matches!(command, Command::Serve(_)) { "info" } else { "error" };
    let filter = tracing_subscriber::EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new(default));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}

#[expect(clippy::print_stderr, reason = "this is the command line")]
fn failed(error: &str) -> ExitCode {
    eprintln!("causerie: {error}");
    ExitCode::FAILURE
}

/// Of an operator's command: for programs one JSON object on standard error, where nothing of an answer goes.
#[expect(clippy::print_stderr, reason = "this is the command line")]
fn refused(error: &Failure, as_json: bool) -> ExitCode {
    match serde_json::to_string(error) {
        Ok(json) if as_json => eprintln!("{json}"),
        _ => eprintln!("causerie: {error}"),
    }
    ExitCode::FAILURE
}

/// A command line that is none, or that asks for help or the version.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !std::env::args_os().any(|argument| argument == "--json") {
        error.exit();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    refused(&Failure::new("USAGE", first), true);
    ExitCode::from(MISUSED)
}
