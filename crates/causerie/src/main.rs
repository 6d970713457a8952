//! The program: the service, its demonstration, a client, and operator commands.
//!
//! # Where to look
//!
//! - The choice of the machine driver: `machine_driver.rs`, and `driver_choice.rs` while the service listens already.
//! - Checks of this host for `doctor`: `host_checks.rs`.
//! - The service's start and shutdown: `serve.rs`; connections: crate `server`.
//! - Settings: crate `settings`; commands of operators: crate `operator`; the command line: `commands.rs`.

mod client_commands;
mod commands;
mod demo;
mod driver_choice;
mod examples;
mod guest;
mod host_checks;
mod machine_driver;
mod memory;
mod notify;
mod serve;

use std::process::ExitCode;
use std::time::Duration;

use clap::FromArgMatches;

use commands::{CauserieCli, CauserieCommand, ServeOptions, command_line};
use operator::{CliError, Located, config, image_commands, output, plugin_commands};
use server::log::{self, LogFormat, LogSettings};
use settings::ServiceSettings;

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
    let parsed = command_line().try_get_matches().and_then(|found| CauserieCli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => return report_usage_error(&error),
    };
    // Done while there is a single thread, because later threads inherit the credentials.
    let at = match &cli.command {
        CauserieCommand::Operator(command) => Some(command.location()),
        CauserieCommand::Restore(restore) => Some(&restore.at),
        CauserieCommand::Doctor(doctor) => Some(&doctor.at),
        CauserieCommand::Image(command) => Some(&image_commands::image_command_location(command)),
        _ => None,
    };
    if let Some(at) = at
        && let Err(error) = operator::become_owner(at)
    {
        return report_cli_error(&error, at.json);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return report_failure(&format!("starting the runtime failed: {error}")),
    };
    let code = runtime.block_on(run_command(cli.command));
    // Does not wait for a backup in progress: an incomplete backup leaves no file.
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
    log::flush_log();
    code
}

async fn run_command(command: CauserieCommand) -> ExitCode {
    if !matches!(command, CauserieCommand::Serve(_)) {
        let level = std::env::var("RUST_LOG").ok().filter(|level| !level.is_empty());
        log::begin_plain(&LogSettings {
            format: LogFormat::Text,
            level: level.unwrap_or_else(|| "error".to_owned()),
        });
    }
    let done = match command {
        CauserieCommand::Serve(options) => Box::pin(run_service(&options)).await,
        CauserieCommand::Config(command) => {
            let as_json = command.as_json();
            return exit_code(config::run_config_command(command), as_json);
        }
        CauserieCommand::Demo(options) => demo::run_demo(options).await,
        CauserieCommand::Client(command) => return client_commands::run_client_command(command).await,
        CauserieCommand::Restore(Located { command, at }) => {
            return exit_code(command.run(&at).await, at.json);
        }
        CauserieCommand::Models(Located { command, at }) => {
            return exit_code(command.run(&at).await, at.json);
        }
        CauserieCommand::Manual { folder } => clap_mangen::generate_to(command_line(), &folder)
            .map_err(|error| format!("{}: {error}", folder.display())),
        CauserieCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command_line(), "causerie", &mut script);
            output::print_line(String::from_utf8_lossy(&script).trim_end());
            Ok(())
        }
        CauserieCommand::Doctor(Located { command, at }) => {
            return if Box::pin(command.run(&at, host_checks::check_host)).await {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            };
        }
        CauserieCommand::Image(command) => {
            let as_json = command.folder_args().json;
            return exit_code(image_commands::run_image_command(command).await, as_json);
        }
        CauserieCommand::Plugins(command) => plugin_commands::run_plugins_command(&command),
        CauserieCommand::Operator(command) => {
            let as_json = command.location().json;
            return exit_code(command.run().await, as_json);
        }
    };
    done.map_or_else(|error| report_failure(&error), |()| ExitCode::SUCCESS)
}

async fn run_service(options: &ServeOptions) -> Result<(), String> {
    let sources = settings::command_sources(options.config.as_deref(), options.setting_arguments());
    let loaded = ServiceSettings::load(sources).map_err(|error| error.to_string())?;
    log::init_service_log(&loaded.settings.log, server::LogFields);
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    serve::serve_until_signal(loaded).await.map_err(|error| error.to_string())
}

fn report_failure(error: &str) -> ExitCode {
    // The process exits afterwards.
    log::flush_log();
    for line in error.lines() {
        output::error_line(format_args!("causerie: {line}"));
    }
    ExitCode::FAILURE
}

fn exit_code(done: Result<(), CliError>, as_json: bool) -> ExitCode {
    done.map_or_else(|error| report_cli_error(&error, as_json), |()| ExitCode::SUCCESS)
}

/// Reports an operator command's failure: with `--json` as one JSON object on standard error.
fn report_cli_error(error: &CliError, as_json: bool) -> ExitCode {
    match serde_json::to_string(error) {
        Ok(json) if as_json => output::error_line(json),
        _ => return report_failure(&error.message),
    }
    ExitCode::FAILURE
}

/// Handles a usage error, or a request for help or the version.
fn report_usage_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || !std::env::args_os().any(|argument| argument == "--json") {
        error.exit();
    }
    let text = error.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    report_cli_error(&CliError::new("USAGE", first), true);
    ExitCode::from(EXIT_USAGE)
}
