//! Whether the trace is representative: lengths, arrivals and turns as histograms.

use std::collections::BTreeMap;

use super::corpus::Corpus;

/// Bars of the arrival rate over time.
const TIMES: usize = 60;

/// A histogram.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Histogram {
    /// What is counted along the axis.
    pub unit: &'static str,
    /// Lower edge of each bar, and its count.
    pub bars: Vec<(f64, u64)>,
}

/// The shape of the traffic.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Shape {
    /// Prompt lengths; bars double.
    pub input_tokens: Histogram,
    /// Answer lengths; bars double. Empty where the trace tells none.
    pub output_tokens: Histogram,
    /// Requests over time, by seconds from the first. Empty where the trace has no times.
    pub arrivals: Histogram,
    /// Requests of a session; bars double. Empty where the trace tells no sessions.
    pub turns: Histogram,
}

impl Shape {
    /// Counts.
    pub fn of(corpus: &Corpus) -> Self {
        let requests = &corpus.requests;
        let mut turns: BTreeMap<u32, u64> = BTreeMap::new();
        for request in requests.iter().filter(|request| request.session > 0) {
            *turns.entry(request.session).or_default() += 1;
        }
        Self {
            input_tokens: doubling("tokens", requests.iter().map(|request| u64::from(request.input_tokens))),
            output_tokens: doubling("tokens", requests.iter().filter_map(|r| r.output_tokens).map(u64::from)),
            arrivals: arrivals(corpus),
            turns: doubling("requests", turns.into_values()),
        }
    }
}

/// Bars from each power of two to the next, without empty ones at the ends.
fn doubling(unit: &'static str, values: impl Iterator<Item = u64>) -> Histogram {
    let mut counts = [0u64; 65];
    for value in values {
        counts[(u64::BITS - value.leading_zeros()) as usize] += 1;
    }
    let is_used = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (counts.iter().position(is_used), counts.iter().rposition(is_used)) else {
        return Histogram { unit, bars: Vec::new() };
    };
    let edge = |bits: usize| if bits == 0 { 0.0 } else { (1u64 << (bits - 1)) as f64 };
    Histogram { unit, bars: (first..=last).map(|bits| (edge(bits), counts[bits])).collect() }
}

fn arrivals(corpus: &Corpus) -> Histogram {
    let times: Option<Vec<f64>> = corpus.requests.iter().map(|request| request.at_ms).collect();
    let times = times.unwrap_or_default();
    let low = times.iter().copied().fold(f64::INFINITY, f64::min);
    let high = times.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if high <= low || times.is_empty() {
        return Histogram { unit: "seconds", bars: Vec::new() };
    }
    let width = (high - low) / TIMES as f64;
    let mut counts = [0u64; TIMES];
    for at in times {
        counts[(((at - low) / width) as usize).min(TIMES - 1)] += 1;
    }
    let bars = counts.iter().enumerate().map(|(i, &count)| (i as f64 * width / 1e3, count)).collect();
    Histogram { unit: "seconds", bars }
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::sample::{at, blocks};
    use super::*;

    #[test]
    fn every_request_is_in_one_bar_of_each_histogram() {
        let mut builder = Builder::new(Limits::default());
        for i in 0..100u64 {
            let mut record = at(blocks(&[i], 100 + i as u32 * 10), i as f64 * 10.0, i as u32);
            record.session = Some(format!("s{}", i % 7).into());
            builder.push(&record).unwrap();
        }
        let shape = Shape::of(&builder.finish(0.25));
        for histogram in [&shape.input_tokens, &shape.output_tokens, &shape.arrivals] {
            assert_eq!(histogram.bars.iter().map(|bar| bar.1).sum::<u64>(), 100, "{histogram:?}");
        }
        assert_eq!(shape.turns.bars, [(8.0, 7)]);
        assert_eq!(shape.output_tokens.bars[0], (0.0, 1));
        assert_eq!(shape.arrivals.bars.len(), TIMES);
    }
}
