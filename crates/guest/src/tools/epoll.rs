//! Limits the epoll watches that a program adds. The kernel limits them per user of the whole host. If an ordinary
//! user runs the service, its tools run as the same user: without a limit, a command could use up all watches and
//! the service could no longer accept connections.
//!
//! A seccomp filter sends each `epoll_ctl` call that adds a watch to the supervisor, which counts it and lets it
//! continue. Kernels and environments without such filters set no limit.
#![expect(unsafe_code, reason = "filters with a listener have no safe form")]

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};

/// The maximum number of watches that a command adds, and an MCP server in its lifetime.
pub(super) const COMMAND_WATCHES_MAX: u32 = 4096;
pub(super) const SERVER_WATCHES_MAX: u32 = 65_536;

/// Creates the two ends of the socket that transfers the listener: the supervisor's and the program's.
pub(super) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).map_err(Into::into)
}

/// Installs the filter for the calling process and its descendants and sends the listener to the supervisor. The
/// process must have set `no_new_privs`.
///
/// # Errors
/// Fails if the kernel provides no listener.
pub(super) fn hand_over(to: &OwnedFd) -> io::Result<()> {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    const NUMBER: u32 = 0;
    const SECOND_ARGUMENT: u32 = 24;
    let call = u32::try_from(libc::SYS_epoll_ctl).map_err(io::Error::other)?;
    let instruction = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Calls of other architectures never reach this filter: another one kills the process.
    let mut program = [
        instruction(LOAD_WORD, 0, 0, NUMBER),
        instruction(JUMP_IF_EQUAL, 0, 3, call),
        instruction(LOAD_WORD, 0, 0, SECOND_ARGUMENT),
        instruction(JUMP_IF_EQUAL, 0, 1, libc::EPOLL_CTL_ADD.cast_unsigned()),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        instruction(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let length = u16::try_from(program.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len: length, filter: program.as_mut_ptr() };
    // SAFETY: the program outlives the call, which copies it; the returned descriptor is new and owned by no one
    // else.
    let listener = unsafe {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        match libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) {
            -1 => return Err(io::Error::last_os_error()),
            fd => OwnedFd::from_raw_fd(i32::try_from(fd).map_err(io::Error::other)?),
        }
    };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut message = SendAncillaryBuffer::new(&mut space);
    let listeners = [listener.as_fd()];
    message.push(SendAncillaryMessage::ScmRights(&listeners));
    sendmsg(to, &[IoSlice::new(b"l")], &mut message, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Counts the watches of one program.
pub(super) struct WatchCounter {
    listener: OwnedFd,
    left: u32,
}

impl WatchCounter {
    /// Waits for the listener. Returns `None` if the program closes its end first, which `exec` does.
    pub(super) fn receive_listener(from: &OwnedFd, watches_max: u32) -> Option<Self> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut message = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        loop {
            let mut buffers = [IoSliceMut::new(&mut byte)];
            match recvmsg(from, &mut buffers, &mut message, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
                Ok(_) => break,
            }
        }
        let listener = message.drain().find_map(|part| match part {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        })?;
        Some(Self { listener, left: watches_max })
    }

    /// Returns the descriptor to poll: readable when a call waits, hung up when no process is left to make one.
    pub(super) fn poll_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Lets the waiting call continue, or rejects it with `ENOSPC` above the limit. Returns `false` if the listener
    /// is broken.
    pub(super) fn answer_call(&mut self) -> bool {
        // SAFETY: the structures are plain integers, outlive the calls and have the size that the requests encode.
        unsafe {
            let mut request: libc::seccomp_notif = mem::zeroed();
            if libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut request) == -1
            {
                // The calling process may have exited already.
                return matches!(
                    io::Error::last_os_error().raw_os_error(),
                    Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)
                );
            }
            let mut response: libc::seccomp_notif_resp = mem::zeroed();
            response.id = request.id;
            match self.left.checked_sub(1) {
                Some(left) => {
                    self.left = left;
                    response.flags = 1; // Go on with the call.
                }
                None => response.error = -libc::ENOSPC,
            }
            let _ = libc::ioctl(self.listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response);
        }
        true
    }
}

/// Handles a waiting call, and drops the counter once no process can make further calls.
pub(super) fn serve_counter(counter: &mut Option<WatchCounter>, polled: PollFlags) {
    let goes_on = match counter {
        Some(counting) if polled.contains(PollFlags::IN) => counting.answer_call(),
        Some(_) => polled.is_empty(),
        None => return,
    };
    if !goes_on {
        *counter = None;
    }
}
