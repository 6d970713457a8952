//! Attacks by root in a machine's own kernel, before the machine is set up: process 1 with all capabilities.
//!
//! A file in the workspace chooses: with `guest-root/attempts` each attempt is made, its outcome written to
//! `guest-root/report`, and the machine set up as usual; the other attacks wait until the machine runs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::time::Duration;

use protocol::link;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};

/// A private folder, and in it the jail as the kernel's process sees it, and the workspace, both as writable as possible.
const OWN: &str = "/tmp";
const JAIL: &str = "/tmp/jail";
const WORKSPACE: &str = "/tmp/workspace";
/// The addresses at which a microvm has its devices.
const DEVICE_REGISTERS: std::ops::Range<i64> = 0xfeb0_0000..0xfef0_0000;
/// The frames that are sent to the host, of all kinds.
const FRAMES: u16 = 20_000;

/// The kind of machine that is attacked from inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuestKind {
    UserModeLinux,
    Qemu,
}

/// Makes the attack that the workspace requests, if any.
pub(crate) fn run_chosen_attack(kind: GuestKind) {
    own_folder(kind).unwrap();
    let chosen = |name: &str| Path::new(WORKSPACE).join("guest-root").join(name).exists();
    if chosen("attempts") {
        run_attempts(kind).unwrap();
    } else if chosen("crash") {
        when_told(crash_kernel);
    } else if chosen("memory") {
        when_told(overwrite_memory);
    } else if chosen("processes") {
        when_told(fork_until_refused);
    } else if chosen("hardware") {
        when_told(write_to_devices);
    }
    // The machine mounts the workspace itself, which QEMU shares once.
    unmount(WORKSPACE, UnmountFlags::empty()).unwrap();
    unmount(OWN, UnmountFlags::DETACH).unwrap();
}

/// Makes the attack in another process once the workspace has the file `guest-root/go`, while the machine runs.
fn when_told(attack: fn()) {
    // SAFETY: there is one thread.
    if unsafe { libc::fork() } == 0 {
        while !Path::new("/workspace/guest-root/go").exists() {
            std::thread::sleep(Duration::from_millis(10));
        }
        // With a separate mount namespace. SAFETY: the flag names no descriptors.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.unwrap();
        mount("none", OWN, "tmpfs", MountFlags::empty(), None).unwrap();
        attack();
        std::process::exit(0);
    }
}

/// Mounts a folder of the host, as far as the kernel's process sees it.
fn host_folder(path: &str, at: &str) -> io::Result<()> {
    fs::create_dir_all(at)?;
    let options = std::ffi::CString::new(path)?;
    Ok(mount("none", at, "hostfs", MountFlags::empty(), Some(options.as_c_str()))?)
}

/// Mounts a folder that QEMU shares.
fn shared_folder(tag: &str, at: &str, options: &str) -> io::Result<()> {
    fs::create_dir_all(at)?;
    let options = format!("trans=virtio,version=9p2000.L,access=any,cache=none{options}");
    let options = std::ffi::CString::new(options)?;
    Ok(mount(tag, at, "9p", MountFlags::empty(), Some(options.as_c_str()))?)
}

fn own_folder(kind: GuestKind) -> io::Result<()> {
    mount("none", OWN, "tmpfs", MountFlags::empty(), None)?;
    match kind {
        GuestKind::UserModeLinux => {
            host_folder("/", JAIL)?;
            host_folder("/workspace", WORKSPACE)
        }
        GuestKind::Qemu => {
            // QEMU shares it once, and it is mounted already.
            fs::create_dir(JAIL)?;
            mount_bind("/", JAIL)?;
            let _ = mount_remount(JAIL, MountFlags::BIND, "");
            let _ = mount_remount("/", MountFlags::empty(), "");
            shared_folder(link::WORKSPACE_TAG, WORKSPACE, "")
        }
    }
}

/// Mounts the workspace with a path above it, and reads there.
fn read_above_workspace(at: &str, above: &str, read: impl Fn() -> io::Result<String>) -> io::Result<String> {
    unmount(WORKSPACE, UnmountFlags::empty())?;
    shared_folder(link::WORKSPACE_TAG, at, &format!(",aname={above}"))?;
    let outcome = read();
    unmount(at, UnmountFlags::empty())?;
    shared_folder(link::WORKSPACE_TAG, WORKSPACE, "")?;
    outcome
}

