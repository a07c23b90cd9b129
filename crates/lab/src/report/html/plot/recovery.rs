//! Plot 11: what scaling, restarts and deploys do, and for how long.

use super::over_time::averaged;
use crate::analyze::words::{milliseconds, seconds};
use crate::report::html::axes::LARGE;
use crate::report::html::figure::{Figure, SERIES};
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};
use crate::report::saved::SavedReplay;

/// `None` if nothing happened to the fleet.
pub(in crate::report::html) fn figure(report: &SavedReplay) -> Option<Figure> {
    let first = report.strategies.iter().find(|strategy| strategy.marks.iter().any(|mark| mark.is_event))?;
    let shown: Vec<_> = report.strategies.iter().take(SERIES).collect();
    let lines: Vec<Line> = shown
        .iter()
        .map(|strategy| Line {
            name: strategy.name.clone(),
            points: averaged(&strategy.series.over_time, &strategy.series.over_time.ttft_p90_ms),
        })
        .collect();
    let points = || lines.iter().flat_map(|line| &line.points);
    let x = Axis::from_zero("time", Format::Seconds, points().map(|point| point.0));
    let y = Axis::from_zero("TTFT, 90th percentile", Format::Milliseconds, points().filter_map(|point| point.1));
    let mut chart = Lines::new(LARGE, x, y, lines);
    chart.x_marks = first.marks.iter().map(|mark| (mark.at_s, mark.what.clone(), false)).collect();
    let known = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), milliseconds);
    Some(Figure {
        id: "recovery",
        title: "Is it safe to scale, restart and deploy?".to_owned(),
        description: "TTFT around what happens to the fleet. It is over when TTFT is as before, within a fifth."
            .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), chart.draw())],
        legend: shown.iter().map(|strategy| strategy.name.clone()).collect(),
        columns: ["", "event", "at", "P90 TTFT before", "worst", "over after"].map(str::to_owned).into(),
        rows: report
            .strategies
            .iter()
            .flat_map(|strategy| {
                strategy.recoveries.iter().map(|recovery| {
                    vec![
                        strategy.name.clone(),
                        recovery.event.clone(),
                        Format::Seconds.write(recovery.at_s),
                        known(recovery.p90_ttft_ms_before),
                        known(recovery.p90_ttft_ms_worst),
                        recovery.recovered_s.map_or_else(|| "not within the run".to_owned(), seconds),
                    ]
                })
            })
            .collect(),
    })
}
