//! What a run comes to: numbers, the table, the JSON.
//!
//! Names and definitions are those of vLLM's serving benchmark, so that people recognise the table and
//! existing scripts read the JSON. Added are the cache hits, the schedule lag, and what the router
//! said about its choices; in JSON the latter stand apart under `router`.
//!
//! Latencies are those of requests that succeeded. What failed or was cut is counted next to them:
//! a router that drops its slow requests must not look fast unnoticed.

mod analysis;
pub(crate) mod columns;
mod compare;
mod difference;
pub mod document;
mod goodput;
pub mod html;
mod json;
pub mod saved;
#[cfg(test)]
mod saved_sample;
mod table;
#[cfg(test)]
mod tests;
mod totals;

use std::{collections::BTreeMap, time::Duration};

use hdrhistogram::Histogram;

pub use analysis::analysis_document;
pub use compare::{StrategyResult, compare};
pub use difference::difference;
pub use goodput::Goodput;

use crate::{
    load::{Ending, FailureCount, Outcome, Pacing, Record},
    stats::{Series, Summary},
};
use totals::Totals;

/// What to put into a report.
#[derive(Debug, Clone, PartialEq)]
pub struct ReportOptions {
    /// Percentiles of each latency, 0..100.
    pub percentiles: Vec<f64>,
    /// Limits that a request must keep to count as good.
    pub goodput: Option<Goodput>,
    /// The command that reproduces the run.
    pub command: Option<String>,
    /// Further fields of the JSON. They never replace fields of the report.
    pub metadata: Vec<(String, String)>,
    /// Whether the JSON holds arrays with one entry a request.
    pub detailed: bool,
}

/// A report. Its display form is the table.
#[derive(Debug, Clone)]
pub struct Report {
    /// Requests that succeeded.
    pub completed: usize,
    /// Requests that failed.
    pub failed: u64,
    /// Requests cut off at the end of the run.
    pub cut: usize,
    /// Duration of the run in seconds.
    pub duration_s: f64,
    /// Prompt tokens of successful requests.
    pub input_tokens: u64,
    /// Output tokens of successful requests.
    pub output_tokens: u64,
    /// Prompt tokens found in a cache; `None` where no engine reported any number.
    pub cached_tokens: Option<u64>,
    /// Successful requests a second that kept the limits, if there were limits.
    pub request_goodput: Option<f64>,
    /// Time to first token, milliseconds.
    pub ttft_ms: Summary,
    /// Time per output token after the first, milliseconds.
    pub tpot_ms: Summary,
    /// Time between chunks of an answer, milliseconds.
    pub itl_ms: Summary,
    /// Time to the last token, milliseconds.
    pub e2el_ms: Summary,
    /// Delay from when a request should have left, milliseconds; of all requests that left.
    pub schedule_lag_ms: Summary,
    /// 99th percentile of that delay.
    pub schedule_lag_p99_ms: f64,
    /// The part of the delay spent waiting for a free slot, milliseconds.
    pub client_queue_ms: Summary,
    /// Share of the successful requests that each replica answered, 0..1.
    pub shares: BTreeMap<String, f64>,
    /// Successful requests by the router's reason.
    pub decisions: BTreeMap<String, u64>,
    /// Failures by label.
    pub failures: BTreeMap<String, FailureCount>,
    /// Most requests in flight at a time.
    pub in_flight_peak: usize,
    /// Warm-up requests that failed.
    pub warmups_failed: usize,
    /// How the run was paced.
    pub pacing: Pacing,
    /// Seed of the run.
    pub seed: u64,
    /// Why the run ended.
    pub ending: Ending,
    options: ReportOptions,
    records: Vec<Record>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        Self {
            percentiles: vec![50.0, 90.0, 99.0],
            goodput: None,
            command: None,
            metadata: Vec::new(),
            detailed: false,
        }
    }
}

