//! How much there is to do: rates, lengths, and by Little's law the requests in flight.
//!
//! Requests in flight = arrivals a second x seconds that each stays. How long it stays is taken from the trace where it
//! tells, else from the engine preset.

use kvroute_engine::model::Preset;

use super::corpus::{Corpus, Request};
use super::fleet::prefill_ms;
use super::reuse::ratio;
use crate::stats::Series;

/// The load that the trace is.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Load {
    /// Requests.
    pub requests: usize,
    /// Sessions; 0 where the trace tells none.
    pub sessions: usize,
    /// From the first request to the last, seconds; `None` where the trace has no times.
    pub span_s: Option<f64>,
    /// Requests a second.
    pub rate_per_s: Option<f64>,
    /// Prompt lengths in tokens.
    pub input: Lengths,
    /// Answer lengths in tokens; `None` where the trace tells none.
    pub output: Option<Lengths>,
}

/// A distribution of lengths in tokens.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Lengths {
    /// All together.
    pub total: u64,
    /// Mean.
    pub mean: f64,
    /// Half are at most this long.
    pub p50: f64,
    /// Nine of ten are at most this long.
    pub p90: f64,
    /// The longest.
    pub max: f64,
}

impl Lengths {
    fn of(lengths: impl Iterator<Item = u32>) -> Option<Self> {
        let series: Series = lengths.map(f64::from).collect();
        if series.is_empty() {
            return None;
        }
        let at = |percent| series.percentile(percent);
        let total = (series.mean() * series.len() as f64).round() as u64;
        Some(Self { total, mean: series.mean(), p50: at(50.0), p90: at(90.0), max: at(100.0) })
    }
}

impl Load {
    /// Sums up the trace.
    pub fn of(corpus: &Corpus) -> Self {
        let requests = &corpus.requests;
        let span_s = span_s(requests);
        let none = Lengths { total: 0, mean: 0.0, p50: 0.0, p90: 0.0, max: 0.0 };
        let mut sessions: Vec<u32> = requests.iter().map(|request| request.session).filter(|&id| id > 0).collect();
        sessions.sort_unstable();
        sessions.dedup();
        Self {
            requests: requests.len(),
            sessions: sessions.len(),
            span_s,
            rate_per_s: span_s.map(|span| (requests.len() - 1) as f64 / span),
            input: Lengths::of(requests.iter().map(|request| request.input_tokens)).unwrap_or(none),
            output: Lengths::of(requests.iter().filter_map(|request| request.output_tokens)),
        }
    }
}

/// Seconds between the first and the last request; `None` if any has no time, or all have the same.
fn span_s(requests: &[Request]) -> Option<f64> {
    let mut bounds: Option<(f64, f64)> = None;
    for request in requests {
        let at = request.at_ms?;
        bounds = Some(bounds.map_or((at, at), |(low, high)| (low.min(at), high.max(at))));
    }
    bounds.map(|(low, high)| (high - low) / 1e3).filter(|&span| span > 0.0)
}

/// Where the time that a request stays is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StayFrom {
    /// The trace tells how long answers took.
    Trace,
    /// The engine preset says so. *Simulated.*
    Preset,
}

/// What the fleet has to do.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Demand {
    /// Requests in flight on one replica, on average.
    pub in_flight_mean: f64,
    /// How long a request stays, milliseconds.
    pub stay_ms: f64,
    /// Where that is from.
    pub stay_from: StayFrom,
    /// Milliseconds a generated token takes at that load.
    pub token_ms: f64,
    /// Part of their time that the replicas compute prompts if nothing is reused; 1 and more cannot be served.
    pub prefill_busy: f64,
    /// The same if everything is reused that repeats.
    pub prefill_busy_reusing: f64,
}

