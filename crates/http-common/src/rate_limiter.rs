//! Rate limits before the interface: of keys, of addresses, and of addresses with invalid keys.

use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use axum::http::{Extensions, HeaderMap};
use domain::id::KeyId;
use telemetry::Counter;

use crate::address::{Network, Peer, client_address, normalize_for_counting};
use crate::budget::{BudgetLimits, Budgets};
use crate::gcra::{GcraLimiter, RateLimit};

/// The default rate of requests with invalid keys per address: more than a misconfigured tool needs, and
/// useless for guessing.
const FAILED_KEYS: (u32, u32) = (10, 1000);

/// The operator's rate limits.
#[derive(Debug, Clone)]
pub struct RateLimits {
    /// The rate per key.
    pub per_key: Option<RateLimit>,
    /// The rate per address, regardless of keys.
    pub per_address: Option<RateLimit>,
    /// The rate per address of requests with a missing or invalid key.
    pub failed_keys: Option<RateLimit>,
    /// Proxies whose forwarding headers are trusted.
    pub trusted_proxies: Vec<Network>,
}

impl Default for RateLimits {
    fn default() -> Self {
        let number = |number| NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN);
        let failed_keys = RateLimit { per_second: number(FAILED_KEYS.0), burst: number(FAILED_KEYS.1) };
        Self { per_key: None, per_address: None, failed_keys: Some(failed_keys), trusted_proxies: Vec::new() }
    }
}

/// Enforces the operator's rate limits.
#[derive(Debug)]
pub struct RateLimiter {
    per_key: Option<GcraLimiter>,
    per_address: Option<GcraLimiter>,
    failed_keys: Option<GcraLimiter>,
    trusted_proxies: Vec<Network>,
    pub refused: RefusedRequests,
    /// The budgets of concurrent resources.
    pub budgets: Budgets,
}

/// Counts rejected requests by the exceeded limit.
#[derive(Debug, Default)]
pub struct RefusedRequests {
    /// The limit per key.
    pub per_key: Counter,
    /// The limit per address.
    pub per_address: Counter,
    /// The limit of invalid keys per address.
    pub failed_keys: Counter,
}

impl RateLimiter {
    /// Creates a rate limiter with these limits.
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

    /// Returns `true` if the address belongs to a trusted proxy.
    #[must_use]
    pub fn is_trusted_proxy(&self, address: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|network| network.contains_address(address.to_canonical()))
    }

    /// Returns the address that a request counts for; `None` if its connection has none.
    #[must_use]
    pub fn request_address(&self, extensions: &Extensions, headers: &HeaderMap) -> Option<IpAddr> {
        let Peer(peer) = *extensions.get::<Peer>()?;
        Some(self.counting_address(Peer(peer), headers))
    }

    /// The address that a request over a connection of this peer is counted under.
    #[must_use]
    pub fn counting_address(&self, Peer(peer): Peer, headers: &HeaderMap) -> IpAddr {
        normalize_for_counting(client_address(peer, headers, &self.trusted_proxies))
    }

    /// Takes a request from the address's allowance.
    ///
    /// # Errors
    /// The time to wait, if the allowance is used up.
    pub fn by_address(&self, address: IpAddr) -> Result<(), Duration> {
        let Some(limiter) = &self.per_address else { return Ok(()) };
        limiter.take_request(&address).inspect_err(|_| self.refused.per_address.increment())
    }

    /// Checks whether unknown keys of this address may be looked up.
    ///
    /// # Errors
    /// The time to wait, if too many were invalid.
    pub fn check_failed_keys(&self, address: IpAddr) -> Result<(), Duration> {
        let Some(limiter) = &self.failed_keys else { return Ok(()) };
        limiter.peek(&address).inspect_err(|_| self.refused.failed_keys.increment())
    }

    /// Records an invalid key of this address.
    pub fn record_failed_key(&self, address: IpAddr) {
        if let Some(limiter) = &self.failed_keys {
            // The attempt itself was allowed; an exceeded limit affects the next one.
            let _ = limiter.take_request(&address);
        }
    }

    /// Takes a request from the key's allowance.
    ///
    /// # Errors
    /// The time to wait, if the allowance is used up.
    pub fn by_key(&self, key: KeyId) -> Result<(), Duration> {
        let Some(limiter) = &self.per_key else { return Ok(()) };
        limiter.take_request(&key).inspect_err(|_| self.refused.per_key.increment())
    }
}
