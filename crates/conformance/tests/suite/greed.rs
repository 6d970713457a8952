//! Clients that exhaust resources: memory and descriptors stay bounded, other clients are served, and all
//! resources are released.

use std::fs;
use std::time::{Duration, Instant};

use conformance::api::{Part, id};
use conformance::http2::Http2;
use conformance::{Account, Api, Connection, Expect, Options, Service, poll};
use serde_json::json;

/// The time after which a client that neither sends nor reads is disconnected.
const STALL: Duration = Duration::from_secs(3);
/// The additional memory of an unoptimized build.
const SLACK_MIB: u64 = 48;

/// The time within which other clients are served on a busy host.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

struct Stage {
    service: Service,
    account: Account,
    api: Api,
    /// A client that must be served during the attack.
    innocent: Api,
    memory: u64,
    descriptors: usize,
}

fn stage(settings: &[(&str, &str)]) -> Stage {
    let mut environment: Vec<(String, String)> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment.push(("CAUSERIE_LIMITS_STALL_TIMEOUT".to_owned(), format!("{}s", STALL.as_secs())));
    let service = Service::start(Options { environment, ..Options::default() });
    let account = service.account();
    let (api, innocent) = (service.api(&account), service.api(&service.account()));
    let mut stage = Stage { service, account, api, innocent, memory: 0, descriptors: 0 };
    stage.begin();
    stage
}

impl Stage {
    /// Records the state before the attack.
    fn begin(&mut self) {
        self.innocent.vm().expect_status(200);
        (self.memory, self.descriptors) = (self.memory_now(), self.descriptors_now());
    }

    /// Returns the memory of the service in MiB, without shared pages counted twice.
    fn memory_now(&self) -> u64 {
        let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.service.process()));
        let smaps = smaps.expect("the kernel tells");
        let pss = smaps.lines().find_map(|line| line.strip_prefix("Pss:")).expect("it tells of memory");
        pss.trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
    }

    fn descriptors_now(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.service.process())).expect("the kernel tells").count()
    }

    /// Checks that memory and descriptors stay within these increments during the attack and that the other
    /// client is served. Repeats the check for half of the stall timeout.
    fn bears(&self, memory: u64, descriptors: usize) {
        let until = Instant::now() + STALL / 2;
        while Instant::now() < until {
            let asked = Instant::now();
            self.innocent.vm().expect_status(200);
            assert!(asked.elapsed() < SERVED_WITHIN, "{:?}", asked.elapsed());
            let (now, open) = (self.memory_now(), self.descriptors_now());
            assert!(now <= self.memory + memory + SLACK_MIB, "{now} MiB, {} before", self.memory);
            let before = self.descriptors;
            assert!(open <= before + descriptors + 16, "{open} descriptors, {before} before");
        }
    }

    /// Checks that memory and descriptors return to the initial state, except for memory that the allocator
    /// keeps.
    fn recovers(&self) {
        poll::until("descriptors return", || (self.descriptors_now() <= self.descriptors + 16).then_some(()));
        poll::until("memory returns", || (self.memory_now() <= self.memory + SLACK_MIB).then_some(()));
        self.innocent.vm().expect_status(200);
    }

    /// Opens this many connections and writes these bytes on each.
    fn connections(&self, count: usize, bytes: &[u8]) -> Vec<Connection> {
        let open = || Connection::open(&self.service.address().into()).expect("it listens");
        let mut connections: Vec<Connection> = (0..count).map(|_| open()).collect();
        std::thread::scope(|scope| {
            for some in connections.chunks_mut(count.div_ceil(16)) {
                scope.spawn(|| some.iter_mut().for_each(|one| _ = one.write(bytes)));
            }
        });
        connections
    }

    fn get(&self, target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n", self.account.key)
    }

    fn uploaded(&self, name: &str, bytes: usize) -> String {
        let file = Part::file(name, &vec![b'z'; bytes]);
        id(&self.api.upload_form(&[file]).expect_status(201).json(), "path")
    }
}

