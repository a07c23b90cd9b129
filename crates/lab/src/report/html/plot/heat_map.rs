//! Plot 8: prefix length x threshold, and how wide what is good is.

use crate::analyze::sweep::Sweep;
use crate::analyze::words::{amount, milliseconds, percent};
use crate::report::html::blocks::{Cell, heat_map};
use crate::report::html::figure::Figure;

/// A cell is as good as the best within this factor.
const PLATEAU: f64 = 1.05;

/// `None` where the trace has no times.
pub(in crate::report::html) fn figure(sweep: &Sweep) -> Option<Figure> {
    let value = |row: usize, column: usize| sweep.grid[row].estimates[column].ttft_p90_ms;
    let all =
        || (0..sweep.grid.len()).flat_map(|row| (0..sweep.cuts.len()).filter_map(move |column| value(row, column)));
    let least = all().min_by(f64::total_cmp)?;
    // A few cells of an overloaded fleet would leave one colour for all others.
    let most = all().fold(least, f64::max).min(least * 4.0);
    let rows = (0..sweep.grid.len()).rev().map(|row| {
        let threshold = sweep.grid[row].concurrency_threshold;
        let cells = (0..sweep.cuts.len()).map(|column| {
            let ms = value(row, column).unwrap_or(most);
            Cell {
                strength: (ms - least) / (most - least).max(f64::MIN_POSITIVE),
                text: milliseconds(ms),
                is_outlined: ms <= least * PLATEAU,
                is_chosen: threshold == sweep.concurrency_threshold && sweep.advised == Some(column),
            }
        });
        (threshold.to_string(), cells.collect())
    });
    let rows: Vec<(String, Vec<Cell>)> = rows.collect();
    let columns: Vec<String> = sweep.cuts.iter().map(|cut| amount(cut.tokens as f64)).collect();
    let table = sweep.grid.iter().flat_map(|row| {
        row.estimates.iter().zip(&columns).map(|(estimate, tokens)| {
            let time = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), milliseconds);
            vec![
                row.concurrency_threshold.to_string(),
                tokens.clone(),
                time(estimate.ttft_p90_ms),
                time(estimate.ttft_mean_ms),
                percent(estimate.reused_ratio),
                percent(estimate.spilled_ratio),
            ]
        })
    });
    Some(Figure {
        id: "heat-map",
        title: "How robust is the choice?".to_owned(),
        description: "90th percentile of TTFT for every prefix length and concurrency_threshold; darker is slower. Dashed: \
                      within 5 % of the best cell. Solid: advised, from the middle of what is good and not the luckiest cell."
            .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), heat_map(&rows, &columns, "prefix length in tokens", "concurrency_threshold"))],
        legend: Vec::new(),
        columns: ["threshold", "tokens", "TTFT P90", "TTFT mean", "reused", "spilled"].map(str::to_owned).into(),
        rows: table.collect(),
    })
}
