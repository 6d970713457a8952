//! MCP servers over standard input and output: one that follows the protocol exactly, and each of its faults.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use domain::id::InstanceId;
use guest::calls::run_call;
use guest::mcp::McpServers;
use guest::serve::Guest;
use protocol::mcp::{
    KnownToolList, LIST_WAIT_SECONDS, McpServerSpec, SERVERS_FILE, ServerTools, ToolsReply, ToolsRequest,
    ToolsUpdate,
};
use protocol::tool::ToolOutput;
use serde_json::{Value, json};
use support::{TestMachine, new_call};
use tokio::sync::watch;
use tower::ServiceExt;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/programs/mcp.py");

/// A machine with servers of these names, each in its mode.
struct McpTestMachine {
    machine: TestMachine,
}

impl McpTestMachine {
    fn with_servers(servers: &[(&str, &str)]) -> Self {
        let mut machine = TestMachine::new();
        fs::copy(PROGRAM, machine.outside_folder().join("mcp.py")).expect("the program is there");
        machine.servers = Some(McpServers::from_folder(machine.outside_folder()));
        let stage = Self { machine };
        stage.write_servers(servers, "1");
        stage
    }

    /// Writes the list of servers, like the host.
    fn write_servers(&self, servers: &[(&str, &str)], version: &str) {
        let program = self.machine.outside_folder().join("mcp.py").display().to_string();
        let servers = servers.iter().map(|(name, mode)| McpServerSpec {
            data_folder: None,
            name: (*name).to_owned(),
            version: version.to_owned(),
            command: "python3".to_owned(),
            args: vec![program.clone(), (*mode).to_owned()],
            env: [("REGISTRY".to_owned(), "commercial".to_owned())].into(),
            folder: self.machine.limits.workspace.display().to_string(),
            tools: None,
        });
        let file = protocol::mcp::McpServersFile { servers: servers.collect() };
        let fresh = self.machine.outside_folder().join(".fresh");
        fs::write(&fresh, serde_json::to_vec(&file).expect("it is plain")).expect("the folder is ours");
        fs::rename(fresh, self.machine.outside_folder().join(SERVERS_FILE)).expect("the folder is ours");
    }

    async fn call_tool(&self, tool: &str, arguments: Value) -> ToolOutput {
        self.machine.call_tool(tool, arguments).await
    }

    /// The output of a call that succeeds.
    async fn output_of(&self, tool: &str, text: &str) -> String {
        let output = self.call_tool(tool, json!({ "text": text })).await;
        assert!(!output.failed, "{tool}: {}", output.text);
        output.text
    }

    async fn server_environment(&self) -> Value {
        serde_json::from_str(&self.output_of("registry__environment", "").await).expect("JSON")
    }

    /// Requests the tools like the host.
    async fn list_tools(&self, asked: &ToolsRequest) -> Vec<ServerTools> {
        let guest =
            Guest::new(InstanceId::from_random(1), self.machine.limits.clone(), self.machine.servers.clone());
        let body = Body::from(serde_json::to_vec(asked).expect("it is plain"));
        let request = Request::post("/tools").body(body).expect("a request");
        let response = guest.router().oneshot(request).await.expect("an answer");
        let body =
            to_bytes(response.into_body(), protocol::mcp::REPLY_MAX_BYTES).await.expect("within its bound");
        serde_json::from_slice::<ToolsReply>(&body).expect("an answer").servers
    }
}

fn is_running(pid: &Value) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

/// Waits briefly for the next message.
async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut again = tokio::time::interval(Duration::from_millis(5));
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        again.tick().await;
    }
}

#[tokio::test]
async fn mcp_tools_share_one_process() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    assert_eq!(stage.output_of("registry__echo", "škola").await, "škola");
    let kinds = stage.output_of("registry__kinds", "").await;
    assert_eq!(kinds, "words[1m\n\n(an image, image/png, about 3 bytes, not shown)\n\n<act:7>\nThe act.");
    let failed = stage.call_tool("registry__fail", json!({})).await;
    assert_eq!((failed.text.as_str(), failed.failed), ("no such act", true));
    let error = stage.call_tool("registry__error", json!({})).await;
    assert_eq!(error.text, "The MCP server answered with an error: the act has no number");
    let slow = stage.output_of("registry__slow", "3").await;
    assert_eq!(slow, "at last");
    assert!(stage.call_tool("registry__strange", json!({})).await.failed);
    for absent in ["registry__nothing", "registry__", "other__echo"] {
        assert!(stage.call_tool(absent, json!({})).await.failed, "{absent}");
    }
    let before = stage.server_environment().await;
    assert_eq!(stage.machine.run_shell("true").await.text, "[exit status 0]");
    let after = stage.server_environment().await;
    assert_eq!(before["pid"], after["pid"], "a command line beside it ends nothing of it");
}

