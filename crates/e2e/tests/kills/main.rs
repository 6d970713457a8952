//! Two hundred random kills of the service, the machines, the server of both models and searches, and MCP
//! servers over pipes and over HTTP, while answers use tools of all these, a skill and a subagent. Every
//! accepted question is answered once and paid for once, and no effectful call runs twice.
//!
//! `KILLS_SEED` repeats the choices of a run, but not the host's scheduling. `KILLS` sets the number of
//! kills.

mod asker;
mod books;
mod follow;
mod killer;
mod random;

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use e2e::{Expect, FakeVendors, ServiceOptions, TestAccount, TestAccountOptions, TestService, poll};

use crate::asker::{AskerRecord, Caller, ask_on};
use crate::killer::Killer;
use crate::random::Random;

const KILLS: u64 = 200;
const ACCOUNTS: usize = 3;
const ASKERS_PER_ACCOUNT: usize = 2;
const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../test-support/programs/mcp.py");
const CREDITS: u32 = 10_000_000;

const LEASE: &str = "LEASE AGREEMENT\n\nThe flat at Dlouhá 12 is let for three years.\n\n\
    The monthly rent is 18,500 crowns, payable by the fifth day of each month.\n";

#[test]
fn kills_lose_and_repeat_nothing() {
    let seed = number_from_environment("KILLS_SEED").unwrap_or_else(fresh_seed);
    println!("KILLS_SEED={seed}");
    let mut random = Random::new(seed);
    let vendor = FakeVendors::start();
    let mut environment = vendor.service_environment();
    environment.push(vendor.search_engine());
    let diary = Diary::start_diary();
    environment.extend(diary.service_environment());
    let service = TestService::start(ServiceOptions { environment, ..ServiceOptions::default() });
    let wanted = TestAccountOptions { credits: CREDITS, ..TestAccountOptions::default() };
    let accounts: Vec<TestAccount> = (0..ACCOUNTS).map(|_| service.create_account_with(&wanted)).collect();
    for account in &accounts {
        service.api_for(account).upload_file("lease.txt", LEASE.as_bytes()).expect_status(201);
    }
    let model = books::ReferenceAnswer::ask_undisturbed(&service, &accounts);

    let address = service.address().to_owned();
    let enough = AtomicBool::new(false);
    let began = Instant::now();
    let mut killer = Killer::new(service, [vendor, diary.server], &accounts, random.next_u64());
    let records: Vec<(usize, AskerRecord)> = std::thread::scope(|scope| {
        let askers: Vec<_> = (0..ACCOUNTS * ASKERS_PER_ACCOUNT)
            .map(|asker| {
                let owner = asker / ASKERS_PER_ACCOUNT;
                let caller = Caller { address: &address, key: &accounts[owner].key };
                let (random, enough) = (Random::new(random.next_u64()), &enough);
                let name = format!("asker{asker}");
                (owner, scope.spawn(move || ask_on(caller, &name, random, enough)))
            })
            .collect();
        // Dropped even if the killer fails, so that the clients stop.
        let enough = Enough(&enough);
        let kills = number_from_environment("KILLS").unwrap_or(KILLS);
        while killer.total_kills() < kills && askers.iter().all(|(_, asker)| !asker.is_finished()) {
            killer.kill_one();
        }
        drop(enough);
        let join = |asker: std::thread::ScopedJoinHandle<'_, AskerRecord>| match asker.join() {
            Ok(record) => record,
            Err(failure) => std::panic::resume_unwind(failure),
        };
        askers.into_iter().map(|(owner, asker)| (owner, join(asker))).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let (service, _servers, figures) = killer.into_parts();

    for (owner, account) in accounts.iter().enumerate() {
        let caller = Caller { address: &address, key: &account.key };
        let own: Vec<_> =
            records.iter().filter(|(of, _)| *of == owner).flat_map(|(_, record)| &record.answers).collect();
        assert!(!own.is_empty(), "an account was never answered");
        books::check_answers(caller, &own, &model);
        books::check_history(caller, &own);
        books::check_runs(caller, &own);
        poll::wait_until("nothing is reserved", || (service.show_credits(account).1 == 0).then_some(()));
        let spent = i64::from(CREDITS) - model.spent_before(owner) - service.show_credits(account).0;
        assert_eq!(spent, model.cost * i64::try_from(own.len()).expect("few"), "each answer is paid once");
    }
    let noted = fs::read_to_string(diary.folder.path().join(DIARY)).expect("a diary");
    books::check_diary(&noted, records.iter().flat_map(|(_, record)| &record.answers));
    let sum = |of: fn(&AskerRecord) -> u64| records.iter().map(|(_, record)| of(record)).sum::<u64>();
    println!(
        "{figures}; in {seconds:.0} s {} answers, all completed once for {} credits each, {} states read over {} \
         reconnections, {} second questions refused, {} calls interrupted and not run again",
        sum(|record| record.answers.len() as u64),
        model.cost,
        sum(|record| record.states),
        sum(|record| record.reconnects),
        sum(|record| record.refused_busy),
        books::count_interrupted_calls(records.iter().flat_map(|(_, record)| &record.answers)),
    );
}

/// The file with the notes of the MCP server over HTTP.
const DIARY: &str = "diary.txt";

/// An MCP server over HTTP, and a plugin with a server that runs in the machines; both record their calls.
struct Diary {
    server: FakeVendors,
    folder: tempfile::TempDir,
}

impl Diary {
    fn start_diary() -> Self {
        let (server, folder) = (FakeVendors::start(), tempfile::tempdir().expect("a folder"));
        let path = |name: &str| folder.path().join(name);
        let header = format!("[mcp.diary.headers]\nX-Diary = \"{}\"\n", path(DIARY).display());
        let config = format!("[mcp.diary]\nurl = \"{}\"\n{header}", server.mcp_url("notes"));
        fs::write(path("causerie.toml"), config).expect("a file");
        fs::create_dir_all(path("plugins/legal")).expect("a folder");
        fs::copy(SERVER, path("plugins/legal/mcp.py")).expect("the program is there");
        let program = "${CLAUDE_PLUGIN_ROOT}/mcp.py";
        let entry = serde_json::json!({ "command": "python3", "args": [program], "read_only": ["echo"] });
        let servers = serde_json::json!({ "mcpServers": { "registry": entry } });
        fs::write(path("plugins/legal/.mcp.json"), servers.to_string()).expect("a file");
        Self { server, folder }
    }

    fn service_environment(&self) -> Vec<(String, String)> {
        let path = |name: &str| self.folder.path().join(name).display().to_string();
        let config = ("CAUSERIE_CONFIG".to_owned(), path("causerie.toml"));
        vec![config, ("CAUSERIE_PLUGINS".to_owned(), path("plugins"))]
    }
}

/// Stops the clients when it is dropped.
struct Enough<'a>(&'a AtomicBool);

impl Drop for Enough<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a whole number"))
}

fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::from(since.subsec_nanos()) ^ (since.as_secs() << 20)
}
