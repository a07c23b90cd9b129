//! When the next request should leave, for each kind of loop. No clock: times are since the start of
//! the run.

use std::{cmp::Reverse, collections::BinaryHeap, time::Duration};

use super::{
    arrivals::Arrivals,
    options::{LoopKind, Pacing},
};

/// The state of a loop.
#[derive(Debug)]
pub(super) enum Pace {
    /// The next scheduled time, and those after it.
    Open {
        next: Duration,
        arrivals: Box<Arrivals>,
    },
    /// When each idle user is ready to send, earliest first.
    Closed {
        idle: BinaryHeap<Reverse<Duration>>,
        think: Duration,
    },
    Burst,
}

impl Pace {
    pub(super) fn new(pacing: &Pacing, seed: u64) -> Self {
        match pacing.loop_kind() {
            LoopKind::Open => {
                let mut arrivals = Box::new(Arrivals::new(pacing.request_rate, pacing.burstiness, seed));
                Self::Open { next: arrivals.next().unwrap_or_default(), arrivals }
            }
            LoopKind::Closed => {
                let users = pacing.in_flight_max();
                Self::Closed {
                    idle: std::iter::repeat_n(Reverse(Duration::ZERO), users).collect(),
                    think: pacing.think,
                }
            }
            LoopKind::Burst => Self::Burst,
        }
    }

    /// When the next request should leave; `None` while every user waits for an answer.
    pub(super) fn next_at(&self) -> Option<Duration> {
        match self {
            Self::Open { next, .. } => Some(*next),
            Self::Closed { idle, .. } => idle.peek().map(|Reverse(at)| *at),
            Self::Burst => Some(Duration::ZERO),
        }
    }

    /// The request due at `next_at` has left.
    pub(super) fn started(&mut self) {
        match self {
            Self::Open { next, arrivals } => *next = arrivals.next().unwrap_or(Duration::MAX),
            Self::Closed { idle, .. } => {
                idle.pop();
            }
            Self::Burst => {}
        }
    }

    /// A request has ended at `now`.
    pub(super) fn ended(&mut self, now: Duration) {
        if let Self::Closed { idle, think } = self {
            idle.push(Reverse(now.saturating_add(*think)));
        }
    }

    /// When a request that became possible at `ready_at` should leave, given its turn `due`. An open
    /// loop's schedule does not wait for answers, so there a late one counts as late.
    pub(super) fn scheduled(&self, due: Duration, ready_at: Duration) -> Duration {
        match self {
            Self::Open { .. } => due,
            Self::Closed { .. } | Self::Burst => due.max(ready_at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_closed_loops_user_pauses_after_its_answer() {
        let pacing = Pacing { max_concurrency: Some(2), think: s(3), ..Pacing::default() };
        let mut pace = Pace::new(&pacing, 1);
        for _ in 0..2 {
            assert_eq!(pace.next_at(), Some(s(0)));
            pace.started();
        }
        assert_eq!(pace.next_at(), None);
        pace.ended(s(10));
        pace.ended(s(5));
        assert_eq!(pace.next_at(), Some(s(8)));
        assert_eq!(pace.scheduled(s(8), s(9)), s(9));
    }

    #[test]
    fn an_open_loop_goes_on_without_answers() {
        let pacing = Pacing { request_rate: 2.0, burstiness: f64::INFINITY, ..Pacing::default() };
        let mut pace = Pace::new(&pacing, 1);
        for half_seconds in 1..5 {
            let due = pace.next_at().unwrap();
            assert_eq!(due, Duration::from_millis(500 * half_seconds));
            assert_eq!(pace.scheduled(due, s(60)), due);
            pace.started();
        }
    }
}
