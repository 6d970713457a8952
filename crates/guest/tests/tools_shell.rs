//! Command lines, well-behaved and not.

#[expect(dead_code, reason = "each test file uses its part")]
mod support;

use std::time::{Duration, Instant};

use guest::tools::run_tool;
use serde_json::json;
use support::{TestMachine, new_call};
use tokio::sync::watch;

/// The longest time until a call is killed on a busy host: less than its command sleeps.
const ENDED_WITHIN: Duration = Duration::from_secs(60);

#[tokio::test]
async fn output_and_status_come_in_order() {
    let machine = TestMachine::new();
    let output = machine.run_shell("echo one; echo two >&2; echo three; exit 3").await;
    assert_eq!(output.text, "one\ntwo\nthree\n[exit status 3]");
    assert!(output.failed);
    let quiet = machine.run_shell("true").await;
    assert_eq!((quiet.text.as_str(), quiet.failed), ("[exit status 0]", false));
    let killed = machine.run_shell("kill -9 $$").await;
    assert_eq!(killed.text, "[ended by signal 9]");
}

#[tokio::test]
async fn the_surroundings_are_bare() {
    let machine = TestMachine::new();
    let output = machine.run_shell("pwd; env | sort; cat; ls /proc/self/fd | wc -l").await;
    let workspace = machine.limits.workspace.display();
    let temp = machine.limits.temp.display();
    let expected = format!(
        "{workspace}\nHOME={workspace}\nLANG=C.UTF-8\nPATH=/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin\n\
         PWD={workspace}\nTMPDIR={temp}\n4\n[exit status 0]"
    );
    assert_eq!(output.text, expected);
}

#[tokio::test]
async fn shell_writes_only_in_workspace() {
    let machine = TestMachine::new();
    let outside = machine.outside_folder().join("x");
    let command =
        format!("echo hi > a.txt && echo hi > $TMPDIR/b && cat a.txt; echo hi > {}", outside.display());
    let output = machine.run_shell(&command).await;
    assert!(output.text.starts_with("hi\n") && output.failed, "{}", output.text);
    assert!(machine.workspace_path("a.txt").exists() && !outside.exists());
}

#[tokio::test]
async fn time_is_bounded() {
    let machine = TestMachine::new();
    let began = Instant::now();
    let output =
        machine.call_tool("shell", json!({ "command": "echo begun; sleep 100", "timeout_seconds": 1 })).await;
    assert_eq!(output.text, "begun\n[killed: it ran longer than 1 s]");
    assert!(output.failed && began.elapsed() < ENDED_WITHIN);
}

#[tokio::test]
async fn output_is_bounded() {
    let machine = TestMachine::new();
    let output = machine.run_shell("yes | head -c 10000000; echo end").await;
    assert!(output.text.len() < 50_000 && output.text.contains("bytes left out"));
    assert!(output.text.ends_with("end\n[exit status 0]"), "{}", &output.text[output.text.len() - 100..]);
    let flood = machine.run_shell("yes").await;
    assert!(flood.text.ends_with("[killed: it put out more than 67108864 bytes]") && flood.failed);
}

#[tokio::test]
async fn nothing_outlives_the_call() {
    let machine = TestMachine::new();
    let left = "(setsid sh -c 'echo $$ > a.pid; sleep 1000' &) ; sleep 1000 & nohup sleep 1000 & \
                while ! test -s a.pid; do sleep 0.05; done; echo done";
    let output = machine.run_shell(left).await;
    assert!(
        output.text.starts_with("done\n[exit status 0; ") && output.text.contains("background processes"),
        "{}",
        output.text
    );
    let pid: i32 = std::fs::read_to_string(machine.workspace_path("a.pid")).unwrap().trim().parse().unwrap();
    assert!(is_gone(pid), "the process that left the session and its group has ended, too");
}

#[tokio::test]
async fn shell_stopped_call_ends_processes() {
    let machine = TestMachine::new();
    let (stop, killed) = watch::channel(false);
    let arguments = json!({ "command": "echo $$ > a.pid; setsid sleep 1000" }).to_string();
    let call = new_call("shell", &arguments);
    let stopping = async {
        while std::fs::read_to_string(machine.workspace_path("a.pid")).is_ok_and(|text| text.is_empty())
            || !machine.workspace_path("a.pid").exists()
        {
            tokio::task::yield_now().await;
        }
        stop.send_replace(true);
    };
    let (output, ()) = tokio::join!(run_tool(&call, &machine.limits, &[], killed), stopping);
    assert_eq!(output.text, "[killed: it was stopped]");
    let pid: i32 = std::fs::read_to_string(machine.workspace_path("a.pid")).unwrap().trim().parse().unwrap();
    assert!(is_gone(pid));
}

