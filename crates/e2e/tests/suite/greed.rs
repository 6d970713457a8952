//! Clients that exhaust resources: memory and descriptors stay bounded, other clients are served, and all
//! resources are released.

use std::fs;
use std::time::{Duration, Instant};

use e2e::api::{UploadPart, id_field};
use e2e::http2::Http2;
use e2e::{Api, Expect, RawConnection, ServiceOptions, TestAccount, TestService, poll};
use serde_json::json;

/// The time after which a client that neither sends nor reads is disconnected.
const STALL: Duration = Duration::from_secs(3);
/// The additional memory of an unoptimized build.
const SLACK_MIB: u64 = 48;

/// The time within which other clients are served on a busy host.
const SERVED_WITHIN: Duration = Duration::from_secs(30);

struct GreedFixture {
    service: TestService,
    account: TestAccount,
    api: Api,
    /// A client that must be served during the attack.
    innocent: Api,
    memory: u64,
    descriptors: usize,
}

fn greed_fixture(settings: &[(&str, &str)]) -> GreedFixture {
    let mut environment: Vec<(String, String)> =
        settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    environment.push(("CAUSERIE_LIMITS_STALL_TIMEOUT".to_owned(), format!("{}s", STALL.as_secs())));
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let account = service.create_account();
    let (api, innocent) = (service.api_for(&account), service.api_for(&service.create_account()));
    let mut stage = GreedFixture { service, account, api, innocent, memory: 0, descriptors: 0 };
    stage.record_baseline();
    stage
}

impl GreedFixture {
    /// Records the state before the attack.
    fn record_baseline(&mut self) {
        self.innocent.get_vm().expect_status(200);
        (self.memory, self.descriptors) = (self.memory_now(), self.descriptors_now());
    }

    /// Returns the memory of the service in MiB, without shared pages counted twice.
    fn memory_now(&self) -> u64 {
        let smaps = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.service.process_id()));
        let smaps = smaps.expect("the kernel tells");
        let pss = smaps.lines().find_map(|line| line.strip_prefix("Pss:")).expect("it tells of memory");
        pss.trim_end_matches("kB").trim().parse::<u64>().expect("a number") / 1024
    }

    fn descriptors_now(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.service.process_id())).expect("the kernel tells").count()
    }

    /// Checks that memory and descriptors stay within these increments during the attack and that the other
    /// client is served. Repeats the check for half of the stall timeout.
    fn check_bounds(&self, memory: u64, descriptors: usize) {
        let until = Instant::now() + STALL / 2;
        while Instant::now() < until {
            let asked = Instant::now();
            self.innocent.get_vm().expect_status(200);
            assert!(asked.elapsed() < SERVED_WITHIN, "{:?}", asked.elapsed());
            let (now, open) = (self.memory_now(), self.descriptors_now());
            assert!(now <= self.memory + memory + SLACK_MIB, "{now} MiB, {} before", self.memory);
            let before = self.descriptors;
            assert!(open <= before + descriptors + 16, "{open} descriptors, {before} before");
        }
    }

    /// Checks that memory and descriptors return to the initial state, except for memory that the allocator
    /// keeps.
    fn check_recovery(&self) {
        poll::wait_until("descriptors return", || {
            (self.descriptors_now() <= self.descriptors + 16).then_some(())
        });
        poll::wait_until("memory returns", || (self.memory_now() <= self.memory + SLACK_MIB).then_some(()));
        self.innocent.get_vm().expect_status(200);
    }

    /// Opens this many connections and writes these bytes on each.
    fn open_connections(&self, count: usize, bytes: &[u8]) -> Vec<RawConnection> {
        let open = || RawConnection::connect(&self.service.address().into()).expect("it listens");
        let mut connections: Vec<RawConnection> = (0..count).map(|_| open()).collect();
        std::thread::scope(|scope| {
            for some in connections.chunks_mut(count.div_ceil(16)) {
                scope.spawn(|| some.iter_mut().for_each(|one| _ = one.write_bytes(bytes)));
            }
        });
        connections
    }

    fn get_request(&self, target: &str) -> String {
        format!("GET {target} HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\n\r\n", self.account.key)
    }

    fn upload_bytes(&self, name: &str, bytes: usize) -> String {
        let file = UploadPart::from_file(name, &vec![b'z'; bytes]);
        id_field(&self.api.upload_form(&[file]).expect_status(201).json(), "path")
    }
}