fn run_attempts(kind: GuestKind) -> io::Result<()> {
    let mut report = String::new();
    let mut note = |what: &str, outcome: io::Result<String>| {
        let outcome = outcome.map_or_else(|error| format!("refused: {error}"), |got| format!("got {got}"));
        report.push_str(&format!("{what}: {outcome}\n"));
    };
    for path in [
        "etc/shadow",
        "home",
        "root",
        "sys",
        "opt",
        "var/lib",
        "run/systemd",
        "dev/mem",
        "dev/kmsg",
        "dev/vda",
        "proc/1/mem",
        "proc/1/environ",
        "proc/1/root",
        "proc/1/fd",
        "proc/2/mem",
        "proc/2/root",
        "proc/kcore",
        "proc/sysrq-trigger",
        "proc/self/root/../../etc/shadow",
    ] {
        note(&format!("read {path}"), try_read_path(&Path::new(JAIL).join(path)));
    }
    for path in [
        "new",
        "usr/new",
        "etc/new",
        "plugins/new",
        "dev/new",
        "index/../new",
        "proc/sys/kernel/core_pattern",
        "proc/1/oom_score_adj",
    ] {
        note(&format!("write {path}"), fs::write(Path::new(JAIL).join(path), "x").map(|()| "a file".into()));
    }
    for path in ["agent", "run/kernel", "usr/bin/env", "plugins/skill.txt"] {
        let opened = OpenOptions::new().append(true).open(Path::new(JAIL).join(path));
        note(&format!("append to {path}"), opened.map(|_| "a descriptor".into()));
    }
    for (number, above) in ["/workspace/..", "/workspace/../../../..", "/plugins/../.."].iter().enumerate() {
        let at = format!("{OWN}/above{number}");
        let read = || try_read_path(&Path::new(&at).join("etc/shadow"));
        let outcome = match kind {
            GuestKind::UserModeLinux => host_folder(above, &at).and_then(|()| read()),
            GuestKind::Qemu => read_above_workspace(&at, above, read),
        };
        note(above, outcome);
    }
    if kind == GuestKind::Qemu {
        on_qemu(&mut note)?;
    }
    let workspace = Path::new(WORKSPACE);
    note("follow a link", read_through_symlink(workspace));
    for (name, mode) in [("set-user", 0o4755), ("set-group", 0o2775)] {
        let path = workspace.join(name);
        note(name, File::create(&path).and_then(|_| set_mode(&path, mode)));
    }
    note(
        "give a file away",
        File::create(workspace.join("given")).and_then(|_| chown_to_root(&workspace.join("given"))),
    );
    for (name, kind, major, minor) in [
        ("host-memory", FileType::CharacterDevice, 1, 1),
        ("host-disk", FileType::BlockDevice, 254, 0),
        ("host-fuse", FileType::CharacterDevice, 10, 229),
    ] {
        let made =
            mknodat(CWD, workspace.join(name), kind, Mode::from_raw_mode(0o666), makedev(major, minor));
        note(&format!("make {name}"), made.map_err(io::Error::from).map(|()| "a device".into()));
    }
    // Devices of User Mode Linux that give access to the host: disks, a watchdog, sound.
    for (name, kind, major, minor) in [
        ("disk", FileType::BlockDevice, 98, 0),
        ("watchdog", FileType::CharacterDevice, 10, 130),
        ("sound", FileType::CharacterDevice, 14, 3),
        ("mixer", FileType::CharacterDevice, 14, 0),
    ] {
        note(&format!("open {name}"), create_device(name, kind, major, minor));
    }
    for address in
        ["1.1.1.1:53", "10.0.0.1:443", "169.254.169.254:80", "169.254.77.1:22", "169.254.77.1:5000"]
    {
        note(&format!("connect to {address}"), connect_over_link(address));
    }
    note("hear from the host", receive_datagram());
    fs::write(workspace.join("guest-root/report"), report)?;
    match kind {
        GuestKind::UserModeLinux => flood_link(),
        GuestKind::Qemu => flood_port(),
    }
}

