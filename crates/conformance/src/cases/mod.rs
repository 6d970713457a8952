//! The cases: promises of the interface that a caller with a key can check, one file per subject.
//!
//! A case gets an empty account and need not clean up. It depends on no other case and on no earlier state.

use crate::api::Api;

/// The requirements of a case besides an empty account and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    Key,
    /// Answers, which cost credits.
    Answers,
    /// Permission to start and stop the account's machine.
    Machine,
    /// A direct connection: a proxy would answer in place of the service.
    Directly,
    /// Disk space and time for a large file.
    Room,
}

#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// The promise that it checks, as words joined by underscores.
    pub name: &'static str,
    pub needs: Needs,
    module: &'static str,
    /// Runs the case; panics if the promise is broken.
    pub run: fn(&Api),
}

impl Case {
    #[must_use]
    pub fn subject(&self) -> &'static str {
        self.module.rsplit("::").next().unwrap_or(self.module)
    }
}

/// Lists cases by their requirements.
macro_rules! cases {
    ($($needs:ident: $($name:ident),* $(,)?);* $(;)?) => {
        &[$($(Case {
            name: stringify!($name),
            needs: crate::cases::Needs::$needs,
            module: module_path!(),
            run: $name,
        },)*)*]
    };
}

mod asking;
mod authentication;
mod catalogs;
mod chats;
mod downloads;
mod errors;
mod files;
mod folders;
mod forms;
mod names;
mod parts;
mod races;
mod shapes;
mod slow;
mod streams;
mod vm;

pub use authentication::assert_rejected;

/// Promises that no case checks, because that takes more than a key, with reasons.
pub const NOT_FROM_OUTSIDE: &[(&str, &str)] = &[
    ("revoked keys, ended licences, open streams of either", "they take the operator's commands"),
    ("accounts without a machine, without credits, beside others", "they take the operator's commands"),
    ("answers that are held half-way, failed, or cited as scripted", "they need a scripted model"),
    ("crashes, restarts and shutdown", "the service is killed in them"),
    ("memory under large files and many readers", "it is measured on the service's process"),
    ("links, pipes and names that only tools can make", "they need a scripted model"),
    ("idempotency keys after 24 hours, uploads silent for a minute", "they take simulated time"),
];

#[must_use]
pub fn all_cases() -> Vec<Case> {
    // The longest-running cases start first.
    [
        slow::CASES,
        asking::CASES,
        authentication::CASES,
        catalogs::CASES,
        chats::CASES,
        downloads::CASES,
        errors::CASES,
        files::CASES,
        folders::CASES,
        forms::CASES,
        names::CASES,
        parts::CASES,
        races::CASES,
        shapes::CASES,
        streams::CASES,
        vm::CASES,
    ]
    .concat()
}
