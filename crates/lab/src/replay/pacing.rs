//! When requests arrive.
//!
//! - **Open loop**: at the times of the trace, faster or slower, or at a rate; nobody waits for an answer. What many
//!   independent users do, and what shows when a fleet is too small.
//! - **Sessions**: a turn arrives when the answer before it has ended and its delay is over; where the trace does not
//!   know the delay, at the turn's own time, but not before that answer. First turns arrive as in the open loop. What
//!   agents and conversations do.
//! - **Closed loop**: so many users, each with one session at a time, who send the next turn when the answer has ended
//!   (and its delay is over) and take the next session when theirs is done. Hides a slow fleet, as it asks less of it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kvroute_core::{hash, moment::Entropy};

use super::job::Jobs;
use crate::InvalidOption;
use crate::trace::TimeBase;

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// Arrivals do not depend on answers.
    Open(Clock),
    /// First turns by the clock, others after the answer before.
    Sessions(Clock),
    /// So many users, at least one, of whom one more begins every `ramp_us`.
    Closed {
        /// Users.
        users: u32,
        /// Microseconds between two users' first requests.
        ramp_us: u64,
    },
}

/// What says when requests arrive that wait for nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Clock {
    /// The trace, this many times as fast.
    Trace {
        /// 1 is as recorded.
        speed: f64,
    },
    /// Chance: so many a second, with exponential gaps.
    Poisson {
        /// Requests (or sessions) a second.
        rate: f64,
    },
}

impl Pacing {
    /// Whether it can be done with times that count from there.
    ///
    /// # Errors
    /// If the trace does not say how its sessions lie to each other, and the pacing asks for it.
    pub fn check(&self, base: TimeBase) -> Result<(), InvalidOption> {
        let by_trace = matches!(self, Self::Open(Clock::Trace { .. }) | Self::Sessions(Clock::Trace { .. }));
        if by_trace && base == TimeBase::Session {
            let problem = "times of this trace count from the beginning of each session, so when sessions begin is not \
                           known; give users (--users), or sessions a second (--sessions --request-rate)";
            return Err(InvalidOption::new("arrivals", problem));
        }
        Ok(())
    }

    /// How it works, in words.
    pub fn describe(&self) -> String {
        let clock = |clock: &Clock| match clock {
            Clock::Trace { speed: 1.0 } => "at the trace's times".to_owned(),
            Clock::Trace { speed } => format!("at the trace's times, {speed} times as fast"),
            Clock::Poisson { rate } => format!("{rate} a second at random"),
        };
        match self {
            Self::Open(by) => format!("open loop, {}", clock(by)),
            Self::Sessions(by) => format!("sessions begin {}, turns wait for their answers", clock(by)),
            Self::Closed { users, .. } => format!("closed loop, {users} users"),
        }
    }
}

/// Gives out the requests of a replay in the order in which they arrive.
#[derive(Debug)]
pub(super) struct Pacer<'a> {
    jobs: &'a Jobs,
    waits_for_answers: bool,
    /// The clock of the trace says when requests arrive that wait for nothing.
    by_clock: bool,
    speed: f64,
    /// Arrivals that wait for nothing, the last one first.
    fixed: Vec<(u64, u32)>,
    /// Arrivals that became known on the way.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// Sessions that no user has taken yet, the last one first. Empty in an open loop.
    untaken: Vec<u32>,
    /// Place of each request in its session.
    turn: Vec<u32>,
    end_us: u64,
}

