//! When a replica whose requests fail gets no more of them, and how it comes back.
//!
//! After [`FAILURES_MAX`] failures in a row a replica is **ejected** for a while, doubled with each ejection that follows
//! soon. Then it is on **trial**: one request at a time, until [`TRIALS`] of them succeeded. A failure on trial ejects it
//! again at once. Only failures that speak against the replica count ([`Failure`]). Refusals for load (429, 503) do not.
//!
//! Two rules keep the breaker from saying more than it knows:
//!
//! - Only requests that were placed since the last ejection speak for or against a replica, each once: a [`Ticket`] says
//!   when its request was placed, and who has the trial. What was under way before the ejection proves nothing of the
//!   time since.
//! - A failure of a request that reached the replica may be the request's own doing: a prompt that no engine can take
//!   fails wherever it goes. So a replica that can be reached is ejected only from where others can serve; where nobody
//!   else can it still does ([`Verdict::Ejected`]). Nothing but connections that cannot be made shows that there is nobody.
//!
//! A replica that fails fast looks idle to every strategy that counts requests. So each recent failure weighs like a
//! request in flight until [`PENALTY_US`] have passed: a failure counts as slow, not as fast.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

/// Failures in a row that eject.
pub const FAILURES_MAX: u32 = 5;
/// First ejection, microseconds.
pub const EJECTION_US: u64 = 5_000_000;
/// Longest ejection, microseconds.
pub const EJECTION_US_MAX: u64 = 80_000_000;
/// Successes since the ejection that end it.
pub const TRIALS: u32 = 3;
/// How long a failure weighs, microseconds.
pub const PENALTY_US: u64 = 10_000_000;

/// The state of one replica.
#[derive(Debug)]
pub struct Breaker {
    /// There is nothing to know: no ejection, no recent failure. Most replicas at most times, and then nobody needs the
    /// lock.
    is_calm: AtomicBool,
    /// Ejections so far. Written under the lock.
    epoch: AtomicU32,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    failures_in_row: u32,
    /// Of the failures in a row, the last ones of which none reached the replica.
    unreachable_in_row: u32,
    /// Recent failures, for their weight.
    recent: u32,
    last_failure_us: u64,
    /// From an ejection until the replica has come back for good.
    ejection: Option<Ejection>,
}

#[derive(Debug)]
struct Ejection {
    until_us: u64,
    length_us: u64,
    is_reachable: bool,
    trials_left: u32,
    is_tried: bool,
}

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection could be made, whatever the request was.
    Unreachable,
    /// The request got there, and the connection was lost before the answer, there was no answer in time, it broke off or
    /// told an error, or its status is of the server's kind.
    Request,
}

/// Whether requests may go to a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Any number.
    Closed,
    /// One at a time.
    Trial {
        /// The one is there.
        is_taken: bool,
    },
    /// None before this time.
    Ejected {
        /// Microseconds on the caller's clock.
        until_us: u64,
        /// It answered or at least took connections, so it may serve where nobody else can.
        is_reachable: bool,
    },
}

/// What a breaker says at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether requests may go there.
    pub verdict: Verdict,
    /// Recent failures, each of which weighs like a request in flight.
    pub penalty: u32,
}

/// Says when a request was placed, and whether it is the trial. To be given back when the request ends.
#[derive(Debug)]
#[must_use = "a ticket that is not given back keeps the trial"]
pub struct Ticket {
    epoch: u32,
    is_trial: bool,
}

impl Default for Breaker {
    fn default() -> Self {
        Self { is_calm: AtomicBool::new(true), epoch: AtomicU32::new(0), inner: Mutex::default() }
    }
}

impl Breaker {
    /// Whether requests may go there now, and how much recent failures weigh.
    pub fn standing(&self, now_us: u64) -> Standing {
        if self.is_calm.load(Ordering::Relaxed) {
            return Standing { verdict: Verdict::Closed, penalty: 0 };
        }
        let inner = self.inner.lock();
        Standing { verdict: inner.verdict(now_us), penalty: inner.penalty(now_us) }
    }

