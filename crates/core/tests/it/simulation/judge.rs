//! The shadow of one engine's breaker: the rule as it is told, by the numbers of the requests it was given.

use kvroute_core::breaker::{EJECTION_US, EJECTION_US_MAX, FAILURES_MAX, Failure, TRIALS, Verdict};

/// What requests said about one engine.
#[derive(Default)]
pub(super) struct Judge {
    /// Since the last success or ejection, newest last.
    failures: Vec<Failure>,
    ejection: Option<Ejected>,
    /// The first request that was placed after the last ejection.
    first_counted: u64,
}

struct Ejected {
    until_us: u64,
    length_us: u64,
    is_reachable: bool,
    successes: u32,
    /// The request that has the trial.
    trial: Option<u64>,
}

impl Judge {
    pub(super) fn verdict(&self, now_us: u64) -> Verdict {
        match &self.ejection {
            None => Verdict::Closed,
            Some(ejected) if now_us < ejected.until_us => {
                Verdict::Ejected { until_us: ejected.until_us, is_reachable: ejected.is_reachable }
            }
            Some(ejected) => Verdict::Trial { is_taken: ejected.trial.is_some() },
        }
    }

    pub(super) fn placed(&mut self, request: u64, now_us: u64) {
        if let Some(ejected) = &mut self.ejection
            && now_us >= ejected.until_us
        {
            ejected.trial.get_or_insert(request);
        }
    }

    pub(super) fn ended(&mut self, request: u64) {
        if let Some(ejected) = &mut self.ejection
            && ejected.trial == Some(request)
        {
            ejected.trial = None;
        }
    }

    pub(super) fn succeeded(&mut self, request: u64) {
        if request < self.first_counted {
            return;
        }
        self.failures.clear();
        if let Some(ejected) = &mut self.ejection {
            ejected.successes += 1;
            if ejected.successes == TRIALS {
                self.ejection = None;
            }
        }
    }

    /// `next` is the number of the next request. Says whether the engine is ejected because of it.
    pub(super) fn failed(&mut self, request: u64, failure: Failure, now_us: u64, next: u64) -> bool {
        if request < self.first_counted {
            return false;
        }
        self.failures.push(failure);
        let last = &self.failures[self.failures.len().saturating_sub(FAILURES_MAX as usize)..];
        let is_many = last.len() == FAILURES_MAX as usize;
        let is_gone = is_many && last.iter().all(|failure| *failure == Failure::Unreachable);
        let (length_us, is_reachable) = match &self.ejection {
            None if is_many => (EJECTION_US, !is_gone),
            Some(ejected) if now_us >= ejected.until_us => {
                ((2 * ejected.length_us).min(EJECTION_US_MAX), failure == Failure::Request)
            }
            Some(ejected) if ejected.is_reachable && is_gone => (ejected.length_us, false),
            _ => return false,
        };
        let until_us = now_us + length_us;
        self.ejection = Some(Ejected { until_us, length_us, is_reachable, successes: 0, trial: None });
        self.failures.clear();
        self.first_counted = next;
        true
    }
}
