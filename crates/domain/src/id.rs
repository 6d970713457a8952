//! Identifiers: UUIDs, with one type for each kind of entity.

use std::fmt;
use std::str::FromStr;

use uuid::Uuid;

use crate::time::Timestamp;

/// The text is not a UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a UUID")]
pub struct InvalidId;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Uuid);

        impl $name {
            /// Creates a random (version 4) UUID from 128 random bits.
            #[must_use]
            pub fn from_random(bits: u128) -> Self {
                Self(uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid())
            }

            /// Creates a time-ordered (version 7) UUID. Consecutive identifiers are neighbours in an index,
            /// so that inserting many of them touches few pages.
            #[must_use]
            pub fn made_at(at: Timestamp, bits: u128) -> Self {
                let millis = u64::try_from(at.micros() / 1000).unwrap_or(0);
                let random: [u8; 16] = bits.to_be_bytes();
                let mut rest = [0; 10];
                rest.copy_from_slice(&random[6..]);
                Self(uuid::Builder::from_unix_timestamp_millis(millis, &rest).into_uuid())
            }

            /// Returns the 128 bits.
            #[must_use]
            pub fn bits(self) -> u128 {
                self.0.as_u128()
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, InvalidId> {
                Uuid::try_parse(text).map(Self).map_err(|_| InvalidId)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

ids! {
    /// The owner of keys, licence, credits, machine and workspace.
    AccountId,
    /// A user; belongs to an account.
    UserId,
    /// An API key's public identifier (not the key itself).
    KeyId,
    /// A session of the web application (not the secret that proves it).
    SessionId,
    /// A conversation: `chatId` on the wire.
    ConversationId,
    /// A message of a conversation: a question or an answer.
    MessageId,
    /// A part of an answer (section 2.10).
    PartId,
    /// A posting of the ledger.
    PostingId,
    /// An instance of the agent program in a machine; each start creates a new one.
    InstanceId,
    /// A process of the service that holds leases.
    NodeId,
    JobId,
    /// The trace of a request.
    TraceId,
    /// A skill of a plugin (section 2.4).
    SkillId,
    /// An agent of a plugin (section 2.4).
    AgentId,
}

/// The UUID namespace of skill names.
const SKILLS: Uuid = Uuid::from_u128(0x6d0f_2f5c_8a53_4a0e_9b1d_37c1_5be0_42a7);
/// The UUID namespace of agent names.
const AGENTS: Uuid = Uuid::from_u128(0xb2c4_91de_0f7a_4c36_8e55_d40a_6f19_73ec);

impl TraceId {
    /// Creates a trace id from 128 arbitrary bits, which clients may choose.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self(Uuid::from_u128(bits))
    }
}

impl SkillId {
    /// Derives the identifier of the skill with this full name (version 5).
    #[must_use]
    pub fn from_full_name(full_name: &str) -> Self {
        Self(Uuid::new_v5(&SKILLS, full_name.as_bytes()))
    }
}

impl AgentId {
    /// Derives the identifier of the agent with this full name (version 5).
    #[must_use]
    pub fn from_full_name(full_name: &str) -> Self {
        Self(Uuid::new_v5(&AGENTS, full_name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_its_text() {
        let id = ConversationId::from_random(7);
        assert_eq!(id.to_string().parse(), Ok(id));
        assert_eq!("x".parse::<ConversationId>(), Err(InvalidId));
    }

    #[test]
    fn later_identifiers_sort_after_earlier_ones() {
        let at = |micros, bits| MessageId::made_at(Timestamp::from_micros(micros), bits).to_string();
        let (before, after) = (at(1_700_000_000_000_000, u128::MAX), at(1_700_000_000_001_000, 0));
        assert!(before < after, "{before} {after}");
        assert_ne!(at(5, 1), at(5, 2));
        assert_eq!(after.as_bytes()[14], b'7', "{after}");
        assert_eq!(at(i64::MIN, 3), at(0, 3), "before there were computers");
    }

    #[test]
    fn id_from_name_is_stable() {
        assert_eq!(SkillId::from_full_name("a:b").to_string(), "29e8a0cd-213e-57f3-9967-a892ec01e02c");
        assert_eq!(AgentId::from_full_name("a:b").to_string(), "312ecc1a-769d-53a1-9f10-487f49cb233a");
    }
}
