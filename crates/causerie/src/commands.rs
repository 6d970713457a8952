//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};
use control::DatabaseUrl;
use operator::commands::doctor::DoctorArgs;
use operator::commands::models::ModelsArgs;
use operator::commands::restore::RestoreArgs;
use operator::config::ConfigCommand;
use operator::image_options::ImageCommand;
use operator::plugin_commands::PluginsCommand;
use operator::{Located, OperatorCommands, location_arguments};
use settings::{MachineDriver, listen_address};

use crate::client_commands::ClientCommand;
use crate::examples;

/// Agents that answer questions about your documents, each account in a separate machine.
#[derive(Debug, Parser)]
#[command(name = "causerie", version, about, disable_help_subcommand = true)]
pub(crate) struct CauserieCli {
    #[command(subcommand)]
    pub(crate) command: CauserieCommand,
}

/// Returns the command line with the examples of all its commands.
pub(crate) fn command_line() -> clap::Command {
    examples::with_examples(CauserieCli::command(), "")
}

#[derive(Debug, Subcommand)]
pub(crate) enum CauserieCommand {
    /// Run the service
    #[command(after_help = examples::SERVE)]
    Serve(ServeOptions),
    /// Ask a question about example documents, then keep serving
    #[command(after_help = "Examples:\n  causerie demo\n  causerie demo --once --machine-driver sandbox")]
    Demo(DemoOptions),
    /// Check and show settings
    #[command(subcommand)]
    Config(ConfigCommand),
    #[command(flatten)]
    Client(ClientCommand),
    Restore(Located<RestoreArgs>),
    Models(Located<ModelsArgs>),
    /// Write the manual pages to a folder
    #[command(hide = true)]
    Manual {
        /// The folder
        folder: PathBuf,
    },
    /// Print a script that makes a shell complete commands and arguments
    ///
    /// For bash: causerie completions bash >/etc/bash_completion.d/causerie
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    Doctor(Located<DoctorArgs>),
    /// List and check plugins
    #[command(subcommand)]
    Plugins(PluginsCommand),
    /// Build, list, inspect and remove images of machines
    #[command(subcommand)]
    Image(ImageCommand),
    #[command(flatten)]
    Operator(OperatorCommands),
}

/// Arguments take precedence over environment variables, variables over the file, and the file over defaults.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ServeOptions {
    /// The configuration file [env: CAUSERIE_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The data folder [env: CAUSERIE_DATA] [default: data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The database, if not the data folder's own: postgres://USER@HOST/NAME. Set passwords in the variable or in a
    /// file, because every user of the host can see arguments [env: CAUSERIE_DATABASE]
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<DatabaseUrl>,
    /// The address to listen on [env: CAUSERIE_LISTEN] [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// The machine driver [env: CAUSERIE_MACHINE_DRIVER] [default: auto]
    #[arg(long, value_enum)]
    pub(crate) machine_driver: Option<MachineDriver>,
    /// The largest upload in bytes; by default limited only by the quota [env: CAUSERIE_UPLOAD_MAX_BYTES]
    #[arg(long, value_name = "BYTES")]
    pub(crate) upload_max_bytes: Option<u64>,
    /// Plugins or folders of plugins, separated by colons [env: CAUSERIE_PLUGINS]
    #[arg(long, value_name = "DIRS")]
    pub(crate) plugins: Option<String>,
}

