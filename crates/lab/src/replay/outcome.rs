//! What a run wrote down: one [`Served`] a request, and what cannot be found from them afterwards.

use hdrhistogram::Histogram;
use kvroute_core::decision::Reason;

/// Longest gap between tokens that is told apart: an hour, in microseconds.
const GAP_US_MAX: u64 = 3_600_000_000;

/// What became of one request. Times are microseconds of virtual time since the run's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// Its place in [`Jobs::list`](super::Jobs::list).
    pub job: u32,
    /// Number of the replica, from 0; meaningless if it was refused.
    pub replica: u32,
    /// When it arrived.
    pub sent_us: u64,
    /// When the engine began with it.
    pub scheduled_us: u64,
    /// When its first token came.
    pub first_us: u64,
    /// When it was over.
    pub ended_us: u64,
    /// Prompt tokens that the engine reused: *delivered*.
    pub delivered_tokens: u32,
    /// Prompt tokens that some replica held by the router's belief.
    pub available_tokens: u32,
    /// Prompt tokens that the chosen replica held by the router's belief.
    pub captured_tokens: u32,
    /// Tokens of the answer.
    pub output_tokens: u32,
    /// Why it went there.
    pub reason: Reason,
    /// How it ended.
    pub ending: Ending,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has its answer.
    Answered,
    /// Its replica went away.
    Lost,
    /// No replica could take it.
    Refused,
    /// The engine can never run it: prompt and answer do not fit its context.
    TooLong,
}

impl Served {
    /// Whether it has its answer.
    pub fn is_answered(&self) -> bool {
        self.ending == Ending::Answered
    }

    /// From arrival to first token.
    pub fn ttft_us(&self) -> u64 {
        self.first_us - self.sent_us
    }

    /// From arrival to the last token.
    pub fn e2e_us(&self) -> u64 {
        self.ended_us - self.sent_us
    }

    /// Mean time of a token after the first; `None` if there was one only.
    pub fn tpot_us(&self) -> Option<f64> {
        let gaps = self.output_tokens.checked_sub(1).filter(|gaps| *gaps > 0)?;
        Some((self.ended_us - self.first_us) as f64 / f64::from(gaps))
    }
}

/// A change of the fleet as it came about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetMark {
    /// When.
    pub at_us: u64,
    /// What, in words: `add r9`, `r9 serves`.
    pub what: String,
    /// Whether it is an event of the schedule, and no consequence of one.
    pub is_event: bool,
}

/// One strategy's run over one sequence of arrivals.
#[derive(Debug, Clone)]
pub struct Run {
    /// In the order of arrival.
    pub served: Vec<Served>,
    /// Ids of all replicas that there ever were, by number.
    pub replicas: Vec<String>,
    /// GPU time of each, in microseconds: how long it was part of the fleet.
    pub present_us: Vec<u64>,
    /// Time in which each computed, in microseconds.
    pub busy_us: Vec<u64>,
    /// Gaps between tokens of counted requests, in microseconds.
    pub gaps_us: Histogram<u64>,
    /// What happened to the fleet.
    pub marks: Vec<FleetMark>,
    /// Times that engines took a running request's memory away.
    pub preemptions: u64,
    /// When the last answer ended, microseconds.
    pub end_us: u64,
}

impl Run {
    pub(super) fn new() -> Self {
        Self {
            served: Vec::new(),
            replicas: Vec::new(),
            present_us: Vec::new(),
            busy_us: Vec::new(),
            gaps_us: gaps(),
            marks: Vec::new(),
            preemptions: 0,
            end_us: 0,
        }
    }
}

/// An empty histogram of gaps.
pub(super) fn gaps() -> Histogram<u64> {
    Histogram::new_with_bounds(1, GAP_US_MAX, 3).expect("the bounds are in order")
}