/// Reads the statuses of responses on these connections; connections that were closed without one are
/// skipped.
fn statuses(connections: Vec<Connection>) -> Vec<u16> {
    connections
        .into_iter()
        .filter_map(|mut one| one.response("POST"))
        .map(|response| response.status)
        .collect()
}

#[test]
fn a_long_conversation_that_nobody_takes_is_in_memory_once() {
    const EXCHANGES: usize = 10;
    const READERS: usize = 40;
    let mut stage = stage(&[]);
    let question = "A long story. ".repeat(70_000);
    let mut chat = None;
    for _ in 0..EXCHANGES {
        let answer = stage.api.accepted(&json!({ "input": question, "chatId": chat }));
        chat = Some(id(&answer, "chatId"));
        stage.api.completed(&answer);
    }
    let target = format!("/api/v1/chats/{}", chat.expect("a conversation"));
    let whole = stage.api.call("GET", &target).expect_status(200).json();
    assert_eq!(whole["messages"].as_array().expect("messages").len(), 2 * EXCHANGES);
    stage.begin();
    let readers = stage.connections(READERS, stage.get(&target).as_bytes());
    stage.bears(32, READERS);
    stage.recovers();
    drop(readers);
    assert_eq!(stage.api.call("GET", &target).expect_status(200).json(), whole);
}

#[test]
fn streams_whose_window_is_shut_hold_few_files_and_are_let_go() {
    const CONNECTIONS: usize = 10;
    const STREAMS: usize = 100;
    let stage = stage(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "64")]);
    let target = format!("/api/v1/files{}", stage.uploaded("large.bin", 1 << 20));
    let open = || Http2::open(stage.service.address(), 0).expect("it listens");
    let mut connections: Vec<Http2> = (0..CONNECTIONS).map(|_| open()).collect();
    for connection in &mut connections {
        for _ in 0..STREAMS {
            connection.get(&target, &[("x-api-key", &stage.account.key)]).expect("it is open");
        }
    }
    stage.bears(32, CONNECTIONS + 64);
    stage.api.call("GET", &target).expect_code(429, "RATE_LIMITED");
    poll::until("they are let go", || {
        (stage.descriptors_now() <= stage.descriptors + CONNECTIONS + 16).then_some(())
    });
    stage.api.call("GET", &target).expect_status(200);
    drop(connections);
    stage.recovers();
}

#[test]
fn a_response_that_nobody_takes_is_given_up_whoever_asked() {
    let stage = stage(&[]);
    for (window, target) in
        [(0, "/openapi.yaml"), (1000, "/openapi.yaml"), (0, "/nowhere"), (0, "/api/v1/models")]
    {
        let mut connection = Http2::open(stage.service.address(), window).expect("it listens");
        connection.get(target, &[("x-api-key", &stage.account.key)]).expect("it is open");
        let began = Instant::now();
        poll::until("it is reset", || match connection.resets(Duration::from_millis(100)) {
            None => Some(()),
            Some(resets) => (resets > 0).then_some(()),
        });
        assert!(began.elapsed() > STALL / 2, "{target}: it is given time");
    }
    // The service stops reading from a client that does not read responses.
    let many = "GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20_000);
    let one = stage.connections(1, many.as_bytes());
    stage.bears(8, 8);
    poll::until("it is cut", || (stage.descriptors_now() <= stage.descriptors).then_some(()));
    drop(one);
    stage.recovers();
}

#[test]
fn uploads_that_stall_hold_little_and_are_given_up() {
    const UPLOADS: usize = 200;
    let stage = stage(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "100")]);
    let mut begun = format!(
        "POST /api/v1/files HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: multipart/form-data; boundary=X\r\n\
         content-length: 100000000\r\n\r\n--X\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
        stage.account.key
    )
    .into_bytes();
    begun.extend(vec![b'z'; 2_000_000]);
    let uploads = stage.connections(UPLOADS, &begun);
    // Each connection has a descriptor, and those that are read from have two more for their file. Each of these holds at
    // most a batch of 512 KiB for its file, and what was read from the connection. Of the refused ones 32 are read on.
    stage.bears(96, UPLOADS + 200);
    let statuses = statuses(uploads);
    let times = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(times(408), 100, "{statuses:?}");
    assert_eq!(times(408) + times(429), statuses.len(), "{statuses:?}");
    stage.recovers();
    stage.uploaded("small.txt", 100);
}

