//! `causerie plugins`: lists and checks plugins. Needs no service.

use plugins::{Library, Notice};
use serde_json::{Value, json};

use crate::commands::PluginsCommand;
use crate::output;

/// Executes the command.
pub(crate) fn run(command: &PluginsCommand) -> Result<(), String> {
    match command {
        PluginsCommand::List { plugins, json } => {
            let library = plugins::read(&plugins.folders);
            show(&library, *json);
            Ok(())
        }
        PluginsCommand::Check { path, json } => {
            let library = plugins::read_one(path);
            show(&library, *json);
            let skipped = library.notices.iter().filter(|notice| notice.skipped).count();
            if skipped == 0 { Ok(()) } else { Err(format!("{} skipped", output::counted(skipped, "item"))) }
        }
    }
}

fn show(library: &Library, json: bool) {
    if json {
        output::line(as_json(library));
        return;
    }
    for skill in &library.skills {
        output::line(format_args!("skill  {}  {}", skill.name.full_name, short(&skill.description)));
    }
    for agent in &library.agents {
        output::line(format_args!("agent  {}  {}", agent.full_name, short(&agent.description)));
    }
    for server in &library.servers {
        output::line(format_args!(
            "server {}  {} (of {})",
            server.spec.name,
            short(&server.spec.command),
            server.plugin
        ));
    }
    for notice in &library.notices {
        output::line(format_args!("{}  {notice}", if notice.skipped { "skipped" } else { "note" }));
    }
    if library.notices_left_out > 0 {
        output::line(format_args!("and {} more", library.notices_left_out));
    }
}

fn short(description: &str) -> String {
    const CHARS: usize = 100;
    let cut: String = description.chars().take(CHARS).collect();
    if cut.len() < description.len() { format!("{cut}…") } else { cut }
}

fn as_json(library: &Library) -> Value {
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