/// Every revision, and every reaction of servers of older revisions to unknown requests.
#[tokio::test]
async fn mcp_server_gets_its_own_revision() {
    for mode in ["plain", "first", "silent", "strict", "stateless", "both"] {
        let stage = McpTestMachine::with_servers(&[("registry", mode)]);
        assert_eq!(stage.output_of("registry__echo", mode).await, mode);
        assert_eq!(stage.output_of("registry__slow", "3").await, "at last", "{mode}");
        let kinds = stage.output_of("registry__kinds", "").await;
        assert!(kinds.ends_with("The act."), "{mode}: {kinds}");
        stage.output_of("registry__change", "").await;
        assert_eq!(stage.output_of("registry__fresh", "").await, "it is new", "{mode}");
        let broken = stage.call_tool("registry__crash", json!({})).await;
        assert!(broken.failed && broken.text.starts_with("The call may have run"), "{}", broken.text);
        assert_eq!(stage.output_of("registry__echo", "again").await, "again", "{mode}");
    }
    let stage = McpTestMachine::with_servers(&[("registry", "future")]);
    let none = stage.call_tool("registry__echo", json!({})).await;
    assert!(none.failed && none.text.contains("another version of the protocol"), "{}", none.text);
}

#[tokio::test]
async fn mcp_stateless_server_gets_requests_only() {
    let stage = McpTestMachine::with_servers(&[("registry", "stateless")]);
    let asks = stage.call_tool("registry__ask", json!({})).await;
    assert!(asks.failed && asks.text.contains("asks for input"), "{}", asks.text);
    let (stop, stopped) = watch::channel(false);
    let file = stage.machine.workspace_path("begun.txt");
    let long = new_call("registry__note", &json!({ "text": "x", "file": &file, "seconds": 600 }).to_string());
    let running = run_call(&long, &stage.machine.limits, stage.machine.servers.as_ref(), &[], stopped);
    let stopping = async {
        wait_until("the call runs", || file.exists()).await;
        stop.send_replace(true);
    };
    let (output, ()) = tokio::join!(running, stopping);
    assert!(output.failed && output.text.contains("stopped"), "{}", output.text);
    let cancelled: Vec<u64> =
        serde_json::from_str(&stage.output_of("registry__cancelled", "").await).expect("numbers");
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
    assert_eq!(stage.output_of("registry__violations", "").await, "[]");
}

#[tokio::test]
async fn mcp_server_is_confined_like_tools() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let environment = stage.server_environment().await;
    let workspace = stage.machine.limits.workspace.display().to_string();
    assert_eq!(environment["cwd"], workspace);
    if let Some((user, _)) = stage.machine.limits.tools_user {
        assert_eq!(environment["uid"], user);
    }
    let mut names: Vec<&str> =
        environment["environment"].as_object().expect("variables").keys().map(String::as_str).collect();
    names.retain(|name| *name != "LC_CTYPE"); // Python sets it itself
    assert_eq!(names, ["HOME", "LANG", "PATH", "REGISTRY", "TMPDIR"]);
    let file = stage.machine.outside_folder().join("notes.txt").display().to_string();
    let note = stage.call_tool("registry__note", json!({ "text": "x", "file": file })).await;
    assert!(note.failed && !stage.machine.outside_folder().join("notes.txt").exists());
}

#[tokio::test]
async fn mcp_resource_text_can_be_cited() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let output = stage.call_tool("registry__cite", json!({})).await;
    assert_eq!(output.text, "Two sources.");
    let [act, lease] = output.passages.as_slice() else { panic!("two passages: {output:?}") };
    assert_eq!(act.url.as_deref(), Some("https://registry.example.org/acts/89"));
    assert_eq!((act.title.as_str(), act.text.as_str()), ("Act 89", "The notice period is three months."));
    assert_eq!((lease.path.as_str(), lease.text.as_str()), ("/lease.txt", "The rent is 18,500."));
}