/// Reads what belongs to QEMU's own process, and writes to the plugins that it shares.
fn on_qemu(note: &mut impl FnMut(&str, io::Result<String>)) -> io::Result<()> {
    for path in ["proc/self/maps", "proc/self/mem", "proc/self/environ", "dev/kvm"] {
        note(&format!("read {path}"), try_read_path(&Path::new(JAIL).join(path)));
    }
    for path in ["new", "skill.txt"] {
        let at = format!("{OWN}/skills");
        let written = shared_folder(link::PLUGINS_TAG, &at, "")
            .and_then(|()| fs::write(Path::new(&at).join(path), "x"));
        note(&format!("write plugins/{path}"), written.map(|()| "a file".into()));
        unmount(at, UnmountFlags::empty())?;
    }
    Ok(())
}

/// Reads a byte or a name.
fn try_read_path(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.is_dir() {
        let first = fs::read_dir(path)?.next().ok_or(io::ErrorKind::NotFound)??;
        return Ok(format!("{:?}", first.file_name()));
    }
    let mut byte = [0];
    File::open(path)?.read_exact(&mut byte)?;
    Ok("a byte".into())
}

fn read_through_symlink(workspace: &Path) -> io::Result<String> {
    let link = workspace.join("link");
    symlink("/etc/shadow", &link)?;
    try_read_path(&link)
}

fn set_mode(path: &Path, mode: u32) -> io::Result<String> {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    Ok(format!("{mode:o}"))
}

fn chown_to_root(path: &Path) -> io::Result<String> {
    chown(path, Some(0), Some(0))?;
    Ok("a file of another user".into())
}

fn create_device(name: &str, kind: FileType, major: u32, minor: u32) -> io::Result<String> {
    let path = Path::new(OWN).join(name);
    mknodat(CWD, &path, kind, Mode::from_raw_mode(0o666), makedev(major, minor))?;
    OpenOptions::new().read(true).write(true).open(&path)?;
    Ok("the device".into())
}

/// Opens a connection over the link, where only the host answers.
fn connect_over_link(address: &str) -> io::Result<String> {
    const PATIENCE: Duration = Duration::from_millis(100);
    TcpStream::connect_timeout(&address.parse::<SocketAddr>().map_err(io::Error::other)?, PATIENCE)?;
    Ok("a connection".into())
}

/// Waits for a datagram after asking the host for one.
fn receive_datagram() -> io::Result<String> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_read_timeout(Some(Duration::from_millis(100)))?;
    socket.send_to(b"who is there", (link::HOST, 53))?;
    let read = socket.recv(&mut [0; 64])?;
    Ok(format!("{read} bytes"))
}

/// Sends frames of all kinds and lengths with forged addresses.
fn flood_link() -> io::Result<()> {
    const LONGEST: usize = 9000;
    // SAFETY: a call without pointers; the descriptor that comes back is fresh.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW, i32::from(3_u16.to_be()));
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        OwnedFd::from_raw_fd(fd)
    };
    let name = std::ffi::CString::new(link::INTERFACE)?;
    // SAFETY: the name is a C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    let mut frame = vec![0_u8; LONGEST];
    for number in 0..FRAMES {
        let kinds: [[u8; 2]; 4] = [[8, 0], [8, 6], [0x86, 0xdd], number.to_be_bytes()];
        frame[..6].copy_from_slice(if number % 3 == 0 { &[0xff; 6] } else { &link::HOST_MAC });
        frame[12..14].copy_from_slice(&kinds[usize::from(number % 4)]);
        // The beginning of an IPv4 packet with a TCP segment, from a forged address.
        frame[14..36].copy_from_slice(&[
            0x45, 0, 0x1f, 0x40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 169, 254, 77, 1, 0x13, 0x88,
        ]);
        let long = 14 + usize::from(number) * 31 % (LONGEST - 14);
        // SAFETY: all-zero is a valid address, whose fields are then set.
        let mut to: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        (to.sll_family, to.sll_ifindex) = (libc::AF_PACKET as u16, index.cast_signed());
        // SAFETY: frame and address live through the call.
        unsafe {
            libc::sendto(
                socket.as_raw_fd(),
                frame.as_ptr().cast(),
                long,
                libc::MSG_DONTWAIT,
                (&raw const to).cast(),
                u32::try_from(size_of_val(&to)).unwrap_or(0),
            );
        }
    }
    Ok(())
}

