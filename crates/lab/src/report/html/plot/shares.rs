//! Plot 5: whether the load is fair.

use crate::analyze::words::percent;
use crate::report::html::axes::SMALL;
use crate::report::html::bars::{Bar, grouped};
use crate::report::html::figure::Figure;
use crate::report::html::scale::{Axis, Format};
use crate::report::saved::{SavedReplay, SavedStrategy};

/// Strategies that get a drawing; all are in the table.
const DRAWN_MAX: usize = 6;
/// Replicas with a bar.
const REPLICAS_MAX: usize = 32;

pub(in crate::report::html) fn figure(report: &SavedReplay) -> Figure {
    let drawings = report.strategies.iter().take(DRAWN_MAX).map(|strategy| {
        let mut shares: Vec<f64> = strategy.shares.iter().map(|share| share.share).collect();
        shares.sort_by(|a, b| b.total_cmp(a));
        shares.truncate(REPLICAS_MAX);
        let all = report.strategies.iter().take(DRAWN_MAX).flat_map(|strategy| &strategy.shares);
        // One axis for all, or an uneven strategy would look as even as an even one.
        let y = Axis::from_zero("", Format::Percent, all.map(|share| share.share));
        let label = |rank: usize| if rank == 0 { "busiest".to_owned() } else { String::new() };
        let groups: Vec<(String, Vec<Bar>)> =
            shares.iter().enumerate().map(|(rank, &value)| (label(rank), vec![Bar { value, range: None }])).collect();
        (strategy.name.clone(), grouped(SMALL, y, &groups, std::slice::from_ref(&strategy.name)))
    });
    Figure {
        id: "shares",
        title: "Does one replica get it all?".to_owned(),
        description:
            "Requests of each replica, as part of all, the busiest first. In a fair fleet of equal replicas all bars \
                      are of one height."
                .to_owned(),
        is_simulated: true,
        drawings: drawings.collect(),
        legend: Vec::new(),
        columns: ["", "least", "most", "most over mean", "in flight at the busiest, P99"].map(str::to_owned).into(),
        rows: report.strategies.iter().map(row).collect(),
    }
}

fn row(strategy: &SavedStrategy) -> Vec<String> {
    let part = |name: &str| strategy.metric(name).map_or_else(|| "–".to_owned(), percent);
    let number = |name: &str| strategy.metric(name).map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"));
    let in_flight = strategy.shares.iter().map(|share| share.in_flight_p99).fold(0.0, f64::max);
    vec![
        strategy.name.clone(),
        part("share_min"),
        part("share_max"),
        number("share_max_to_mean"),
        format!("{in_flight:.0}"),
    ]
}
