//! What the plots of a report draw: every series of at most [`POINTS_MAX`] points, from the first seed's run.

use std::collections::BTreeMap;

use serde::Serialize;

use super::job::Jobs;
use super::measures::{counted, input_tokens, steps, walk};
use super::outcome::{Run, Served};
use super::sim::Setting;
use crate::stats::Series as Values;

/// Points of a series, at most.
pub const POINTS_MAX: usize = 600;
/// Prefixes of which spills are told apart, the most used ones.
const RANKS: usize = 50;

/// The series of one strategy.
#[derive(Debug, Clone, Serialize)]
pub struct Series {
    /// `[milliseconds, part of the requests that had their first token by then]`, ascending.
    pub ttft_cdf: Vec<[f64; 2]>,
    /// By time.
    pub over_time: OverTime,
    /// The most used keys: `[requests, of them spilled]`, the most used first. Empty where the strategy has no keys.
    pub spill_by_rank: Vec<[u64; 2]>,
}

/// Columns of equal length, one value a span of time; `null` where no request arrived in it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct OverTime {
    /// Seconds from one value to the next; the first is at zero.
    pub step_s: f64,
    /// Requests that arrived.
    pub arrivals: Vec<u64>,
    /// Part of their prompt tokens that was delivered from caches.
    pub hit_ratio: Vec<Option<f64>>,
    /// Part of them that left their home for load.
    pub spill_ratio: Vec<Option<f64>>,
    /// Median TTFT of those that arrived, milliseconds.
    pub ttft_p50_ms: Vec<Option<f64>>,
    /// 90th percentile.
    pub ttft_p90_ms: Vec<Option<f64>>,
    /// Mean number of requests in flight.
    pub in_flight: Vec<f64>,
    /// Mean number of those that no engine had begun with.
    pub waiting: Vec<f64>,
}

impl Series {
    /// Of one run.
    pub(super) fn of(jobs: &Jobs, setting: &Setting, run: &Run, prefix_length: u32) -> Self {
        let answered = counted(run, setting).filter(|served| served.is_answered());
        let ttft: Values = answered.map(|served| served.ttft_us() as f64 / 1e3).collect();
        Self {
            ttft_cdf: cdf(&ttft),
            over_time: OverTime::of(jobs, run),
            spill_by_rank: spill_by_rank(jobs, run, prefix_length),
        }
    }
}

fn cdf(values: &Values) -> Vec<[f64; 2]> {
    let points = POINTS_MAX.min(values.len());
    let part = |point: usize| if points > 1 { point as f64 / (points - 1) as f64 } else { 1.0 };
    (0..points).map(|point| [rounded(values.percentile(part(point) * 100.0)), rounded(part(point))]).collect()
}

/// To a ten-thousandth, so that files are short.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

impl OverTime {
    fn of(jobs: &Jobs, run: &Run) -> Self {
        // Whole seconds, so that the steps of strategies can be compared.
        let step_us = run.end_us.div_ceil(POINTS_MAX as u64).next_multiple_of(1_000_000).max(1_000_000);
        let spans = (run.end_us / step_us + 1) as usize;
        let mut over_time = Self { step_s: step_us as f64 / 1e6, ..Self::default() };
        let mut rest = &run.served[..];
        for span in 0..spans as u64 {
            let (here, later) = rest.split_at(rest.partition_point(|served| served.sent_us < (span + 1) * step_us));
            rest = later;
            over_time.push(jobs, here);
        }
        let placed = || run.served.iter().filter(|served| served.ended_us > served.sent_us);
        over_time.in_flight =
            means(placed().map(|served| (served.sent_us, served.ended_us)), run.end_us, step_us, spans);
        over_time.waiting =
            means(placed().map(|served| (served.sent_us, served.scheduled_us)), run.end_us, step_us, spans);
        over_time
    }

    fn push(&mut self, jobs: &Jobs, here: &[Served]) {
        let answered: Vec<&Served> = here.iter().filter(|served| served.is_answered()).collect();
        let ttft: Values = answered.iter().map(|served| served.ttft_us() as f64 / 1e3).collect();
        let tokens: u64 = answered.iter().map(|served| input_tokens(jobs, served)).sum();
        let hits: u64 = answered.iter().map(|served| u64::from(served.delivered_tokens)).sum();
        let spilled = here.iter().filter(|served| served.reason.is_spill()).count();
        let at = |percent| (!ttft.is_empty()).then(|| rounded(ttft.percentile(percent)));
        self.arrivals.push(here.len() as u64);
        self.hit_ratio.push((tokens > 0).then(|| rounded(hits as f64 / tokens as f64)));
        self.spill_ratio.push((!here.is_empty()).then(|| rounded(spilled as f64 / here.len() as f64)));
        self.ttft_p50_ms.push(at(50.0));
        self.ttft_p90_ms.push(at(90.0));
    }
}

/// Mean of a count over each span.
fn means(stays: impl Iterator<Item = (u64, u64)>, end_us: u64, step_us: u64, spans: usize) -> Vec<f64> {
    let mut areas = vec![0.0; spans];
    walk(&steps(stays), end_us, |count, mut from_us, to_us| {
        while from_us < to_us {
            let span = (from_us / step_us) as usize;
            let until_us = to_us.min((span as u64 + 1) * step_us);
            areas[span] += f64::from(count) * (until_us - from_us) as f64;
            from_us = until_us;
        }
    });
    areas.into_iter().map(|area| rounded(area / step_us as f64)).collect()
}

fn spill_by_rank(jobs: &Jobs, run: &Run, prefix_length: u32) -> Vec<[u64; 2]> {
    let mut keys: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for served in &run.served {
        if let Some(key) = jobs.list[served.job as usize].key(prefix_length) {
            let [requests, spilled] = keys.entry(key).or_default();
            *requests += 1;
            *spilled += u64::from(served.reason.is_spill());
        }
    }
    let mut ranks: Vec<[u64; 2]> = keys.into_values().collect();
    ranks.sort_unstable_by(|a, b| b.cmp(a));
    ranks.truncate(RANKS);
    ranks
}
