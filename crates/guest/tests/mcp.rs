//! MCP servers over standard input and output: one that speaks the protocol to the letter, in each of its faults.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use domain::id::InstanceId;
use guest::calls::run;
use guest::mcp::Servers;
use guest::serve::Guest;
use protocol::mcp::{
    Known, LIST_WAIT_SECONDS, SERVERS_FILE, Server, ServerTools, ToolsReply, ToolsRequest, ToolsUpdate,
};
use protocol::tool::ToolOutput;
use serde_json::{Value, json};
use support::{Machine, call};
use tokio::sync::watch;
use tower::ServiceExt;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/programs/mcp.py");

/// A machine with servers of these names, each in its mode.
struct Stage {
    machine: Machine,
}

impl Stage {
    fn with(servers: &[(&str, &str)]) -> Self {
        let mut machine = Machine::new();
        fs::copy(PROGRAM, machine.outside().join("mcp.py")).expect("the program is there");
        machine.servers = Some(Servers::below(machine.outside()));
        let stage = Self { machine };
        stage.bring(servers, "1");
        stage
    }

    /// Writes down which servers there are, as the host does.
    fn bring(&self, servers: &[(&str, &str)], version: &str) {
        let program = self.machine.outside().join("mcp.py").display().to_string();
        let servers = servers.iter().map(|(name, mode)| Server {
            data_folder: None,
            name: (*name).to_owned(),
            version: version.to_owned(),
            command: "python3".to_owned(),
            args: vec![program.clone(), (*mode).to_owned()],
            env: [("REGISTRY".to_owned(), "commercial".to_owned())].into(),
            folder: self.machine.limits.workspace.display().to_string(),
            tools: None,
        });
        let file = protocol::mcp::Servers { servers: servers.collect() };
        let fresh = self.machine.outside().join(".fresh");
        fs::write(&fresh, serde_json::to_vec(&file).expect("it is plain")).expect("the folder is ours");
        fs::rename(fresh, self.machine.outside().join(SERVERS_FILE)).expect("the folder is ours");
    }

    async fn call(&self, tool: &str, arguments: Value) -> ToolOutput {
        self.machine.call(tool, arguments).await
    }

    /// The output of a call that succeeds.
    async fn output_of(&self, tool: &str, text: &str) -> String {
        let output = self.call(tool, json!({ "text": text })).await;
        assert!(!output.failed, "{tool}: {}", output.text);
        output.text
    }

    async fn environment(&self) -> Value {
        serde_json::from_str(&self.output_of("registry__environment", "").await).expect("JSON")
    }

