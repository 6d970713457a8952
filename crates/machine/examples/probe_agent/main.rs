//! The tests' agent: it greets, runs commands inside the jail, and tries to escape.
//!
//! The same program is the tests' launcher (`machine-launch`), a service that can be killed (`service`), the program
//! that tries whether machines run here (`probe`), and, run inside as the tools' user, the program that makes
//! attempts (`attempt`).
#![expect(unsafe_code, reason = "attempts are bare system calls")]
#![expect(clippy::print_stdout, clippy::unwrap_used, clippy::panic, reason = "a program of the tests")]

mod attacks;
mod guest_root;
mod measure;

use std::convert::Infallible;
use std::io::{self, Write};
use std::net::TcpListener;
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use bytes::Bytes;
use guest::boot::{Platform, Prepared};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use machine::{ByteStream, MachineHome, Sandbox, SandboxConfig, sandbox};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments.get(1).map(String::as_str) {
        Some(sandbox::LAUNCH_ARGUMENT) => sandbox::launch_main(),
        Some("service") => run_service(PathBuf::from(&arguments[2]), &arguments[3], arguments.get(4)),
        Some("probe") => probe_host(Path::new(&arguments[2]), arguments.get(3)),
        Some("try") => try_out(PathBuf::from(&arguments[2]), &arguments[3], &arguments[4]),
        Some("measure") => measure::measure_starts(&arguments[2..]),
        Some("stream") => measure::measure_stream(Path::new(&arguments[2]), &arguments[3]),
        Some(protocol::link::BOOT_ARGUMENT) => {
            guest_root::run_chosen_attack(guest_root::GuestKind::UserModeLinux);
            let _ = guest::boot::run_machine(Platform::UserModeLinux);
        }
        Some(protocol::link::BOOT_QEMU_ARGUMENT) => {
            guest_root::run_chosen_attack(guest_root::GuestKind::Qemu);
            let _ = guest::boot::run_machine(Platform::Qemu(Prepared::from_inherited().unwrap()));
        }
        Some("attempt") => println!("{}", run_attempt(&arguments[2], arguments.get(3))),
        Some("attack") => println!("{}", attacks::run_attack(&arguments[2])),
        Some("serve") => agent_of_a_kernel(),
        // The first arguments of a User Mode Linux kernel and of QEMU.
        Some(first) if first.starts_with("mem=") || first == "-name" => hostile_kernel(),
        Some(other) => panic!("unknown: {other}"),
        None => run_agent(),
    }
}

/// A service that starts a machine in this folder, then idles until it is killed.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn run_service(folder: PathBuf, account: &str, kernel: Option<&String>) {
    let program = std::env::current_exe().unwrap();
    let mut config = SandboxConfig::new(folder.join("machines"), program);
    config.kernel = kernel.map(|kernel| serde_json::from_str(kernel).unwrap());
    let sandbox = Sandbox::open_driver(config).unwrap();
    let home =
        MachineHome { account: account.parse().unwrap(), ordinal: 0, workspace: folder.join("workspace") };
    let _machine = sandbox.start_machine(&home).await.unwrap();
    println!("started");
    std::future::pending::<()>().await;
}

/// Tries whether machines run here, in this folder, on the kernel that this file describes; exits with 0 if they do.
#[tokio::main(flavor = "current_thread")]
async fn probe_host(folder: &Path, kernel: Option<&String>) {
    let program = std::env::current_exe().unwrap();
    let mut config = SandboxConfig::new(folder.join("machines"), program);
    config.kernel = kernel.map(|file| serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap());
    let outcome = match Sandbox::open_driver(config) {
        Ok(sandbox) => sandbox.probe_driver().await,
        Err(error) => Err(error),
    };
    if let Err(error) = outcome {
        println!("{error}");
        std::process::exit(1);
    }
}

/// A service that tries machines with this memory in this folder, to be killed.
#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn try_out(folder: PathBuf, kernel: &str, mebibytes: &str) {
    let program = std::env::current_exe().unwrap();
    let mut config = SandboxConfig::new(folder.join("machines"), program);
    config.kernel = Some(serde_json::from_str(kernel).unwrap());
    config.limits.memory_bytes = mebibytes.parse::<u64>().unwrap() << 20;
    let tried = Sandbox::open_driver(config).unwrap().try_out(std::time::Duration::from_secs(600)).await;
    println!("{tried:?}");
}

/// Never answers, ignores signals, and has a process that is not its child, where it may have processes.
fn hang_forever() -> ! {
    // SAFETY: a disposition without a handler; this process has a single thread.
    unsafe {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
        if libc::fork() == 0 && libc::fork() > 0 {
            libc::_exit(0);
        }
    }
    loop {
        std::thread::sleep(std::time::Duration::from_secs(3600));
    }
}

