//! Examples below the help of commands.

use clap::Command;

pub(crate) const SERVE: &str = "\
Examples:\n\
\x20 causerie serve --data /var/lib/causerie\n\
\x20 causerie serve --config /etc/causerie/causerie.toml --listen 0.0.0.0:8443\n\
\x20 ANTHROPIC_API_KEY=sk-ant-… causerie serve --data data --listen localhost:8080";

pub(crate) const RESTORE: &str = "\
Examples:\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie --continue-answers";

pub(crate) const BACKUP: &str = "\
Examples:\n\
\x20 causerie backup /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie";

pub(crate) const ACCOUNT_CREATE: &str = "\
Examples:\n\
\x20 causerie account create --email ada@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 causerie account create --operator --email you@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 pass show ada | head -n 1 | causerie account create --email ada@example.org --password-stdin";

pub(crate) const SET_PASSWORD: &str = "\
Examples:\n\
\x20 causerie account set-password --account ada@example.org\n\
\x20 pass show ada | head -n 1 | causerie account set-password --account ada@example.org --password-stdin";

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

/// The commands with short examples: the command, and its arguments in each example.
const COMMANDS: &[(&str, &[&str])] = &[
    ("chat", &["", "--chat 0198a7c2-…"]),
    ("ls", &["/contracts", "--chats"]),
    ("show", &["0198a7c2-…"]),
    ("stop", &["0198a7c2-…"]),
    ("models", &["", "--data /var/lib/causerie --json"]),
    (
        "completions",
        &["bash >/etc/bash_completion.d/causerie", "fish >~/.config/fish/completions/causerie.fish"],
    ),
    ("doctor", &["--data /var/lib/causerie", "--config /etc/causerie/causerie.toml"]),
    ("config check", &["causerie.toml"]),
    ("config print", &["", "--config /etc/causerie/causerie.toml"]),
    ("config instructions", &["/etc/causerie/instructions"]),
    ("plugins list", &["", "--plugins /srv/plugins"]),
    ("plugins check", &["/srv/plugins/legal"]),
    ("image build", &["full --profile full"]),
    ("image list", &[""]),
    ("image inspect", &["full"]),
    ("image remove", &["full"]),
    ("status", &["--data /var/lib/causerie"]),
    ("account list", &[""]),
    ("account show", &["ada@example.org"]),
    ("account set-email", &["--account ada@example.org --email ada.l@example.org"]),
    ("account set-role", &["--account ada@example.org --role operator"]),
    ("key list", &["--account ada@example.org"]),
    ("key revoke", &["0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d"]),
    ("credits show", &["--account ada@example.org"]),
    ("usage", &["--account ada@example.org --since 2027-01-01"]),
    ("machine list", &[""]),
    ("machine show", &["ada@example.org"]),
    ("machine start", &["ada@example.org"]),
    ("machine stop", &["ada@example.org", "--all"]),
    ("machine log", &["ada@example.org"]),
    ("machine reset", &["ada@example.org"]),
    ("audit list", &["--since 2027-01-01", "--account ada@example.org --json"]),
    ("job list", &[""]),
    ("job retry", &["0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d"]),
];

/// Adds the examples of a command, and of those below it, to their help. `path` names the command without the program.
pub(crate) fn with_examples(command: Command, path: &str) -> Command {
    let names: Vec<String> = command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let command = names.iter().fold(command, |command, name| {
        command.mut_subcommand(name, |one| with_examples(one, format!("{path} {name}").trim_start()))
    });
    match COMMANDS.iter().find(|(name, _)| *name == path) {
        None => command,
        Some((_, examples)) => {
            let lines =
                examples.iter().map(|rest| format!("\n  causerie {path} {rest}").trim_end().to_owned());
            command.after_help(format!("Examples:{}", lines.collect::<String>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::{CauserieCli, command_line};

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