/// Reads the statuses of responses on these connections; connections that were closed without one are
/// skipped.
fn read_statuses(connections: Vec<RawConnection>) -> Vec<u16> {
    connections
        .into_iter()
        .filter_map(|mut one| one.read_response("POST"))
        .map(|response| response.status)
        .collect()
}

#[test]
fn unread_conversation_is_in_memory_once() {
    const EXCHANGES: usize = 10;
    const READERS: usize = 40;
    let mut stage = greed_fixture(&[]);
    let question = "A long story. ".repeat(70_000);
    let mut chat = None;
    for _ in 0..EXCHANGES {
        let answer = stage.api.expect_accepted(&json!({ "input": question, "chatId": chat }));
        chat = Some(id_field(&answer, "chatId"));
        stage.api.wait_for_completion(&answer);
    }
    let target = format!("/api/v1/chats/{}", chat.expect("a conversation"));
    let whole = stage.api.call_endpoint("GET", &target).expect_status(200).json();
    assert_eq!(whole["messages"].as_array().expect("messages").len(), 2 * EXCHANGES);
    stage.record_baseline();
    let readers = stage.open_connections(READERS, stage.get_request(&target).as_bytes());
    stage.check_bounds(32, READERS);
    stage.check_recovery();
    drop(readers);
    assert_eq!(stage.api.call_endpoint("GET", &target).expect_status(200).json(), whole);
}

#[test]
fn streams_with_closed_window_dropped() {
    const CONNECTIONS: usize = 10;
    const STREAMS: usize = 100;
    let stage = greed_fixture(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "64")]);
    let target = format!("/api/v1/files{}", stage.upload_bytes("large.bin", 1 << 20));
    let open = || Http2::connect(stage.service.address(), 0).expect("it listens");
    let mut connections: Vec<Http2> = (0..CONNECTIONS).map(|_| open()).collect();
    for connection in &mut connections {
        for _ in 0..STREAMS {
            connection.send_get(&target, &[("x-api-key", &stage.account.key)]).expect("it is open");
        }
    }
    stage.check_bounds(32, CONNECTIONS + 64);
    stage.api.call_endpoint("GET", &target).expect_code(429, "RATE_LIMITED");
    poll::wait_until("they are let go", || {
        (stage.descriptors_now() <= stage.descriptors + CONNECTIONS + 16).then_some(())
    });
    stage.api.call_endpoint("GET", &target).expect_status(200);
    drop(connections);
    stage.check_recovery();
}

#[test]
fn unread_response_is_given_up() {
    let stage = greed_fixture(&[]);
    for (window, target) in
        [(0, "/openapi.yaml"), (1000, "/openapi.yaml"), (0, "/nowhere"), (0, "/api/v1/models")]
    {
        let mut connection = Http2::connect(stage.service.address(), window).expect("it listens");
        connection.send_get(target, &[("x-api-key", &stage.account.key)]).expect("it is open");
        let began = Instant::now();
        poll::wait_until("it is reset", || match connection.count_resets(Duration::from_millis(100)) {
            None => Some(()),
            Some(resets) => (resets > 0).then_some(()),
        });
        assert!(began.elapsed() > STALL / 2, "{target}: it is given time");
    }
    // The service stops reading from a client that does not read responses.
    let many = "GET /openapi.yaml HTTP/1.1\r\nhost: x\r\n\r\n".repeat(20_000);
    let one = stage.open_connections(1, many.as_bytes());
    stage.check_bounds(8, 8);
    poll::wait_until("it is cut", || (stage.descriptors_now() <= stage.descriptors).then_some(()));
    drop(one);
    stage.check_recovery();
}

#[test]
fn stalled_uploads_are_given_up() {
    const UPLOADS: usize = 200;
    let stage = greed_fixture(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "100")]);
    let mut begun = format!(
        "POST /api/v1/files HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-type: multipart/form-data; boundary=X\r\n\
         content-length: 100000000\r\n\r\n--X\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n",
        stage.account.key
    )
    .into_bytes();
    begun.extend(vec![b'z'; 2_000_000]);
    let uploads = stage.open_connections(UPLOADS, &begun);
    // Each connection has a descriptor, and an accepted upload two more for its file. It holds at most a batch of 512 KiB
    // for its file, and the bytes read from the connection. 32 of the refused ones are read on.
    stage.check_bounds(96, UPLOADS + 200);
    let statuses = read_statuses(uploads);
    let times = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!(times(408), 100, "{statuses:?}");
    assert_eq!(times(408) + times(429), statuses.len(), "{statuses:?}");
    stage.check_recovery();
    stage.upload_bytes("small.txt", 100);
}

