//! Tests that processes in a machine cannot escape.

use crate::site::{DriverKind, JailSite, as_agent, as_tools};

on_all_drivers!(
    nothing_of_the_host_is_there,
    processes_of_the_host_are_not_seen,
    the_system_cannot_be_written,
    forbidden_calls_are_refused,
    tools_are_another_user_than_the_agent,
    the_workspace_is_shared_with_the_service_and_the_index_is_the_agent_s,
    the_skills_files_can_be_read_and_run_and_nothing_else_be_done_with_them,
    greed_is_bounded,
);

async fn nothing_of_the_host_is_there(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    let top = as_tools(&link, "ls -A / | tr '\\n' ' '").await;
    let allowed =
        "agent bin dev etc index lib lib32 lib64 libx32 plugins proc run sbin tmp usr var workspace";
    for name in top.split_whitespace() {
        assert!(allowed.split(' ').any(|known| known == name), "{name} is in /");
    }
    for path in ["/etc/shadow", "/home", "/root", "/sys", "/opt", "/srv", "/var/lib", "/run/systemd", "/mnt"]
    {
        let seen = as_tools(&link, &format!("ls -d {path}")).await;
        assert!(seen.contains("No such file"), "{path}: {seen}");
    }
    let folder = site.folder.path().display();
    assert!(as_agent(&link, &format!("ls {folder}")).await.contains("No such file"));
    let mounts = as_tools(&link, "cut -d' ' -f5 /proc/self/mountinfo").await;
    assert!(mounts.lines().all(|at| !at.starts_with("/home") && !at.starts_with("/sys")), "{mounts}");
    assert!(as_tools(&link, "cat /etc/passwd").await.contains("user:x:1000"));
    assert_eq!(as_tools(&link, "hostname").await, "machine");
}

async fn processes_of_the_host_are_not_seen(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (machine, link) = site.start_machine().await;
    let seen = as_tools(&link, "ls /proc | grep -c '^[0-9]'").await;
    // A kernel has its threads.
    let expected = if kind == DriverKind::Sandbox { 8 } else { 64 };
    assert!(seen.parse::<u32>().unwrap() <= expected, "{seen} processes");
    let host = format!("ls -d /proc/{}", std::process::id());
    assert!(as_tools(&link, &host).await.contains("No such file"));
    let inside = as_tools(&link, "sleep 60 >/dev/null 2>&1 & echo started").await;
    assert_eq!(inside, "started");
    if kind == DriverKind::Sandbox {
        assert_eq!(machine.list_processes().unwrap().len(), 3, "the first one, the agent, the sleeper");
    }
}

async fn the_system_cannot_be_written(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    for target in
        ["/x", "/usr/x", "/usr/bin/x", "/etc/x", "/dev/x", "/agent", "/proc/sys/kernel/core_pattern"]
    {
        for outcome in [
            as_tools(&link, &format!("echo x > {target} && echo written")).await,
            as_agent(&link, &format!("echo x > {target} && echo written")).await,
        ] {
            assert!(!outcome.contains("written") && !outcome.is_empty(), "{target}: {outcome}");
        }
    }
    assert_eq!(as_tools(&link, "echo x > /dev/null && echo written").await, "written");
    assert_eq!(as_tools(&link, "echo x > /tmp/x && cat /tmp/x").await, "x");
}

async fn forbidden_calls_are_refused(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    let attempts = [
        "mount",
        "umount",
        "unshare",
        "clone",
        "clone3",
        "setns",
        "bpf",
        "keyctl",
        "io_uring",
        "userfaultfd",
        "perf",
        "open_by_handle",
        "chroot",
        "x32",
        "raw_socket",
        "connect",
        "socket 16",
        "socket 38",
        "socket 40",
        "ptrace 1",
        "ptrace 2",
        "vm_readv 2",
        "aio",
        "shm",
        "sem",
        "msg",
        "mq",
        "statmount",
        "listmount",
        "open_tree_attr",
        "file_setattr",
        "flags",
    ];
    for attempt in attempts {
        for (user, outcome) in [
            ("tools", as_tools(&link, &format!("/agent attempt {attempt}")).await),
            ("agent", as_agent(&link, &format!("/agent attempt {attempt}")).await),
        ] {
            assert!(outcome.starts_with("refused"), "{attempt} as {user}: {outcome}");
        }
    }
    assert!(as_tools(&link, "cat /proc/net/dev | grep -vc -e lo: -e '|'").await.starts_with('0'));
}

