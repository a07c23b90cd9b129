//! Routing strategies side by side, each against the first.

use super::{
    a_second,
    columns::{Cell, Comparison, table},
    ms,
    totals::{Totals, ratio},
};
use crate::{load::Outcome, stats::Series};

/// What one strategy came to. Ratios are 0..1.
#[derive(Debug, Clone, PartialEq)]
pub struct StrategyResult {
    /// Name of the strategy.
    pub name: String,
    /// 50th percentile of the time to first token, milliseconds; `None` where nothing was served, which
    /// must not read as zero, the best there is.
    pub ttft_p50_ms: Option<f64>,
    /// 90th percentile.
    pub ttft_p90_ms: Option<f64>,
    /// 99th percentile.
    pub ttft_p99_ms: Option<f64>,
    /// Part of the prompt tokens that was found in a cache; `None` where it was not reported.
    pub cached_ratio: Option<f64>,
    /// Output tokens a second.
    pub output_tok_s: f64,
    /// Smallest and largest share of a replica; `None` where replicas are not known.
    pub shares: Option<(f64, f64)>,
    /// Part of the decisions that left the preferred replica because of load; `None` where reasons are
    /// not known.
    pub spill_ratio: Option<f64>,
    /// Requests that failed.
    pub failed: u64,
}

impl StrategyResult {
    /// Sums up a run. `replicas` is the size of the fleet where it is known: a replica that answered
    /// nothing names itself nowhere, and has share zero.
    pub fn of(name: &str, outcome: &Outcome, replicas: Option<usize>) -> Self {
        let totals = Totals::of(outcome);
        let ttft_ms: Series = outcome.served().map(|record| ms(record.ttft_us)).collect();
        let ttft_at = |percent| (!ttft_ms.is_empty()).then(|| ttft_ms.percentile(percent));
        let shares = totals.shares();
        let silent = replicas.is_some_and(|fleet| fleet > shares.len());
        let smallest = shares.values().copied().fold(f64::INFINITY, f64::min);
        let largest = shares.values().copied().fold(0.0, f64::max);
        let cached_tokens = totals.cached_tokens;
        Self {
            name: name.to_owned(),
            ttft_p50_ms: ttft_at(50.0),
            ttft_p90_ms: ttft_at(90.0),
            ttft_p99_ms: ttft_at(99.0),
            cached_ratio: cached_tokens.and_then(|cached| ratio(cached, totals.input_tokens)),
            output_tok_s: a_second(totals.output_tokens as f64, outcome.duration),
            shares: (!shares.is_empty()).then_some((if silent { 0.0 } else { smallest }, largest)),
            spill_ratio: totals.spill_ratio(),
            failed: outcome.failed(),
        }
    }
}

/// One metric: its label, its value, and what counts as better.
struct Metric {
    label: &'static str,
    value: fn(&StrategyResult) -> Option<f64>,
    decimals: usize,
    change: Comparison,
}

const METRICS: [Metric; 9] = [
    Metric { label: "TTFT P50 (ms)", value: |s| s.ttft_p50_ms, decimals: 1, change: Comparison::LessPercent },
    Metric { label: "TTFT P90 (ms)", value: |s| s.ttft_p90_ms, decimals: 1, change: Comparison::LessPercent },
    Metric { label: "TTFT P99 (ms)", value: |s| s.ttft_p99_ms, decimals: 1, change: Comparison::LessPercent },
    Metric { label: "Cache hit (%)", value: |s| percent(s.cached_ratio), decimals: 1, change: Comparison::MorePoints },
    Metric { label: "Output (tok/s)", value: |s| Some(s.output_tok_s), decimals: 0, change: Comparison::MorePercent },
    Metric {
        label: "Smallest share (%)",
        value: |s| percent(s.shares.map(|s| s.0)),
        decimals: 1,
        change: Comparison::No,
    },
    Metric {
        label: "Largest share (%)",
        value: |s| percent(s.shares.map(|s| s.1)),
        decimals: 1,
        change: Comparison::No,
    },
    Metric { label: "Spill (%)", value: |s| percent(s.spill_ratio), decimals: 1, change: Comparison::No },
    Metric { label: "Failed requests", value: |s| Some(s.failed as f64), decimals: 0, change: Comparison::No },
];

