//! Examples below the help of commands.

use clap::Command;

pub(crate) const SERVE: &str = "\
Examples:\n\
\x20 causerie serve --data /var/lib/causerie\n\
\x20 causerie serve --config /etc/causerie/causerie.toml --listen 0.0.0.0:8443\n\
\x20 ANTHROPIC_API_KEY=sk-ant-… causerie serve --data data --listen localhost:8080";

/// The commands with short examples: the command, and its arguments in each example. Operators' commands have theirs beside
/// their arguments.
const COMMANDS: &[(&str, &[&str])] = &[
    ("chat", &["", "--chat 0198a7c2-…"]),
    ("ls", &["/contracts", "--chats"]),
    ("show", &["0198a7c2-…"]),
    ("stop", &["0198a7c2-…"]),
    (
        "completions",
        &["bash >/etc/bash_completion.d/causerie", "fish >~/.config/fish/completions/causerie.fish"],
    ),
    ("config check", &["causerie.toml"]),
    ("config print", &["", "--config /etc/causerie/causerie.toml"]),
    ("config schema", &[">/etc/causerie/causerie.schema.json"]),
    ("config instructions", &["/etc/causerie/instructions"]),
    ("plugins list", &["", "--plugins /srv/plugins"]),
    ("plugins check", &["/srv/plugins/legal"]),
    ("image build", &["full --profile full"]),
    ("image list", &[""]),
    ("image inspect", &["full"]),
    ("image remove", &["full"]),
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
