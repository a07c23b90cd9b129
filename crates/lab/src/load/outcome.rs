//! What a run wrote down.

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

use super::{
    exchange::Exchange,
    failure::{Failure, FailureKind},
    options::{LoadOptions, Pacing},
};

/// Longest gap that the histogram tells apart: an hour in microseconds.
const GAP_US_MAX: u64 = 3_600_000_000;
/// Significant decimal digits of the histogram: values are within 0.1 %.
const GAP_DIGITS: u8 = 3;

/// Different names kept of replicas, and of reasons. They come from the other side.
const NAMES_MAX: usize = 1_024;
/// Characters kept of a name.
const NAME_CHARS_MAX: usize = 128;
/// Stands for all names beyond [`NAMES_MAX`].
const OTHER: &str = "other";

/// One request. Times are microseconds; `scheduled_us` and `sent_us` count from the start of the run,
/// the others from when the request was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// When it should have left.
    pub scheduled_us: u64,
    /// When it left; never before it should have.
    pub sent_us: u64,
    /// The part of that delay in which all slots were taken (`max_concurrency`).
    pub queued_us: u64,
    /// First content; zero when there was none.
    pub ttft_us: u64,
    /// Last content; zero when there was none.
    pub e2e_us: u64,
    /// Tokens of the prompt as the engine reported them, else by the workload's rule.
    pub prompt_tokens: u32,
    /// Prompt tokens that the engine found in its cache, where it said so.
    pub cached_tokens: Option<u32>,
    /// Tokens of the answer as the engine reported them, else chunks with content.
    pub output_tokens: u32,
    /// Index into [`Outcome::replicas`].
    pub replica: Option<u16>,
    /// Index into [`Outcome::decisions`].
    pub decision: Option<u16>,
    /// Why it failed, if it did.
    pub failure: Option<FailureKind>,
    /// Microseconds between chunks; empty unless asked to be kept.
    pub gaps_us: Box<[u32]>,
}

/// How often a kind of failure occurred.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureCount {
    /// At least 1.
    pub count: u64,
    /// What the first one said, on one short line; may be empty.
    pub example: String,
}

/// Names by index. Bounded: names beyond the limit share the index of `other`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    list: Vec<String>,
    index: BTreeMap<String, u16>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All requests were sent and have ended.
    Finished,
    /// `duration_max` was over.
    TimeOver,
    /// The caller stopped it.
    Stopped,
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// How it was paced.
    pub pacing: Pacing,
    /// Seed of its schedule.
    pub seed: u64,
    /// From its start to the end of its last request, or to its deadline.
    pub duration: Duration,
    /// Why it ended.
    pub ending: Ending,
    /// Requests that ended, in that order.
    pub records: Vec<Record>,
    /// Failures by kind.
    pub failures: BTreeMap<FailureKind, FailureCount>,
    /// Requests cut off at the end of the run, neither served nor failed.
    pub cut: usize,
    /// Most requests in flight at a time.
    pub in_flight_peak: usize,
    /// Warm-up requests that failed.
    pub warmups_failed: usize,
    /// Microseconds between tokens of successful answers.
    pub gaps_us: Histogram<u64>,
    /// Names of the replicas that answered.
    pub replicas: Names,
    /// Reasons of the router's decisions.
    pub decisions: Names,
}

impl Record {
    /// Delay from when the request should have left, in microseconds.
    pub fn lag_us(&self) -> u64 {
        self.sent_us.saturating_sub(self.scheduled_us)
    }

    /// Microseconds per output token after the first; `None` for answers of one token.
    pub fn tpot_us(&self) -> Option<f64> {
        let later = self.output_tokens.checked_sub(1).filter(|&n| n > 0)?;
        Some(self.e2e_us.saturating_sub(self.ttft_us) as f64 / f64::from(later))
    }
}

impl Names {
    /// The name at an index.
    pub fn name(&self, index: u16) -> &str {
        self.list.get(usize::from(index)).map_or(OTHER, String::as_str)
    }

    /// All names, by index.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(String::as_str)
    }

    pub(crate) fn intern(&mut self, name: &str) -> u16 {
        let short = name.char_indices().nth(NAME_CHARS_MAX).map_or(name, |(end, _)| &name[..end]);
        if let Some(&index) = self.index.get(short) {
            return index;
        }
        let name = if self.list.len() < NAMES_MAX { short } else { OTHER };
        let fresh = self.list.len() as u16;
        let index = *self.index.entry(name.to_owned()).or_insert(fresh);
        if index == fresh {
            self.list.push(name.to_owned());
        }
        index
    }
}

