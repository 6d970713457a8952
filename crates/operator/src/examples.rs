//! Examples below the help of commands.

use clap::Command;

pub const SERVE: &str = "\
Examples:\n\
\x20 causerie serve --data /var/lib/causerie\n\
\x20 causerie serve --config /etc/causerie/causerie.toml --listen 0.0.0.0:8443\n\
\x20 ANTHROPIC_API_KEY=sk-ant-… causerie serve --data data --listen localhost:8080";

pub const RESTORE: &str = "\
Examples:\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie\n\
\x20 causerie restore /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie --continue-answers";

pub const BACKUP: &str = "\
Examples:\n\
\x20 causerie backup /backups/causerie-2027-01-31.tar.zst --data /var/lib/causerie";

pub const ACCOUNT_CREATE: &str = "\
Examples:\n\
\x20 causerie account create --email ada@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 causerie account create --operator --email you@example.org --licence-until 2030-12-31 --credits 1000\n\
\x20 pass show ada | head -n 1 | causerie account create --email ada@example.org --password-stdin";

pub const SET_PASSWORD: &str = "\
Examples:\n\
\x20 causerie account set-password --account ada@example.org\n\
\x20 pass show ada | head -n 1 | causerie account set-password --account ada@example.org --password-stdin";

pub const ACCOUNT_DELETE: &str = "\
Examples:\n\
\x20 causerie account delete ada@example.org\n\
\x20 causerie account delete 0193f2c4-7d1e-4a3b-9c55-2f6f0e8a1b7d --yes --json";

pub const KEY_CREATE: &str = "\
Examples:\n\
\x20 causerie key create --account ada@example.org --name laptop\n\
\x20 causerie key create --account ada@example.org --name ci --scope read,ask --expires 2027-06-30 --spending-limit 500";

pub const LICENCE_SET: &str = "\
Examples:\n\
\x20 causerie licence set --account ada@example.org --until 2030-12-31";

pub const GRANT: &str = "\
Examples:\n\
\x20 causerie credits grant --account ada@example.org 1000";

pub const CONSOLE: &str = "\
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
pub fn with_examples(command: Command, path: &str) -> Command {
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