#[tokio::test]
async fn shell_fork_bomb_bounded_and_cleared() {
    let machine = TestMachine::new();
    let began = Instant::now();
    let output = machine
        .call_tool("shell", json!({ "command": "f() { f | f & }; f; sleep 100", "timeout_seconds": 1 }))
        .await;
    assert!(output.failed && began.elapsed() < ENDED_WITHIN, "{}", output.text);
    let after = machine.run_shell("echo fine").await;
    assert_eq!(after.text, "fine\n[exit status 0]");
}

#[tokio::test]
async fn memory_is_bounded() {
    let mut machine = TestMachine::new();
    machine.limits.memory_bytes = 64 << 20;
    let output = machine.run_shell("head -c 300000000 /dev/zero | tail -c 290000000 | wc -c").await;
    assert!(output.text.contains("exhausted") || output.text.contains("allocate"), "{}", output.text);
}

#[tokio::test]
async fn files_are_bounded() {
    let mut machine = TestMachine::new();
    machine.limits.file_bytes = 1 << 20;
    let output = machine.run_shell("head -c 5000000 /dev/zero > big; ls -l big | cut -d' ' -f5").await;
    assert!(output.text.contains("1048576"), "{}", output.text);
}

#[tokio::test]
async fn shell_workspace_over_quota_ends_command() {
    let mut machine = TestMachine::new();
    machine.limits.workspace_bytes = 1 << 20;
    let fill = "i=0; while true; do i=$((i+1)); head -c 200000 /dev/zero > f$i; sleep 0.2; done";
    let output = machine.run_shell(fill).await;
    assert!(output.text.ends_with("[killed: the workspace grew beyond 1048576 bytes]"), "{}", output.text);
}

#[tokio::test]
async fn the_kernel_is_closed_to_commands() {
    let machine = TestMachine::new();
    for command in ["unshare -Ur true", "mount -t tmpfs none /tmp", "unshare -n true"] {
        let output = machine.run_shell(command).await;
        assert!(output.failed, "{command}: {}", output.text);
    }
    let python = "import socket,os,sys\n\
        for family in (socket.AF_INET, socket.AF_INET6, 16, 40):\n\
        \x20try:\n\x20 socket.socket(family, socket.SOCK_DGRAM); print('open', family)\n\
        \x20except OSError as e: print(e.errno)\n\
        socket.socket(socket.AF_UNIX); print('unix')\n\
        try: os.chmod('a', 0o4755); print('setuid')\n\
        except OSError as e: print(e.errno)\n\
        import ctypes; libc = ctypes.CDLL(None, use_errno=True)\n\
        libc.syscall(437, -100, b'a', 0, 0); print(ctypes.get_errno())\n"; // openat2
    machine.put_file("a", "");
    machine.put_file("a.py", python);
    let output = machine.run_shell("command -v python3 >/dev/null || exit 77; python3 a.py; grep -c . /dev/null; grep -E 'NoNewPrivs|Seccomp:|CapEff|CapPrm' /proc/self/status | tr -s '\\t ' ' '").await;
    if !output.text.contains("status 77") {
        assert!(output.text.starts_with("97\n97\n97\n97\nunix\n1\n38\n"), "{}", output.text);
    }
    let status = machine
        .run_shell("grep -E 'NoNewPrivs|Seccomp:|CapEff|CapPrm' /proc/self/status | tr -s '\\t ' ' '")
        .await;
    assert_eq!(
        status.text,
        "CapPrm: 0000000000000000\nCapEff: 0000000000000000\nNoNewPrivs: 1\nSeccomp: 2\n[exit status 0]"
    );
}

