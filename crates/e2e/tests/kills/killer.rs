//! Kills processes at random and restarts them at once.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use e2e::{FakeVendors, TestAccount, TestService, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::random::Random;

/// The maximum number of kills of one machine between two starts of the service. Answers fail if their
/// machine is lost more often within a short time; other tests cover that.
const MACHINE_KILLS_MAX: u32 = 3;
/// The pause between two kills, in milliseconds.
const PAUSE: std::ops::Range<u64> = 30..650;
/// The percentage of kills that follow the previous one at once.
const AT_ONCE: u64 = 15;
/// The base processes of a machine: its first process, its init and its agent.
const JAIL_PROCESSES: usize = 3;

/// A part of the command line of an MCP server in a machine.
const SERVER: &[u8] = b"mcp.py";

/// The numbers of kills by kind.
#[derive(Debug, Default)]
pub(crate) struct KillCounts {
    service: u64,
    machine: u64,
    vendor: u64,
    diary: u64,
    servers: u64,
    restarts: Vec<Duration>,
}

impl KillCounts {
    pub(crate) fn total_kills(&self) -> u64 {
        self.service + self.machine + self.vendor + self.diary + self.servers
    }
}

impl fmt::Display for KillCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut millis: Vec<u128> = self.restarts.iter().map(Duration::as_millis).collect();
        millis.sort_unstable();
        write!(
            f,
            "{} kills: service {} (healthy again within {} ms, half of them {} ms), machine {}, vendor {}, MCP server over \
             HTTP {}, in a machine {}",
            self.total_kills(),
            self.service,
            millis.last().unwrap_or(&0),
            millis.get(millis.len() / 2).unwrap_or(&0),
            self.machine,
            self.vendor,
            self.diary,
            self.servers
        )
    }
}

pub(crate) struct Killer {
    service: TestService,
    vendor: FakeVendors,
    diary: FakeVendors,
    accounts: Vec<String>,
    random: Random,
    /// The kills of each machine since the service was started.
    lately: HashMap<String, u32>,
    figures: KillCounts,
}

impl Killer {
    pub(crate) fn new(
        service: TestService,
        servers: [FakeVendors; 2],
        accounts: &[TestAccount],
        seed: u64,
    ) -> Self {
        let [vendor, diary] = servers;
        let accounts = accounts.iter().map(|account| account.id.clone()).collect();
        let (random, lately) = (Random::new(seed), HashMap::new());
        Self { service, vendor, diary, accounts, random, lately, figures: KillCounts::default() }
    }

    pub(crate) fn total_kills(&self) -> u64 {
        self.figures.total_kills()
    }

    /// Waits, kills something and restarts it.
    pub(crate) fn kill_one(&mut self) {
        if !self.random.next_chance(AT_ONCE) {
            thread::sleep(self.random.next_millis(PAUSE));
        }
        match self.random.next_in_range(0..8) {
            0 | 1 => self.kill_service(None),
            2 => {
                let victim = self.choose_account();
                self.kill_service(Some(victim));
            }
            3 => {
                self.vendor.kill();
                self.vendor.restart();
                self.figures.vendor += 1;
            }
            4 if self.random.next_chance(50) => {
                self.vendor.kill();
                self.vendor.restart();
                self.figures.vendor += 1;
            }
            5 => {
                self.diary.kill();
                self.diary.restart();
                self.figures.diary += 1;
            }
            6 => {
                let victim = self.choose_account();
                let processes = self.machine_processes(&victim);
                self.kill_server(&processes);
            }
            _ => {
                let victim = self.choose_account();
                if self.lately.get(&victim).is_none_or(|kills| *kills < MACHINE_KILLS_MAX) {
                    let processes = self.machine_processes(&victim);
                    self.kill_machine(victim, &processes);
                } else {
                    self.kill_service(None);
                }
            }
        }
    }

    /// Returns the service, the vendors and the counts after the last kill.
    pub(crate) fn into_parts(self) -> (TestService, [FakeVendors; 2], KillCounts) {
        (self.service, [self.vendor, self.diary], self.figures)
    }

    /// Kills the service and, if given, a machine while it is down.
    fn kill_service(&mut self, machine_too: Option<String>) {
        let processes = machine_too.as_ref().map(|victim| self.machine_processes(victim));
        self.service.kill();
        self.figures.service += 1;
        self.lately.clear();
        if let (Some(victim), Some(processes)) = (machine_too, processes) {
            self.kill_machine(victim, &processes);
        }
        let down = Instant::now();
        self.service.restart();
        self.figures.restarts.push(down.elapsed());
    }

    fn kill_machine(&mut self, victim: String, processes: &[Pid]) {
        let own = self.service.data_folder();
        let at = usize::try_from(self.random.next_in_range(0..JAIL_PROCESSES as u64)).expect("few");
        let Some(pid) = processes.get(at) else { return };
        if kill_in_folder(&own, *pid) {
            *self.lately.entry(victim).or_default() += 1;
            self.figures.machine += 1;
        }
    }

    /// Kills the MCP server among these processes, if it runs.
    fn kill_server(&mut self, processes: &[Pid]) {
        let own = self.service.data_folder();
        let is_server = |pid: &&Pid| {
            let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
            line.windows(SERVER.len()).any(|window| window == SERVER)
        };
        if processes.iter().find(is_server).is_some_and(|pid| kill_in_folder(&own, *pid)) {
            self.figures.servers += 1;
        }
    }

    fn choose_account(&mut self) -> String {
        let at = usize::try_from(self.random.next_in_range(0..self.accounts.len() as u64)).expect("few");
        self.accounts[at].clone()
    }

    /// Waits for the machine to run and returns its processes.
    fn machine_processes(&self, account: &str) -> Vec<Pid> {
        poll::wait_until("a machine runs", || {
            let listed = self.service.run_admin_command(&["machine", "list"]);
            let machines = listed["machines"].as_array().expect("machines");
            let machine = machines.iter().find(|machine| machine["account"] == account)?;
            let pids = machine["pids"].as_array()?.iter();
            let pids: Vec<Pid> =
                pids.filter_map(|pid| Pid::from_raw(i32::try_from(pid.as_i64()?).ok()?)).collect();
            (pids.len() >= JAIL_PROCESSES).then_some(pids)
        })
    }
}

/// Kills the process if it belongs to a machine of this data folder, because process ids are reused.
fn kill_in_folder(data: &Path, pid: Pid) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    let mounts = std::fs::read(format!("/proc/{}/mountinfo", pid.as_raw_nonzero())).unwrap_or_default();
    let data = data.as_os_str().as_encoded_bytes();
    mounts.windows(data.len()).any(|window| window == data)
        && pidfd_send_signal(process, Signal::KILL).is_ok()
}
