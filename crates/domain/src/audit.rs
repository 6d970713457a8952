//! The actions that the audit log records.

/// An action of a person or a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuditAction {
    CreateAccount,
    DeleteAccount,
    SetEmail,
    SetRole,
    SetLicence,
    GrantCredits,
    SetPassword,
    ChangePassword,
    ChangeEmail,
    BindIdentity,
    SignIn,
    SignOut,
    SignOutEverywhere,
    CreateKey,
    RevokeKey,
    /// A key was refused because it has become invalid, or because its scope does not permit the request.
    RefusedKey,
    StartMachine,
    StopMachine,
    ResetMachine,
    RunInMachine,
    Backup,
    RetryJob,
}

impl AuditAction {
    pub const ALL: [Self; 22] = [
        Self::CreateAccount,
        Self::DeleteAccount,
        Self::SetEmail,
        Self::SetRole,
        Self::SetLicence,
        Self::GrantCredits,
        Self::SetPassword,
        Self::ChangePassword,
        Self::ChangeEmail,
        Self::BindIdentity,
        Self::SignIn,
        Self::SignOut,
        Self::SignOutEverywhere,
        Self::CreateKey,
        Self::RevokeKey,
        Self::RefusedKey,
        Self::StartMachine,
        Self::StopMachine,
        Self::ResetMachine,
        Self::RunInMachine,
        Self::Backup,
        Self::RetryJob,
    ];

    /// Returns the name, as stored and as the command line shows it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CreateAccount => "create account",
            Self::DeleteAccount => "delete account",
            Self::SetEmail => "set email",
            Self::SetRole => "set role",
            Self::SetLicence => "set licence",
            Self::GrantCredits => "grant credits",
            Self::SetPassword => "set password",
            Self::ChangePassword => "change password",
            Self::ChangeEmail => "change email",
            Self::BindIdentity => "bind identity",
            Self::SignIn => "sign in",
            Self::SignOut => "sign out",
            Self::SignOutEverywhere => "sign out everywhere",
            Self::CreateKey => "create key",
            Self::RevokeKey => "revoke key",
            Self::RefusedKey => "refused key",
            Self::StartMachine => "start machine",
            Self::StopMachine => "stop machine",
            Self::ResetMachine => "reset machine",
            Self::RunInMachine => "run in machine",
            Self::Backup => "backup",
            Self::RetryJob => "retry job",
        }
    }

    /// Parses a name. Entries of other releases may have other ones.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == text)
    }
}
