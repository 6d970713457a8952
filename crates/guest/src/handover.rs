//! The handover from process 1 of a QEMU machine to the program that it becomes, by the numbers of descriptors.
#![expect(unsafe_code, reason = "inherited descriptors are taken over by their numbers")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};

use crate::boot::{HostLink, Prepared};
use crate::port::Port;

/// The descriptor numbers, above the standard streams.
const NUMBERS: [RawFd; 5] = [3, 4, 5, 6, 7];
/// Above all of them.
const AWAY: RawFd = 100;

impl Prepared {
    /// Hands everything over except the agent, which the next program starts.
    ///
    /// # Errors
    /// Fails if the kernel refuses a descriptor.
    pub(crate) fn hand_over(self) -> io::Result<()> {
        let Self {
            port: Port { port, interface },
            link: HostLink { agent, power_off, announcement },
            agent: _,
        } = self;
        let open: [OwnedFd; 5] =
            [port.into(), interface.into(), agent.into(), power_off.into(), announcement.into()];
        // Each may have another one's number, so all are moved out of the way first.
        let away = open.map(|descriptor| fcntl_dupfd_cloexec(&descriptor, AWAY));
        for (descriptor, number) in away.into_iter().zip(NUMBERS) {
            let descriptor = descriptor?;
            // SAFETY: process 1 has no descriptors but these and the standard streams.
            if unsafe { libc::dup2(descriptor.as_raw_fd(), number) } == -1 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    }

    /// Takes over the descriptors that the previous program left open.
    ///
    /// # Errors
    /// Fails if it left nothing.
    pub fn from_inherited() -> io::Result<Self> {
        let [port, interface, agent, power_off, announcement] = NUMBERS.map(|number| {
            // SAFETY: process 1 calls this once, first of all, and nothing else uses these descriptors.
            unsafe { OwnedFd::from_raw_fd(number) }
        });
        for descriptor in [&port, &interface, &agent, &power_off, &announcement] {
            fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
        }
        let port = Port { port: port.into(), interface: interface.into() };
        let link =
            HostLink { agent: agent.into(), power_off: power_off.into(), announcement: announcement.into() };
        Ok(Self { port, link, agent: None })
    }
}
