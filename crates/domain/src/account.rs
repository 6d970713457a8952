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
    pub fn is_active(self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| now < until)
    }
}

/// The role of a person in an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccountRole {
    /// Owns the account: its keys, files and conversations.
    Owner,
    Operator,
}

impl AccountRole {
    pub const ALL: [Self; 2] = [Self::Owner, Self::Operator];

    /// Returns the name, as stored and as operators write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Operator => "operator",
        }
    }

    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == text)
    }
}
