//! The account, its licence and the roles of people (section 5 of the interface).

use crate::time::Timestamp;

/// The licence for the agent product: keys work exactly as long as it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Licence {
    /// The end of its validity, exclusive; `None` without a licence.
    pub until: Option<Timestamp>,
}

impl Licence {
    /// Returns true if the licence is valid at `now`.
    #[must_use]
    pub fn active(self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// The role of a person in an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Owns the account: its keys, files and conversations.
    Owner,
    /// Runs the service.
    Operator,
}