impl Report {
    /// Sums up a run.
    pub fn new(outcome: &Outcome, options: &ReportOptions) -> Self {
        let percents = &options.percentiles;
        let totals = Totals::of(outcome);
        let served =
            |value: fn(&Record) -> u64| -> Series { outcome.served().map(|record| ms(value(record))).collect() };
        let lag_ms: Series = outcome.records.iter().map(|r| ms(r.lag_us())).collect();
        let queue_ms: Series = outcome.records.iter().map(|r| ms(r.queued_us)).collect();
        let tpot_us = outcome.served().filter_map(Record::tpot_us);
        let tpot_ms: Series = tpot_us.map(|us| us / 1e3).collect();
        let failures = outcome.failures.iter();
        Self {
            completed: totals.completed,
            failed: outcome.failed(),
            cut: outcome.cut,
            duration_s: outcome.duration.as_secs_f64(),
            input_tokens: totals.input_tokens,
            output_tokens: totals.output_tokens,
            cached_tokens: totals.cached_tokens,
            request_goodput: options.goodput.as_ref().map(|limits| {
                let good = outcome.served().filter(|record| limits.kept_by(record));
                a_second(good.count() as f64, outcome.duration)
            }),
            ttft_ms: served(|record| record.ttft_us).summary(percents),
            tpot_ms: tpot_ms.summary(percents),
            itl_ms: gap_summary(&outcome.gaps_us, percents),
            e2el_ms: served(|record| record.e2e_us).summary(percents),
            schedule_lag_ms: lag_ms.summary(percents),
            schedule_lag_p99_ms: lag_ms.percentile(99.0),
            client_queue_ms: queue_ms.summary(percents),
            shares: totals.shares(),
            decisions: totals.decisions,
            failures: failures.map(|(kind, n)| (kind.to_string(), n.clone())).collect(),
            in_flight_peak: outcome.in_flight_peak,
            warmups_failed: outcome.warmups_failed,
            pacing: outcome.pacing.clone(),
            seed: outcome.seed,
            ending: outcome.ending,
            options: options.clone(),
            records: match options.detailed {
                true => outcome.records.clone(),
                false => Vec::new(),
            },
        }
    }

    /// Successful requests a second.
    pub fn request_throughput(&self) -> f64 {
        self.a_second(self.completed as f64)
    }

    /// Output tokens a second.
    pub fn output_throughput(&self) -> f64 {
        self.a_second(self.output_tokens as f64)
    }

    /// Prompt and output tokens a second.
    pub fn total_token_throughput(&self) -> f64 {
        self.a_second((self.input_tokens + self.output_tokens) as f64)
    }

    /// Part of the prompt tokens that was found in a cache, 0..1.
    pub fn cached_ratio(&self) -> Option<f64> {
        totals::ratio(self.cached_tokens?, self.input_tokens)
    }

    fn a_second(&self, amount: f64) -> f64 {
        a_second(amount, Duration::try_from_secs_f64(self.duration_s).unwrap_or_default())
    }
}

/// `amount` over a duration; zero for a run that never started.
fn a_second(amount: f64, duration: Duration) -> f64 {
    match duration.is_zero() {
        true => 0.0,
        false => amount / duration.as_secs_f64(),
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1e3
}

/// What a histogram of gaps between tokens, in microseconds, comes to in milliseconds.
pub(crate) fn gap_summary(gaps_us: &Histogram<u64>, percents: &[f64]) -> Summary {
    if gaps_us.is_empty() {
        return Series::default().summary(percents);
    }
    // The middle of the histogram's bucket; the bucket's end, which it gives, would lean upwards.
    let at = |percent: f64| {
        let end_us = gaps_us.value_at_quantile(percent / 100.0);
        ms(gaps_us.median_equivalent(end_us))
    };
    Summary {
        mean: gaps_us.mean() / 1e3,
        std: gaps_us.stdev() / 1e3,
        median: at(50.0),
        percentiles: percents.iter().map(|&percent| (percent, at(percent))).collect(),
    }
}

/// `99` for 99.0 and `99.9` for 99.9, as vLLM writes them into names.
fn percent_label(percent: f64) -> String {
    format!("{percent}")
}
