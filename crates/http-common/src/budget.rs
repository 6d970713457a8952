//! Budgets of resources: limits per account or address, and in total.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use telemetry::Counter;

use crate::fair::FairGate;
use crate::holder::{BudgetBounds, BudgetHolder};
use crate::limits::{
    BODY_BYTES_EACH, BODY_BYTES_MAX, COMPRESSED_EACH, COMPRESSED_MAX, HEADS_EACH, HEADS_MAX, MADE_EACH,
    MADE_MAX, PREVIEWS_EACH, PREVIEWS_MAX, REQUESTS_EACH, REQUESTS_MAX, STRANGER_BYTES_EACH,
    STRANGER_BYTES_MAX, TRANSFERS_EACH, TRANSFERS_MAX,
};

/// The `Retry-After` of a request that exceeded a budget.
pub const BUDGET_RETRY_AFTER: Duration = Duration::from_secs(5);

/// The error of an exhausted budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BudgetExceeded {
    /// The holder's own budget (429).
    #[error("too many concurrent requests of this account: wait for some to finish, or try again later")]
    Own,
    /// The budget of all holders (503).
    #[error("too many concurrent requests of all accounts: try again later")]
    All,
}

/// A budget of a resource.
#[derive(Debug)]
pub struct Budget {
    bounds: BudgetBounds,
    held: Mutex<HeldAmounts>,
    pub refused: Counter,
}

#[derive(Debug, Default)]
struct HeldAmounts {
    all: u64,
    /// The holders with a share.
    each: HashMap<BudgetHolder, u64>,
}

impl Budget {
    /// Creates a budget without any shares.
    #[must_use]
    pub fn new(bounds: BudgetBounds) -> Arc<Self> {
        Arc::new(Self { bounds, held: Mutex::default(), refused: Counter::default() })
    }

    /// Takes this amount until the share is dropped.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn take_share(
        self: &Arc<Self>,
        holder: BudgetHolder,
        amount: u64,
    ) -> Result<BudgetShare, BudgetExceeded> {
        let mut share = self.empty_share(holder);
        share.grow_by(amount)?;
        Ok(share)
    }

    /// Takes this amount even if it exceeds the budget, for data that the holder must get in any case.
    #[must_use]
    pub fn take_unchecked(self: &Arc<Self>, holder: BudgetHolder, amount: u64) -> BudgetShare {
        self.lock_amounts().add_amount(holder, amount);
        BudgetShare { budget: self.clone(), holder, amount }
    }

    /// Returns an empty share, which can grow.
    #[must_use]
    pub fn empty_share(self: &Arc<Self>, holder: BudgetHolder) -> BudgetShare {
        BudgetShare { budget: self.clone(), holder, amount: 0 }
    }

    /// Returns the amount that all holders have together.
    #[must_use]
    pub fn total_amount(&self) -> u64 {
        self.lock_amounts().all
    }

    fn lock_amounts(&self) -> MutexGuard<'_, HeldAmounts> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HeldAmounts {
    fn add_amount(&mut self, holder: BudgetHolder, amount: u64) {
        self.all = self.all.saturating_add(amount);
        let own = self.each.entry(holder).or_default();
        *own = own.saturating_add(amount);
    }
}

/// A holder's part of a budget, returned when it is dropped.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    holder: BudgetHolder,
    amount: u64,
}

impl BudgetShare {
    /// Takes more of the same budget.
    ///
    /// # Errors
    /// [`BudgetExceeded`]; the share then stays as it was.
    pub fn grow_by(&mut self, more: u64) -> Result<(), BudgetExceeded> {
        let Budget { bounds, held, refused } = &*self.budget;
        let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
        let own = held.each.get(&self.holder).copied().unwrap_or_default();
        let spent = if own.saturating_add(more) > bounds.each {
            BudgetExceeded::Own
        } else if held.all.saturating_add(more) > bounds.all {
            BudgetExceeded::All
        } else {
            held.add_amount(self.holder, more);
            self.amount += more;
            return Ok(());
        };
        refused.increment();
        Err(spent)
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        let mut held = self.budget.lock_amounts();
        held.all = held.all.saturating_sub(self.amount);
        if let Some(own) = held.each.get_mut(&self.holder) {
            *own = own.saturating_sub(self.amount);
            if *own == 0 {
                held.each.remove(&self.holder);
            }
        }
    }
}