/// A table with one column a strategy. Latencies and throughput carry their change against the first
/// strategy in percent, the hit rate in percentage points (`pt`). `colour` marks changes green or red
/// with ANSI sequences.
pub fn compare(strategies: &[StrategyResult], colour: bool) -> String {
    let Some(first) = strategies.first() else {
        return String::new();
    };
    let labels: Vec<&str> = METRICS.iter().map(|metric| metric.label).collect();
    let cells = |(index, strategy): (usize, &StrategyResult)| {
        let base = (index > 0).then_some(first);
        METRICS.iter().map(|metric| metric.cell(strategy, base)).collect()
    };
    let all: Vec<Vec<Cell>> = strategies.iter().enumerate().map(cells).collect();
    let names = strategies.iter().map(|strategy| strategy.name.as_str());
    let columns: Vec<(&str, &[Cell])> = names.zip(all.iter().map(Vec::as_slice)).collect();
    table(&labels, &columns, colour)
}

impl Metric {
    fn cell(&self, strategy: &StrategyResult, base: Option<&StrategyResult>) -> Cell {
        Cell::new((self.value)(strategy), base.and_then(self.value), self.decimals, self.change)
    }
}

fn percent(ratio: Option<f64>) -> Option<f64> {
    ratio.map(|ratio| ratio * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strategy(name: &str, ttft_ms: [Option<f64>; 3], hit: Option<f64>, output_tok_s: f64) -> StrategyResult {
        StrategyResult {
            name: name.to_owned(),
            ttft_p50_ms: ttft_ms[0],
            ttft_p90_ms: ttft_ms[1],
            ttft_p99_ms: ttft_ms[2],
            cached_ratio: hit,
            output_tok_s,
            shares: Some((0.133, 0.154)),
            spill_ratio: None,
            failed: 0,
        }
    }

    fn three() -> [StrategyResult; 3] {
        let mut rows = [
            strategy("random", [280.0, 1402.25, 1900.0].map(Some), Some(0.275), 1234.0),
            strategy("prefix_aware", [63.2, 900.0, 2000.0].map(Some), Some(0.82), 1420.4),
            strategy("kv_aware", [Some(280.0), Some(700.0), None], None, 12_345.0),
        ];
        rows[1].spill_ratio = Some(0.0314);
        rows[2].shares = None;
        rows
    }

    #[test]
    fn strategies_stand_in_aligned_columns_with_changes_against_the_first() {
        let expected = concat!(
            "                     random     prefix_aware        kv_aware\n",
            "TTFT P50 (ms)         280.0     63.2  -77.4%   280.0   +0.0%\n",
            "TTFT P90 (ms)        1402.2    900.0  -35.8%   700.0  -50.1%\n",
            "TTFT P99 (ms)        1900.0   2000.0   +5.3%       -\n",
            "Cache hit (%)          27.5     82.0 +54.5pt       -\n",
            "Output (tok/s)         1234     1420  +15.1%   12345 +900.4%\n",
            "Smallest share (%)     13.3     13.3               -\n",
            "Largest share (%)      15.4     15.4               -\n",
            "Spill (%)                 -      3.1               -\n",
            "Failed requests           0        0               0\n",
        );
        let table = compare(&three(), false);
        assert_eq!(table, expected, "\n{table}");
    }

    #[test]
    fn colour_adds_nothing_but_colour() {
        let coloured = compare(&three(), true);
        assert!(coloured.contains("\x1b[32m-77.4%\x1b[0m"), "{coloured}");
        assert!(coloured.contains("\x1b[31m+5.3%\x1b[0m"), "{coloured}");
        let stripped = ["\x1b[32m", "\x1b[31m", "\x1b[0m"].iter().fold(coloured, |text, code| text.replace(code, ""));
        assert_eq!(stripped, compare(&three(), false));
    }

    #[test]
    fn names_longer_than_their_numbers_keep_the_columns_apart() {
        let mut rows = three();
        rows[0].name = "least_outstanding_requests".to_owned();
        let table = compare(&rows, false);
        let at = |line: &str, end: &str| line.find(end).map(|at| at + end.len());
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(at(lines[0], "requests"), at(lines[1], "280.0"), "\n{table}");
        assert_eq!(compare(&[], false), "");
    }
}
