//! Plot 12: what a cache of which size reuses.

use crate::analyze::words::{amount, percent};
use crate::analyze::{FleetFacts, ReuseLimits};
use crate::report::html::axes::LARGE;
use crate::report::html::figure::Figure;
use crate::report::html::lines::{Line, Lines};
use crate::report::html::scale::{Axis, Format};

pub(in crate::report::html) fn figure(limits: &ReuseLimits, fleet: &FleetFacts) -> Figure {
    let points: Vec<(f64, Option<f64>)> =
        limits.curve.iter().map(|&(tokens, ratio)| (tokens as f64, Some(ratio))).collect();
    let pooled = limits.pooled_tokens as f64;
    let sizes = limits.curve.iter().map(|point| point.0 as f64).chain([pooled, fleet.kv_tokens as f64]);
    let x = Axis::log("KV tokens of the cache", Format::Amount, sizes);
    let y = Axis::parts("prompt tokens reused");
    let line = Line { name: "an LRU cache".to_owned(), points };
    let mut chart = Lines::new(LARGE, x, y, vec![line]);
    chart.x_marks = vec![(fleet.kv_tokens as f64, "one replica".to_owned(), false)];
    if fleet.replicas > 1 {
        chart.x_marks.push((pooled, format!("all {} replicas", fleet.replicas), true));
    }
    chart.y_marks = vec![(limits.infinite, "without limit".to_owned())];
    Figure {
        id: "reuse-distance",
        title: "Buy memory, or route better?".to_owned(),
        description: format!(
            "What one LRU cache of a size would reuse. One replica's {} tokens reuse {} if it gets everything; perfect \
             placement makes all replicas one cache of {}, which reuses {}. Where the curve is steep at that mark, memory helps.",
            amount(fleet.kv_tokens as f64),
            percent(limits.single_lru),
            amount(pooled),
            percent(limits.pooled_lru)
        ),
        is_simulated: false,
        drawings: vec![(String::new(), chart.draw())],
        legend: Vec::new(),
        columns: ["KV tokens", "reused"].map(str::to_owned).into(),
        rows: limits.curve.iter().map(|&(tokens, ratio)| vec![amount(tokens as f64), percent(ratio)]).collect(),
    }
}