#[tokio::test]
async fn mcp_broken_server_restarts_without_repeats() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    for (tool, expected) in [
        ("crash", "it ended with status 3; its log ends with: the disk of the registry broke"),
        ("flood", "unsolicited bytes"),
        ("long", "a line of more than"),
    ] {
        let broken = stage.call_tool(&format!("registry__{tool}"), json!({})).await;
        assert!(broken.failed && broken.text.starts_with("The call may have run"), "{}", broken.text);
        assert!(broken.text.contains(expected), "{}", broken.text);
        assert_eq!(stage.output_of("registry__echo", tool).await, tool, "it is there again");
    }
    assert_eq!(stage.output_of("registry__garbage", "").await, "after it all");
    let pid = stage.server_environment().await["pid"].clone();
    assert!(stage.call_tool("registry__long", json!({})).await.failed);
    wait_until("one that is of no use is ended at once", || !is_running(&pid)).await;
}

#[tokio::test]
async fn mcp_server_requests_are_declined() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let replies: Value = serde_json::from_str(&stage.output_of("registry__ask", "").await).expect("JSON");
    assert_eq!(replies, json!({ "p": {}, "r": -32601, "s": -32601 }));
}

#[tokio::test]
async fn mcp_stopped_call_is_cancelled() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    stage.output_of("registry__echo", "warm").await;
    let (stop, stopped) = watch::channel(false);
    let file = stage.machine.workspace_path("begun.txt");
    let long = new_call("registry__note", &json!({ "text": "x", "file": &file, "seconds": 600 }).to_string());
    let running = run_call(&long, &stage.machine.limits, stage.machine.servers.as_ref(), &[], stopped);
    let stopping = async {
        wait_until("the call runs", || file.exists()).await;
        stop.send_replace(true);
        Instant::now()
    };
    let (output, asked) = tokio::join!(running, stopping);
    assert!(output.failed && output.text.contains("stopped"), "{}", output.text);
    // The call would take ten minutes.
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    // It is the same server, and it received the id of the call.
    let cancelled: Vec<u64> =
        serde_json::from_str(&stage.output_of("registry__cancelled", "").await).expect("numbers");
    assert_eq!(cancelled.len(), 1, "{cancelled:?}");
}

#[tokio::test]
async fn mcp_unneeded_server_leaves_nothing() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let pid = stage.server_environment().await["pid"].clone();
    stage.output_of("registry__spawn", "").await;
    // It is a child of its creating thread while that thread exists.
    let children = || -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    let found = Cell::new(None);
    wait_until("it spawned", || {
        found.set(children().first().copied());
        found.get().is_some()
    })
    .await;
    let sleeper = json!(found.get());
    assert!(is_running(&pid) && is_running(&sleeper));
    stage.write_servers(&[], "2");
    let gone = stage.call_tool("registry__echo", json!({})).await;
    assert!(gone.failed && gone.text.contains("there is no tool"), "{}", gone.text);
    wait_until("the server and its processes have ended", || !is_running(&pid) && !is_running(&sleeper))
        .await;
}

#[tokio::test]
async fn mcp_changed_plugin_gets_new_server() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let before = stage.server_environment().await;
    stage.write_servers(&[("registry", "plain")], "2");
    let after = stage.server_environment().await;
    assert_ne!(before["pid"], after["pid"]);
    wait_until("the previous one has ended", || !is_running(&before["pid"])).await;
}

#[tokio::test]
async fn list_tools_starts_only_unknown_servers() {
    let stage = McpTestMachine::with_servers(&[("registry", "plain")]);
    let servers = stage.list_tools(&ToolsRequest::default()).await;
    let [ServerTools { name, version, tools: ToolsUpdate::Tools { digest, list, .. } }] = servers.as_slice()
    else {
        panic!("a list: {servers:?}")
    };
    assert_eq!((name.as_str(), version.as_str(), list.len()), ("registry", "1", 19), "both pages");
    assert_eq!(list[0]["name"], "echo");
    let known = KnownToolList { version: version.clone(), digest: digest.clone() };
    let request = ToolsRequest { known: [(name.clone(), known)].into() };
    let unchanged =
        |servers: &[ServerTools]| matches!(servers, [ServerTools { tools: ToolsUpdate::Unchanged, .. }]);
    assert!(unchanged(&stage.list_tools(&request).await));
    // Another life of the agent: nothing runs, and nothing is started.
    let other = McpTestMachine::with_servers(&[("registry", "dead")]);
    assert!(unchanged(&other.list_tools(&request).await));
    // The tools of a server that announces a change are listed again.
    stage.output_of("registry__change", "").await;
    let changed = stage.list_tools(&request).await;
    let [ServerTools { tools: ToolsUpdate::Tools { list, .. }, .. }] = changed.as_slice() else {
        panic!("another list: {changed:?}")
    };
    assert_eq!(list.len(), 20);
    assert_eq!(stage.output_of("registry__fresh", "").await, "it is new");
    // Another version is another server.
    other.write_servers(&[("registry", "plain")], "2");
    assert!(matches!(
        other.list_tools(&request).await.as_slice(),
        [ServerTools { tools: ToolsUpdate::Tools { .. }, .. }]
    ));
}

