//! The clock and the random numbers, passed in as dependencies.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use domain::time::{Clock, Timestamp};
use telemetry::trace::Tracer;

/// A source of random bits.
pub trait Entropy: Send + Sync {
    fn fill_random(&self, bytes: &mut [u8]);
}

/// The external dependencies of the service: clock, random numbers and tracer. Cheap to clone.
#[derive(Clone)]
pub struct ServiceEnvironment {
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    tracer: Tracer,
}

impl ServiceEnvironment {
    /// Creates an environment with the system's clock and random numbers.
    #[must_use]
    pub fn system() -> Self {
        Self::new(Arc::new(SystemClock), Arc::new(SystemEntropy))
    }

    /// Creates an environment from its parts, for tests.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, entropy: Arc<dyn Entropy>) -> Self {
        Self { clock, entropy, tracer: Tracer::off() }
    }

    /// Returns the environment with this tracer.
    #[must_use]
    pub fn with_tracer(self, tracer: Tracer) -> Self {
        Self { tracer, ..self }
    }

    #[must_use]
    pub fn tracer(&self) -> &Tracer {
        &self.tracer
    }

    #[must_use]
    pub fn clock(&self) -> Arc<dyn Clock> {
        self.clock.clone()
    }

    /// Returns the current time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Returns 128 random bits, for an identifier.
    #[must_use]
    pub fn random_bits(&self) -> u128 {
        u128::from_be_bytes(self.random_bytes())
    }

    #[must_use]
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.entropy.fill_random(&mut bytes);
        bytes
    }
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}

struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill_random(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("the operating system has random numbers");
    }
}
