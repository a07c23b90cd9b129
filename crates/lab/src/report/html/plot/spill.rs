//! Plot 6: how often homes are left, when, and by which keys.

use super::over_time::averaged;
use crate::analyze::words::{count, percent};
use crate::report::html::axes::SMALL;
use crate::report::html::bars::{Bar, grouped};
use crate::report::html::figure::Figure;
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};
use crate::report::saved::{SavedReplay, SavedStrategy};

/// Keys with a bar, the most used.
const RANKS_MAX: usize = 12;

/// Of kvroute's own strategy that leaves homes most often; `None` if none does.
pub(in crate::report::html) fn figure(report: &SavedReplay) -> Option<Figure> {
    let spilled = |strategy: &SavedStrategy| strategy.metric("spill_ratio").unwrap_or(0.0);
    let own = report.strategies.iter().filter(|strategy| !strategy.is_baseline && spilled(strategy) > 0.0);
    let strategy = own.max_by(|a, b| spilled(a).total_cmp(&spilled(b)))?;
    let points = averaged(&strategy.series.over_time, &strategy.series.over_time.spill_ratio);
    let x = Axis::from_zero("time", Format::Seconds, points.iter().map(|point| point.0));
    let y = Axis::from_zero("", Format::Percent, points.iter().filter_map(|point| point.1));
    let line = Line { name: strategy.name.clone(), points };
    let over_time = Lines::new(SMALL, x, y, vec![line]).draw();
    let ranks: Vec<[u64; 2]> = strategy.series.spill_by_rank.iter().take(RANKS_MAX).copied().collect();
    let y = Axis::from_zero("requests", Format::Amount, ranks.iter().map(|rank| rank[0] as f64));
    let groups: Vec<(String, Vec<Bar>)> = ranks
        .iter()
        .enumerate()
        .map(|(rank, [requests, spilled])| {
            let bar = |value: u64| Bar { value: value as f64, range: None };
            ((rank + 1).to_string(), vec![bar(*requests), bar(*spilled)])
        })
        .collect();
    let names = ["all requests".to_owned(), "of them left their home".to_owned()];
    let by_rank = grouped(SMALL, y, &groups, &names);
    Some(Figure {
        id: "spill",
        title: format!("Is the threshold of {} too low?", strategy.name),
        description:
            "Requests that left their home because of load: over time, and for the most used keys. If ordinary keys \
                      leave too, the threshold is too low; if only the first do, it does its work."
                .to_owned(),
        is_simulated: true,
        drawings: vec![
            ("spilled over time".to_owned(), over_time),
            ("by key, the most used first".to_owned(), by_rank),
        ],
        legend: names.into(),
        columns: ["key by use", "requests", "left their home"].map(str::to_owned).into(),
        rows: strategy
            .series
            .spill_by_rank
            .iter()
            .enumerate()
            .map(|(rank, [requests, spilled])| {
                let part = *spilled as f64 / (*requests).max(1) as f64;
                vec![(rank + 1).to_string(), count(*requests), format!("{} ({})", count(*spilled), percent(part))]
            })
            .collect(),
    })
}