impl ServeOptions {
    /// Returns the settings given as arguments: key, argument, value.
    pub(crate) fn setting_arguments(&self) -> Vec<(&'static str, &'static str, String)> {
        let mut given = location_arguments(self.data.as_deref(), self.database.as_ref());
        given.extend(self.listen.map(|listen| ("listen", "--listen", listen.to_string())));
        let driver = self.machine_driver.map(|driver| driver.name().to_owned());
        given.extend(driver.map(|driver| ("machine.driver", "--machine-driver", driver)));
        let most = self.upload_max_bytes.map(|bytes| bytes.to_string());
        given.extend(most.map(|bytes| ("upload_max_bytes", "--upload-max-bytes", bytes)));
        given.extend(self.plugins.clone().map(|folders| ("plugins", "--plugins", folders)));
        given
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DemoOptions {
    /// Exit after the first complete answer
    #[arg(long)]
    pub(crate) once: bool,
    /// The data folder
    #[arg(long, default_value = "data/demo", value_name = "DIR")]
    pub(crate) data: PathBuf,
    /// The database, if not the data folder's own: postgres://USER@HOST/NAME
    #[arg(long, value_name = "URL")]
    pub(crate) database: Option<DatabaseUrl>,
    /// The address to listen on; a free port by default
    #[arg(long, default_value = "127.0.0.1:0", value_name = "HOST:PORT", value_parser = listen_address)]
    pub(crate) listen: SocketAddr,
    /// The machine driver
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) machine_driver: MachineDriver,
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::*;

    /// Returns the lines that start with `causerie`, after variables and pipes, of the help of all commands below this one.
    fn help_examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().filter_map(|line| Some(line.get(line.find("causerie ")?..)?.to_owned()));
        own.chain(command.get_subcommands().flat_map(help_examples)).collect()
    }

    #[test]
    fn every_command_has_examples() {
        fn find_commands_without_examples<'a>(command: &'a Command, found: &mut Vec<&'a str>) {
            let is_leaf = command.get_subcommands().next().is_none();
            let is_shown = !command.is_hide_set() && command.get_name() != "help";
            if is_leaf && is_shown && command.get_after_help().is_none() {
                found.push(command.get_name());
            }
            command.get_subcommands().for_each(|one| find_commands_without_examples(one, found));
        }
        let (all, mut found) = (command_line(), Vec::new());
        find_commands_without_examples(&all, &mut found);
        assert_eq!(found, Vec::<&str>::new());
    }

    /// Splits a command line at spaces outside double quotes.
    fn split_command_line(line: &str) -> Vec<&str> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
            .collect()
    }

    #[test]
    fn help_examples_parse_as_commands() {
        let examples = help_examples(&command_line());
        for example in examples {
            let command = example.split(" | ").flat_map(|part| part.split(" >")).next().unwrap_or(&example);
            let parsed = CauserieCli::try_parse_from(split_command_line(command));
            assert!(parsed.is_ok(), "{example}: {}", parsed.expect_err("refused"));
        }
    }

    /// Returns the command lines in blocks of shell code of a page, without variables before them and what follows a pipe.
    fn documented_command_lines(page: &str) -> Vec<String> {
        let blocks = page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
        let lines = blocks
            .flat_map(|block| block.replace("\\\n", " ").lines().map(str::to_owned).collect::<Vec<_>>());
        let parts = lines.flat_map(|line| {
            let code = line.split(" #").next().unwrap_or_default();
            code.split(" | ").flat_map(|part| part.split(" && ")).map(str::to_owned).collect::<Vec<_>>()
        });
        let command = |part: String| {
            let all: Vec<&str> = part.split_whitespace().collect();
            let is_before = |word: &&&str| word.contains('=') || ["sudo", "-E"].contains(*word);
            let at = all.iter().take_while(is_before).count();
            let program = all.get(at)?;
            let is_ours = *program == "causerie" || program.ends_with("/causerie");
            (is_ours && !part.contains("...")).then(|| format!("causerie {}", all[at + 1..].join(" ")))
        };
        parts.filter_map(command).collect()
    }

    #[test]
    fn documented_command_lines_parse() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let docs = std::fs::read_dir(root.join("docs")).expect("the documentation");
        let pages = docs.map(|entry| entry.expect("an entry").path()).chain([root.join("README.md")]);
        let mut seen = 0;
        for page in pages.filter(|page| page.extension().is_some_and(|end| end == "md")) {
            let text = std::fs::read_to_string(&page).expect("a page");
            for command in documented_command_lines(&text) {
                let parsed = CauserieCli::try_parse_from(split_command_line(&command));
                let name = page.display();
                assert!(parsed.is_ok(), "{name}: {command}: {}", parsed.expect_err("refused"));
                seen += 1;
            }
        }
        assert!(seen > 25, "{seen}");
    }
}
