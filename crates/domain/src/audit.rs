//! The actions that the audit log records.

/// Declares the actions: documentation and name, as stored and as the command line shows it.
macro_rules! audit_actions {
    ($($(#[doc = $doc:literal])* $action:ident = $name:literal,)+) => {
        /// An action of a person or a program.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AuditAction {
            $($(#[doc = $doc])* $action,)+
        }

        impl AuditAction {
            pub const ALL: &[Self] = &[$(Self::$action),+];

            /// Returns the name, as stored and as the command line shows it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$action => $name,)+
                }
            }
        }
    };
}

audit_actions! {
    CreateAccount = "create account",
    DeleteAccount = "delete account",
    SetEmail = "set email",
    SetRole = "set role",
    SetLicence = "set licence",
    GrantCredits = "grant credits",
    SetPassword = "set password",
    ChangePassword = "change password",
    ChangeEmail = "change email",
    BindIdentity = "bind identity",
    SignIn = "sign in",
    SignOut = "sign out",
    SignOutEverywhere = "sign out everywhere",
    CreateKey = "create key",
    RevokeKey = "revoke key",
    /// A key was refused because it has become invalid, or because its scope does not permit the request.
    RefusedKey = "refused key",
    StartMachine = "start machine",
    StopMachine = "stop machine",
    ResetMachine = "reset machine",
    RunInMachine = "run in machine",
    Backup = "backup",
    RetryJob = "retry job",
}

impl AuditAction {
    /// Parses a name. Entries of other releases may have other ones.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|action| action.as_str() == text)
    }
}