/// The host waits little longer than the agent declares; a later answer would be lost for all servers.
#[tokio::test]
async fn list_tools_hanging_server_times_out() {
    let stage = McpTestMachine::with_servers(&[("hangs", "mute"), ("fine", "plain")]);
    // The clock is paused below, and advances only while nothing happens.
    stage.output_of("fine__echo", "warm").await;
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let servers = stage.list_tools(&ToolsRequest::default()).await;
    assert!(asked.elapsed() <= Duration::from_secs(LIST_WAIT_SECONDS + 1), "{:?}", asked.elapsed());
    assert!(
        matches!(&servers[0].tools, ToolsUpdate::Missing { reason } if reason.contains("takes long to start")),
        "{servers:?}"
    );
    assert!(matches!(servers[1].tools, ToolsUpdate::Tools { .. }));
}

#[tokio::test]
async fn list_tools_failed_server_is_missing() {
    let modes = [
        ("dead", "dead"),
        ("old", "old"),
        ("listless", "listless"),
        ("endless", "endless"),
        ("fine", "plain"),
    ];
    let stage = McpTestMachine::with_servers(&modes);
    let servers = stage.list_tools(&ToolsRequest::default()).await;
    let reason = |at: usize| match &servers[at].tools {
        ToolsUpdate::Missing { reason } => reason.as_str(),
        _ => "",
    };
    assert!(
        reason(0).contains("with status 4; its log ends with: there is no registry here"),
        "{}",
        reason(0)
    );
    assert!(reason(1).contains("another version of the protocol"), "{}", reason(1));
    assert!(reason(2).contains("does not follow the protocol"), "{}", reason(2));
    let count = |at: usize| match &servers[at].tools {
        ToolsUpdate::Tools { list, .. } => list.len(),
        _ => 0,
    };
    assert_eq!((count(3), count(4)), (mcp::PAGES_MAX, 19), "a list without an end is cut");
    let dead = stage.call_tool("dead__echo", json!({})).await;
    assert!(dead.failed && dead.text.starts_with("It was not called"), "{}", dead.text);
    assert_eq!(stage.output_of("fine__echo", "here").await, "here");
}

/// Bounds the resources of a server between calls.
#[tokio::test]
async fn mcp_server_filling_disk_is_killed() {
    const ROOM: u64 = 128 << 20;
    const OVERSHOOT_MAX: u64 = 256 << 20;
    // Writes a gigabyte on request.
    const FILL: &str = "import subprocess\n\
        subprocess.Popen(['sh', '-c', 'while ! test -e go; do sleep 0.02; done; for i in $(seq 64); do \
        head -c 16777216 /dev/zero > f$i; done; : > all'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n";
    let mut machine = TestMachine::new_below("/dev/shm".as_ref());
    let disk = rustix::fs::statvfs(&machine.limits.workspace).unwrap();
    machine.limits.disk_free_floor_bytes = disk.f_bavail * disk.f_frsize - ROOM;
    let program = fs::read_to_string(PROGRAM).unwrap();
    fs::write(machine.outside_folder().join("mcp.py"), format!("{FILL}{program}")).unwrap();
    machine.servers = Some(McpServers::from_folder(machine.outside_folder()));
    let stage = McpTestMachine { machine };
    stage.write_servers(&[("registry", "plain")], "1");
    let pid = &stage.server_environment().await["pid"];
    stage.machine.put_file("go", "");
    wait_until("it is ended, or has written all", || {
        !is_running(pid) || stage.machine.workspace_path("all").exists()
    })
    .await;
    let files = fs::read_dir(&stage.machine.limits.workspace).unwrap().flatten();
    let taken: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(taken < ROOM + OVERSHOOT_MAX, "{} MiB", taken >> 20);
}
