//! A separate workspace for each test, and the built agent's workers on it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use domain::step::StepCall;
use guest::calls::run_call;
use guest::mcp::McpServers;
use guest::tools::ToolLimits;
use protocol::tool::ToolOutput;
use tempfile::TempDir;
use tokio::sync::watch;

/// A user that has no other processes, for tests under root: as in a machine, tools are not the agent's user.
/// Each test is a process with a separate user, because leftovers of a user are killed after its calls.
fn tools_id() -> u32 {
    60_000 + std::process::id() % 5_000
}

pub(crate) struct TestMachine {
    pub(crate) limits: ToolLimits,
    /// The MCP servers of plugins.
    pub(crate) servers: Option<McpServers>,
    /// The paths attached to the question.
    pub(crate) attached: Vec<String>,
    folder: TempDir,
}

impl TestMachine {
    pub(crate) fn new() -> Self {
        Self::new_below(&std::env::temp_dir())
    }

    pub(crate) fn new_below(parent: &Path) -> Self {
        let folder = TempDir::new_in(parent).expect("a temporary folder");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        let workspace = folder.path().join("workspace");
        let temp = folder.path().join("tmp");
        let is_root = rustix::process::getuid().is_root();
        for path in [&workspace, &temp] {
            fs::create_dir(path).expect("the folder is ours");
            if is_root {
                chown(path, Some(tools_id()), Some(tools_id())).expect("root may");
            }
        }
        let limits = ToolLimits {
            memory_bytes: 512 << 20,
            processes: 40,
            // Here commands share a network namespace with all tests that run.
            sockets: u64::MAX,
            shell_seconds: 20,
            disk_free_floor_bytes: 1 << 20,
            tools_user: is_root.then_some((tools_id(), tools_id())),
            workspace,
            temp,
            program: Some(PathBuf::from(env!("CARGO_BIN_EXE_causerie-guest"))),
            ..ToolLimits::default()
        };
        Self { limits, servers: None, attached: Vec::new(), folder }
    }

    pub(crate) fn outside_folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn workspace_path(&self, inside: &str) -> PathBuf {
        self.limits.workspace.join(inside)
    }

    /// Puts a file into the workspace as its user would.
    pub(crate) fn put_file(&self, inside: &str, content: impl AsRef<[u8]>) {
        let path = self.workspace_path(inside);
        let mut folder = self.limits.workspace.clone();
        for name in Path::new(inside).parent().expect("a name").components() {
            folder.push(name);
            if fs::create_dir(&folder).is_ok() {
                self.give_to_tools(&folder);
            }
        }
        fs::write(&path, content).expect("the folder is there");
        self.give_to_tools(&path);
    }

    pub(crate) fn put_fixture(&self, name: &str) {
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../documents/tests/fixtures").join(name);
        self.put_file(name, fs::read(fixture).expect("the fixture is there"));
    }

    fn give_to_tools(&self, path: &Path) {
        if let Some((user, group)) = self.limits.tools_user {
            chown(path, Some(user), Some(group)).expect("root may");
        }
    }

    pub(crate) async fn call_tool(&self, tool: &str, arguments: serde_json::Value) -> ToolOutput {
        self.call_raw(tool, &arguments.to_string()).await
    }

    pub(crate) async fn call_raw(&self, tool: &str, arguments: &str) -> ToolOutput {
        let (_keep, killed) = watch::channel(false);
        run_call(&new_call(tool, arguments), &self.limits, self.servers.as_ref(), &self.attached, killed)
            .await
    }

    pub(crate) async fn run_shell(&self, command: &str) -> ToolOutput {
        self.call_tool("shell", serde_json::json!({ "command": command })).await
    }
}

pub(crate) fn new_call(tool: &str, arguments: &str) -> StepCall {
    StepCall {
        id: "call".into(),
        tool: tool.into(),
        arguments: arguments.into(),
        purpose: domain::step::Purpose::Tool,
    }
}