impl<'a> Pacer<'a> {
    /// Nothing arrives at `end_us` or later.
    ///
    /// # Errors
    /// If the trace lacks the times that the pacing needs, or an option is out of range.
    pub(super) fn new(jobs: &'a Jobs, pacing: Pacing, end_us: u64, seed: u64) -> Result<Self, InvalidOption> {
        let mut turn = vec![0; jobs.list.len()];
        for session in &jobs.sessions {
            session.iter().zip(0..).for_each(|(job, place)| turn[*job as usize] = place);
        }
        let mut pacer = Self {
            jobs,
            waits_for_answers: !matches!(pacing, Pacing::Open(_)),
            by_clock: matches!(pacing, Pacing::Sessions(Clock::Trace { .. })),
            speed: 1.0,
            fixed: Vec::new(),
            waiting: BinaryHeap::new(),
            untaken: Vec::new(),
            turn,
            end_us,
        };
        match pacing {
            Pacing::Open(clock) => pacer.fix(0..jobs.list.len() as u32, clock, seed)?,
            Pacing::Sessions(clock) => pacer.fix(jobs.sessions.iter().map(|session| session[0]), clock, seed)?,
            Pacing::Closed { users, ramp_us } => {
                InvalidOption::unless_within("users", users.into(), 1..=1 << 24)?;
                pacer.untaken = (0..jobs.sessions.len() as u32).rev().collect();
                (0..u64::from(users)).for_each(|user| pacer.take_session(user.saturating_mul(ramp_us)));
            }
        }
        Ok(pacer)
    }

    fn fix(&mut self, first: impl Iterator<Item = u32>, clock: Clock, seed: u64) -> Result<(), InvalidOption> {
        match clock {
            Clock::Trace { speed } => {
                if !(speed.is_finite() && speed > 0.0) {
                    return Err(InvalidOption::new("speed", format!("{speed} is not above 0")));
                }
                self.speed = speed;
                for job in first {
                    let at_us = self.jobs.list[job as usize].at_us.ok_or_else(without_times)?;
                    self.fixed.push((self.scaled(at_us), job));
                }
            }
            Clock::Poisson { rate } => {
                if !(rate.is_finite() && rate > 0.0) {
                    return Err(InvalidOption::new("request-rate", format!("{rate} is not above 0")));
                }
                let mut entropy = Entropy::new(hash::mix(seed, 0x6172_7269_7661_6c73));
                let mut at_us = 0.0;
                for job in first {
                    self.fixed.push((at_us as u64, job));
                    at_us -= hash::ln_unit(entropy.next_u64()) * 1e6 / rate;
                }
            }
        }
        self.fixed.sort_unstable_by(|a, b| b.cmp(a));
        Ok(())
    }

    fn scaled(&self, us: u64) -> u64 {
        (us as f64 / self.speed).round() as u64
    }

    /// When the next request arrives, as far as is known now.
    pub(super) fn next_at(&self) -> Option<u64> {
        let fixed = self.fixed.last().map(|(at, _)| *at);
        let waiting = self.waiting.peek().map(|Reverse((at, _))| *at);
        [fixed, waiting].into_iter().flatten().min().filter(|at| *at < self.end_us)
    }

    /// The request that arrives then.
    pub(super) fn take(&mut self) -> Option<u32> {
        let at = self.next_at()?;
        match self.fixed.pop_if(|(due, _)| *due == at) {
            Some((_, job)) => Some(job),
            None => self.waiting.pop().map(|Reverse((_, job))| job),
        }
    }

    /// The answer to a request has ended, well or not.
    pub(super) fn ended(&mut self, job: u32, now_us: u64) {
        if !self.waits_for_answers {
            return;
        }
        let this = &self.jobs.list[job as usize];
        let session = &self.jobs.sessions[this.session_place as usize];
        let Some(&next) = session.get(self.turn[job as usize] as usize + 1) else {
            return self.take_session(now_us);
        };
        let turn = &self.jobs.list[next as usize];
        let at = match (turn.delay_us, turn.at_us) {
            (Some(delay_us), _) => now_us.saturating_add(self.scaled(delay_us)),
            (None, Some(at_us)) if self.by_clock => self.scaled(at_us).max(now_us),
            _ => now_us,
        };
        self.waiting.push(Reverse((at, next)));
    }

    /// A user is free.
    fn take_session(&mut self, now_us: u64) {
        if let Some(session) = self.untaken.pop() {
            self.waiting.push(Reverse((now_us, self.jobs.sessions[session as usize][0])));
        }
    }
}

fn without_times() -> InvalidOption {
    let problem = "the trace has requests without a time; give a rate (--request-rate) or users (--users)";
    InvalidOption::new("arrivals", problem)
}