    /// A request is placed there. It has the trial if there is one to have.
    pub fn admit(&self, now_us: u64) -> Ticket {
        if self.is_calm.load(Ordering::Relaxed) {
            return Ticket { epoch: self.epoch.load(Ordering::Relaxed), is_trial: false };
        }
        let mut inner = self.inner.lock();
        let is_trial = inner.verdict(now_us) == Verdict::Trial { is_taken: false };
        if let Some(ejection) = &mut inner.ejection {
            ejection.is_tried |= is_trial;
        }
        Ticket { epoch: self.epoch.load(Ordering::Relaxed), is_trial }
    }

    /// A request has ended, however it did.
    pub fn give_back(&self, ticket: &Ticket) {
        if !ticket.is_trial {
            return;
        }
        let mut inner = self.inner.lock();
        if let Some(ejection) = inner.ejection.as_mut().filter(|_| self.is_current(ticket)) {
            ejection.is_tried = false;
        }
    }

    /// A request went well.
    pub fn succeeded(&self, ticket: &Ticket, now_us: u64) {
        if self.is_calm.load(Ordering::Relaxed) {
            return;
        }
        let mut inner = self.inner.lock();
        if !self.is_current(ticket) {
            return;
        }
        inner.failures_in_row = 0;
        inner.unreachable_in_row = 0;
        if let Some(ejection) = &mut inner.ejection {
            ejection.trials_left -= 1;
            if ejection.trials_left == 0 {
                *inner = Inner::default();
            }
        }
        let is_calm = inner.ejection.is_none() && inner.penalty(now_us) == 0;
        self.is_calm.store(is_calm, Ordering::Relaxed);
    }

    /// A request failed, and the replica is to blame. Says whether it is ejected because of it.
    pub fn failed(&self, ticket: &Ticket, failure: Failure, now_us: u64) -> bool {
        let mut inner = self.inner.lock();
        self.is_calm.store(false, Ordering::Relaxed);
        inner.recent = (inner.penalty(now_us) + 1).min(FAILURES_MAX);
        inner.last_failure_us = now_us;
        if !self.is_current(ticket) {
            return false;
        }
        inner.failures_in_row += 1;
        inner.unreachable_in_row = if failure == Failure::Unreachable { inner.unreachable_in_row + 1 } else { 0 };
        let Some((length_us, is_reachable)) = inner.ejects(failure, now_us) else { return false };
        let until_us = now_us.saturating_add(length_us);
        inner.ejection = Some(Ejection { until_us, length_us, is_reachable, trials_left: TRIALS, is_tried: false });
        inner.failures_in_row = 0;
        inner.unreachable_in_row = 0;
        self.epoch.fetch_add(1, Ordering::Relaxed);
        true
    }