/// The operator's limits of all budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Concurrent requests, including open streams.
    pub requests: BudgetBounds,
    /// Concurrent uploads and downloads, each with an open file.
    pub transfers: BudgetBounds,
    /// Bytes of bodies in memory: of questions while they are received, of responses until they are sent.
    pub body_bytes: BudgetBounds,
}

impl Default for BudgetLimits {
    fn default() -> Self {
        Self {
            requests: BudgetBounds { each: REQUESTS_EACH, all: REQUESTS_MAX },
            transfers: BudgetBounds { each: TRANSFERS_EACH, all: TRANSFERS_MAX },
            body_bytes: BudgetBounds { each: BODY_BYTES_EACH, all: BODY_BYTES_MAX },
        }
    }
}

/// The budgets of a service. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Budgets {
    pub requests: Arc<Budget>,
    /// Concurrent uploads and downloads.
    pub transfers: Arc<Budget>,
    /// Bytes of bodies in memory, of accounts.
    pub body_bytes: Arc<Budget>,
    /// Bytes of responses in memory to requests without a valid key. Separate, so that they take nothing from
    /// accounts.
    pub stranger_bytes: Arc<Budget>,
    /// Responses that are being compressed.
    pub compressed: Arc<Budget>,
    /// Connections with an incomplete long head.
    pub heads: Arc<Budget>,
    /// Responses that are created from much data; others wait.
    pub made: Arc<FairGate>,
    /// Previews of documents that machines make; others wait.
    pub previews: Arc<FairGate>,
}

impl Budgets {
    /// Creates the budgets with these limits.
    #[must_use]
    pub fn new(limits: BudgetLimits) -> Self {
        Self {
            requests: Budget::new(limits.requests),
            transfers: Budget::new(limits.transfers),
            body_bytes: Budget::new(limits.body_bytes),
            stranger_bytes: Budget::new(BudgetBounds { each: STRANGER_BYTES_EACH, all: STRANGER_BYTES_MAX }),
            compressed: Budget::new(BudgetBounds { each: COMPRESSED_EACH, all: COMPRESSED_MAX }),
            heads: Budget::new(BudgetBounds { each: HEADS_EACH, all: HEADS_MAX }),
            made: Arc::new(FairGate::new(BudgetBounds { each: MADE_EACH, all: MADE_MAX })),
            previews: Arc::new(FairGate::new(BudgetBounds { each: PREVIEWS_EACH, all: PREVIEWS_MAX })),
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

    fn address_holder(last: u8) -> BudgetHolder {
        BudgetHolder::Address(IpAddr::from([192, 0, 2, last]))
    }

    #[test]
    fn budget_bounds_each_and_all() {
        let budget = Budget::new(BudgetBounds { each: 10, all: 25 });
        let first = budget.take_share(address_holder(1), 10).expect("there is room");
        assert_eq!(budget.take_share(address_holder(1), 1).err(), Some(BudgetExceeded::Own));
        let mut second = budget.take_share(address_holder(2), 5).expect("there is room");
        second.grow_by(5).expect("there is room");
        assert_eq!(second.grow_by(1), Err(BudgetExceeded::Own));
        let third = budget.take_share(address_holder(3), 6);
        assert_eq!(third.err(), Some(BudgetExceeded::All));
        let owed = budget.take_unchecked(address_holder(3), 6);
        assert_eq!((budget.total_amount(), budget.refused.get()), (26, 3));
        drop((first, owed));
        assert_eq!(budget.total_amount(), 10);
        assert!(budget.take_share(address_holder(3), 10).is_ok());
        drop(second);
        assert_eq!(
            (budget.total_amount(), budget.lock_amounts().each.len()),
            (0, 0),
            "who holds nothing is forgotten"
        );
    }
}
