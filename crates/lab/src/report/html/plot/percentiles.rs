//! Plot 2: the headline table as a picture.

use crate::analyze::words::milliseconds;
use crate::report::html::axes::SMALL;
use crate::report::html::bars::{Bar, grouped};
use crate::report::html::figure::{Figure, SERIES};
use crate::report::html::scale::{Axis, Format};
use crate::report::html::svg::Svg;
use crate::report::saved::{SavedReplay, SavedStrategy};

const PERCENTILES: [(&str, &str); 3] = [("P50", "median"), ("P90", "p90"), ("P99", "p99")];

pub(in crate::report::html) fn figure(report: &SavedReplay) -> Figure {
    let shown: Vec<&SavedStrategy> = report.strategies.iter().take(SERIES).collect();
    let names: Vec<String> = shown.iter().map(|strategy| strategy.name.clone()).collect();
    let draw = |metric: &str| -> Svg {
        let groups: Vec<(String, Vec<Bar>)> = PERCENTILES
            .iter()
            .map(|(name, prefix)| {
                let bars = shown.iter().map(|strategy| bar(&report.strategies[0], strategy, prefix, metric));
                ((*name).to_owned(), bars.collect())
            })
            .collect();
        let values = groups
            .iter()
            .flat_map(|group| &group.1)
            .map(|bar| bar.range.map_or(bar.value, |range| range.1.max(bar.value)));
        grouped(SMALL, Axis::from_zero("", Format::Milliseconds, values), &groups, &names)
    };
    Figure {
        id: "percentiles",
        title: "How fast is each strategy?".to_owned(),
        description:
            "Whiskers are 95 % intervals of the paired difference to the first strategy. Strategies that are worse off \
                      are shown too."
                .to_owned(),
        is_simulated: true,
        drawings: vec![
            ("time to first token".to_owned(), draw("ttft")),
            ("time to the last token".to_owned(), draw("e2el")),
        ],
        legend: names,
        columns: ["", "TTFT P50", "P90", "P99", "to the last token P50", "P90", "P99", "P90 TTFT change"]
            .map(str::to_owned)
            .into(),
        rows: report.strategies.iter().map(row).collect(),
    }
}

fn bar(first: &SavedStrategy, strategy: &SavedStrategy, prefix: &str, metric: &str) -> Bar {
    let value = strategy.metric(&format!("{prefix}_{metric}_ms")).unwrap_or(0.0);
    let base = first.metric(&format!("{prefix}_{metric}_ms"));
    let change = strategy.changes.as_ref().and_then(|changes| changes.get(&format!("{prefix}_{metric}_percent")));
    let range = base.zip(change).map(|(base, change)| {
        let at = |percent: f64| base * (1.0 + percent / 100.0);
        (at(change.low), at(change.high))
    });
    Bar { value, range }
}

fn row(strategy: &SavedStrategy) -> Vec<String> {
    let time = |prefix: &str, metric: &str| {
        strategy.metric(&format!("{prefix}_{metric}_ms")).map_or_else(|| "–".to_owned(), milliseconds)
    };
    let mut row = vec![strategy.name.clone()];
    for metric in ["ttft", "e2el"] {
        row.extend(PERCENTILES.iter().map(|(_, prefix)| time(prefix, metric)));
    }
    let change = strategy.changes.as_ref().and_then(|changes| changes.get("p90_ttft_percent"));
    row.push(change.map_or_else(|| "–".to_owned(), |c| format!("{:+.1} % ({:+.1} to {:+.1})", c.value, c.low, c.high)));
    row
}