/// Perl, which every Debian has, makes the bare calls. Each prints the number of its error; 0 would be success.
#[tokio::test]
async fn shell_cannot_create_setuid_files() {
    let machine = TestMachine::new();
    let script = r#"
        open(F, '>', 's'); close(F); mkdir 'd';
        %calls = (open => [2, 'o1', 0x41, 06755], tmpfile => [2, '.', 0x410002, 02765],
            tmpfile_at => [257, -100, '.', 0x410002, 02765], create_at => [257, -100, 'o2', 0x41, 04755],
            creat => [85, 'o3', 02755], chmod => [90, 's', 02755], fchmodat => [268, -100, 's', 04755],
            fchmodat2 => [452, -100, 's', 02755, 0], mknod => [133, 'o4', 0106755, 0],
            openat2 => [437, -100, 'o5', pack('QQQ', 0x41, 02755, 0), 24],
            acl => [188, 's', 'system.posix_acl_access', pack('L', 2), 4, 0],
            removal => [197, 's', 'user.x'], allocation => [285, 1, 0, 0, 4096]);
        for (sort keys %calls) { @c = @{$calls{$_}}; $! = 0; syscall(shift @c, @c); print "$_ ", $! + 0, "\n" }
    "#;
    machine.put_file("calls.pl", script);
    let output = machine.run_shell("umask 0; perl calls.pl").await;
    let expected = "acl 95\nallocation 95\nchmod 1\ncreat 1\ncreate_at 1\nfchmodat 1\nfchmodat2 38\nmknod 1\nopen 1\n\
        openat2 38\nremoval 95\ntmpfile 1\ntmpfile_at 1\n";
    // The numbers are specific to this architecture.
    if cfg!(target_arch = "x86_64") {
        assert!(output.text.starts_with(expected), "{}", output.text);
    }
    let usual = "echo x > a && cp -a a b && mkdir -p n/m && mv b n/m/ && ln -s n l && install -m 750 a i && \
        tar -cf t.tar a n && tar -xf t.tar -C d && stat -c %a i && git init -q r 2>&1 && echo done";
    let output = machine.run_shell(usual).await;
    assert!(output.text.starts_with("750\n"), "{}", output.text);
}

/// The kernel counts watches for each user of the host, who may also be the service's user.
#[tokio::test]
async fn epoll_watches_are_bounded() {
    let machine = TestMachine::new();
    // Two hundred instances, each watching two hundred counters: forty thousand watches.
    machine.put_file(
        "watches.pl",
        r#"
        $count = 0;
        for (1..200) { push @counters, syscall(290, 0, 0); push @instances, syscall(291, 0) }
        for $instance (@instances) { for $counter (@counters) {
            $event = pack('LQ', 1, 0);
            if (syscall(233, $instance + 0, 1, $counter + 0, $event) < 0) { print "$count ", $! + 0, "\n"; exit }
            $count++;
        } }
        print "$count without end\n";
        "#,
    );
    let output = machine.run_shell("perl watches.pl").await;
    if cfg!(target_arch = "x86_64") {
        assert!(output.text.starts_with("4096 28\n"), "{}", output.text);
    }
    // Ordinary use continues.
    machine.put_file(
        "loop.py",
        "import asyncio\n\
         async def main():\n\
         \x20 p = await asyncio.create_subprocess_exec('echo', 'hi', stdout=-1)\n\
         \x20 print((await p.communicate())[0].decode().strip())\n\
         asyncio.run(main())\n",
    );
    let output =
        machine.run_shell("command -v python3 >/dev/null || { echo hi; exit; }; python3 loop.py").await;
    assert_eq!(output.text, "hi\n[exit status 0]");
}

#[tokio::test]
async fn shell_memory_of_all_processes_bounded() {
    let mut machine = TestMachine::new();
    machine.limits.memory_bytes = 64 << 20;
    let hold = "for (1..5) { unless (fork) { $held = 'a' x 20000000; sleep 100; exit } } sleep 100";
    let output = machine.run_shell(&format!("perl -e \"{}\"", hold.replace('$', "\\$"))).await;
    if machine.limits.tools_user.is_some() {
        assert_eq!(output.text, "[killed: commands took more than 64 MiB of memory together]");
    }
}

/// Each holds kernel memory.
#[tokio::test]
async fn shell_sockets_of_all_processes_bounded() {
    let mut machine = TestMachine::new();
    machine.limits.sockets = 2048;
    machine.put_file(
        "sockets.pl",
        "use Socket; for (1..6) { unless (fork) { for (1..450) { \
         socketpair($a[$_], $b[$_], AF_UNIX, SOCK_STREAM, 0) or die $! } sleep 100; exit } } sleep 100",
    );
    let output = machine.run_shell("perl sockets.pl").await;
    if machine.limits.tools_user.is_some() {
        assert_eq!(output.text, "[killed: commands opened more than 2048 sockets]");
    }
}

/// Returns the used space of the workspace's disk, in bytes.
fn workspace_used_bytes(machine: &TestMachine) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let files = std::fs::read_dir(&machine.limits.workspace).expect("the folder is ours");
    files.flatten().filter_map(|file| Some(file.metadata().ok()?.blocks() * 512)).sum()
}

/// Writes as fast as the disk's cache takes it; each file alone is within its bound.
const FILL: &str = "i=0; while true; do i=$((i+1)); head -c 33554432 /dev/zero > f$i; done";

