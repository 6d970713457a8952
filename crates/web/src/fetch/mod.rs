//! Pages that are read: which hosts they may come from.

mod hosts;

pub use hosts::{NotAHost, PRIVATE_HOSTS_MAX, PrivateHost};

/// Whether and from where pages are fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchConfig {
    /// Whether pages are fetched at all.
    pub enabled: bool,
    /// Hosts that may be fetched from although they are private.
    pub private_hosts: Vec<PrivateHost>,
}

impl Default for FetchConfig {
    fn default() -> Self {
        Self { enabled: true, private_hosts: Vec::new() }
    }
}