/// The agent on the host's kernel.
#[tokio::main(flavor = "current_thread")]
async fn run_agent() {
    // SAFETY: the launcher hands the listening socket over under this number, to nobody else.
    let listener = unsafe { UnixListener::from_raw_fd(3) };
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::UnixListener::from_std(listener).unwrap();
    let instance = random_instance();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve_stream(stream, instance));
    }
}

/// The agent on its machine's kernel.
#[tokio::main(flavor = "current_thread")]
async fn agent_of_a_kernel() {
    let number = std::env::var("CAUSERIE_LISTEN_FD").unwrap().parse().unwrap();
    // SAFETY: process 1 hands the listening socket over under this number, to nobody else.
    let listener = unsafe { TcpListener::from_raw_fd(number) };
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let instance = random_instance();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        tokio::spawn(serve_stream(stream, instance));
    }
}

fn random_instance() -> &'static str {
    let random = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    Box::leak(random.trim().to_owned().into_boxed_str())
}

async fn serve_stream(stream: impl ByteStream, instance: &'static str) {
    let service = service_fn(move |request| answer_request(request, instance));
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The service may close it at any time.
    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer_request(
    request: Request<Incoming>,
    instance: &str,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    if path == "/receive" {
        return Ok(Response::new(Full::new(Bytes::new())));
    }
    let body = String::from_utf8(body.to_vec()).unwrap();
    let text = match path.as_str() {
        "/hello" => format!("{{\"version\":{},\"instance\":\"{instance}\"}}", protocol::VERSION),
        "/tools" => tokio::task::spawn_blocking(move || run_shell(&body, true)).await.unwrap(),
        "/agent" => tokio::task::spawn_blocking(move || run_shell(&body, false)).await.unwrap(),
        "/send" => "\0".repeat(body.parse::<usize>().unwrap() << 20),
        "/exit" => std::process::exit(7),
        other => panic!("unknown: {other}"),
    };
    Ok(Response::new(Full::new(Bytes::from(text))))
}

fn run_shell(command: &str, as_tools: bool) -> String {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").current_dir("/workspace").process_group(0);
    if as_tools {
        // As the agent's tools are confined: the kernel kills them first when memory runs out.
        shell
            .arg(format!("{{ echo 1000 >/proc/self/oom_score_adj; }} 2>/dev/null\n{command}"))
            .uid(1000)
            .gid(1000);
        if let Ok(mut group) = guest::memory_group::open_tool_group() {
            // SAFETY: the closure makes one system call.
            unsafe { shell.pre_exec(move || group.write_all(b"0")) };
        }
    } else {
        shell.arg(command);
    }
    match shell.output() {
        Ok(output) => {
            [output.stdout, output.stderr].iter().map(|text| String::from_utf8_lossy(text)).collect()
        }
        Err(error) => format!("not run: {error}"),
    }
}

/// Makes an attempt; prints `refused` and the reason, or the result.
fn run_attempt(what: &str, argument: Option<&String>) -> String {
    let number = argument.map_or(0, |argument| argument.parse::<i64>().unwrap());
    let call = |number: i64, arguments: [i64; 4]| {
        let [a, b, c, d] = arguments;
        // SAFETY: attempts pass null or numbers instead of memory that the kernel would read or write.
        unsafe { libc::syscall(number, a, b, c, d) }
    };
    let newuser = i64::from(libc::CLONE_NEWUSER);
    let outcome = match what {
        "mount" => call(libc::SYS_mount, [0, 0, 0, 0]),
        "umount" => call(libc::SYS_umount2, [0, 0, 0, 0]),
        "unshare" => call(libc::SYS_unshare, [newuser, 0, 0, 0]),
        "clone" => call(libc::SYS_clone, [newuser | i64::from(libc::SIGCHLD), 0, 0, 0]),
        "clone3" => call(libc::SYS_clone3, [0, 0, 0, 0]),
        "setns" => call(libc::SYS_setns, [0, 0, 0, 0]),
        "ptrace" => call(libc::SYS_ptrace, [i64::from(libc::PTRACE_ATTACH), number, 0, 0]),
        "vm_readv" => call(libc::SYS_process_vm_readv, [number, 0, 0, 0]),
        "bpf" => call(libc::SYS_bpf, [0, 0, 0, 0]),
        "keyctl" => call(libc::SYS_keyctl, [0, 0, 0, 0]),
        "io_uring" => call(libc::SYS_io_uring_setup, [1, 0, 0, 0]),
        "userfaultfd" => call(libc::SYS_userfaultfd, [0, 0, 0, 0]),
        "perf" => call(libc::SYS_perf_event_open, [0, 0, 0, 0]),
        "open_by_handle" => call(libc::SYS_open_by_handle_at, [0, 0, 0, 0]),
        "setuid" => call(libc::SYS_setuid, [0, 0, 0, 0]),
        "chroot" => call(libc::SYS_chroot, [0, 0, 0, 0]),
        "kill" => call(libc::SYS_kill, [number, 9, 0, 0]),
        "aio" => {
            let mut context = 0_u64;
            call(libc::SYS_io_setup, [64, (&raw mut context) as i64, 0, 0])
        }
        "shm" => call(libc::SYS_shmget, [0, 1 << 20, 0o1600, 0]),
        "sem" => call(libc::SYS_semget, [0, 1, 0o1600, 0]),
        "msg" => call(libc::SYS_msgget, [0, 0o1600, 0, 0]),
        "mq" => call(libc::SYS_mq_open, [c"queue".as_ptr() as i64, 0o102, 0o600, 0]),
        "statmount" => call(457, [0, 0, 0, 0]),
        "listmount" => call(458, [0, 0, 0, 0]),
        "open_tree_attr" => call(467, [-100, c"/workspace".as_ptr() as i64, 1, 0]),
        "file_setattr" => call(469, [-100, c".".as_ptr() as i64, 0, 0]),
        "flags" => {
            let mut flags = 0_u32;
            call(libc::SYS_ioctl, [0, 0x8008_6601, (&raw mut flags) as i64, 0])
        }
        "x32" => call(0x4000_0000 + 39, [0, 0, 0, 0]),
        "socket" => call(libc::SYS_socket, [number, i64::from(libc::SOCK_STREAM), 0, 0]),
        "raw_socket" => call(libc::SYS_socket, [2, i64::from(libc::SOCK_RAW), 1, 0]),
        "connect" => return connect_outside(),
        other => panic!("unknown: {other}"),
    };
    if outcome == -1 { format!("refused: {}", io::Error::last_os_error()) } else { format!("got {outcome}") }
}

/// Replaces the kernel of a machine, and acts like a kernel that a machine has taken over: makes every attempt,
/// records each outcome, and then floods the link.
fn hostile_kernel() {
    /// Kernels of machines with this amount of memory, in mebibytes, hang.
    const HANGING: std::ops::RangeInclusive<u64> = 201..=230;
    let mebibytes = |argument: String| {
        argument.trim_start_matches("mem=").strip_suffix('M').and_then(|number| number.parse().ok())
    };
    if std::env::args().filter_map(mebibytes).any(|mebibytes: u64| HANGING.contains(&mebibytes)) {
        hang_forever();
    }
    std::env::set_current_dir("/workspace").unwrap();
    let mut report = String::new();
    for line in include_str!("attempts.txt").lines() {
        let mut words = line.split(' ').map(ToOwned::to_owned);
        let (kind, what, argument) = (words.next().unwrap(), words.next().unwrap(), words.next());
        let outcome = match kind.as_str() {
            "attempt" => run_attempt(&what, argument.as_ref()),
            _ => attacks::run_attack(&what),
        };
        report.push_str(&format!("{line}: {outcome}\n"));
    }
    for path in [
        "/etc/shadow",
        "/home",
        "/root",
        "/sys",
        "/proc/1/mem",
        "/proc/2/mem",
        "/proc/1/root",
        "/usr/x",
        "/agent",
    ] {
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .append(path.starts_with("/usr") || path == "/agent")
            .open(path);
        report.push_str(&format!(
            "open {path}: {}\n",
            opened.map_or_else(|error| format!("refused: {error}"), |_| "got it".to_owned())
        ));
    }
    std::fs::write("report.txt", report).unwrap();
    let flood =
        (0..20_000_usize).map(|number| vec![u8::try_from(number % 251).unwrap(); number % 20_000 + 1]);
    for frame in std::iter::once(announcement_frame()).chain(flood) {
        // SAFETY: the launcher hands the link over under this number; the frame lives through the call.
        unsafe { libc::send(3, frame.as_ptr().cast(), frame.len(), libc::MSG_DONTWAIT) };
    }
    loop {
        std::thread::park();
    }
}

/// Returns the frame by which a machine says that its listeners are open.
fn announcement_frame() -> Vec<u8> {
    use protocol::link::{AGENT, ANNOUNCEMENT, HOST, MACHINE};
    let udp_bytes = u8::try_from(8 + ANNOUNCEMENT.len()).unwrap();
    let mut frame = vec![0; 14];
    frame.extend([0x45, 0, 0, 20 + udp_bytes, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend([MACHINE.octets(), HOST.octets()].concat());
    frame.extend([AGENT.port().to_be_bytes(), AGENT.port().to_be_bytes(), [0, udp_bytes], [0, 0]].concat());
    frame.extend(ANNOUNCEMENT);
    frame
}

fn connect_outside() -> String {
    let addresses = ["1.1.1.1:53", "127.0.0.1:22", "169.254.169.254:80", "10.0.0.1:443"];
    let reached: Vec<_> =
        addresses.iter().filter(|address| std::net::TcpStream::connect(address).is_ok()).collect();
    if reached.is_empty() { "refused: no address is reached".into() } else { format!("got {reached:?}") }
}