    /// Asks for the tools as the host does.
    async fn tools(&self, asked: &ToolsRequest) -> Vec<ServerTools> {
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

fn runs(pid: &Value) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

/// Waits for what comes soon.
async fn until(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    let mut again = tokio::time::interval(Duration::from_millis(5));
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        again.tick().await;
    }
}

#[tokio::test]
async fn tools_are_called_in_one_process_that_is_kept() {
    let stage = Stage::with(&[("registry", "plain")]);
    assert_eq!(stage.output_of("registry__echo", "škola").await, "škola");
    let kinds = stage.output_of("registry__kinds", "").await;
    assert_eq!(kinds, "words[1m\n\n(an image, image/png, about 3 bytes, not shown)\n\n<act:7>\nThe act.");
    let failed = stage.call("registry__fail", json!({})).await;
    assert_eq!((failed.text.as_str(), failed.failed), ("no such act", true));
    let error = stage.call("registry__error", json!({})).await;
    assert_eq!(error.text, "The MCP server answered with an error: the act has no number");
    let slow = stage.output_of("registry__slow", "3").await;
    assert_eq!(slow, "at last");
    assert!(stage.call("registry__strange", json!({})).await.failed);
    for absent in ["registry__nothing", "registry__", "other__echo"] {
        assert!(stage.call(absent, json!({})).await.failed, "{absent}");
    }
    let before = stage.environment().await;
    assert_eq!(stage.machine.shell("true").await.text, "[exit status 0]");
    let after = stage.environment().await;
    assert_eq!(before["pid"], after["pid"], "a command line beside it ends nothing of it");
}

/// Every revision, and every way in which a server of an older one takes what it does not know.
#[tokio::test]
async fn a_server_of_each_revision_is_spoken_to_in_its_own() {
    for mode in ["plain", "first", "silent", "strict", "stateless", "both"] {
        let stage = Stage::with(&[("registry", mode)]);
        assert_eq!(stage.output_of("registry__echo", mode).await, mode);
        assert_eq!(stage.output_of("registry__slow", "3").await, "at last", "{mode}");
        let kinds = stage.output_of("registry__kinds", "").await;
        assert!(kinds.ends_with("The act."), "{mode}: {kinds}");
        stage.output_of("registry__change", "").await;
        assert_eq!(stage.output_of("registry__fresh", "").await, "it is new", "{mode}");
        let broken = stage.call("registry__crash", json!({})).await;
        assert!(broken.failed && broken.text.starts_with("The call may have run"), "{}", broken.text);
        assert_eq!(stage.output_of("registry__echo", "again").await, "again", "{mode}");
    }
    let stage = Stage::with(&[("registry", "future")]);
    let none = stage.call("registry__echo", json!({})).await;
    assert!(none.failed && none.text.contains("another version of the protocol"), "{}", none.text);
}

#[tokio::test]
async fn a_stateless_server_gets_nothing_but_requests_and_cancellations() {
    let stage = Stage::with(&[("registry", "stateless")]);
    let asks = stage.call("registry__ask", json!({})).await;
    assert!(asks.failed && asks.text.contains("asks for input"), "{}", asks.text);
    let (stop, stopped) = watch::channel(false);
    let file = stage.machine.path("begun.txt");
    let long = call("registry__note", &json!({ "text": "x", "file": &file, "seconds": 600 }).to_string());
    let running = run(&long, &stage.machine.limits, stage.machine.servers.as_ref(), &[], stopped);
    let stopping = async {
        until("the call runs", || file.exists()).await;
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
async fn a_server_has_what_tools_have_and_nothing_of_the_host() {
    let stage = Stage::with(&[("registry", "plain")]);
    let environment = stage.environment().await;
    let workspace = stage.machine.limits.workspace.display().to_string();
    assert_eq!(environment["cwd"], workspace);
    if let Some((user, _)) = stage.machine.limits.tools_user {
        assert_eq!(environment["uid"], user);
    }
    let mut names: Vec<&str> =
        environment["environment"].as_object().expect("variables").keys().map(String::as_str).collect();
    names.retain(|name| *name != "LC_CTYPE"); // Python sets it itself
    assert_eq!(names, ["HOME", "LANG", "PATH", "REGISTRY", "TMPDIR"]);
    let file = stage.machine.outside().join("notes.txt").display().to_string();
    let note = stage.call("registry__note", json!({ "text": "x", "file": file })).await;
    assert!(note.failed && !stage.machine.outside().join("notes.txt").exists());
}

#[tokio::test]
async fn what_a_resource_says_can_be_cited() {
    let stage = Stage::with(&[("registry", "plain")]);
    let output = stage.call("registry__cite", json!({})).await;
    assert_eq!(output.text, "Two sources.");
    let [act, lease] = output.passages.as_slice() else { panic!("two passages: {output:?}") };
    assert_eq!(act.url.as_deref(), Some("https://registry.example.org/acts/89"));
    assert_eq!((act.title.as_str(), act.text.as_str()), ("Act 89", "The notice period is three months."));
    assert_eq!((lease.path.as_str(), lease.text.as_str()), ("/lease.txt", "The rent is 18,500."));
}

#[tokio::test]
async fn a_server_that_breaks_is_started_anew_and_no_call_runs_twice() {
    let stage = Stage::with(&[("registry", "plain")]);
    for (tool, expected) in [
        ("crash", "it ended with status 3; its log ends with: the disk of the registry broke"),
        ("flood", "bytes that nobody asked for"),
        ("long", "a line of more than"),
    ] {
        let broken = stage.call(&format!("registry__{tool}"), json!({})).await;
        assert!(broken.failed && broken.text.starts_with("The call may have run"), "{}", broken.text);
        assert!(broken.text.contains(expected), "{}", broken.text);
        assert_eq!(stage.output_of("registry__echo", tool).await, tool, "it is there again");
    }
    assert_eq!(stage.output_of("registry__garbage", "").await, "after it all");
    let pid = stage.environment().await["pid"].clone();
    assert!(stage.call("registry__long", json!({})).await.failed);
    until("one that is of no use is ended at once", || !runs(&pid)).await;
}

#[tokio::test]
async fn a_server_may_ask_and_has_nothing_of_it() {
    let stage = Stage::with(&[("registry", "plain")]);
    let replies: Value = serde_json::from_str(&stage.output_of("registry__ask", "").await).expect("JSON");
    assert_eq!(replies, json!({ "p": {}, "r": -32601, "s": -32601 }));
}

#[tokio::test]
async fn a_call_that_is_stopped_ends_at_once_and_is_cancelled_at_its_server() {
    let stage = Stage::with(&[("registry", "plain")]);
    stage.output_of("registry__echo", "warm").await;
    let (stop, stopped) = watch::channel(false);
    let file = stage.machine.path("begun.txt");
    let long = call("registry__note", &json!({ "text": "x", "file": &file, "seconds": 600 }).to_string());
    let running = run(&long, &stage.machine.limits, stage.machine.servers.as_ref(), &[], stopped);
    let stopping = async {
        until("the call runs", || file.exists()).await;
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
async fn nothing_is_left_of_a_server_that_is_not_needed_any_more() {
    let stage = Stage::with(&[("registry", "plain")]);
    let pid = stage.environment().await["pid"].clone();
    stage.output_of("registry__spawn", "").await;
    // It is a child of the thread that made it, for as long as there is that.
    let children = || -> Vec<u32> {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
        let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        lists
            .flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>())
            .collect()
    };
    let found = Cell::new(None);
    until("it spawned", || {
        found.set(children().first().copied());
        found.get().is_some()
    })
    .await;
    let sleeper = json!(found.get());
    assert!(runs(&pid) && runs(&sleeper));
    stage.bring(&[], "2");
    let gone = stage.call("registry__echo", json!({})).await;
    assert!(gone.failed && gone.text.contains("there is no tool"), "{}", gone.text);
    until("the server and what it started are gone", || !runs(&pid) && !runs(&sleeper)).await;
}

#[tokio::test]
async fn a_plugin_that_changes_gets_a_new_server() {
    let stage = Stage::with(&[("registry", "plain")]);
    let before = stage.environment().await;
    stage.bring(&[("registry", "plain")], "2");
    let after = stage.environment().await;
    assert_ne!(before["pid"], after["pid"]);
    until("the one before is gone", || !runs(&before["pid"])).await;
}

#[tokio::test]
async fn tools_are_told_and_nothing_is_started_for_what_is_known() {
    let stage = Stage::with(&[("registry", "plain")]);
    let servers = stage.tools(&ToolsRequest::default()).await;
    let [ServerTools { name, version, tools: ToolsUpdate::Tools { digest, list } }] = servers.as_slice()
    else {
        panic!("a list: {servers:?}")
    };
    assert_eq!((name.as_str(), version.as_str(), list.len()), ("registry", "1", 19), "both pages");
    assert_eq!(list[0]["name"], "echo");
    let known = Known { version: version.clone(), digest: digest.clone() };
    let request = ToolsRequest { known: [(name.clone(), known)].into() };
    let unchanged =
        |servers: &[ServerTools]| matches!(servers, [ServerTools { tools: ToolsUpdate::Unchanged, .. }]);
    assert!(unchanged(&stage.tools(&request).await));
    // Another life of the agent: nothing runs, and nothing is started.
    let other = Stage::with(&[("registry", "dead")]);
    assert!(unchanged(&other.tools(&request).await));
    // A server that announces another list is listed again.
    stage.output_of("registry__change", "").await;
    let changed = stage.tools(&request).await;
    let [ServerTools { tools: ToolsUpdate::Tools { list, .. }, .. }] = changed.as_slice() else {
        panic!("another list: {changed:?}")
    };
    assert_eq!(list.len(), 20);
    assert_eq!(stage.output_of("registry__fresh", "").await, "it is new");
    // Another version is another server.
    other.bring(&[("registry", "plain")], "2");
    assert!(matches!(
        other.tools(&request).await.as_slice(),
        [ServerTools { tools: ToolsUpdate::Tools { .. }, .. }]
    ));
}

/// The host waits little longer than the agent says; an answer after that would be none, for all servers.
#[tokio::test]
async fn a_server_that_hangs_takes_no_longer_than_the_host_waits() {
    let stage = Stage::with(&[("hangs", "mute"), ("fine", "plain")]);
    // From here on the time passes in which nothing happens.
    stage.output_of("fine__echo", "warm").await;
    tokio::time::pause();
    let asked = tokio::time::Instant::now();
    let servers = stage.tools(&ToolsRequest::default()).await;
    assert!(asked.elapsed() <= Duration::from_secs(LIST_WAIT_SECONDS + 1), "{:?}", asked.elapsed());
    assert!(
        matches!(&servers[0].tools, ToolsUpdate::Missing { reason } if reason.contains("takes long to start")),
        "{servers:?}"
    );
    assert!(matches!(servers[1].tools, ToolsUpdate::Tools { .. }));
}

#[tokio::test]
async fn a_server_that_does_not_begin_takes_only_its_own_tools_away() {
    let modes = [
        ("dead", "dead"),
        ("old", "old"),
        ("listless", "listless"),
        ("endless", "endless"),
        ("fine", "plain"),
    ];
    let stage = Stage::with(&modes);
    let servers = stage.tools(&ToolsRequest::default()).await;
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
    assert!(reason(2).contains("not of the protocol"), "{}", reason(2));
    let count = |at: usize| match &servers[at].tools {
        ToolsUpdate::Tools { list, .. } => list.len(),
        _ => 0,
    };
    assert_eq!((count(3), count(4)), (mcp::PAGES_MAX, 19), "a list without an end is cut");
    let dead = stage.call("dead__echo", json!({})).await;
    assert!(dead.failed && dead.text.starts_with("It was not called"), "{}", dead.text);
    assert_eq!(stage.output_of("fine__echo", "here").await, "here");
}

/// Bounds what a server does between calls.
#[tokio::test]
async fn a_server_that_fills_the_disk_between_calls_is_ended() {
    const ROOM: u64 = 128 << 20;
    const OVERSHOOT_MAX: u64 = 256 << 20;
    // Writes a gigabyte on request.
    const FILL: &str = "import subprocess\n\
        subprocess.Popen(['sh', '-c', 'while ! test -e go; do sleep 0.02; done; for i in $(seq 64); do \
        head -c 16777216 /dev/zero > f$i; done; : > all'], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n";
    let mut machine = Machine::below("/dev/shm".as_ref());
    let disk = rustix::fs::statvfs(&machine.limits.workspace).unwrap();
    machine.limits.disk_free_floor_bytes = disk.f_bavail * disk.f_frsize - ROOM;
    let program = fs::read_to_string(PROGRAM).unwrap();
    fs::write(machine.outside().join("mcp.py"), format!("{FILL}{program}")).unwrap();
    machine.servers = Some(Servers::below(machine.outside()));
    let stage = Stage { machine };
    stage.bring(&[("registry", "plain")], "1");
    let pid = &stage.environment().await["pid"];
    stage.machine.put("go", "");
    until("it is ended, or has written all", || !runs(pid) || stage.machine.path("all").exists()).await;
    let files = fs::read_dir(&stage.machine.limits.workspace).unwrap().flatten();
    let taken: u64 = files.map(|file| file.metadata().unwrap().len()).sum();
    assert!(taken < ROOM + OVERSHOOT_MAX, "{} MiB", taken >> 20);
}
