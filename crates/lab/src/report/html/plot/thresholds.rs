//! What a threshold does at the advised length: where the cliff is.

use crate::analyze::fleet::Estimate;
use crate::analyze::sweep::Sweep;
use crate::analyze::words::{milliseconds, percent};
use crate::report::html::axes::SMALL;
use crate::report::html::figure::Figure;
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};

/// `None` where the trace has no times, or no length is advised.
pub(in crate::report::html) fn figure(sweep: &Sweep) -> Option<Figure> {
    let length = sweep.advised?;
    let limits: Vec<(u32, &Estimate)> =
        sweep.grid.iter().map(|row| (row.concurrency_threshold, &row.estimates[length])).collect();
    limits.first()?.1.ttft_p90_ms?;
    let x = || Axis::log("concurrency_threshold", Format::Amount, limits.iter().map(|limit| f64::from(limit.0)));
    let line = |name: &str, value: fn(&Estimate) -> Option<f64>| Line {
        name: name.to_owned(),
        points: limits.iter().map(|(threshold, estimate)| (f64::from(*threshold), value(estimate))).collect(),
    };
    let drawn = |series: usize, y: Axis, line: Line| {
        let mut chart = Lines::new(SMALL, x(), y, vec![line]);
        chart.first_series = series;
        chart.has_points = true;
        chart.x_marks = vec![(f64::from(sweep.concurrency_threshold), "advised".to_owned(), true)];
        chart.draw()
    };
    let p90 = line("TTFT, 90th percentile", |estimate| estimate.ttft_p90_ms);
    let p90_axis = Axis::from_zero("", Format::Milliseconds, p90.points.iter().filter_map(|point| point.1));
    Some(Figure {
        id: "thresholds",
        title: "Which concurrency_threshold?".to_owned(),
        description: format!(
            "At the advised length. Too low, and homes are left before anything is reused; too high, and a hot key keeps its \
             home busy. Advised: {}.",
            sweep.concurrency_threshold
        ),
        is_simulated: true,
        drawings: vec![
            ("reused".to_owned(), drawn(0, Axis::parts(""), line("reused", |estimate| Some(estimate.reused_ratio)))),
            ("TTFT, 90th percentile".to_owned(), drawn(3, p90_axis, p90)),
        ],
        legend: Vec::new(),
        columns: ["threshold", "reused", "spilled", "TTFT mean", "TTFT P90"].map(str::to_owned).into(),
        rows: limits.iter().map(|(threshold, estimate)| row(*threshold, estimate)).collect(),
    })
}

fn row(threshold: u32, estimate: &Estimate) -> Vec<String> {
    let time = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), milliseconds);
    vec![
        threshold.to_string(),
        percent(estimate.reused_ratio),
        percent(estimate.spilled_ratio),
        time(estimate.ttft_mean_ms),
        time(estimate.ttft_p90_ms),
    ]
}