async fn tools_are_another_user_than_the_agent(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "id -u; id -g; id -G").await, "1000\n1000\n1000");
    assert_eq!(as_agent(&link, "id -u; id -G").await, "0\n0");
    for attempt in ["setuid", "kill 1", "kill 2", "ptrace 2"] {
        let outcome = as_tools(&link, &format!("/agent attempt {attempt}")).await;
        assert!(outcome.starts_with("refused"), "{attempt}: {outcome}");
    }
    // The agent's socket has no path inside, and its descriptor cannot be obtained.
    let agent = as_agent(&link, "echo $PPID").await;
    for path in
        [format!("/proc/{agent}/fd/3"), format!("/proc/{agent}/mem"), "/proc/1/fd".into(), "/index".into()]
    {
        let seen = as_tools(&link, &format!("ls {path}/ 2>&1; cat {path} 2>&1")).await;
        assert!(seen.contains("Permission denied"), "{path}: {seen}");
    }
    // Reading the host's programs takes minutes on an emulated processor.
    let programs = if kind == DriverKind::Qemu { "-path /usr -prune -o" } else { "" };
    let sockets = format!("find / -xdev {programs} -type s -print 2>/dev/null");
    assert!(as_tools(&link, &sockets).await.is_empty());
    // The agent has only its capabilities, and tools have none.
    assert_eq!(
        as_tools(&link, "grep -E 'CapEff|CapPrm|CapAmb|NoNewPrivs' /proc/self/status | cut -f2 | sort -u")
            .await,
        "0000000000000000\n1"
    );
    let capabilities = as_agent(&link, "grep CapEff /proc/self/status | cut -f2").await;
    assert_eq!(
        capabilities,
        if kind == DriverKind::Sandbox { "00000000000000e0" } else { "00000000000000ea" }
    );
    assert_eq!(as_agent(&link, "grep Seccomp: /proc/self/status | cut -f2").await, "2");
}

async fn the_workspace_is_shared_with_the_service_and_the_index_is_the_agent_s(kind: DriverKind) {
    use std::os::unix::fs::MetadataExt;
    let site = JailSite::new(kind);
    let workspace = site.folder.path().join("workspace");
    std::fs::write(workspace.join("question.txt"), "host").unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(
        as_tools(&link, "cat question.txt; echo tool > answer.txt; echo more >> question.txt").await,
        "host"
    );
    assert_eq!(std::fs::read_to_string(workspace.join("answer.txt")).unwrap(), "tool\n");
    assert_eq!(std::fs::read_to_string(workspace.join("question.txt")).unwrap(), "hostmore\n");
    let owner = std::fs::metadata(workspace.join("answer.txt")).unwrap().uid();
    assert_eq!(owner, std::fs::metadata(&workspace).unwrap().uid(), "what tools write is the service's");
    std::fs::create_dir(workspace.join("uploads")).unwrap();
    assert_eq!(as_tools(&link, "echo x > uploads/x && cat uploads/x").await, "x");
    // A set-id program would have its owner's permissions on the host.
    let outcome = as_tools(&link, "cp /bin/sh s && chmod u+s s; chmod g+s s; stat -c %a s").await;
    assert!(outcome.contains("755") && outcome.contains("not permitted"), "{outcome}");
    assert_eq!(as_agent(&link, "echo x > /index/x && cat /index/x").await, "x");
}

