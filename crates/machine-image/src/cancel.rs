//! Progress of a build, and its interruption.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::error::MachineImageError;

/// Receives progress messages for the operator.
pub type Progress = fn(&str);

/// Stops a build from another thread or task.
#[derive(Debug, Default)]
pub struct Cancel {
    cancelled: AtomicBool,
    /// The process group of the running program.
    program: Mutex<Option<Pid>>,
}

impl Cancel {
    /// Stops the build: it ends the running program, removes the partial image, and returns [`MachineImageError::Cancelled`].
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        self.end_program();
    }

    /// Returns true after [`Self::cancel`].
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// # Errors
    /// [`MachineImageError::Cancelled`] after [`Self::cancel`].
    pub(crate) fn check_cancelled(&self) -> Result<(), MachineImageError> {
        if self.is_cancelled() { Err(MachineImageError::Cancelled) } else { Ok(()) }
    }

    pub(crate) fn set_program(&self, group: Option<Pid>) {
        if let Ok(mut program) = self.program.lock() {
            *program = group;
        }
        // It may have been cancelled just before.
        if group.is_some() && self.check_cancelled().is_err() {
            self.end_program();
        }
    }

    pub(crate) fn end_program(&self) {
        let program = self.program.lock().ok().and_then(|program| *program);
        if let Some(group) = program {
            // It may have ended already.
            let _ = kill_process_group(group, Signal::TERM);
        }
    }
}
