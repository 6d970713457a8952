//! Attacks by command lines on the machine that runs them.

use std::os::unix::fs::{FileTypeExt, MetadataExt};

use e2e::Expect;
use e2e::api::UploadPart;
use serde_json::json;

use crate::stage::HostileFixture;

/// Numbers of system calls, which differ between processors.
struct SystemCallNumbers {
    ptrace: u32,
    process_vm_readv: u32,
    unshare: u32,
    mount: u32,
    bpf: u32,
}

#[cfg(target_arch = "x86_64")]
const CALLS: SystemCallNumbers =
    SystemCallNumbers { ptrace: 101, process_vm_readv: 310, unshare: 272, mount: 165, bpf: 321 };
#[cfg(target_arch = "aarch64")]
const CALLS: SystemCallNumbers =
    SystemCallNumbers { ptrace: 117, process_vm_readv: 270, unshare: 97, mount: 40, bpf: 280 };

#[test]
fn agent_cannot_be_killed_or_traced() {
    let stage = HostileFixture::start_fixture();
    stage.run_commands(&["true"]);
    let before = stage.jail_processes();
    let attach = format!(
        "perl -e 'for $pid (1..40) {{ next if $pid == $$ || !-e \"/proc/$pid\"; \
         print \"ATTACHED $pid\\n\" if syscall({}, 16, $pid, 0, 0) == 0 }}'",
        CALLS.ptrace
    );
    let read = format!(
        "perl -e '$b = \"x\" x 64; $v = pack(\"PQ\", $b, 64); $r = pack(\"QQ\", 0x400000, 64); \
         for $pid (1..40) {{ print \"LOOKED $pid\\n\" if syscall({}, $pid, $v, 1, $r, 1, 0) > 0 }}'",
        CALLS.process_vm_readv
    );
    let results = stage.run_commands(&[
        "kill -9 1; kill -9 2; kill -9 3; kill -STOP 1 2 3; kill -TERM 1 2 3; true",
        "kill -9 -1",
        "kill -9 0",
        "for p in /proc/[0-9]*; do kill -9 ${p#/proc/}; done",
        &attach,
        &read,
        "for p in 1 2 3; do cat /proc/$p/environ /proc/$p/maps /proc/$p/mem /proc/$p/auxv; ls -l /proc/$p/fd /proc/$p/root /proc/$p/cwd; done 2>&1",
        "for p in 1 2 3; do echo x > /proc/$p/mem; echo 1000 > /proc/$p/oom_score_adj; echo x > /proc/$p/comm; done 2>&1; true",
        "cat /agent > /dev/null; echo x > /agent; rm -f /agent; ls -la / 2>&1",
        "id; cat /proc/self/status | grep -E 'Cap|Seccomp|NoNewPrivs'",
    ]);
    stage.assert_no_secret(&results);
    let all = results.join("\n");
    assert!(!all.contains("ATTACHED") && !all.contains("LOOKED"), "{all}");
    assert!(!all.contains("CAUSERIE_LISTEN_FD"), "the agent's environment is its own: {all}");
    assert!(!all.contains("uid=0") && all.contains("NoNewPrivs:\t1"), "{all}");
    assert!(all.contains("CapEff:\t0000000000000000") && all.contains("CapPrm:\t0000000000000000"), "{all}");
    assert_eq!(stage.jail_processes(), before, "the same agent lives on");
    stage.assert_unharmed();
}

