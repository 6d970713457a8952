//! The program: the service, its demonstration, a client, and operator commands.

mod admin;
mod admin_requests;
mod client_commands;
mod commands;
mod config;
mod confirmation;
mod console;
mod data;
mod demo;
mod doctor;
mod driver_choice;
mod error;
mod examples;
mod guest;
mod host_checks;
mod http;
mod image_commands;
mod image_options;
mod log;
mod machine_commands;
mod machine_driver;
mod memory;
mod metrics;
mod model_commands;
mod model_list;
mod notify;
#[cfg(feature = "otlp")]
mod otlp;
mod output;
mod password_prompt;
mod plugin_commands;
mod printers;
mod request;
mod requests;
mod serve;
mod settings;
mod socket;
mod tls;
mod traces;
mod usage;

use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;
use control::backup::OpenAnswers;

use commands::{Cli, Command, ServeOptions, command_line};
use error::CliError;
use settings::{Log, LogFormat, Settings};

/// The exit code for usage errors.
const EXIT_USAGE: u8 = 2;
/// The time for blocking tasks to finish at exit.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == machine::sandbox::LAUNCH_ARGUMENT) {
        // This must come first: the launcher needs a single thread and must not return.
        machine::sandbox::launch_main();
    }
    let parsed = command_line().try_get_matches().and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return misused(&error),
    };
    // Done while there is a single thread, because later threads inherit the credentials.
    let at = match &cli.command {
        Command::Admin(command) => Some(command.at()),
        Command::Restore { at, .. } | Command::Doctor { at } => Some(at),
        Command::Image(command) => Some(&image_commands::at(command)),
        _ => None,
    };
    if let Some(at) = at
        && let Err(error) = admin::become_owner(at)
    {
        return refused(&error, at.json);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime: {error}")),
    };
    let code = runtime.block_on(run(cli.command));
    // Does not wait for a backup in progress: an incomplete backup leaves no file.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    log::flush();
    code
}

async fn run(command: Command) -> ExitCode {
    if !matches!(command, Command::Serve(_)) {
        let level = std::env::var("RUST_LOG").ok().filter(|level| !level.is_empty());
        log::begin_plain(&Log {
            format: LogFormat::Text,
            level: level.unwrap_or_else(|| "error".to_owned()),
        });
    }
    let done = match command {
        Command::Serve(options) => Box::pin(serve(&options)).await,
        Command::Config(command) => {
            let as_json = command.as_json();
            return config::run(command)
                .map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
        Command::Demo(options) => demo::run(options).await,
        Command::Client(command) => return client_commands::run(command).await,
        Command::Restore { file, continue_answers, at } => {
            let as_json = at.json;
            let answers = if continue_answers { OpenAnswers::Continue } else { OpenAnswers::End };
            return admin::restore(file, answers, at)
                .await
                .map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
        Command::Models { at } => {
            let as_json = at.json;
            return model_commands::run(&at)
                .await
                .map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
        Command::Manual { folder } => clap_mangen::generate_to(command_line(), &folder)
            .map_err(|error| format!("{}: {error}", folder.display())),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command_line(), "causerie", &mut script);
            output::line(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        Command::Doctor { at } => {
            return if Box::pin(doctor::run(&at)).await { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        Command::Image(command) => {
            let as_json = command.place().json;
            return image_commands::run(command)
                .await
                .map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
        Command::Plugins(command) => plugin_commands::run(&command),
        Command::Admin(command) => {
            let as_json = command.as_json();
            let done = match (confirmation::confirm(&command).await, console::account(&command)) {
                (Err(refused), _) => Err(refused),
                (Ok(()), Some(account)) => console::run(&account, command).await,
                (Ok(()), None) => admin::run(command).await,
            };
            return done.map_or_else(|error| refused(&error, as_json), |()| ExitCode::SUCCESS);
        }
    };
    done.map_or_else(|error| failed(&error), |()| ExitCode::SUCCESS)
}

async fn serve(options: &ServeOptions) -> Result<(), String> {
    let sources = settings::sources(options.config.as_deref(), options.arguments());
    let loaded = Settings::load(sources).map_err(|error| error.to_string())?;
    log::init(&loaded.settings.log, requests::LogFields);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    serve::run(loaded).await.map_err(|error| error.to_string())
}

fn failed(error: &str) -> ExitCode {
    // The process exits afterwards.
    log::flush();
    for line in error.lines() {
        output::error_line(format_args!("causerie: {line}"));
    }
    ExitCode::FAILURE
}

/// Reports an operator command's failure: with `--json` as one JSON object on standard error.
fn refused(error: &CliError, as_json: bool) -> ExitCode {
    match serde_json::to_string(error) {
        Ok(json) if as_json => output::error_line(json),
        _ => return failed(&error.message),
    }
    ExitCode::FAILURE
}

/// Handles a usage error, or a request for help or the version.
fn misused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !std::env::args_os().any(|argument| argument == "--json") {
        error.exit();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    refused(&CliError::new("USAGE", first), true);
    ExitCode::from(EXIT_USAGE)
}
