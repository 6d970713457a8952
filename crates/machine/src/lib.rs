//! The account's machine: its supervisor and its drivers.
//!
//! [`Machines`] holds one task for each account's machine, which brings it from what it is to what it is meant to
//! be, and gives [`GuestConnection`]s: HTTP/2 connections to the programs in them, over which a [`Session`] runs the calls of an
//! answer. A [`Driver`] makes the machines: [`sandbox`] in
//! namespaces of the host, [`simulated`] inside the process for tests. What state follows which is decided in
//! [`domain::machine`]; nothing here knows of questions, answers or tools.
//!
//! What must hold: a machine has no network, no key and nothing of the host but its programs, read-only; its one
//! way out is the connection that the host opens. Only the agent's user can accept that connection, not the
//! tools'. Machines outlive the service. No two services run a machine of the same account. Unsafe code stands in
//! `sandbox::sys` alone.

pub mod connection;
pub mod driver;
pub mod limits;

pub mod sandbox;
pub mod session;
pub mod simulated;
mod supervisor;

pub use connection::{Body, ConnectionError, GuestConnection};
pub use driver::{ByteStream, Driver, DriverError, Home, RunningMachine};
pub use limits::{Enforcement, LimitStatus};
pub use sandbox::{DiskQuota, Limits, LimitsKind, Sandbox, SandboxConfig, bound_disk, missing_disk_quota};
pub use session::{ProtocolViolation, Session};
pub use simulated::Simulated;
pub use supervisor::{
    MachineError, MachineRecord, MachineRecords, MachineView, Machines, RecordsError, TurnGuard,
};