/// When a request should have left and did, for its record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) scheduled: Duration,
    /// When a slot became free that it may have waited for.
    pub(super) slot_freed: Duration,
    /// Tokens of the prompt by the workload's rule.
    pub(super) prompt_tokens: u32,
}

impl Outcome {
    pub(crate) fn new(options: &LoadOptions) -> Self {
        let gaps_us = Histogram::new_with_bounds(1, GAP_US_MAX, GAP_DIGITS)
            .expect("the bounds are constants within the histogram's limits");
        Self {
            pacing: options.pacing.clone(),
            seed: options.seed,
            duration: Duration::ZERO,
            ending: Ending::Finished,
            records: Vec::new(),
            failures: BTreeMap::new(),
            cut: 0,
            in_flight_peak: 0,
            warmups_failed: 0,
            gaps_us,
            replicas: Names::default(),
            decisions: Names::default(),
        }
    }

    /// Writes down a request that was sent `sent` after the start of the run.
    pub(super) fn add(&mut self, departure: Departure, sent: Duration, exchange: &Exchange, keep_gaps: bool) {
        let failure = exchange.result.as_ref().err();
        if let Some(failure) = failure {
            self.count(failure);
        }
        let answer = &exchange.answer;
        if failure.is_none() {
            for &gap_us in &answer.gaps_us {
                self.gaps_us.saturating_record(u64::from(gap_us).max(1));
            }
        }
        let queued = departure.slot_freed.min(sent).saturating_sub(departure.scheduled);
        self.records.push(Record {
            scheduled_us: micros(departure.scheduled),
            sent_us: micros(sent),
            queued_us: micros(queued),
            ttft_us: answer.first.map_or(0, micros),
            e2e_us: micros(answer.last),
            prompt_tokens: answer.usage.prompt_tokens.unwrap_or(departure.prompt_tokens),
            cached_tokens: answer.usage.cached_tokens(),
            output_tokens: answer.usage.completion_tokens.unwrap_or(answer.chunks()),
            replica: exchange.replica.as_deref().map(|name| self.replicas.intern(name)),
            decision: exchange.decision.as_deref().map(|name| self.decisions.intern(name)),
            failure: failure.map(|failure| failure.kind),
            gaps_us: match keep_gaps {
                true => answer.gaps_us.as_slice().into(),
                false => Box::default(),
            },
        });
    }

    pub(super) fn count(&mut self, failure: &Failure) {
        self.failures
            .entry(failure.kind)
            .and_modify(|counted| counted.count += 1)
            .or_insert_with(|| FailureCount { count: 1, example: failure.message.clone() });
    }

    /// Requests that succeeded.
    pub fn served(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(|record| record.failure.is_none())
    }

    /// Number of requests that failed.
    pub fn failed(&self) -> u64 {
        self.failures.values().map(|counted| counted.count).sum()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_from_outside_stay_few_and_short() {
        let mut names = Names::default();
        assert_eq!(names.intern("r1"), 0);
        assert_eq!(names.intern("r2"), 1);
        assert_eq!(names.intern("r1"), 0);
        for n in 0..3_000 {
            names.intern(&format!("{n}{}", "x".repeat(500)));
        }
        assert_eq!(names.iter().count(), NAMES_MAX + 1);
        assert_eq!(names.name(NAMES_MAX as u16), OTHER);
        assert!(names.iter().all(|name| name.len() <= NAME_CHARS_MAX));
        assert_eq!(names.intern("r2"), 1, "known names stay known");
        assert_eq!(names.intern(&format!("5{}", "x".repeat(500))), 7, "long ones as well");
    }

    #[test]
    fn time_per_output_token_leaves_the_first_out() {
        let record = |output_tokens| Record {
            scheduled_us: 100,
            sent_us: 350,
            queued_us: 0,
            ttft_us: 1_000,
            e2e_us: 5_000,
            prompt_tokens: 1,
            cached_tokens: None,
            output_tokens,
            replica: None,
            decision: None,
            failure: None,
            gaps_us: Box::default(),
        };
        assert_eq!(record(5).tpot_us(), Some(1_000.0));
        assert_eq!(record(1).tpot_us(), None);
        assert_eq!(record(0).tpot_us(), None);
        assert_eq!(record(5).lag_us(), 250);
    }
}