async fn the_skills_files_can_be_read_and_run_and_nothing_else_be_done_with_them(kind: DriverKind) {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let site = JailSite::new(kind);
    let plugins = site.folder.path().join("plugins");
    let scripts = plugins.join(".content/1/skills/s/scripts");
    std::fs::create_dir_all(&scripts).unwrap();
    std::fs::write(scripts.join("run.sh"), "#!/bin/sh\necho it ran\n").unwrap();
    std::fs::set_permissions(scripts.join("run.sh"), PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(site.folder.path().join("beside.txt"), "a secret").unwrap();
    symlink(".content/1", plugins.join("p")).unwrap();
    symlink("../beside.txt", plugins.join("relative")).unwrap();
    symlink(site.folder.path().join("beside.txt"), plugins.join("absolute")).unwrap();
    let (_machine, link) = site.start_machine().await;
    assert_eq!(as_tools(&link, "/plugins/p/skills/s/scripts/run.sh").await, "it ran");
    for user in ["tools", "agent"] {
        let run = async |command: &str| match user {
            "tools" => as_tools(&link, command).await,
            _ => as_agent(&link, command).await,
        };
        for attempt in [
            "echo x > /plugins/x",
            "echo x >> /plugins/p/skills/s/scripts/run.sh",
            "rm -r /plugins/p/skills",
            "rm /plugins/p",
            "mkdir /plugins/d",
            "chmod 777 /plugins/p/skills/s/scripts/run.sh",
            "ln -sfn /etc /plugins/p",
            "mv /plugins/p /plugins/q",
            "touch -d 2000-01-01 /plugins/p/skills/s/scripts/run.sh",
            "cat /plugins/relative",
            "cat /plugins/absolute",
            "ls /plugins/../beside.txt",
        ] {
            let outcome = run(&format!("{attempt} && echo done")).await;
            assert!(!outcome.contains("done") && !outcome.contains("secret"), "{user}: {attempt}: {outcome}");
        }
    }
    assert_eq!(std::fs::read_to_string(scripts.join("run.sh")).unwrap(), "#!/bin/sh\necho it ran\n");
    // Changes by the service are visible at once.
    std::fs::create_dir_all(plugins.join(".content/2/skills/s")).unwrap();
    std::fs::write(plugins.join(".content/2/skills/s/new.txt"), "new").unwrap();
    symlink(".content/2", plugins.join(".link")).unwrap();
    std::fs::rename(plugins.join(".link"), plugins.join("p")).unwrap();
    assert_eq!(as_tools(&link, "cat /plugins/p/skills/s/new.txt").await, "new");
}

async fn greed_is_bounded(kind: DriverKind) {
    let site = JailSite::new(kind);
    let (_machine, link) = site.start_machine().await;
    if kind != DriverKind::Sandbox {
        // Before a tool, the kernel would otherwise kill the agent, and with it the machine.
        assert_eq!(as_agent(&link, "cat /proc/$PPID/oom_score_adj").await, "-1000");
        // Its memory is apart from the tools', which must not use up the kernel's.
        assert_eq!(as_tools(&link, "cat /proc/self/cgroup").await, "0::/tools");
        assert_eq!(as_agent(&link, "cat /proc/self/cgroup").await, "0::/");
    }
    let bomb = "(for i in $(seq 80); do sleep 600 & done; echo all) >/tmp/bomb 2>&1; kill -9 -1; \
                while read -r line; do echo \"$line\"; done </tmp/bomb";
    let outcome = as_tools(&link, bomb).await;
    assert!(
        outcome.contains("Cannot fork") && !outcome.contains("all"),
        "80 processes were started: {outcome}"
    );
    let hog = "head -c 400m /dev/zero | tail -c 399m | wc -c";
    assert_ne!(as_tools(&link, hog).await, (399 << 20).to_string(), "400 MiB were held");
    let full = as_tools(&link, "head -c 40m /dev/zero > /tmp/full; stat -c %s /tmp/full").await;
    assert!(full.contains("No space left"), "{full}");
    let large = as_tools(&link, "head -c 100m /dev/zero > large; stat -c %s large").await;
    assert!(large.contains(&(64 << 20).to_string()), "{large}");
    assert!(as_tools(&link, "ulimit -c").await.starts_with('0'));
    assert_eq!(as_tools(&link, "echo still here").await, "still here");
}
