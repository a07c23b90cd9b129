//! What all retries of a gateway may cost: a share of the requests, so that a fleet that fails is not asked several times
//! as much as one that is well.

use std::sync::atomic::{AtomicU32, Ordering};

/// Retries that one request pays for, in thousandths.
const DEPOSIT: u32 = 200;
/// What a retry costs.
const PRICE: u32 = 1_000;
/// The most that is saved: retries that may come at once after a quiet time.
const SAVED_MAX: u32 = 100 * PRICE;

/// The account.
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(SAVED_MAX))
    }
}

impl RetryBudget {
    /// A request has come.
    pub(crate) fn deposit(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| {
            (saved < SAVED_MAX).then(|| (saved + DEPOSIT).min(SAVED_MAX))
        });
    }

    /// A retry is wanted: says whether it is paid for.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| saved.checked_sub(PRICE)).is_ok()
    }

    /// The retry that was paid for is not made.
    pub(crate) fn give_back(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| Some((saved + PRICE).min(SAVED_MAX)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_savings_one_retry_is_paid_for_by_five_requests() {
        let budget = RetryBudget::default();
        assert_eq!((0..1_000).filter(|_| budget.withdraw()).count(), 100);
        (0..4).for_each(|_| budget.deposit());
        assert!(!budget.withdraw());
        budget.deposit();
        assert!(budget.withdraw() && !budget.withdraw());
        budget.give_back();
        assert!(budget.withdraw() && !budget.withdraw());
        (0..10_000).for_each(|_| budget.deposit());
        assert_eq!((0..1_000).filter(|_| budget.withdraw()).count(), 100);
    }
}
