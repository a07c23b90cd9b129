//! When a replica whose requests fail gets no more of them, and how it comes back.
//!
//! After [`FAILURES_MAX`] failures in a row a replica is **ejected** for a while, doubled with each ejection that follows
//! soon. Then it is on **trial**: one request at a time, until [`TRIALS`] of them succeeded. A failure on trial ejects it
//! again at once. Only failures that speak against the replica count: no connection, a connection lost before the
//! answer or none in time, an answer that breaks off, an error status of the server's kind. Refusals for load (429, 503) do not.
//!
//! A replica that fails fast looks idle to every strategy that counts requests. So each recent failure weighs like a
//! request in flight until [`PENALTY_US`] have passed: a failure counts as slow, not as fast.

use parking_lot::Mutex;

/// Failures in a row that eject.
pub const FAILURES_MAX: u32 = 5;
/// First ejection, microseconds.
pub const EJECTION_US: u64 = 5_000_000;
/// Longest ejection, microseconds.
pub const EJECTION_US_MAX: u64 = 80_000_000;
/// Successes on trial that end it.
pub const TRIALS: u32 = 3;
/// How long a failure weighs, microseconds.
pub const PENALTY_US: u64 = 10_000_000;

/// The state of one replica.
#[derive(Debug, Default)]
pub struct Breaker(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    failures_in_row: u32,
    /// Recent failures, for their weight.
    recent: u32,
    last_failure_us: u64,
    /// 0 if it was never ejected, or has come back for good.
    ejected_until_us: u64,
    ejection_us: u64,
    trials_left: u32,
}

/// Whether requests may go to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Any number.
    Closed,
    /// One at a time.
    Trial,
    /// None before this time.
    Ejected {
        /// Microseconds on the caller's clock.
        until_us: u64,
    },
}

impl Breaker {
    /// Whether requests may go there now.
    pub fn verdict(&self, now_us: u64) -> Verdict {
        let inner = self.0.lock();
        match inner.ejected_until_us {
            0 => Verdict::Closed,
            until_us if now_us < until_us => Verdict::Ejected { until_us },
            _ => Verdict::Trial,
        }
    }

    /// Recent failures, each of which weighs like a request in flight.
    pub fn penalty(&self, now_us: u64) -> u32 {
        let inner = self.0.lock();
        if now_us.saturating_sub(inner.last_failure_us) < PENALTY_US { inner.recent } else { 0 }
    }

    /// A request went well. One that was sent before an ejection and ends during it says nothing of the time since.
    pub fn succeeded(&self, now_us: u64) {
        let mut inner = self.0.lock();
        inner.failures_in_row = 0;
        if inner.ejected_until_us > 0 && now_us >= inner.ejected_until_us {
            inner.trials_left = inner.trials_left.saturating_sub(1);
            if inner.trials_left == 0 {
                *inner = Inner::default();
            }
        }
    }

    /// A request failed, and the replica is to blame. Says whether it is ejected because of it.
    pub fn failed(&self, now_us: u64) -> bool {
        let mut inner = self.0.lock();
        if now_us.saturating_sub(inner.last_failure_us) >= PENALTY_US {
            inner.recent = 0;
        }
        inner.recent = (inner.recent + 1).min(FAILURES_MAX);
        inner.last_failure_us = now_us;
        inner.failures_in_row += 1;
        let is_on_trial = inner.ejected_until_us > 0 && now_us >= inner.ejected_until_us;
        let is_ejected = now_us < inner.ejected_until_us;
        if is_ejected || !(is_on_trial || inner.failures_in_row >= FAILURES_MAX) {
            return false;
        }
        inner.ejection_us = if is_on_trial { (inner.ejection_us * 2).min(EJECTION_US_MAX) } else { EJECTION_US };
        inner.ejected_until_us = now_us + inner.ejection_us;
        inner.trials_left = TRIALS;
        inner.failures_in_row = 0;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(breaker: &Breaker, times: u32, now_us: u64) -> bool {
        (0..times).map(|_| breaker.failed(now_us)).last().unwrap_or(false)
    }

    #[test]
    fn failures_in_a_row_eject_and_a_success_between_them_does_not_let_them_add_up() {
        let breaker = Breaker::default();
        assert!(!failing(&breaker, FAILURES_MAX - 1, 1));
        breaker.succeeded(1);
        assert!(!failing(&breaker, FAILURES_MAX - 1, 2));
        assert_eq!(breaker.verdict(2), Verdict::Closed);
        assert!(breaker.failed(3));
        assert_eq!(breaker.verdict(4), Verdict::Ejected { until_us: 3 + EJECTION_US });
    }

    #[test]
    fn after_its_time_it_is_on_trial_and_successes_bring_it_back() {
        let breaker = Breaker::default();
        failing(&breaker, FAILURES_MAX, 0);
        assert_eq!(breaker.verdict(EJECTION_US), Verdict::Trial);
        for _ in 0..TRIALS {
            assert_eq!(breaker.verdict(EJECTION_US), Verdict::Trial);
            breaker.succeeded(EJECTION_US);
        }
        assert_eq!(breaker.verdict(EJECTION_US), Verdict::Closed);
    }

    #[test]
    fn a_failure_on_trial_ejects_again_and_for_longer_up_to_a_limit() {
        let breaker = Breaker::default();
        failing(&breaker, FAILURES_MAX, 0);
        let (mut now_us, mut length_us) = (0, EJECTION_US);
        for _ in 0..8 {
            now_us += length_us;
            assert_eq!(breaker.verdict(now_us), Verdict::Trial);
            assert!(breaker.failed(now_us));
            length_us = (length_us * 2).min(EJECTION_US_MAX);
            assert_eq!(breaker.verdict(now_us), Verdict::Ejected { until_us: now_us + length_us });
        }
    }

    #[test]
    fn late_endings_of_requests_sent_before_the_ejection_change_nothing() {
        let breaker = Breaker::default();
        failing(&breaker, FAILURES_MAX, 0);
        assert!(!failing(&breaker, 50, 10));
        (0..TRIALS).for_each(|_| breaker.succeeded(10));
        assert_eq!(breaker.verdict(EJECTION_US), Verdict::Trial);
    }

    #[test]
    fn a_recent_failure_weighs_like_a_request_and_an_old_one_does_not() {
        let breaker = Breaker::default();
        assert_eq!(breaker.penalty(0), 0);
        failing(&breaker, 3, 100);
        assert_eq!(breaker.penalty(101), 3);
        breaker.succeeded(101);
        assert_eq!(breaker.penalty(101), 3);
        assert_eq!(breaker.penalty(100 + PENALTY_US), 0);
        breaker.failed(100 + PENALTY_US);
        assert_eq!(breaker.penalty(100 + PENALTY_US), 1);
    }
}
