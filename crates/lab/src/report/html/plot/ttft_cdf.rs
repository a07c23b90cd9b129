//! Plot 1: how many requests have their first token by when.

use crate::analyze::words::milliseconds;
use crate::report::html::axes::LARGE;
use crate::report::html::figure::{Figure, SERIES};
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};
use crate::report::saved::SavedReplay;

/// `None` if nothing was answered.
pub(in crate::report::html) fn figure(report: &SavedReplay) -> Option<Figure> {
    let shown: Vec<_> = report.strategies.iter().take(SERIES).collect();
    let all = || shown.iter().flat_map(|strategy| &strategy.series.ttft_cdf);
    all().next()?;
    // Below a hundredth of the requests a logarithmic axis would mostly show the luckiest.
    let x = Axis::log(
        "time to first token",
        Format::Milliseconds,
        all().filter(|point| point[1] >= 0.01).map(|point| point[0]),
    );
    let lines = shown.iter().map(|strategy| Line {
        name: strategy.name.clone(),
        points: thinned(&strategy.series.ttft_cdf).map(|point| (point[0], Some(point[1]))).collect(),
    });
    let chart = Lines::new(LARGE, x, Axis::parts("requests"), lines.collect());
    let at = |strategy: &crate::report::saved::SavedStrategy, part: f64| {
        let point = strategy.series.ttft_cdf.iter().find(|point| point[1] >= part);
        point.map_or_else(|| "–".to_owned(), |point| milliseconds(point[0]))
    };
    Some(Figure {
        id: "ttft-cdf",
        title: "How many users are faster, not just the mean?".to_owned(),
        description: "The part of the requests that have their first token by a time. Further left is faster."
            .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), chart.draw())],
        legend: shown.iter().map(|strategy| strategy.name.clone()).collect(),
        columns: ["", "10 %", "25 %", "50 %", "75 %", "90 %", "99 %"].map(str::to_owned).into(),
        rows: report
            .strategies
            .iter()
            .map(|strategy| {
                let parts = [0.1, 0.25, 0.5, 0.75, 0.9, 0.99].map(|part| at(strategy, part));
                std::iter::once(strategy.name.clone()).chain(parts).collect()
            })
            .collect(),
    })
}

/// As many points as can be seen.
fn thinned(points: &[[f64; 2]]) -> impl Iterator<Item = &[f64; 2]> {
    let every = (points.len() / 200).max(1);
    let last = points.len().saturating_sub(1);
    points
        .iter()
        .enumerate()
        .filter(move |(index, _)| index.is_multiple_of(every) || *index == last)
        .map(|(_, point)| point)
}
