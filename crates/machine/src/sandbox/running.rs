//! A machine that runs, found by the identity that its launcher left.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, pidfd_send_signal};
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;

use super::spec::{MachineIdentity, SOCKET};
use super::{driver_failure, identity, sys};
use crate::contract::DriverError;

#[derive(Debug)]
pub struct SandboxMachine {
    folder: PathBuf,
    first: i32,
    process: AsyncFd<OwnedFd>,
}

impl SandboxMachine {
    pub(crate) fn from_identity(
        folder: &Path,
        identity: MachineIdentity,
    ) -> Result<Option<Self>, DriverError> {
        let process = identity::open_process(&identity)
            .map_err(|error| driver_failure("finding the machine's process", error))?;
        let Some(process) = process else { return Ok(None) };
        let process = sys::watch_process(process)
            .map_err(|error| driver_failure("watching the machine's process", error))?;
        Ok(Some(Self { folder: folder.to_owned(), first: identity.pid, process }))
    }

    /// Opens a new byte stream to the agent.
    ///
    /// # Errors
    /// Fails if the agent does not listen.
    pub async fn connect_agent(&self) -> io::Result<UnixStream> {
        // The address of a socket is limited to about a hundred bytes, less than a path may need.
        let folder = rustix::fs::open(
            &self.folder,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        UnixStream::connect(format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd())).await
    }

    /// Waits until the machine has ended. Cancel safe.
    pub async fn wait_until_ended(&self) {
        if let Err(error) = self.process.readable().await {
            tracing::warn!(%error, "machine watch failed");
        }
    }

    /// Returns the process ids of the machine on the host, the init process first.
    ///
    /// # Errors
    /// Fails if `/proc` cannot be read.
    pub fn list_processes(&self) -> io::Result<Vec<i32>> {
        identity::list_processes(self.first)
    }

    pub(crate) fn send_signal(&self, signal: Signal) -> Result<(), DriverError> {
        match pidfd_send_signal(self.process.get_ref(), signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(driver_failure("signalling the machine", error)),
        }
    }
}
