//! The contract of all drivers: the account data that they receive, the streams that they provide, their errors.

use std::path::PathBuf;

use domain::id::AccountId;
use tokio::io::{AsyncRead, AsyncWrite};

/// The account data that a driver needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineHome {
    pub account: AccountId,
    /// The account's number within this service, from 0, never reused: it determines the host's ids.
    pub ordinal: u32,
    /// The workspace's folder on the host, an absolute path. It belongs to the service's user.
    pub workspace: PathBuf,
}

/// An operation of a driver that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DriverError {
    /// This host cannot isolate machines; retrying does not help.
    #[error("this host cannot isolate machines: {0}")]
    Refused(String),
    /// Another process runs the account's machine.
    #[error("the machine is already running: another process started it")]
    Busy,
    /// A failure that may be temporary.
    #[error("{0}")]
    Failed(String),
}

/// A byte stream to an agent.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}
