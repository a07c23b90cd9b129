//! Sessions side by side: the requests of all of them in the order of their times.
//!
//! The first request of a session has a time. A later one has the pause before it (`delay_ms`), and where requests have
//! times, one that an engine of [`ANSWER_MS_PER_TOKEN`] would lead to, for replays that go by times.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::arrivals::Clock;
use super::dice::Purpose;
use super::{Arrivals, Common};
use crate::trace::{Content, Record};

/// How long an answer is taken to take, for the times of later turns, milliseconds a token.
pub(super) const ANSWER_MS_PER_TOKEN: f64 = 20.0;

/// One request of a session.
pub(super) struct Turn {
    pub(super) content: Content,
    pub(super) input_tokens: u32,
    pub(super) output_tokens: u32,
    /// Between the answer before it and it, milliseconds.
    pub(super) pause_ms: f64,
}

/// Makes sessions.
pub(super) trait Script: Send {
    type Session: Iterator<Item = Turn> + Send;

    /// The session of this number.
    fn open(&mut self, number: u64) -> Self::Session;
}

/// A session that waits for its turn.
struct Live<S> {
    at_ms: f64,
    number: u64,
    delay_ms: Option<f64>,
    turn: Turn,
    session: S,
}

impl<S> Ord for Live<S> {
    /// The heap gives its greatest first, which is to be the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.at_ms.total_cmp(&self.at_ms).then_with(|| other.number.cmp(&self.number))
    }
}

impl<S> PartialOrd for Live<S> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<S> PartialEq for Live<S> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<S> Eq for Live<S> {}

/// The requests of sessions.
pub(super) struct Sessions<S: Script> {
    script: S,
    clock: Clock,
    is_closed: bool,
    live: BinaryHeap<Live<S::Session>>,
    /// Sessions that have begun.
    begun: u64,
    /// When the next one begins; with closed arrivals, when one ends.
    next_ms: Option<f64>,
    left: u64,
}

impl<S: Script> Sessions<S> {
    /// `mean_turns` of a session, so that requests come at the rate asked for; `side_by_side` sessions where arrivals are
    /// closed.
    pub(super) fn new(script: S, common: &Common, mean_turns: f64, side_by_side: u32) -> Self {
        let mut clock = Clock::new(common.arrivals.times(1.0 / mean_turns), common.seed, Purpose::Arrival);
        let next_ms = clock.next_ms();
        let mut sessions = Self {
            script,
            clock,
            is_closed: common.arrivals == Arrivals::Closed,
            live: BinaryHeap::new(),
            begun: 0,
            next_ms,
            left: common.requests,
        };
        if sessions.is_closed {
            for _ in 0..side_by_side {
                sessions.begin(0.0);
            }
        }
        sessions
    }

    fn begin(&mut self, at_ms: f64) {
        let number = self.begun;
        self.begun += 1;
        let mut session = self.script.open(number);
        if let Some(turn) = session.next() {
            self.live.push(Live { at_ms, number, delay_ms: None, turn, session });
        }
    }
}

impl<S: Script> Iterator for Sessions<S> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.left == 0 {
            return None;
        }
        while let Some(next_ms) = self.next_ms
            && self.live.peek().is_none_or(|first| next_ms <= first.at_ms)
        {
            self.begin(next_ms);
            self.next_ms = self.clock.next_ms();
        }
        let Live { at_ms, number, delay_ms, turn, mut session } = self.live.pop()?;
        self.left -= 1;
        let answered_ms = at_ms + f64::from(turn.output_tokens) * ANSWER_MS_PER_TOKEN;
        match session.next() {
            Some(next) => {
                let at_ms = answered_ms + next.pause_ms;
                self.live.push(Live { at_ms, number, delay_ms: Some(next.pause_ms), turn: next, session });
            }
            None if self.is_closed => self.begin(answered_ms),
            None => {}
        }
        Some(Record {
            at_ms: (!self.is_closed).then_some(at_ms),
            delay_ms,
            session: Some(format!("s{number}").into()),
            content: turn.content,
            input_tokens: Some(turn.input_tokens),
            output_tokens: Some(turn.output_tokens),
            ..Record::default()
        })
    }
}