#[test]
fn questions_that_stall_are_held_within_a_budget() {
    const QUESTIONS: usize = 60;
    let stage = stage(&[
        ("CAUSERIE_LIMITS_BODY_TIMEOUT", "10s"),
        ("CAUSERIE_LIMITS_BODY_BYTES_PER_ACCOUNT", "16 MiB"),
    ]);
    let mut begun = format!(
        "POST /api/v1/chats HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 4194000\r\n\r\n{{\"input\":\"",
        stage.account.key
    )
    .into_bytes();
    begun.extend(vec![b'q'; 4_100_000]);
    let questions = stage.connections(QUESTIONS, &begun);
    stage.bears(64, QUESTIONS);
    stage.innocent.completed(&stage.innocent.ask("What is the rent?"));
    let statuses = statuses(questions);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| [408, 429].contains(status)), "{statuses:?}");
    stage.recovers();
    stage.api.completed(&stage.api.ask("And the deposit?"));
}

#[test]
fn downloads_that_nobody_takes_hold_little_and_a_slow_reader_gets_all() {
    const DOWNLOADS: usize = 200;
    let stage = stage(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "100")]);
    let target = format!("/api/v1/files{}", stage.uploaded("large.bin", 4 << 20));
    let mut slow = Connection::open(&stage.service.address().into()).expect("it listens");
    assert!(slow.write(stage.get(&target).as_bytes()));
    let downloads = stage.connections(DOWNLOADS, stage.get(&target).as_bytes());
    let mut taken = 0;
    // The transfer takes longer than a stalled client is given.
    let rest = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..8 {
                std::thread::park_timeout(STALL / 4);
                taken += slow.bytes(256 << 10).expect("it goes on").len();
            }
            let rest = (4 << 20) - taken;
            slow.bytes(rest).is_some()
        });
        stage.bears(24, DOWNLOADS + 101);
        reader.join().expect("it reads")
    });
    assert!(rest, "the slow one has the whole file");
    drop(slow);
    // Their resources are released even if they stay connected.
    stage.recovers();
    drop(downloads);
    stage.api.call("GET", &target).expect_status(200);
}

#[test]
fn one_address_does_not_take_all_connections() {
    let stage = stage(&[("CAUSERIE_LIMITS_CONNECTIONS_PER_ADDRESS", "4")]);
    let address = stage.service.address().into();
    let mut held: Vec<Connection> =
        (0..5).map(|_| Connection::open(&address).expect("the kernel takes it")).collect();
    // No data is sent, so that the rejection is not lost. Earlier connections may still count, so more than
    // one may be rejected.
    let refused = || {
        held.iter_mut().find_map(|one| {
            one.wait_at_most(Duration::from_millis(50));
            (one.bytes(12)? == b"HTTP/1.1 503").then(|| one.rest())
        })
    };
    let head = poll::until("one too many is refused", refused);
    assert!(String::from_utf8_lossy(&head).contains("retry-after: 5"));
    drop(held);
    poll::until("there is room again", || {
        (stage.innocent.call("GET", "/api/v1/vm").status == 200).then_some(())
    });
}

#[test]
fn what_one_account_has_under_way_is_bounded() {
    let stage = stage(&[("CAUSERIE_LIMITS_REQUESTS_PER_ACCOUNT", "3")]);
    let answer = stage.api.completed(&stage.api.ask("What is the rent?"));
    let chat = id(&answer, "chatId");
    let streams: Vec<_> = (0..3).map(|_| stage.api.chat_events(&chat, None)).collect();
    let refused = stage.api.vm();
    assert_eq!(refused.header("retry-after"), Some("5"));
    refused.expect_code(429, "RATE_LIMITED");
    stage.api.with_key("api-wrong").vm().expect_rejection();
    stage.innocent.vm().expect_status(200);
    drop(streams);
    poll::until("there is room again", || (stage.api.vm().status == 200).then_some(()));
}
