//! The machines of accounts: their supervisor and drivers.
//!
//! [`Machines`] runs one task for each machine. The task drives the machine from its actual to its desired state, and provides
//! [`GuestConnection`]s: HTTP/2 connections to the programs in the machines, over which a [`GuestSession`] runs the calls of an
//! answer. A [`Driver`] creates machines: [`sandbox`] in namespaces of the host, on its kernel or on a separate one,
//! [`simulated`] inside the process for tests. [`domain::machine`] decides the state transitions. This crate does not handle
//! questions or answers.
//!
//! Invariants: a machine has no network and no keys. Of the host it sees only the programs, read-only, or instead the programs of
//! an image. Its only channel is the connection that the host opens, and only the agent's user can accept it, not the tools'
//! user. Machines outlive the service. No two services run a machine of the same account. All unsafe code is in `sandbox::sys`.
//!
//! # Where to look
//!
//! - What a machine may do or use: `sandbox/root.rs`, `sandbox/privileges.rs`, `sandbox/spec.rs`; system calls: the crate
//!   `seccomp`.
//! - Kernels: `sandbox/kernel.rs`; User Mode Linux: `sandbox/uml.rs`, `sandbox/uml_kernel.rs`; QEMU: `sandbox/qemu.rs`,
//!   `sandbox/boot_files.rs`; the saved machine: `sandbox/saving.rs`, `sandbox/template.rs`, `sandbox/monitor.rs`.
//! - The link between kernel and service: `sandbox/bridge.rs`, `sandbox/carrier.rs`.
//! - Trials of drivers: `sandbox/trial.rs`; the choice among them is made by `causerie`.
//! - Machines without a service: `sandbox/lease.rs`, `sandbox/init.rs`; the deadline is set by `control`.

pub mod connection;
pub mod contract;
pub mod documents;
pub mod driver;
pub mod limits;
pub mod sandbox;
pub mod session;
pub mod simulated;
mod supervisor;

pub use connection::{Body, GuestConnection, GuestConnectionError};
pub use contract::{ByteStream, DriverError, MachineHome};
pub use documents::FolderIndexReport;
pub use driver::{Driver, PendingSandbox, RunningMachine};
pub use protocol::preview;

pub use limits::{Enforcement, LimitStatus};
pub use sandbox::{
    Accelerator, BootSources, DiskQuota, Kernel, LeasePage, LimitsKind, MachineDetails, MachineFolders,
    MachineImage, MachineLimits, MachineMemory, MemorySource, OwnKernel, Qemu, SUSPENDED_MAX, Sandbox,
    SandboxConfig, TRIAL_TIMEOUT, TrialOutcome, TrialRecord, UmlKernel, bound_disk, find_qemu,
    missing_disk_quota, open_kvm, sweep_trials, try_kvm,
};
pub use session::{GuestSession, ProtocolViolation};
pub use simulated::Simulated;
pub use supervisor::{
    MachineRecord, MachineRecords, MachineView, Machines, PassageEmbedder, RecordsError, SupervisorError,
    TurnGuard,
};