#[test]
fn index_and_system_are_unreachable() {
    let stage = HostileFixture::start_fixture();
    stage.api.upload_file("a.txt", b"The word is crane.").expect_status(201);
    let syscalls = format!(
        "perl -e '$! = 0; print \"UNSHARED\\n\" if syscall({}, 0x10000000) == 0; \
         print \"MOUNTED\\n\" if syscall({}, \"none\", \"/tmp\", \"tmpfs\", 0, 0) == 0; \
         print \"BPF\\n\" if syscall({}, 0, 0, 0) >= 0; print \"RING\\n\" if syscall(425, 8, \"\\0\" x 256) >= 0'",
        CALLS.unshare, CALLS.mount, CALLS.bpf
    );
    let results = stage.run_commands(&[
        "ls -la /index 2>&1; echo x > /index/x; rm -rf /index; chmod 777 /index; mv /index /tmp/; true",
        "touch /x /etc/x /usr/x /bin/x /dev/x /proc/sys/kernel/x; echo 1 > /proc/sys/kernel/core_pattern; ls /x /etc/x /usr/x 2>&1; true",
        "echo c > /proc/sysrq-trigger; echo 0 > /proc/sys/vm/drop_caches; cat /proc/kcore /proc/kmsg /proc/kallsyms 2>&1 | head -c 200; true",
        &syscalls,
        "cp /bin/sh /workspace/sh; chmod 6755 /workspace/sh; mknod /workspace/null c 1 3; mknod /workspace/disk b 8 0; ls -la /workspace 2>&1",
        "ls /sys /home /root /mnt /srv /opt /boot /var/lib /run 2>&1; true",
        "find / -xdev -type s 2>/dev/null; find / -xdev -perm -4000 -newer /workspace 2>/dev/null; true",
    ]);
    stage.assert_no_secret(&results);
    let all = results.join("\n");
    for done in ["UNSHARED", "MOUNTED", "BPF", "RING"] {
        assert!(!all.contains(done), "{done}: {all}");
    }
    for entry in std::fs::read_dir(stage.workspace_folder()).expect("the workspace") {
        let metadata = entry.expect("an entry").metadata().expect("metadata");
        assert_eq!(metadata.mode() & 0o6000, 0, "a file that runs as another user");
        assert!(!metadata.file_type().is_char_device() && !metadata.file_type().is_block_device());
    }
    let found = stage.call_tools(&[("search", json!({ "query": "crane" }))]);
    assert!(found[0].contains("The word is crane."), "the index is whole: {found:?}");
    for outside in ["/x", "/etc/x", "/usr/x", "/bin/x", "/dev/x"] {
        assert!(!std::path::Path::new(outside).exists(), "{outside} was written");
    }
    stage.assert_unharmed();
}

#[test]
fn no_socket_leads_out() {
    let stage = HostileFixture::start_fixture();
    let unix = |address: &str| {
        format!(
            "perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die \"none: $!\"; \
             print connect(S, pack_sockaddr_un({address})) ? \"CONNECTED\" : \"refused: $!\"' 2>&1"
        )
    };
    let admin = stage.service.data_folder().join("admin.sock");
    let agent = stage.service.data_folder().join("machines").join(&stage.other.id).join("agent.sock");
    let mut commands = vec![unix(&format!("\"\\0{}\"", stage.trap.abstract_name()))];
    commands.extend(
        [stage.trap.socket_path(), &admin, &agent].map(|path| unix(&format!("\"{}\"", path.display()))),
    );
    for path in
        ["/run/docker.sock", "/run/dbus/system_bus_socket", "/run/systemd/private", "/tmp/.X11-unix/X0"]
    {
        commands.push(unix(&format!("\"{path}\"")));
    }
    // Netlink, packet, vsock, Bluetooth, and the agent's listener by its number.
    commands.push(
        "perl -e 'for $family (17, 31, 40, 38) { print \"OPENED $family\\n\" if socket(S, $family, 3, 0) || socket(S, $family, 1, 0) }'"
            .to_owned(),
    );
    commands.push(
        "perl -e 'for $fd (3..64) { open(F, \"+<&=\", $fd) or next; print \"INHERITED $fd \", readlink(\"/proc/self/fd/$fd\"), \"\\n\" if -S F }'"
            .to_owned(),
    );
    commands.push(format!(
        "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0); print connect(S, pack_sockaddr_in({}, inet_aton(\"127.0.0.1\"))) \
         ? \"CONNECTED\" : \"refused: $!\"' 2>&1",
        stage.trap.tcp_port()
    ));
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let results = stage.run_commands(&commands);
    for (command, text) in commands.iter().zip(&results) {
        for done in ["CONNECTED", "OPENED", "INHERITED"] {
            assert!(!text.contains(done), "{command}: {text}");
        }
    }
    assert!(results[0].contains("refused"), "the attempt was made: {results:?}");
    stage.assert_unharmed();
}

