//! The cases: what a caller with a key can see of the interface's promises, a file a subject.
//!
//! A case is given an account that is empty, and leaves in it what it likes. It counts on no other case and on nothing
//! that happened before.

use crate::api::Api;

/// What a case needs besides an empty account and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing.
    Key,
    /// Answers, which cost credits.
    Answers,
    /// That the account's machine may be started and stopped.
    Machine,
    /// The service itself: a proxy before it would answer in its place.
    Directly,
    /// Room and time for a large file.
    Room,
}

/// A case.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it shows, in words joined by underscores.
    pub name: &'static str,
    /// What it needs.
    pub needs: Needs,
    module: &'static str,
    /// Shows it; panics where the promise is broken.
    pub run: fn(&Api),
}

impl Case {
    /// Its subject.
    #[must_use]
    pub fn subject(&self) -> &'static str {
        self.module.rsplit("::").next().unwrap_or(self.module)
    }
}

/// A list of cases, by what they need.
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

/// What no case shows, because it takes more than a key.
pub const NOT_FROM_OUTSIDE: &[(&str, &str)] = &[
    ("revoked keys, ended licences, open streams of either", "they take the operator's commands"),
    ("accounts without a machine, without credits, beside others", "they take the operator's commands"),
    (
        "answers that are held half-way, failed, or cited as scripted",
        "they take a model that does as it is told",
    ),
    ("crashes, restarts and shutdown", "the service is killed in them"),
    ("memory under large files and many readers", "it is measured on the service's process"),
    ("links, pipes and names that only tools can make", "they take a model that does as it is told"),
    ("idempotency keys after 24 hours, uploads silent for a minute", "they take simulated time"),
];

/// Every case.
#[must_use]
pub fn all() -> Vec<Case> {
    // Those that wait longest go first.
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