#[tokio::test]
async fn shell_fast_filled_disk_keeps_floor() {
    const ROOM: u64 = 256 << 20;
    const OVERSHOOT_MAX: u64 = 256 << 20;
    // A disk to which others write little meanwhile.
    let mut machine = TestMachine::new_below("/dev/shm".as_ref());
    let disk = rustix::fs::statvfs(&machine.limits.workspace).unwrap();
    machine.limits.disk_free_floor_bytes = disk.f_bavail * disk.f_frsize - ROOM;
    let output = machine.run_shell(&format!("({FILL}) & ({FILL})")).await;
    assert!(output.text.ends_with("[killed: the disk is full]"), "{}", output.text);
    assert!(
        workspace_used_bytes(&machine) < ROOM + OVERSHOOT_MAX,
        "{} MiB",
        workspace_used_bytes(&machine) >> 20
    );
    // No single file may use up the floor.
    let one = machine.run_shell("rm -f f*; truncate -s 1G large 2>/dev/null; stat -c %s large").await;
    assert!(!one.text.contains("1073741824"), "{}", one.text);
}

#[tokio::test]
async fn shell_fast_filled_workspace_stays_small() {
    const ROOM: u64 = 128 << 20;
    const OVERSHOOT_MAX: u64 = 384 << 20;
    let mut machine = TestMachine::new_below("/dev/shm".as_ref());
    machine.limits.workspace_bytes = ROOM;
    let output = machine.run_shell(FILL).await;
    assert!(output.text.contains("the workspace grew"), "{}", output.text);
    assert!(
        workspace_used_bytes(&machine) < ROOM + OVERSHOOT_MAX,
        "{} MiB",
        workspace_used_bytes(&machine) >> 20
    );
}

/// Commands can't reach the process that watches over them, nor the one that runs the tools.
#[tokio::test]
async fn the_watcher_is_out_of_reach() {
    let machine = TestMachine::new();
    let output =
        machine.run_shell("kill -9 $PPID && echo killed; kill -STOP $PPID && echo stopped; echo alive").await;
    assert!(
        output.text.ends_with("alive\n[exit status 0]") && !output.text.contains("killed\n"),
        "{}",
        output.text
    );
}

/// Kills the watcher of a command that writes its process id and its own into the file. Returns the latter.
async fn kill_watcher(machine: &TestMachine, file: &str) -> rustix::process::Pid {
    let pids = loop {
        match std::fs::read_to_string(machine.workspace_path(file)) {
            Ok(text) if text.ends_with('\n') => break text,
            _ => tokio::task::yield_now().await,
        }
    };
    let mut pids = pids.split_whitespace().map(|pid| pid.parse().expect("a number"));
    let mut next = || rustix::process::Pid::from_raw(pids.next().expect("two of them")).expect("not zero");
    let (watcher, shell) = (next(), next());
    rustix::process::kill_process(watcher, rustix::process::Signal::KILL).expect("it runs");
    shell
}

/// If the watcher dies anyway, the call ends, and the next sweep removes its leftovers.
#[tokio::test]
async fn a_lost_watcher_ends_the_call() {
    let machine = TestMachine::new();
    let began = Instant::now();
    let (output, shell) = tokio::join!(
        machine.run_shell("echo $PPID $$ > pids; setsid sleep 1000"),
        kill_watcher(&machine, "pids")
    );
    assert!(output.failed && output.text.contains("was lost"), "{}", output.text);
    assert!(began.elapsed() < ENDED_WITHIN);
    if machine.limits.tools_user.is_some() {
        assert!(is_gone(shell.as_raw_nonzero().get()));
    } else {
        // Without a separate user they cannot be distinguished from others.
        let _ = rustix::process::kill_process(shell, rustix::process::Signal::KILL);
    }
}

/// The sweep waits for other calls, and is not forgotten.
#[tokio::test]
async fn shell_lost_watcher_leftovers_removed() {
    let machine = TestMachine::new();
    let lost = async {
        let command = "echo $PPID $$ > pids; setsid sleep 1000";
        let (output, shell) = tokio::join!(machine.run_shell(command), kill_watcher(&machine, "pids"));
        assert!(output.failed && output.text.contains("was lost"), "{}", output.text);
        machine.put_file("over", "");
        shell
    };
    let (other, shell) = tokio::join!(machine.run_shell("until [ -e over ]; do sleep 0.01; done"), lost);
    assert_eq!(other.text, "[exit status 0]", "the sweep does not end it");
    if machine.limits.tools_user.is_some() {
        let began = Instant::now();
        while !is_gone(shell.as_raw_nonzero().get()) {
            assert!(began.elapsed() < ENDED_WITHIN, "it is left");
            tokio::task::yield_now().await;
        }
    } else {
        let _ = rustix::process::kill_process(shell, rustix::process::Signal::KILL);
    }
}

/// Returns true if the process has exited, reaped or not.
fn is_gone(pid: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}
