//! The messages between the processes of a launch, and their dependence on one another.

use std::fs;
use std::io::{self, PipeReader, Read};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::sys::{LaunchErrorContext, LaunchFailure};

/// Messages from the maker and the init process to the launcher.
pub(crate) mod word {
    /// The namespaces exist and wait for their id maps.
    pub(crate) const UNSHARED: u8 = b'U';
    /// Followed by four bytes: the process id of the init process on the host.
    pub(crate) const PID: u8 = b'P';
    /// Everything is ready; the init process waits for the commit.
    pub(crate) const READY: u8 = b'R';
    /// Followed by the failure, up to the end (see [`encode_failure`](super::encode_failure)).
    pub(crate) const FAILED: u8 = b'E';
}

/// The longest text of a failure.
const FAILURE_MAX_BYTES: u64 = 4096;

/// The files that the first process of a machine holds for its lifetime.
#[derive(Default)]
pub(crate) struct HeldFiles {
    /// The lock on the machine's folder.
    pub(crate) lock: Option<fs::File>,
    /// The lock on the image.
    pub(crate) image_lock: Option<fs::File>,
    /// The page that permits the machine's work.
    pub(crate) lease_page: Option<fs::File>,
}

/// Waits for a message of the machine's processes. Fails when nobody waits for the report any longer.
pub(crate) fn await_word(up: &PipeReader) -> io::Result<()> {
    let output = io::stdout();
    let mut fds = [PollFd::new(up, PollFlags::IN), PollFd::new(&output, PollFlags::empty())];
    retry_on_intr(|| poll(&mut fds, None))?;
    if fds[1].revents().is_empty() { Ok(()) } else { Err(io::Error::other("the service has exited")) }
}

/// Has the kernel kill this process when its parent exits. Only the parent holds the other end of the pipe, which reveals an
/// exit before this call.
pub(crate) fn die_with_parent(parent: &PipeReader) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut ends = [PollFd::new(parent, PollFlags::empty())];
    match retry_on_intr(|| poll(&mut ends, Some(&at_once)))? {
        0 => Ok(()),
        _ => Err(io::Error::other("its parent has exited")),
    }
}

/// Encodes a failure: the error number of the system, 0 without one, then the step, and the cause after a line break.
pub(crate) fn encode_failure(failure: &LaunchFailure) -> Vec<u8> {
    let mut message = vec![word::FAILED];
    message.extend_from_slice(&failure.source.raw_os_error().unwrap_or_default().to_le_bytes());
    message.extend_from_slice(format!("{}\n{}", failure.what, failure.source).as_bytes());
    message
}

/// Reads the rest of a failure after its first byte.
pub(crate) fn read_failure(up: &mut impl Read) -> LaunchFailure {
    let mut read = || -> Result<LaunchFailure, LaunchFailure> {
        let (mut errno, mut text) = ([0; 4], String::new());
        up.read_exact(&mut errno).with_context("reading what failed")?;
        up.take(FAILURE_MAX_BYTES).read_to_string(&mut text).with_context("reading what failed")?;
        let (what, why) = text.split_once('\n').unwrap_or((&text, ""));
        Ok(match i32::from_le_bytes(errno) {
            0 => LaunchFailure::from_reason(what, why),
            errno => LaunchFailure::new(what, io::Error::from_raw_os_error(errno)),
        })
    };
    read().unwrap_or_else(|failure| failure)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_keeps_its_error_number() {
        for (source, errno) in
            [(io::Error::from_raw_os_error(1), Some(1)), (io::Error::other("it is not permitted"), None)]
        {
            let message = encode_failure(&LaunchFailure::new("making a mount", source));
            assert_eq!(message[0], word::FAILED);
            let read = read_failure(&mut &message[1..]);
            assert_eq!((read.what.as_str(), read.source.raw_os_error()), ("making a mount", errno));
        }
        assert_eq!(read_failure(&mut &b"cut"[..]).what, "reading what failed");
    }
}
