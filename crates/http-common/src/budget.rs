//! Budgets: how much of something each account or address may hold at once, and how much all of them together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use telemetry::Counter;

use crate::fair::FairGate;
use crate::holder::{Bounds, Holder};
use crate::limits::{
    BODY_BYTES_EACH, BODY_BYTES_MAX, COMPRESSED_EACH, COMPRESSED_MAX, HEADS_EACH, HEADS_MAX, MADE_EACH,
    MADE_MAX, REQUESTS_EACH, REQUESTS_MAX, STRANGER_BYTES_EACH, STRANGER_BYTES_MAX, TRANSFERS_EACH,
    TRANSFERS_MAX,
};

/// After how long whoever was refused is told to come again.
pub const BUDGET_RETRY_AFTER: Duration = Duration::from_secs(5);

/// A budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The holder's own (429).
    #[error("too much is under way for this account at once; finish some of it, or try again later")]
    Own,
    /// The one of all (503).
    #[error("the service has too much under way at once; try again later")]
    All,
}

/// A budget of something that is held for a while.
#[derive(Debug)]
pub struct Budget {
    bounds: Bounds,
    held: Mutex<Held>,
    /// How often it was used up.
    pub refused: Counter,
}

#[derive(Debug, Default)]
struct Held {
    all: u64,
    /// Only those that hold something.
    each: HashMap<Holder, u64>,
}

impl Budget {
    /// A budget of which nothing is held.
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Mutex::default(), refused: Counter::default() })
    }

    /// Takes so much of it until the share is dropped.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn take(self: &Arc<Self>, holder: Holder, amount: u64) -> Result<Share, BudgetExceeded> {
        let mut share = self.empty_share(holder);
        share.grow(amount)?;
        Ok(share)
    }

    /// Takes so much of it, even where that is more than there is: for what is owed to the holder already.
    #[must_use]
    pub fn take_unchecked(self: &Arc<Self>, holder: Holder, amount: u64) -> Share {
        self.lock().add(holder, amount);
        Share { budget: self.clone(), holder, amount }
    }

    /// A share that can grow.
    #[must_use]
    pub fn empty_share(self: &Arc<Self>, holder: Holder) -> Share {
        Share { budget: self.clone(), holder, amount: 0 }
    }

    /// How much is held by all.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn add(&mut self, holder: Holder, amount: u64) {
        self.all = self.all.saturating_add(amount);
        let own = self.each.entry(holder).or_default();
        *own = own.saturating_add(amount);
    }
}

/// What somebody holds of a budget, given back when it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Arc<Budget>,
    holder: Holder,
    amount: u64,
}

impl Share {
    /// Takes more of the same budget.
    ///
    /// # Errors
    /// [`BudgetExceeded`]; then it holds what it held.
    pub fn grow(&mut self, more: u64) -> Result<(), BudgetExceeded> {
        let Budget { bounds, held, refused } = &*self.budget;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.each.get(&self.holder).copied().unwrap_or_default();
        let spent = if own.saturating_add(more) > bounds.each {
            BudgetExceeded::Own
        } else if held.all.saturating_add(more) > bounds.all {
            BudgetExceeded::All
        } else {
            held.add(self.holder, more);
            self.amount += more;
            return Ok(());
        };
        refused.increment();
        Err(spent)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut held = self.budget.lock();
        held.all = held.all.saturating_sub(self.amount);
        if let Some(own) = held.each.get_mut(&self.holder) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.each.remove(&self.holder);
            }
        }
    }
}

/// What an operator sets of the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Requests that are under way, open streams among them.
    pub requests: Bounds,
    /// Uploads and downloads that are under way: each has a file open.
    pub transfers: Bounds,
    /// Bytes of bodies that are held: of questions as they come in, of responses until they are taken.
    pub body_bytes: Bounds,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self {
            requests: Bounds { each: REQUESTS_EACH, all: REQUESTS_MAX },
            transfers: Bounds { each: TRANSFERS_EACH, all: TRANSFERS_MAX },
            body_bytes: Bounds { each: BODY_BYTES_EACH, all: BODY_BYTES_MAX },
        }
    }
}

/// The budgets of a service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Budgets {
    /// Requests that are under way.
    pub requests: Arc<Budget>,
    /// Uploads and downloads that are under way.
    pub transfers: Arc<Budget>,
    /// Bytes of bodies that accounts have held.
    pub body_bytes: Arc<Budget>,
    /// Bytes of responses to those who showed no valid key: apart, so that they take nothing from accounts.
    pub stranger_bytes: Arc<Budget>,
    /// Responses that are being compressed.
    pub compressed: Arc<Budget>,
    /// Connections on which a long head has come in part.
    pub heads: Arc<Budget>,
    /// Responses that are made from much that is read; others wait for their turn.
    pub made: Arc<FairGate>,
}

impl Budgets {
    /// Budgets of these limits.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            requests: Budget::new(limits.requests),
            transfers: Budget::new(limits.transfers),
            body_bytes: Budget::new(limits.body_bytes),
            stranger_bytes: Budget::new(Bounds { each: STRANGER_BYTES_EACH, all: STRANGER_BYTES_MAX }),
            compressed: Budget::new(Bounds { each: COMPRESSED_EACH, all: COMPRESSED_MAX }),
            heads: Budget::new(Bounds { each: HEADS_EACH, all: HEADS_MAX }),
            made: Arc::new(FairGate::new(Bounds { each: MADE_EACH, all: MADE_MAX })),
        }
    }
}

impl Default for Budgets {
    fn default() -> Self {
        Self::new(BudgetLimits::default())
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn address(last: u8) -> Holder {
        Holder::Address(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn each_holds_its_own_bound_and_all_theirs() {
        let budget = Budget::new(Bounds { each: 10, all: 25 });
        let first = budget.take(address(1), 10).expect("there is room");
        assert_eq!(budget.take(address(1), 1).err(), Some(BudgetExceeded::Own));
        let mut second = budget.take(address(2), 5).expect("there is room");
        second.grow(5).expect("there is room");
        assert_eq!(second.grow(1), Err(BudgetExceeded::Own));
        let third = budget.take(address(3), 6);
        assert_eq!(third.err(), Some(BudgetExceeded::All));
        let owed = budget.take_unchecked(address(3), 6);
        assert_eq!((budget.held(), budget.refused.get()), (26, 3));
        drop((first, owed));
        assert_eq!(budget.held(), 10);
        assert!(budget.take(address(3), 10).is_ok());
        drop(second);
        assert_eq!((budget.held(), budget.lock().each.len()), (0, 0), "who holds nothing is forgotten");
    }
}
