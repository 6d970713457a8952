//! Times each tool: `cargo run -p agent --example tool_times [FILE...]`, files being read besides the fixtures.
//!
//! The limits come from the environment as in a machine; the workspace is a temporary folder. `CAUSERIE_GUEST` names
//! the program whose workers are timed, this one's own unless given.
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::error::Error;
use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use domain::step::{Purpose, StepCall};
use guest::tools::{ToolLimits, run_tool};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Calls of each kind.
const ROUNDS: usize = 20;

fn main() -> ExitCode {
    let role = std::env::args().nth(1).unwrap_or_default();
    if let Some(code) = guest::worker::run_role(&role) {
        return code;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime.map_err(Into::into).and_then(|runtime| runtime.block_on(measure_tools())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_tools() -> Result<(), Box<dyn Error>> {
    let folder = std::env::temp_dir().join(format!("tool-times-{}", std::process::id()));
    let limits = ToolLimits {
        workspace: folder.join("workspace"),
        temp: folder.join("tmp"),
        disk_free_floor_bytes: 1 << 20,
        program: std::env::var_os("CAUSERIE_GUEST").map(PathBuf::from),
        ..ToolLimits::from_environment()
    };
    let names = create_workspace(&limits)?;
    println!("{:<28} {:>9} {:>9}  (ms, {ROUNDS} rounds)", "tool", "p50", "max");
    for name in &names {
        measure_tool(&limits, "read", &format!("read {name}"), &json!({ "path": name })).await?;
    }
    let content = "x".repeat(10_000);
    for (tool, label, arguments) in [
        ("list", "list", json!({})),
        ("find", "find by name", json!({ "glob": "*.pdf" })),
        ("find", "find in documents", json!({ "content": "výtah" })),
        ("write", "write 10 kB", json!({ "path": "new/file.txt", "content": content })),
        ("shell", "shell true", json!({ "command": "true" })),
        (
            "shell",
            "shell with ten commands",
            json!({ "command": "for i in 1 2 3 4 5 6 7 8 9 10; do ls >/dev/null; done" }),
        ),
        ("shell", "shell with 10 MB of output", json!({ "command": "yes | head -c 10000000" })),
    ] {
        measure_tool(&limits, tool, label, &arguments).await?;
    }
    let edit = json!({ "path": "new/file.txt", "old": "x", "new": "y", "all": true });
    let back = json!({ "path": "new/file.txt", "old": "y", "new": "x", "all": true });
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        took.push(time_call(&limits, "edit", if round % 2 == 0 { &edit } else { &back }).await?);
    }
    print_times("edit", took);
    fs::remove_dir_all(folder)?;
    Ok(())
}

/// Makes the workspace, as the tools' user's, and gives the names of the files in it.
fn create_workspace(limits: &ToolLimits) -> Result<Vec<String>, Box<dyn Error>> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../documents/tests/fixtures");
    let mut files: Vec<PathBuf> = ["lease.pdf", "minutes.docx", "prices.xlsx", "notice.html", "statute.txt"]
        .map(|name| fixtures.join(name))
        .into();
    files.extend(std::env::args().skip(1).map(PathBuf::from));
    fs::create_dir_all(&limits.workspace)?;
    fs::create_dir_all(&limits.temp)?;
    let mut names = Vec::new();
    for file in files {
        let name = file.file_name().ok_or("a file has a name")?.to_string_lossy().into_owned();
        fs::copy(&file, limits.workspace.join(&name))?;
        names.push(name);
    }
    let text: String =
        (0..5000).map(|line| format!("Řádek {line} dlouhého textu, v němž nic nestojí.\n")).collect();
    fs::write(limits.workspace.join("long.txt"), text)?;
    names.push("long.txt".to_owned());
    if let Some((user, group)) = limits.tools_user {
        for path in [&limits.workspace, &limits.temp] {
            chown(path, Some(user), Some(group))?;
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
        }
    }
    Ok(names)
}

async fn measure_tool(limits: &ToolLimits, tool: &str, label: &str, arguments: &Value) -> Result<(), String> {
    let mut took = Vec::new();
    for _ in 0..ROUNDS {
        took.push(time_call(limits, tool, arguments).await?);
    }
    print_times(label, took);
    Ok(())
}

async fn time_call(limits: &ToolLimits, tool: &str, arguments: &Value) -> Result<Duration, String> {
    let call = StepCall {
        id: "call".into(),
        tool: tool.into(),
        arguments: arguments.to_string(),
        purpose: Purpose::Tool,
    };
    let (_keep, killed) = watch::channel(false);
    let began = Instant::now();
    let output = run_tool(&call, limits, &[], killed).await;
    if output.failed { Err(format!("{tool}: {}", output.text)) } else { Ok(began.elapsed()) }
}

fn print_times(label: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1000.0);
    println!("{label:<28} {:>9.1} {:>9.1}", ms(took.get(took.len() / 2)), ms(took.last()));
}