#[test]
fn stalled_questions_stay_within_budget() {
    const QUESTIONS: usize = 60;
    let stage = greed_fixture(&[
        ("CAUSERIE_LIMITS_BODY_TIMEOUT", "10s"),
        ("CAUSERIE_LIMITS_BODY_BYTES_PER_ACCOUNT", "16 MiB"),
    ]);
    let mut begun = format!(
        "POST /api/v1/chats HTTP/1.1\r\nhost: x\r\nx-api-key: {}\r\ncontent-length: 4194000\r\n\r\n{{\"input\":\"",
        stage.account.key
    )
    .into_bytes();
    begun.extend(vec![b'q'; 4_100_000]);
    let questions = stage.open_connections(QUESTIONS, &begun);
    stage.check_bounds(64, QUESTIONS);
    stage.innocent.wait_for_completion(&stage.innocent.ask_question("What is the rent?"));
    let statuses = read_statuses(questions);
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(statuses.iter().all(|status| [408, 429].contains(status)), "{statuses:?}");
    stage.check_recovery();
    stage.api.wait_for_completion(&stage.api.ask_question("And the deposit?"));
}

#[test]
fn unread_downloads_hold_little() {
    const DOWNLOADS: usize = 200;
    let stage = greed_fixture(&[("CAUSERIE_LIMITS_TRANSFERS_PER_ACCOUNT", "100")]);
    let target = format!("/api/v1/files{}", stage.upload_bytes("large.bin", 4 << 20));
    let mut slow = RawConnection::connect(&stage.service.address().into()).expect("it listens");
    assert!(slow.write_bytes(stage.get_request(&target).as_bytes()));
    let downloads = stage.open_connections(DOWNLOADS, stage.get_request(&target).as_bytes());
    let mut taken = 0;
    // The transfer takes longer than a stalled client is given.
    let rest = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            for _ in 0..8 {
                std::thread::park_timeout(STALL / 4);
                taken += slow.read_bytes(256 << 10).expect("it goes on").len();
            }
            let rest = (4 << 20) - taken;
            slow.read_bytes(rest).is_some()
        });
        stage.check_bounds(24, DOWNLOADS + 101);
        reader.join().expect("it reads")
    });
    assert!(rest, "the slow one has the whole file");
    drop(slow);
    // Their resources are released even if they stay connected.
    stage.check_recovery();
    drop(downloads);
    stage.api.call_endpoint("GET", &target).expect_status(200);
}

#[test]
fn address_cannot_take_all_connections() {
    let stage = greed_fixture(&[("CAUSERIE_LIMITS_CONNECTIONS_PER_ADDRESS", "4")]);
    let address = stage.service.address().into();
    let mut held: Vec<RawConnection> =
        (0..5).map(|_| RawConnection::connect(&address).expect("the kernel takes it")).collect();
    // No data is sent, so that the rejection is not lost. Earlier connections may still count, so more than
    // one may be rejected.
    let refused = || {
        held.iter_mut().find_map(|one| {
            one.wait_at_most(Duration::from_millis(50));
            (one.read_bytes(12)? == b"HTTP/1.1 503").then(|| one.read_rest())
        })
    };
    let head = poll::wait_until("one too many is refused", refused);
    assert!(String::from_utf8_lossy(&head).contains("retry-after: 5"));
    drop(held);
    poll::wait_until("there is room again", || {
        (stage.innocent.call_endpoint("GET", "/api/v1/vm").status == 200).then_some(())
    });
}

#[test]
fn open_requests_per_account_bounded() {
    let stage = greed_fixture(&[("CAUSERIE_LIMITS_REQUESTS_PER_ACCOUNT", "3")]);
    let answer = stage.api.wait_for_completion(&stage.api.ask_question("What is the rent?"));
    let chat = id_field(&answer, "chatId");
    let streams: Vec<_> = (0..3).map(|_| stage.api.chat_events(&chat, None)).collect();
    let refused = stage.api.get_vm();
    assert_eq!(refused.header("retry-after"), Some("5"));
    refused.expect_code(429, "RATE_LIMITED");
    stage.api.with_key("api-wrong").get_vm().expect_rejection();
    stage.innocent.get_vm().expect_status(200);
    drop(streams);
    poll::wait_until("there is room again", || (stage.api.get_vm().status == 200).then_some(()));
}