/// Sends frames of all lengths over the serial port, which this process inherited, with forged addresses.
fn flood_port() -> io::Result<()> {
    // SAFETY: the port has this number, and is not closed here.
    let mut port = std::mem::ManuallyDrop::new(unsafe { File::from_raw_fd(3) });
    for number in 0..FRAMES {
        let length = usize::from(number) * 31 % link::MTU;
        let mut packet = vec![u8::try_from(number % 251).unwrap(); length];
        let forged = [0x45, 0, 0x1f, 0x40, 0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 169, 254, 77, 1, 0x13, 0x88];
        if number % 2 == 0
            && let Some(begin) = packet.get_mut(..forged.len())
        {
            begin.copy_from_slice(&forged);
        }
        port.write_all(&link::encode_frame(&packet))?;
    }
    Ok(())
}

/// Writes garbage to all ports of the machine's processor, and to the registers of its devices.
fn write_to_devices() {
    let path = Path::new(OWN).join("mem");
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 1)).unwrap();
    let port = Path::new(OWN).join("port");
    mknodat(CWD, &port, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 4)).unwrap();
    let memory = OpenOptions::new().read(true).write(true).open(path).unwrap();
    for value in [0_u32, 1, 0xffff_ffff, 0x5a5a_5a5a, 64] {
        for at in DEVICE_REGISTERS.step_by(4096) {
            // SAFETY: maps a page of registers for this process alone.
            let page = unsafe {
                let shared = libc::PROT_READ | libc::PROT_WRITE;
                libc::mmap(std::ptr::null_mut(), 4096, shared, libc::MAP_SHARED, memory.as_raw_fd(), at)
            };
            if page == libc::MAP_FAILED {
                continue;
            }
            for word in 0..1024 {
                // SAFETY: the page is mapped, and has so many words.
                unsafe { page.cast::<u32>().add(word).write_volatile(value) };
            }
        }
        // The last of them may end the machine.
        if let Ok(mut ports) = OpenOptions::new().write(true).open(&port) {
            for at in 0..0x1_0000_u64 {
                let _ =
                    ports.seek(SeekFrom::Start(at)).and_then(|_| ports.write_all(&value.to_le_bytes()[..1]));
            }
        }
    }
}

/// Makes the kernel panic: by the command for it, or if the kernel lacks it, by the end of process 1.
fn crash_kernel() {
    let proc = Path::new(OWN).join("proc");
    fs::create_dir(&proc).unwrap();
    mount("none", &proc, "proc", MountFlags::empty(), None).unwrap();
    let command = proc.join("sysrq-trigger");
    if command.exists() {
        fs::write(command, "c").unwrap();
    } else {
        overwrite_stack(&proc.join("1"));
    }
}

/// Overwrites the stack of a process, which then fails as soon as it continues: when this process ends, its child.
fn overwrite_stack(process: &Path) {
    let maps = fs::read_to_string(process.join("maps")).unwrap();
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).unwrap();
    let (begin, rest) = stack.split_once('-').unwrap();
    let [begin, end] =
        [begin, rest.split(' ').next().unwrap()].map(|address| u64::from_str_radix(address, 16).unwrap());
    let mut memory = OpenOptions::new().write(true).open(process.join("mem")).unwrap();
    memory.seek(SeekFrom::Start(begin)).unwrap();
    memory.write_all(&vec![0xa5; usize::try_from(end - begin).unwrap()]).unwrap();
}

/// Overwrites the kernel's memory until nothing runs.
fn overwrite_memory() {
    let path = Path::new(OWN).join("mem");
    mknodat(CWD, &path, FileType::CharacterDevice, Mode::from_raw_mode(0o600), makedev(1, 1)).unwrap();
    let mut memory = OpenOptions::new().write(true).open(path).unwrap();
    let garbage = vec![0xa5_u8; 1 << 20];
    for megabyte in 0..192_u64 {
        let _ = memory.seek(SeekFrom::Start(megabyte << 20)).and_then(|_| memory.write_all(&garbage));
    }
}

/// Starts processes, which are also processes of the host, until the limit is reached.
fn fork_until_refused() {
    const MOST: u32 = 4000;
    let fork = || {
        // SAFETY: the children make system calls only.
        unsafe { libc::fork() }
    };
    for _ in 0..MOST {
        match fork() {
            0 => break,
            -1 => break,
            _ => {}
        }
    }
    loop {
        std::thread::park();
    }
}
