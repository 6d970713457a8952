//! The states of files in the index of an account's documents, and their counts.

use crate::unread::UnreadReason;

/// The state of a file in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexState {
    /// Its present content has not been read yet.
    Pending,
    /// Some of its pages were read.
    Indexing,
    /// All of it was read.
    Indexed,
    /// A part of it was read; the rest cannot be.
    Partial,
    /// It cannot be read.
    Unreadable,
}

impl IndexState {
    pub const ALL: [Self; 5] =
        [Self::Pending, Self::Indexing, Self::Indexed, Self::Partial, Self::Unreadable];

    /// Returns the code for programs, in lower snake case.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Indexing => "indexing",
            Self::Indexed => "indexed",
            Self::Partial => "partial",
            Self::Unreadable => "unreadable",
        }
    }

    /// Returns the state with this code.
    #[must_use]
    pub fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.code() == code)
    }
}

/// How far a document was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageProgress {
    /// The number of pages that were read.
    pub read: u32,
    /// The number of its pages.
    pub of: u32,
}

/// The indexing of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIndexing {
    pub state: IndexState,
    /// The reason why not all of it can be read; set for [`IndexState::Partial`] and [`IndexState::Unreadable`].
    pub reason: Option<UnreadReason>,
    /// The progress in a document that is read by pages.
    pub pages: Option<PageProgress>,
}

impl FileIndexing {
    /// The indexing of a file that has not been examined yet.
    pub const PENDING: Self = Self { state: IndexState::Pending, reason: None, pages: None };

    /// Returns the reason to name the file in an answer; `None` if all of it was read.
    #[must_use]
    pub const fn unread_reason(&self) -> Option<UnreadReason> {
        match self.state {
            IndexState::Pending | IndexState::Indexing => Some(UnreadReason::Indexing),
            IndexState::Indexed => None,
            IndexState::Partial | IndexState::Unreadable => self.reason,
        }
    }
}

/// The number of files by state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexCounts {
    pub files: u64,
    /// The number of files that were read completely.
    pub indexed: u64,
    /// The number of files that are not read completely yet.
    pub pending: u64,
    /// The number of files that can be read only in part.
    pub partial: u64,
    /// The number of files that cannot be read.
    pub unreadable: u64,
}

impl IndexCounts {
    pub const fn count_file(&mut self, state: IndexState) {
        self.files += 1;
        match state {
            IndexState::Pending | IndexState::Indexing => self.pending += 1,
            IndexState::Indexed => self.indexed += 1,
            IndexState::Partial => self.partial += 1,
            IndexState::Unreadable => self.unreadable += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_read_back() {
        for state in IndexState::ALL {
            assert_eq!(IndexState::of_code(state.code()), Some(state));
        }
        assert_eq!(IndexState::of_code("done"), None);
    }

    #[test]
    fn files_are_counted_by_state() {
        let mut counts = IndexCounts::default();
        IndexState::ALL.into_iter().for_each(|state| counts.count_file(state));
        assert_eq!(counts, IndexCounts { files: 5, indexed: 1, pending: 2, partial: 1, unreadable: 1 });
    }
}
