//! The guard before the interface: how many requests a key, an address, and an address with wrong keys may make.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{Extensions, HeaderMap};
use domain::id::KeyId;
use telemetry::Counter;

use crate::address::{Network, Peer, client_address, counted};
use crate::budget::{BudgetLimits, Budgets};
use crate::gcra::{GcraLimiter, Rate};

/// Requests with wrong keys that an address may make unless the operator says otherwise: more than any tool that was
/// set up wrongly needs, and nothing to whoever guesses.
const FAILED_KEYS: (u32, u32) = (10, 1000);

/// What an operator sets.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// Requests of each key.
    pub per_key: Option<Rate>,
    /// Requests of each address, whatever their key.
    pub per_address: Option<Rate>,
    /// Requests of each address whose key is missing or wrong.
    pub failed_keys: Option<Rate>,
    /// Proxies whose word on the client's address is believed.
    pub trusted_proxies: Vec<Network>,
}

impl Default for RateLimits {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let failed_keys = Rate { per_second: number(FAILED_KEYS.0), burst: number(FAILED_KEYS.1) };
        Self { per_key: None, per_address: None, failed_keys: Some(failed_keys), trusted_proxies: Vec::new() }
    }
}

/// Lets requests in at the rates that the operator set.
#[derive(Debug)]
pub struct RateLimiter {
    per_key: Option<GcraLimiter>,
    per_address: Option<GcraLimiter>,
    failed_keys: Option<GcraLimiter>,
    trusted_proxies: Vec<Network>,
    /// Requests that were refused.
    pub refused: RefusedRequests,
    /// What may be held at once.
    pub budgets: Budgets,
}

/// Requests that were refused, by what they were too many of.
#[derive(Debug, Default)]
pub struct RefusedRequests {
    /// Of a key.
    pub per_key: Counter,
    /// Of an address.
    pub per_address: Counter,
    /// Of an address with wrong keys.
    pub failed_keys: Counter,
}

impl RateLimiter {
    /// A guard by these limits.
    #[must_use]
    pub fn new(limits: RateLimits, budgets: BudgetLimits) -> Self {
        Self {
            per_key: limits.per_key.map(GcraLimiter::new),
            per_address: limits.per_address.map(GcraLimiter::new),
            failed_keys: limits.failed_keys.map(GcraLimiter::new),
            trusted_proxies: limits.trusted_proxies,
            refused: RefusedRequests::default(),
            budgets: Budgets::new(budgets),
        }
    }

    /// Whether it is the address of a proxy whose word is believed.
    #[must_use]
    pub fn trusts(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.holds(address.to_canonical()))
    }

    /// The address that a request is counted under; `None` when its connection did not tell.
    #[must_use]
    pub fn address(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let Peer(peer) = *extensions.get::<Peer>()?;
        Some(self.client(Peer(peer), headers))
    }

    /// The address that a request over a connection of this peer is counted under.
    #[must_use]
    pub fn client(&self, Peer(peer): Peer, headers: &HeaderMap) -> IpAddr {
        counted(client_address(peer, headers, &self.trusted_proxies))
    }

    /// Takes a request from the address's allowance.
    ///
    /// # Errors
    /// When there is none: how long to wait.
    pub fn by_address(&self, address: IpAddr) -> Result<(), Duration> {
        let Some(limiter) = &self.per_address else { return Ok(()) };
        limiter.take(&address).inspect_err(|_| self.refused.per_address.increment())
    }

    /// Whether keys of this address that nobody has seen yet are looked at.
    ///
    /// # Errors
    /// When too many were wrong: how long to wait.
    pub fn check_failed_keys(&self, address: IpAddr) -> Result<(), Duration> {
        let Some(limiter) = &self.failed_keys else { return Ok(()) };
        limiter.peek(&address).inspect_err(|_| self.refused.failed_keys.increment())
    }

    /// A key of this address was wrong.
    pub fn record_failed_key(&self, address: IpAddr) {
        if let Some(limiter) = &self.failed_keys {
            // It was allowed to be tried; that there is nothing left is told to the next.
            let _ = limiter.take(&address);
        }
    }

    /// Takes a request from the key's allowance.
    ///
    /// # Errors
    /// When there is none: how long to wait.
    pub fn by_key(&self, key: KeyId) -> Result<(), Duration> {
        let Some(limiter) = &self.per_key else { return Ok(()) };
        limiter.take(&key).inspect_err(|_| self.refused.per_key.increment())
    }
}
