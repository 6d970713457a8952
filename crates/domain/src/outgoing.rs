//! How connections to other servers leave the host: proxies and trusted certificates.

use std::fmt;
use std::sync::Arc;

use crate::secret::Secret;

/// The proxy of outgoing connections.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ProxyChoice {
    /// The variables of the environment: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`.
    #[default]
    Environment,
    /// No proxy, even if the environment sets one.
    Off,
    /// This one, for all but some hosts.
    Server {
        /// The URL, which may contain a password.
        url: Secret,
        /// Hosts, domains and networks that are connected directly, separated by commas.
        except: String,
    },
}

/// The configuration of outgoing connections.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct OutgoingConfig {
    pub proxy: ProxyChoice,
    /// Certificates of authorities that are trusted in addition to the system's: X.509 in DER.
    pub authorities: Arc<[Vec<u8>]>,
}

impl fmt::Debug for OutgoingConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authorities = self.authorities.len();
        f.debug_struct("OutgoingConfig")
            .field("proxy", &self.proxy)
            .field("authorities", &authorities)
            .finish()
    }
}