impl Demand {
    /// By Little's law; `None` where the trace has no times. `reused_ratio` is what the fleet reuses of prompts.
    pub fn of(corpus: &Corpus, load: &Load, preset: &Preset, replicas: u32, reused_ratio: f64) -> Option<Self> {
        let rate = load.rate_per_s? / f64::from(replicas.max(1)) / 1e3; // a millisecond and replica
        let output = load.output.map_or(0.0, |lengths| lengths.mean);
        let prefill = |reused: f64| -> f64 {
            let of = |request: &Request| {
                let tokens = f64::from(request.input_tokens);
                prefill_ms(preset, tokens * (1.0 - reused), tokens * reused)
            };
            corpus.requests.iter().map(of).sum::<f64>() / corpus.requests.len().max(1) as f64
        };
        let computed_ms = prefill(reused_ratio);
        let token_ms = token_ms(preset, rate * output, load.input.mean + output / 2.0);
        let told: Vec<f64> = corpus.requests.iter().filter_map(|request| request.e2e_ms).collect();
        let is_told = ratio(told.len() as u64, corpus.requests.len() as u64) > 0.5;
        let (stay_ms, stay_from) = if is_told {
            (told.iter().sum::<f64>() / told.len() as f64, StayFrom::Trace)
        } else {
            let busy = (rate * computed_ms).min(0.95);
            // Prompts of about the same length that arrive at random wait busy / (2 (1 - busy)) of one.
            let waiting_ms = computed_ms * busy / (2.0 * (1.0 - busy));
            (preset.overhead_ms + waiting_ms + computed_ms + output * token_ms, StayFrom::Preset)
        };
        Some(Self {
            in_flight_mean: rate * stay_ms,
            stay_ms,
            stay_from,
            token_ms,
            prefill_busy: rate * prefill(0.0),
            prefill_busy_reusing: rate * computed_ms,
        })
    }
}

/// Milliseconds a generated token takes where `started` of them are asked for in a millisecond, with `context` tokens
/// before each: the more requests decode, the longer a step takes, the more of them decode.
fn token_ms(preset: &Preset, started: f64, context: f64) -> f64 {
    let per_request = preset.decode.per_seq_ms + preset.decode.per_context_token_ms * context;
    let slack = 1.0 - started * per_request;
    // A fleet that cannot keep up has as many in a step as it takes at most.
    let most = preset.decode.base_ms + f64::from(preset.seqs_max) * per_request;
    if slack <= 0.0 { most } else { (preset.decode.base_ms / slack).min(most) }
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::sample::{at, blocks};
    use super::*;

    fn corpus(gap_ms: f64, e2e_ms: Option<f64>) -> Corpus {
        let mut builder = Builder::new(Limits::default());
        for i in 0..101u64 {
            let mut record = at(blocks(&[i], 500), i as f64 * gap_ms, 100);
            record.observed.e2e_ms = e2e_ms;
            builder.push(&record).unwrap();
        }
        builder.finish(0.25)
    }

    #[test]
    fn what_the_trace_tells_of_its_own_times_comes_first() {
        let corpus = corpus(100.0, Some(3_000.0));
        let load = Load::of(&corpus);
        assert_eq!((load.span_s, load.rate_per_s), (Some(10.0), Some(10.0)));
        let demand = Demand::of(&corpus, &load, &Preset::default(), 5, 0.0).unwrap();
        assert!((demand.in_flight_mean - 6.0).abs() < 1e-9);
        assert_eq!(demand.stay_from, StayFrom::Trace);
    }

    #[test]
    fn else_the_preset_says_how_long_a_request_stays() {
        let corpus = corpus(100.0, None);
        let demand = Demand::of(&corpus, &Load::of(&corpus), &Preset::default(), 5, 0.0).unwrap();
        assert_eq!(demand.stay_from, StayFrom::Preset);
        let low = Preset::default().overhead_ms + 100.0 * Preset::default().decode.base_ms;
        assert!(demand.stay_ms > low && demand.stay_ms < 2.0 * low, "{demand:?}");
        assert!(demand.prefill_busy > 0.01 && demand.prefill_busy < 0.2);
    }

    #[test]
    fn a_fleet_that_cannot_keep_up_still_gets_a_number() {
        let corpus = corpus(0.1, None);
        let demand = Demand::of(&corpus, &Load::of(&corpus), &Preset::default(), 1, 0.0).unwrap();
        assert!(demand.prefill_busy > 1.0 && demand.in_flight_mean.is_finite(), "{demand:?}");
    }

    #[test]
    fn a_trace_without_times_has_no_rate() {
        let mut builder = Builder::new(Limits::default());
        builder.push(&blocks(&[1], 500)).unwrap();
        let corpus = builder.finish(0.25);
        let load = Load::of(&corpus);
        assert_eq!((load.span_s, load.output.is_none(), load.sessions), (None, true, 0));
        assert!(Demand::of(&corpus, &load, &Preset::default(), 1, 0.0).is_none());
    }
}
