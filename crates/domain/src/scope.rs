//! The scope of a key.

use std::fmt;

/// A permission of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// Reading conversations and answers.
    Read,
    /// Asking, and changing and deleting conversations.
    Ask,
    /// Using the workspace's files and folders.
    Files,
    /// Starting and stopping the machine.
    Machine,
}

impl Permission {
    pub const ALL: [Self; 4] = [Self::Read, Self::Ask, Self::Files, Self::Machine];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Ask => "ask",
            Self::Files => "files",
            Self::Machine => "machine",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Ask => 2,
            Self::Files => 4,
            Self::Machine => 8,
        }
    }
}

/// The permissions of a key, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope(u8);

/// The text is not a scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope {0:?}: use one or more of read, ask, files, machine, separated by commas")]
pub struct InvalidScope(pub String);

impl Scope {
    pub const ALL: Self = Self(15);

    /// Creates a scope of exactly these permissions; `None` for an empty list.
    #[must_use]
    pub fn from_permissions(permissions: &[Permission]) -> Option<Self> {
        let bits = permissions.iter().fold(0, |bits, permission| bits | permission.bit());
        (bits != 0).then_some(Self(bits))
    }

    /// Parses names separated by commas, in any order.
    ///
    /// # Errors
    /// [`InvalidScope`] if the text is empty or contains an unknown scope.
    pub fn parse(text: &str) -> Result<Self, InvalidScope> {
        let read = |word: &str| Permission::ALL.into_iter().find(|one| one.as_str() == word.trim());
        let permissions: Option<Vec<Permission>> = text.split(',').map(read).collect();
        permissions.as_deref().and_then(Self::from_permissions).ok_or_else(|| InvalidScope(text.to_owned()))
    }

    /// Returns true if the scope includes the permission.
    #[must_use]
    pub const fn allows(self, permission: Permission) -> bool {
        self.0 & permission.bit() != 0
    }

    pub fn permissions(self) -> impl Iterator<Item = Permission> {
        Permission::ALL.into_iter().filter(move |one| self.allows(*one))
    }
}

/// Formats the names, separated by commas.
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, permission) in self.permissions().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            f.write_str(permission.as_str())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_survives_its_text() {
        for bits in 1..=15 {
            let scope = Scope(bits);
            assert_eq!(Scope::parse(&scope.to_string()), Ok(scope));
        }
        assert_eq!(Scope::parse("ask, read"), Ok(Scope(3)));
        assert_eq!(Scope::ALL.to_string(), "read,ask,files,machine");
    }

    #[test]
    fn invalid_scopes_are_rejected() {
        for wrong in ["", ",", "read,", "READ", "write", "read,everything"] {
            assert_eq!(Scope::parse(wrong), Err(InvalidScope(wrong.to_owned())));
        }
        assert_eq!(Scope::from_permissions(&[]), None);
    }

    #[test]
    fn scope_allows_only_named_permissions() {
        let scope = Scope::from_permissions(&[Permission::Read, Permission::Files]).expect("there are two");
        let allowed = Permission::ALL.map(|permission| scope.allows(permission));
        assert_eq!(allowed, [true, false, true, false]);
    }
}
