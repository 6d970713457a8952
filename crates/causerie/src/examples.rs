//! Examples below the help of commands.

pub(crate) const SERVE: &str = "\
Examples:\n\
\x20 causerie serve --data /var/lib/causerie\n\
\x20 causerie serve --config /etc/causerie/causerie.toml --listen 0.0.0.0:8443\n\
\x20 ANTHROPIC_API_KEY=sk-ant-… causerie serve --data data --listen localhost:8080";

pub(crate) const RESTORE: &str = "\
Examples:\n\
\x20 causerie restore /backup/causerie-2027-01-31 --data /var/lib/causerie";

pub(crate) const BACKUP: &str = "\
Examples:\n\
\x20 causerie backup /backup/causerie-2027-01-31 --data /var/lib/causerie";

pub(crate) const ACCOUNT_CREATE: &str = "\
Examples:\n\
\x20 causerie account create --email ada@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 pass show ada | causerie account create --email ada@example.org --password-stdin";

pub(crate) const SET_PASSWORD: &str = "\
Examples:\n\
\x20 pass show ada | causerie account set-password --account ada@example.org --password-stdin";

pub(crate) const ACCOUNT_DELETE: &str = "\
Examples:\n\
\x20 causerie account delete ada@example.org\n\
\x20 causerie account delete 0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d --yes --json";

pub(crate) const KEY_CREATE: &str = "\
Examples:\n\
\x20 causerie key create --account ada@example.org --name laptop\n\
\x20 causerie key create --account ada@example.org --name ci --scope read,ask --expires 2027-06-30 --spending-limit 500";

pub(crate) const LICENCE_SET: &str = "\
Examples:\n\
\x20 causerie licence set --account ada@example.org --until 2030-12-31";

pub(crate) const GRANT: &str = "\
Examples:\n\
\x20 causerie credits grant --account ada@example.org 1000";

pub(crate) const CONSOLE: &str = "\
Examples:\n\
\x20 causerie machine console ada@example.org\n\
\x20 causerie machine console ada@example.org \"du -sh /workspace\"";

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory, Parser};

    use crate::commands::Cli;

    /// Returns the lines that start with `causerie`, after variables and pipes, of the help of all commands below this one.
    fn examples(command: &Command) -> Vec<String> {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let own = help.lines().filter_map(|line| Some(line.get(line.find("causerie ")?..)?.to_owned()));
        own.chain(command.get_subcommands().flat_map(examples)).collect()
    }

    /// Splits a command line at spaces outside double quotes.
    fn words(line: &str) -> Vec<&str> {
        let parts = line.split('"').enumerate();
        parts
            .flat_map(|(n, part)| if n % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
            .collect()
    }

    #[test]
    fn every_example_is_a_valid_command_line() {
        let examples = examples(&Cli::command());
        assert!(examples.len() > 12, "{examples:?}");
        for example in examples {
            // Those of clients take the key from a variable.
            let with_key = words(&example).into_iter().chain(["--key", "api-x"]);
            let parsed = Cli::try_parse_from(words(&example)).or_else(|_| Cli::try_parse_from(with_key));
            assert!(parsed.is_ok(), "{example}: {}", parsed.expect_err("refused"));
        }
    }
}
