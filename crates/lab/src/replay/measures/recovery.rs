//! How long an event is felt.
//!
//! The run is cut into spans of equal length. What was usual is the TTFT (90th percentile) and the hit rate over the
//! eight spans before the event. It is over at the end of the first span after the event in which, and in the next one,
//! TTFT is at most 1.2 times the usual or 10 ms more. Where there are fewer than two spans before, or too few requests,
//! it is not known.

use super::{Jobs, input_tokens};
use crate::replay::outcome::{Run, Served};
use crate::stats::Series;

/// How a run got over an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Recovery {
    /// The event.
    pub event: String,
    /// When, seconds.
    pub at_s: f64,
    /// Usual 90th percentile of TTFT before it, milliseconds; `None` where there were too few requests.
    pub ttft_p90_before_ms: Option<f64>,
    /// The worst span's until it was over.
    pub ttft_p90_worst_ms: Option<f64>,
    /// Usual hit rate before it.
    pub hit_ratio_before: Option<f64>,
    /// The worst span's until it was over.
    pub hit_ratio_worst: Option<f64>,
    /// Seconds until it was over; `None` if that is not known or did not come.
    pub recovered_s: Option<f64>,
}

/// Spans of a run.
const SPANS: u64 = 120;
/// Shortest span, microseconds.
const SPAN_US_MIN: u64 = 5_000_000;
const SPANS_BEFORE: usize = 8;

/// One span.
#[derive(Clone, Copy)]
struct Span {
    ttft_p90_ms: f64,
    hit_ratio: f64,
}

pub(super) fn of(jobs: &Jobs, run: &Run) -> Vec<Recovery> {
    let events: Vec<_> = run.marks.iter().filter(|mark| mark.is_event).collect();
    if events.is_empty() {
        return Vec::new();
    }
    let span_us = (run.end_us / SPANS).max(SPAN_US_MIN);
    let spans = spans(jobs, run, span_us);
    events
        .into_iter()
        .map(|mark| {
            let at = (mark.at_us / span_us) as usize;
            Recovery {
                event: mark.what.clone(),
                at_s: mark.at_us as f64 / 1e6,
                ..felt(&spans, at, mark.at_us, span_us)
            }
        })
        .collect()
}

fn felt(spans: &[Option<Span>], at: usize, at_us: u64, span_us: u64) -> Recovery {
    let at = at.min(spans.len());
    let before: Vec<Span> = spans[at.saturating_sub(SPANS_BEFORE)..at].iter().flatten().copied().collect();
    let mean = |value: fn(&Span) -> f64| {
        (before.len() >= 2).then(|| before.iter().map(value).sum::<f64>() / before.len() as f64)
    };
    let (ttft, hits) = (mean(|span| span.ttft_p90_ms), mean(|span| span.hit_ratio));
    let is_usual = |span: &Span| ttft.is_some_and(|usual| span.ttft_p90_ms <= (usual * 1.2).max(usual + 10.0));
    // The span of the event itself is partly before it.
    let after = || (at + 1..spans.len()).filter_map(|index| Some((index, spans[index]?)));
    let over = after().zip(after().skip(1)).find(|((_, this), (_, next))| is_usual(this) && is_usual(next));
    let over_at = over.map(|((index, _), _)| index);
    let during = || spans[at..over_at.unwrap_or(spans.len())].iter().flatten();
    Recovery {
        event: String::new(),
        at_s: 0.0,
        ttft_p90_before_ms: ttft,
        ttft_p90_worst_ms: during().map(|span| span.ttft_p90_ms).max_by(f64::total_cmp),
        hit_ratio_before: hits,
        hit_ratio_worst: during().map(|span| span.hit_ratio).min_by(f64::total_cmp),
        recovered_s: over_at.map(|index| ((index as u64 + 1) * span_us - at_us) as f64 / 1e6),
    }
}

/// Each span's, where at least five requests arrived in it.
fn spans(jobs: &Jobs, run: &Run, span_us: u64) -> Vec<Option<Span>> {
    let mut spans = Vec::new();
    let mut rest = &run.served[..];
    while !rest.is_empty() {
        let end_us = (spans.len() as u64 + 1) * span_us;
        let (here, later) = rest.split_at(rest.partition_point(|served| served.sent_us < end_us));
        rest = later;
        let answered: Vec<&Served> = here.iter().filter(|served| served.is_answered()).collect();
        let ttft: Series = answered.iter().map(|served| served.ttft_us() as f64 / 1e3).collect();
        let hits: u64 = answered.iter().map(|served| u64::from(served.delivered_tokens)).sum();
        let tokens: u64 = answered.iter().map(|served| input_tokens(jobs, served)).sum();
        let hit_ratio = hits as f64 / tokens.max(1) as f64;
        spans.push((answered.len() >= 5).then(|| Span { ttft_p90_ms: ttft.percentile(90.0), hit_ratio }));
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(ttft: &[f64]) -> Vec<Option<Span>> {
        ttft.iter().map(|ms| (*ms > 0.0).then_some(Span { ttft_p90_ms: *ms, hit_ratio: 100.0 / ms })).collect()
    }

    #[test]
    fn an_event_is_over_when_two_spans_in_a_row_are_as_usual() {
        let spans = spans(&[100.0, 100.0, 100.0, 400.0, 900.0, 110.0, 700.0, 105.0, 119.0, 500.0]);
        let felt = felt(&spans, 3, 33_000_000, 10_000_000);
        assert_eq!(felt.ttft_p90_before_ms, Some(100.0));
        assert_eq!(felt.ttft_p90_worst_ms, Some(900.0));
        assert_eq!(felt.hit_ratio_worst, Some(100.0 / 900.0));
        assert_eq!(felt.recovered_s, Some(80.0 - 33.0), "the end of the first of the two");
    }

    #[test]
    fn what_never_came_back_or_has_nothing_before_is_not_known() {
        let never = felt(&spans(&[100.0, 100.0, 300.0, 300.0, 300.0]), 2, 20_000_000, 10_000_000);
        assert_eq!((never.recovered_s, never.ttft_p90_worst_ms), (None, Some(300.0)));
        let at_once = felt(&spans(&[100.0, 0.0, 100.0, 100.0]), 1, 10_000_000, 10_000_000);
        assert_eq!((at_once.ttft_p90_before_ms, at_once.recovered_s), (None, None));
    }
}
