//! Measures machines without a service: their starts by hand, and their streams for the benchmark.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::Bytes;
use domain::id::AccountId;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use machine::{
    BootSources, GuestConnection, MachineHome, MachineImage, OwnKernel, Sandbox, SandboxConfig, UmlKernel,
    find_qemu,
};

/// The bytes that are sent in each direction, and the number of repetitions.
const SENT_MIB: usize = 64;
const SENDS: usize = 5;
/// The requests whose round trips are measured.
const ROUND_TRIPS: usize = 500;

/// Starts ten machines one after another, and prints the time of each until its hello and its memory when idle. The
/// arguments are a folder, and, if given, the agent (`-` for this program), a kernel (`-` for the host's) and the folder of
/// an image.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn measure_starts(arguments: &[String]) {
    let folder = PathBuf::from(&arguments[0]);
    let given = |at: usize| arguments.get(at).filter(|argument| argument.as_str() != "-").map(PathBuf::from);
    std::fs::create_dir_all(folder.join("workspace")).unwrap();
    let program = given(1).unwrap_or_else(|| std::env::current_exe().unwrap());
    let mut config = SandboxConfig::new(folder.join("machines"), program);
    let named = given(2).and_then(|program| UmlKernel::find_all(Some(&program)).pop());
    config.kernel = named.map(OwnKernel::UserModeLinux);
    config.image =
        given(3).map(|folder| MachineImage { tree: folder.join("root"), lock: folder.join("manifest.json") });
    let sandbox = Sandbox::open_driver(config).unwrap();
    for number in 0..10 {
        let home = machine_home(&folder, number + 1);
        let begun = Instant::now();
        let machine = sandbox.start_machine(&home).await.unwrap();
        let started = begun.elapsed();
        let link = GuestConnection::connect_over_stream(Box::new(machine.connect_agent().await.unwrap()))
            .await
            .unwrap();
        let greeted = begun.elapsed();
        let held: Vec<_> =
            machine.list_processes().unwrap().iter().map(|pid| proportional_kib(*pid)).collect();
        drop(link);
        let stopping = Instant::now();
        sandbox.stop_machine(home.account).await.unwrap();
        let stopped = stopping.elapsed();
        println!("started {started:?} greeted {greeted:?} stopped {stopped:?} KiB {held:?}");
        sandbox.remove_account(home.account).await.unwrap();
    }
}

/// Starts one machine of a driver in this folder, and prints the performance of its stream as JSON: `to` the machine
/// and `from` it in MiB/s, and `round_trips` in microseconds. For QEMU, `CAUSERIE_GUEST` is the guest program.
#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn measure_stream(folder: &Path, driver: &str) {
    std::fs::create_dir_all(folder.join("workspace")).unwrap();
    let mut config = SandboxConfig::new(folder.join("machines"), std::env::current_exe().unwrap());
    config.kernel = match driver {
        "uml" => {
            let named = std::env::var_os("CAUSERIE_MACHINE_KERNEL").map(PathBuf::from);
            Some(OwnKernel::UserModeLinux(UmlKernel::find_all(named.as_deref()).remove(0)))
        }
        "qemu" => {
            let guest = std::env::var_os("CAUSERIE_GUEST").unwrap();
            let mut sources =
                BootSources::find_sources(find_qemu(None).unwrap(), None, guest.into()).unwrap();
            sources.boots_agent = true;
            Some(OwnKernel::Qemu(sources.prepare_files(&folder.join("qemu"), true).unwrap()))
        }
        _ => None,
    };
    let sandbox = Sandbox::open_driver(config).unwrap();
    let home = machine_home(folder, 1);
    let machine = sandbox.start_machine(&home).await.unwrap();
    let link =
        GuestConnection::connect_over_stream(Box::new(machine.connect_agent().await.unwrap())).await.unwrap();
    let (mut to, mut from, mut round_trips) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..SENDS {
        to.push(measure_rate(&link, "/receive", Bytes::from(vec![0; SENT_MIB << 20])).await);
        from.push(measure_rate(&link, "/send", Bytes::from(SENT_MIB.to_string())).await);
    }
    for _ in 0..ROUND_TRIPS {
        let begun = Instant::now();
        send_request(&link, "/hello", Bytes::new()).await;
        round_trips.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    println!("{}", serde_json::json!({ "to": to, "from": from, "round_trips": round_trips }));
    drop(link);
    sandbox.stop_machine(home.account).await.unwrap();
    sandbox.remove_account(home.account).await.unwrap();
}

fn machine_home(folder: &Path, number: u128) -> MachineHome {
    MachineHome { account: AccountId::from_random(number), ordinal: 0, workspace: folder.join("workspace") }
}

/// Returns the mebibytes per second of a request or its answer of [`SENT_MIB`].
async fn measure_rate(link: &GuestConnection, path: &str, body: Bytes) -> f64 {
    let begun = Instant::now();
    let sent = body.len();
    let received = send_request(link, path, body).await.len();
    assert_eq!(sent.max(received), SENT_MIB << 20);
    SENT_MIB as f64 / begun.elapsed().as_secs_f64()
}

async fn send_request(link: &GuestConnection, path: &str, body: Bytes) -> Bytes {
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let request = Request::post(format!("http://agent{path}")).body(body).unwrap();
    link.send_request(request).await.unwrap().into_body().collect().await.unwrap().to_bytes()
}

fn proportional_kib(pid: i32) -> u64 {
    let sums = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = sums.lines().find(|line| line.starts_with("Pss:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