    fn is_current(&self, ticket: &Ticket) -> bool {
        ticket.epoch == self.epoch.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn verdict(&self, now_us: u64) -> Verdict {
        match self.ejection {
            None => Verdict::Closed,
            Some(Ejection { until_us, is_reachable, .. }) if now_us < until_us => {
                Verdict::Ejected { until_us, is_reachable }
            }
            Some(Ejection { is_tried, .. }) => Verdict::Trial { is_taken: is_tried },
        }
    }

    fn penalty(&self, now_us: u64) -> u32 {
        if now_us.saturating_sub(self.last_failure_us) < PENALTY_US { self.recent } else { 0 }
    }

    /// Whether a failure just counted ejects: for how long, and whether the replica can be reached.
    fn ejects(&self, failure: Failure, now_us: u64) -> Option<(u64, bool)> {
        let none_reached_it = self.unreachable_in_row >= FAILURES_MAX;
        match &self.ejection {
            None => (self.failures_in_row >= FAILURES_MAX).then_some((EJECTION_US, !none_reached_it)),
            Some(on_trial) if now_us >= on_trial.until_us => {
                Some(((on_trial.length_us * 2).min(EJECTION_US_MAX), failure != Failure::Unreachable))
            }
            // It served where nobody else could, and now it is gone altogether.
            Some(ejected) => (ejected.is_reachable && none_reached_it).then_some((ejected.length_us, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A request that is placed, fails and ends at once, so many times; whether the last one ejected.
    fn failing(breaker: &Breaker, failure: Failure, times: u32, now_us: u64) -> bool {
        let fail = |_| {
            let ticket = breaker.admit(now_us);
            let ejected = breaker.failed(&ticket, failure, now_us);
            breaker.give_back(&ticket);
            ejected
        };
        (0..times).map(fail).last().unwrap_or(false)
    }

    fn succeeding(breaker: &Breaker, now_us: u64) {
        let ticket = breaker.admit(now_us);
        breaker.succeeded(&ticket, now_us);
        breaker.give_back(&ticket);
    }

    fn verdict(breaker: &Breaker, now_us: u64) -> Verdict {
        breaker.standing(now_us).verdict
    }

    fn ejected(until_us: u64) -> Verdict {
        Verdict::Ejected { until_us, is_reachable: true }
    }

    const FREE_TRIAL: Verdict = Verdict::Trial { is_taken: false };

    #[test]
    fn failures_in_a_row_eject_and_a_success_between_them_does_not_let_them_add_up() {
        let breaker = Breaker::default();
        assert!(!failing(&breaker, Failure::Request, FAILURES_MAX - 1, 1));
        succeeding(&breaker, 1);
        assert!(!failing(&breaker, Failure::Request, FAILURES_MAX - 1, 2));
        assert_eq!(verdict(&breaker, 2), Verdict::Closed);
        assert!(failing(&breaker, Failure::Request, 1, 3));
        assert_eq!(verdict(&breaker, 4), ejected(3 + EJECTION_US));
    }

    #[test]
    fn after_its_time_it_is_on_trial_and_successes_bring_it_back() {
        let breaker = Breaker::default();
        failing(&breaker, Failure::Request, FAILURES_MAX, 0);
        for _ in 0..TRIALS {
            assert_eq!(verdict(&breaker, EJECTION_US), FREE_TRIAL);
            succeeding(&breaker, EJECTION_US);
        }
        assert_eq!(breaker.standing(EJECTION_US), Standing { verdict: Verdict::Closed, penalty: 0 });
    }

    #[test]
    fn a_failure_on_trial_ejects_again_and_for_longer_up_to_a_limit() {
        let breaker = Breaker::default();
        failing(&breaker, Failure::Request, FAILURES_MAX, 0);
        let (mut now_us, mut length_us) = (0, EJECTION_US);
        for _ in 0..8 {
            now_us += length_us;
            assert_eq!(verdict(&breaker, now_us), FREE_TRIAL);
            assert!(failing(&breaker, Failure::Request, 1, now_us));
            length_us = (length_us * 2).min(EJECTION_US_MAX);
            assert_eq!(verdict(&breaker, now_us), ejected(now_us + length_us));
        }
    }

    #[test]
    fn the_trial_is_one_requests_until_that_ends_whatever_else_is_there() {
        let breaker = Breaker::default();
        let early = breaker.admit(0);
        failing(&breaker, Failure::Request, FAILURES_MAX, 0);
        let trial = breaker.admit(EJECTION_US);
        assert_eq!(verdict(&breaker, EJECTION_US), Verdict::Trial { is_taken: true });
        breaker.give_back(&early);
        let second = breaker.admit(EJECTION_US);
        breaker.give_back(&second);
        assert_eq!(verdict(&breaker, EJECTION_US), Verdict::Trial { is_taken: true });
        breaker.give_back(&trial);
        assert_eq!(verdict(&breaker, EJECTION_US), FREE_TRIAL);
    }

    #[test]
    fn endings_of_requests_placed_before_the_ejection_change_nothing_whenever_they_come() {
        let breaker = Breaker::default();
        let early: Vec<Ticket> = (0..20).map(|_| breaker.admit(0)).collect();
        failing(&breaker, Failure::Request, FAILURES_MAX, 0);
        for now_us in [10, EJECTION_US, EJECTION_US + 10] {
            let before = verdict(&breaker, now_us);
            for ticket in &early {
                breaker.succeeded(ticket, now_us);
                assert!(!breaker.failed(ticket, Failure::Unreachable, now_us));
                assert_eq!(verdict(&breaker, now_us), before);
            }
        }
        (0..TRIALS).for_each(|_| succeeding(&breaker, EJECTION_US + 20));
        assert_eq!(verdict(&breaker, EJECTION_US + 20), Verdict::Closed);
        early.iter().for_each(|ticket| _ = breaker.failed(ticket, Failure::Request, EJECTION_US + 30));
        assert_eq!(verdict(&breaker, EJECTION_US + 30), Verdict::Closed, "not even once it is back");
    }

    #[test]
    fn only_connections_that_cannot_be_made_show_that_nobody_is_there() {
        let is_reachable = |breaker: &Breaker, now_us| match verdict(breaker, now_us) {
            Verdict::Ejected { is_reachable, .. } => is_reachable,
            verdict => panic!("{verdict:?}"),
        };
        let breaker = Breaker::default();
        failing(&breaker, Failure::Unreachable, FAILURES_MAX - 1, 0);
        failing(&breaker, Failure::Request, 1, 0);
        assert!(is_reachable(&breaker, 1));
        // Asked all the same, for want of others, it turns out to be gone.
        assert!(!failing(&breaker, Failure::Unreachable, FAILURES_MAX - 1, 2));
        assert!(is_reachable(&breaker, 2));
        assert!(failing(&breaker, Failure::Unreachable, 1, 3));
        assert!(!is_reachable(&breaker, 3));
        let mut now_us = 3 + EJECTION_US;
        assert!(failing(&breaker, Failure::Unreachable, 1, now_us));
        assert!(!is_reachable(&breaker, now_us), "still gone");
        now_us += 2 * EJECTION_US;
        assert!(failing(&breaker, Failure::Request, 1, now_us));
        assert!(is_reachable(&breaker, now_us), "back, if not well");
    }

    #[test]
    fn one_that_serves_while_it_is_ejected_comes_back_as_soon_as_it_serves_well() {
        let breaker = Breaker::default();
        failing(&breaker, Failure::Request, FAILURES_MAX, 0);
        failing(&breaker, Failure::Request, 3 * FAILURES_MAX, 10);
        assert_eq!(verdict(&breaker, 10), ejected(EJECTION_US), "more of the same does not make it longer");
        (0..TRIALS).for_each(|_| succeeding(&breaker, 20));
        assert_eq!(verdict(&breaker, 20), Verdict::Closed);
    }

    #[test]
    fn a_recent_failure_weighs_like_a_request_and_an_old_one_does_not() {
        let penalty = |breaker: &Breaker, now_us| breaker.standing(now_us).penalty;
        let breaker = Breaker::default();
        assert_eq!(penalty(&breaker, 0), 0);
        failing(&breaker, Failure::Request, 3, 100);
        assert_eq!(penalty(&breaker, 101), 3);
        succeeding(&breaker, 101);
        assert_eq!(penalty(&breaker, 101), 3);
        assert_eq!(penalty(&breaker, 100 + PENALTY_US), 0);
        failing(&breaker, Failure::Request, 1, 100 + PENALTY_US);
        assert_eq!(penalty(&breaker, 100 + PENALTY_US), 1);
    }
}
