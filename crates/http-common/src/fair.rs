//! Fair sharing of concurrent work among its holders.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};

use crate::holder::{BudgetBounds, BudgetHolder};

/// The least number of holders that triggers the removal of idle ones.
const SWEEP_MIN_HOLDERS: usize = 64;

/// Limits concurrent work per holder and in total.
///
/// A holder first waits for one of its permits, then for a common one. So even a holder with many requests has
/// at most its number of permits in the common queue, and does not delay the others.
#[derive(Debug)]
pub struct FairGate {
    each: usize,
    all: Semaphore,
    holders: Mutex<Holders>,
}

#[derive(Debug, Default)]
struct Holders {
    /// The permits of holders with running or waiting work.
    places: HashMap<BudgetHolder, Weak<Semaphore>>,
    sweep_at: usize,
}

/// A permit of a [`FairGate`], returned when it is dropped.
#[derive(Debug)]
pub struct FairGatePermit<'a> {
    _all: Option<SemaphorePermit<'a>>,
    _own: Option<OwnedSemaphorePermit>,
}

impl FairGate {
    /// Creates a gate with these bounds.
    #[must_use]
    pub fn new(bounds: BudgetBounds) -> Self {
        let count = |bound: u64| usize::try_from(bound).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { each: count(bounds.each), all: Semaphore::new(count(bounds.all)), holders: Mutex::default() }
    }

    /// Waits for a permit. Cancel safe: a dropped call leaves the queues.
    pub async fn acquire_permit(&self, holder: BudgetHolder) -> FairGatePermit<'_> {
        // The semaphores are never closed.
        let own = self.holder_semaphore(holder).acquire_owned().await.ok();
        let all = self.all.acquire().await.ok();
        FairGatePermit { _all: all, _own: own }
    }

    fn holder_semaphore(&self, holder: BudgetHolder) -> Arc<Semaphore> {
        let mut holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        if holders.places.len() >= holders.sweep_at {
            holders.places.retain(|_, places| places.strong_count() > 0);
            holders.sweep_at = (2 * holders.places.len()).max(SWEEP_MIN_HOLDERS);
        }
        let known = holders.places.entry(holder).or_default();
        known.upgrade().unwrap_or_else(|| {
            let places = Arc::new(Semaphore::new(self.each));
            *known = Arc::downgrade(&places);
            places
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use futures_util::FutureExt;

    use super::*;

    fn address_holder(number: u8) -> BudgetHolder {
        BudgetHolder::Address(IpAddr::from([192, 0, 2, number]))
    }

    #[tokio::test]
    async fn fair_gate_crowd_blocks_nobody_else() {
        let gate = FairGate::new(BudgetBounds { each: 2, all: 3 });
        let [first, second] =
            [gate.acquire_permit(address_holder(1)).await, gate.acquire_permit(address_holder(1)).await];
        let mut crowd: Vec<_> = (0..1000).map(|_| Box::pin(gate.acquire_permit(address_holder(1)))).collect();
        for one in &mut crowd {
            assert!(one.as_mut().now_or_never().is_none(), "it has two places, and no more");
        }
        let other = gate
            .acquire_permit(address_holder(2))
            .now_or_never()
            .expect("there is a place that is not the first one's");
        let mut third = Box::pin(gate.acquire_permit(address_holder(3)));
        assert!(third.as_mut().now_or_never().is_none(), "all places are taken");
        drop(first);
        let third = third.now_or_never().expect("the crowd stands behind its own places");
        drop((second, other, third));
        for one in crowd {
            drop(one.await);
        }
        assert_eq!(gate.all.available_permits(), 3);
    }

    #[tokio::test]
    async fn holders_that_left_are_forgotten() {
        let gate = FairGate::new(BudgetBounds { each: 1, all: 1 });
        for number in 0..=255 {
            drop(gate.acquire_permit(address_holder(number)).await);
            assert!(gate.holders.lock().expect("it is whole").places.len() <= SWEEP_MIN_HOLDERS + 1);
        }
        let waits = gate.acquire_permit(address_holder(1)).await;
        assert!(gate.acquire_permit(address_holder(1)).now_or_never().is_none(), "it goes away again");
        drop(waits);
        assert!(gate.acquire_permit(address_holder(1)).now_or_never().is_some());
    }
}
