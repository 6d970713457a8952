//! Attacks that take several calls: programs of other users on the host's disk, and uncounted memory.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd};

/// One step of memory, in bytes, and the number of steps: twice the limit of a machine of the tests.
const STEP_BYTES: usize = 16 << 20;
const STEPS: usize = 24;

/// Carries out an attack; prints `refused` and the reason, or `got` and the result.
pub(crate) fn run_attack(what: &str) -> String {
    let outcome = match what {
        "memfd" => fill_memfds(),
        "shm" => fill_shm_segments(),
        "shared" => fill_shared_mappings(None),
        "zero" => File::options()
            .read(true)
            .write(true)
            .open("/dev/zero")
            .and_then(|zero| fill_shared_mappings(Some(&zero))),
        "sockets" => fill_socket_buffers(),
        way => set_id(way),
    };
    match outcome {
        Ok(got) => format!("got {got}"),
        Err(error) => format!("refused: {error}"),
    }
}

fn check_syscall(result: i64) -> io::Result<i64> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Makes a set-id program of this process in one of these ways.
fn set_id(way: &str) -> io::Result<String> {
    const MODE: i64 = 0o6775;
    const CWD: i64 = libc::AT_FDCWD as i64;
    let name = format!("set-id-{way}");
    let path = CString::new(name.clone())?;
    let named = path.as_ptr() as i64;
    let here = c".".as_ptr() as i64;
    let create = i64::from(libc::O_CREAT | libc::O_WRONLY);
    let temporary = i64::from(libc::O_TMPFILE | libc::O_RDWR);
    let call = |number: i64, arguments: [i64; 4]| {
        let [a, b, c, d] = arguments;
        // SAFETY: paths and structures live on this stack through the call.
        check_syscall(unsafe { libc::syscall(number, a, b, c, d) })
    };
    let mut tmpfile = None;
    let existing = || File::create(&name);
    match way {
        "open" => call(libc::SYS_open, [named, create, MODE, 0])?,
        "openat" => call(libc::SYS_openat, [CWD, named, create, MODE])?,
        "creat" => call(libc::SYS_creat, [named, MODE, 0, 0])?,
        "mknod" => call(libc::SYS_mknod, [named, i64::from(libc::S_IFREG) | MODE, 0, 0])?,
        "mknodat" => call(libc::SYS_mknodat, [CWD, named, i64::from(libc::S_IFREG) | MODE, 0])?,
        "chmod" => existing().and_then(|_| call(libc::SYS_chmod, [named, MODE, 0, 0]))?,
        "fchmod" => {
            existing().and_then(|file| call(libc::SYS_fchmod, [i64::from(file.as_raw_fd()), MODE, 0, 0]))?
        }
        "fchmodat" => existing().and_then(|_| call(libc::SYS_fchmodat, [CWD, named, MODE, 0]))?,
        "fchmodat2" => existing().and_then(|_| call(452, [CWD, named, MODE, 0]))?,
        "openat2" => {
            let how = [create, MODE, 0];
            call(libc::SYS_openat2, [CWD, named, how.as_ptr() as i64, 24])?
        }
        "tmpfile_open" => {
            tmpfile = Some(call(libc::SYS_open, [here, temporary, MODE, 0])?);
            0
        }
        "tmpfile_openat" => {
            tmpfile = Some(call(libc::SYS_openat, [CWD, here, temporary, MODE])?);
            0
        }
        "tmpfile_openat2" => {
            let how = [temporary, MODE, 0];
            tmpfile = Some(call(libc::SYS_openat2, [CWD, here, how.as_ptr() as i64, 24])?);
            0
        }
        // An access list, in the kernel's form, that gives the owner's group all rights.
        "acl" => {
            existing()?;
            let entries: [(u16, u16, u32); 4] =
                [(0x01, 7, u32::MAX), (0x04, 7, u32::MAX), (0x10, 7, u32::MAX), (0x20, 5, u32::MAX)];
            let mut list = 2_u32.to_le_bytes().to_vec();
            for (tag, permissions, id) in entries {
                list.extend(tag.to_le_bytes());
                list.extend(permissions.to_le_bytes());
                list.extend(id.to_le_bytes());
            }
            let attribute = c"system.posix_acl_access".as_ptr();
            // SAFETY: path, name and value live on this stack through the call.
            check_syscall(i64::from(unsafe {
                libc::setxattr(path.as_ptr(), attribute, list.as_ptr().cast(), list.len(), 0)
            }))?
        }
        other => panic!("unknown: {other}"),
    };
    if let Some(fd) = tmpfile {
        let from = CString::new(format!("/proc/self/fd/{fd}"))?;
        // SAFETY: both paths live on this stack through the call.
        check_syscall(i64::from(unsafe {
            libc::linkat(
                libc::AT_FDCWD,
                from.as_ptr(),
                libc::AT_FDCWD,
                path.as_ptr(),
                libc::AT_SYMLINK_FOLLOW,
            )
        }))?;
    }
    Ok(name)
}

fn fill_memfds() -> io::Result<String> {
    let mut kept = Vec::new();
    for _ in 0..STEPS {
        // SAFETY: the name is a C string; the descriptor that comes back is fresh.
        let mut file = unsafe {
            let fd = check_syscall(i64::from(libc::memfd_create(c"x".as_ptr(), 0)))?;
            File::from_raw_fd(i32::try_from(fd).unwrap_or(-1))
        };
        file.write_all(&vec![1; STEP_BYTES])?;
        kept.push(file);
    }
    Ok(format!("{} MiB in nobody's mappings", (kept.len() * STEP_BYTES) >> 20))
}

fn fill_shm_segments() -> io::Result<String> {
    for _ in 0..STEPS {
        // SAFETY: the segment is fresh and as long as is written.
        unsafe {
            let id = check_syscall(i64::from(libc::shmget(libc::IPC_PRIVATE, STEP_BYTES, 0o600)))?;
            let at = libc::shmat(i32::try_from(id).unwrap_or(-1), std::ptr::null(), 0);
            if at as isize == -1 {
                return Err(io::Error::last_os_error());
            }
            at.cast::<u8>().write_bytes(1, STEP_BYTES);
            libc::shmdt(at);
        }
    }
    Ok("segments that nobody holds".into())
}

/// Maps memory to be shared, writes it, and unmaps all but a page.
fn fill_shared_mappings(zero: Option<&File>) -> io::Result<String> {
    const PAGE: usize = 4096;
    let (flags, fd) = zero
        .map_or((libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1), |file| (libc::MAP_SHARED, file.as_raw_fd()));
    for _ in 0..STEPS {
        // SAFETY: the mapping is fresh, as long as is written, and used by nobody else.
        unsafe {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), STEP_BYTES, rights, flags, fd, 0);
            if at == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            at.cast::<u8>().write_bytes(1, STEP_BYTES);
            libc::munmap(at.cast::<u8>().add(PAGE).cast(), STEP_BYTES - PAGE);
        }
    }
    Ok("memory behind a page each".into())
}

/// Fills the buffers of the maximum number of socket pairs.
fn fill_socket_buffers() -> io::Result<String> {
    let mut pairs = Vec::new();
    let mut bytes = 0;
    while let Ok((mut one, other)) = std::os::unix::net::UnixStream::pair() {
        one.set_nonblocking(true)?;
        while let Ok(written) = one.write(&[1; 65536]) {
            bytes += written;
        }
        pairs.push((one, other));
    }
    Ok(format!("{} MiB in {} sockets", bytes >> 20, pairs.len()))
}
