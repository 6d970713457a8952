//! `causerie plugins`: lists and checks plugins. Needs no service.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plugins::{Notice, PluginLibrary};
use serde_json::{Value, json};

use crate::output;

/// The folders of additional plugins.
#[derive(Debug, Clone, Default, Args)]
pub struct PluginFolders {
    /// Plugins or folders of plugins, separated by colons
    #[arg(long = "plugins", env = "CAUSERIE_PLUGINS", value_name = "DIR", value_delimiter = ':')]
    pub folders: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List the skills and agents that a service would offer
    List {
        #[command(flatten)]
        plugins: PluginFolders,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Check a plugin or a folder of plugins and report problems
    Check {
        /// The folder
        path: PathBuf,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// Executes the command.
pub fn run_plugins_command(command: &PluginsCommand) -> Result<(), String> {
    match command {
        PluginsCommand::List { plugins, json } => {
            let library = plugins::read_plugins(&plugins.folders);
            print_library(&library, *json);
            Ok(())
        }
        PluginsCommand::Check { path, json } => {
            let library = plugins::read_one(path);
            print_library(&library, *json);
            let skipped = library.notices.iter().filter(|notice| notice.skipped).count();
            if skipped == 0 {
                Ok(())
            } else {
                Err(format!("{} skipped", output::count_with_noun(skipped, "item")))
            }
        }
    }
}

fn print_library(library: &PluginLibrary, json: bool) {
    if json {
        output::print_line(as_json(library));
        return;
    }
    for skill in &library.skills {
        output::print_line(format_args!(
            "skill  {}  {}",
            skill.name.full_name,
            shorten_description(&skill.description)
        ));
    }
    for agent in &library.agents {
        output::print_line(format_args!(
            "agent  {}  {}",
            agent.full_name,
            shorten_description(&agent.description)
        ));
    }
    for server in &library.servers {
        output::print_line(format_args!(
            "server {}  {} (of {})",
            server.spec.name,
            shorten_description(&server.spec.command),
            server.plugin
        ));
    }
    for notice in &library.notices {
        output::print_line(format_args!("{}  {notice}", if notice.skipped { "skipped" } else { "note" }));
    }
    if library.notices_left_out > 0 {
        output::print_line(format_args!("and {} more", library.notices_left_out));
    }
}

fn shorten_description(description: &str) -> String {
    const CHARS: usize = 100;
    let cut: String = description.chars().take(CHARS).collect();
    if cut.len() < description.len() { format!("{cut}…") } else { cut }
}

fn as_json(library: &PluginLibrary) -> Value {
    let skills: Vec<Value> = library
        .skills
        .iter()
        .map(|skill| {
            json!({
                "id": skill.name.id.to_string(),
                "name": skill.name.name,
                "fullName": skill.name.full_name,
                "description": skill.description,
                "allowedTools": skill.tools,
                "files": skill.files,
            })
        })
        .collect();
    let agents: Vec<Value> = library
        .agents
        .iter()
        .map(|agent| {
            json!({
                "id": agent.id.to_string(),
                "name": agent.name,
                "fullName": agent.full_name,
                "description": agent.description,
                "tools": agent.tools,
                "model": agent.model,
            })
        })
        .collect();
    let servers: Vec<Value> = library
        .servers
        .iter()
        .map(|server| {
            json!({
                "name": server.spec.name,
                "plugin": server.plugin,
                "command": server.spec.command,
                "args": server.spec.args,
                "folder": server.spec.folder,
                "tools": server.spec.tools,
                "readOnly": server.read_only,
            })
        })
        .collect();
    let notices: Vec<Value> = library.notices.iter().map(|Notice { folder: _, file, line, text, skipped }| {
        json!({"file": file, "line": line, "text": text, "skipped": skipped})
    }).collect();
    json!({
        "skills": skills, "agents": agents, "servers": servers, "notices": notices,
        "noticesLeftOut": library.notices_left_out,
    })
}
