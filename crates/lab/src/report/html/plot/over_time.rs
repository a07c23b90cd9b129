//! Plot 4: the hit rate over time, with what happened to the fleet.

use crate::analyze::words::percent;
use crate::report::html::axes::LARGE;
use crate::report::html::figure::{Figure, SERIES};
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};
use crate::report::saved::{SavedOverTime, SavedReplay};

/// Points of a line at most: more would draw the noise of single prompts.
pub(super) const POINTS_MAX: usize = 48;

/// `None` if there are too few spans for a line.
pub(in crate::report::html) fn hits(report: &SavedReplay) -> Option<Figure> {
    let shown: Vec<_> = report.strategies.iter().take(SERIES).collect();
    if shown.iter().all(|strategy| strategy.series.over_time.hit_ratio.len() < 3) {
        return None;
    }
    let lines: Vec<Line> = shown
        .iter()
        .map(|strategy| Line {
            name: strategy.name.clone(),
            points: averaged(&strategy.series.over_time, &strategy.series.over_time.hit_ratio),
        })
        .collect();
    let times = lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let x = Axis::from_zero("time", Format::Seconds, times);
    let rows = lines.first().map_or(0, |line| line.points.len());
    let cell = |line: &Line, row: usize| {
        line.points.get(row).and_then(|point| point.1).map_or_else(|| "–".to_owned(), percent)
    };
    let rows = (0..rows).map(|row| {
        let at = Format::Seconds.write(lines[0].points[row].0);
        std::iter::once(at).chain(lines.iter().map(|line| cell(line, row))).collect()
    });
    let rows = rows.collect();
    let mut chart = Lines::new(LARGE, x, Axis::parts("prompt tokens reused"), lines);
    let events = shown[0].marks.iter().filter(|mark| mark.is_event);
    chart.x_marks = events.map(|mark| (mark.at_s, mark.what.clone(), false)).collect();
    let names: Vec<String> = shown.iter().map(|strategy| strategy.name.clone()).collect();
    Some(Figure {
        id: "hits-over-time",
        title: "Does reuse hold, and does it come back?".to_owned(),
        description: "Part of the prompt tokens that engines reused, by when requests arrived. Caches begin cold."
            .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), chart.draw())],
        legend: names.clone(),
        columns: std::iter::once("at".to_owned()).chain(names).collect(),
        rows,
    })
}

/// Means of neighbours, so that there are at most [`POINTS_MAX`]; the time of the first.
pub(super) fn averaged(over_time: &SavedOverTime, values: &[Option<f64>]) -> Vec<(f64, Option<f64>)> {
    let every = values.len().div_ceil(POINTS_MAX).max(1);
    values
        .chunks(every)
        .enumerate()
        .map(|(index, chunk)| {
            let known: Vec<f64> = chunk.iter().flatten().copied().collect();
            let mean = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
            ((index * every) as f64 * over_time.step_s, mean)
        })
        .collect()
}
