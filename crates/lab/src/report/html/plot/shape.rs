//! Plot 14: lengths, arrivals and turns.

use crate::analyze::shape::{Histogram, Shape};
use crate::analyze::words::{amount, count};
use crate::report::html::axes::SMALL;
use crate::report::html::bars::histogram;
use crate::report::html::figure::Figure;
use crate::report::html::scale::Format;
use crate::report::saved::SavedTrace;

pub(in crate::report::html) fn figure(shape: &Shape) -> Figure {
    let edge = |histogram: &Histogram, value: f64| match histogram.unit {
        "seconds" => Format::Seconds.write(value),
        _ => amount(value),
    };
    let of = |name, label, counted, shape: &Histogram| Panel {
        name,
        label,
        counted,
        bars: shape.bars.iter().map(|&(from, n)| (edge(shape, from), n)).collect(),
    };
    drawn(vec![
        of("prompt length", "tokens", "requests", &shape.input_tokens),
        of("answer length", "tokens", "requests", &shape.output_tokens),
        of("arrivals", "time", "requests", &shape.arrivals),
        of("turns of a session", "requests", "sessions", &shape.turns),
    ])
}

/// The same for a saved replay, whose histograms have upper bounds.
pub(in crate::report::html) fn of_replay(trace: &SavedTrace) -> Figure {
    let of = |name, label, counted, bars: &[[u64; 2]]| Panel {
        name,
        label,
        counted,
        bars: bars.iter().map(|[to, n]| (format!("≤ {}", amount(*to as f64)), *n)).collect(),
    };
    drawn(vec![
        of("prompt length", "tokens", "requests", &trace.prompt_tokens_histogram),
        of("answer length", "tokens", "requests", &trace.output_tokens_histogram),
        of("turns of a session", "requests", "sessions", &trace.turns_histogram),
    ])
}

struct Panel {
    name: &'static str,
    label: &'static str,
    counted: &'static str,
    /// Name of an edge, and count.
    bars: Vec<(String, u64)>,
}

fn drawn(panels: Vec<Panel>) -> Figure {
    let known: Vec<Panel> = panels.into_iter().filter(|panel| !panel.bars.is_empty()).collect();
    let drawings =
        known.iter().map(|panel| (panel.name.to_owned(), histogram(SMALL, panel.counted, &panel.bars, panel.label)));
    let rows = known
        .iter()
        .flat_map(|panel| panel.bars.iter().map(|(edge, n)| vec![panel.name.to_owned(), edge.clone(), count(*n)]));
    Figure {
        id: "shape",
        title: "Is this trace like your traffic?".to_owned(),
        description:
            "Bars of lengths double in width. A trace that is shorter, quieter or differently made than what you serve \
                      says little about it."
                .to_owned(),
        is_simulated: false,
        drawings: drawings.collect(),
        legend: Vec::new(),
        columns: ["of", "at", "count"].map(str::to_owned).into(),
        rows: rows.collect(),
    }
}