#[test]
fn outward_links_give_nothing_to_anyone() {
    let stage = HostileFixture::start_fixture();
    let canary = stage.service.data_folder().join("canary.txt");
    let theirs = stage.service.data_folder().join("workspaces").join(&stage.other.id);
    let make = format!(
        "cd /workspace && ln -s {} canary && ln -s {} theirs && ln -s /proc/1/root host && ln -s /proc/self/cwd here \
         && ln -s ../../../../../../etc/passwd up && ln -s / root && ln -s /etc/passwd passwd; ls -la",
        canary.display(),
        theirs.display()
    );
    let paths = [
        "/canary",
        "/theirs/uploads/secret.txt",
        "/host/etc/passwd",
        "/here/canary",
        "/up",
        "/root/etc/passwd",
        "/passwd",
    ];
    let mut calls = vec![("shell", json!({ "command": make }))];
    for path in paths {
        calls.push(("read", json!({ "path": path })));
        calls.push(("view", json!({ "path": path })));
        calls.push(("edit", json!({ "path": path, "old": "a", "new": "b", "all": true })));
        calls.push(("write", json!({ "path": path, "content": "owned" })));
    }
    calls.push(("search", json!({ "query": "heron midnight canary root" })));
    calls.push(("find", json!({ "content": "root:" })));
    calls.push(("list", json!({ "path": "/theirs" })));
    // Writing replaces the links, so the calls that read them come first.
    let (writes, reads): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(tool, _)| *tool == "write");
    let results = stage.call_tools(&reads);
    stage.assert_no_secret(&results);
    assert!(results.iter().all(|text| !text.contains("root:x:0:0")), "{results:?}");
    for path in paths {
        stage.api.download_file(path).expect_refusal(403);
    }
    stage.api.list_directory("/theirs").expect_refusal(403);
    stage.api.create_folder("/root/hostile").expect_refusal(403);
    let into =
        [UploadPart::from_field("destination", "/theirs"), UploadPart::from_file("owned.txt", b"owned")];
    stage.api.upload_form(&into).expect_refusal(403);
    let results = stage.call_tools(&writes);
    stage.assert_no_secret(&results);
    stage.assert_unharmed();
}

#[test]
fn racing_link_leads_nowhere() {
    let stage = HostileFixture::start_fixture();
    let outside = format!("/hostile-{}", std::process::id());
    let flip = "cd /workspace && mkdir -p in/etc && echo inside > in/etc/passwd && \
        perl -e '$end = time + 4; while (time < $end) { symlink(\"/\", \"t\"); rename(\"t\", \"flip\"); \
        unlink(\"flip\"); rename(\"in\", \"flip\"); rename(\"flip\", \"in\") }'";
    let answer = stage.api.expect_accepted(&json!({ "model": "standin", "input": format!("STANDIN {}", json!({"steps": [
        {"actions": [{"call": {"tool": "shell", "arguments": {"command": flip}}}]}, {"actions": [{"say": "Done."}]}
    ]})) }));
    let mut seen = [0_u32; 2];
    while stage.api.get_answer(&answer)["status"] == "in_progress" {
        let response = stage.api.download_file("/flip/etc/passwd");
        match response.status {
            200 => assert_eq!(response.text(), "inside\n"),
            status => assert!([403, 404].contains(&status), "{status}: {}", response.text()),
        }
        seen[usize::from(response.status == 200)] += 1;
        let into =
            [UploadPart::from_field("destination", "/flip"), UploadPart::from_file(&outside[1..], b"owned")];
        let response = stage.api.upload_form(&into);
        assert!([201, 400, 403, 404].contains(&response.status), "{}", response.text());
        let response = stage.api.create_folder(&format!("/flip{outside}.folder"));
        assert!([201, 400, 403, 404, 409].contains(&response.status), "{}", response.text());
    }
    assert!(seen[0] > 0, "the link was met: {seen:?}");
    assert!(!std::path::Path::new(&outside).exists(), "an upload went out");
    assert!(!std::path::Path::new(&format!("{outside}.folder")).exists(), "a folder was made outside");
    stage.assert_unharmed();
}
