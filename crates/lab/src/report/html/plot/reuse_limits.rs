//! How much is reused, placed in several ways, and at most.

use crate::analyze::words::percent;
use crate::analyze::{Analysis, Reuse};
use crate::report::analysis::limit_rows;
use crate::report::html::bars::{Lying, lying};
use crate::report::html::figure::Figure;

pub(in crate::report::html) fn figure(analysis: &Analysis, reuse: &Reuse) -> Figure {
    let rows = limit_rows(analysis, reuse);
    let bars: Vec<Lying> = rows
        .iter()
        .map(|(name, ratio, is_simulated)| Lying {
            name: if *is_simulated { format!("{name} (simulated)") } else { name.clone() },
            parts: vec![(if *is_simulated { 0 } else { 2 }, *ratio, format!("{name}: {}", percent(*ratio)))],
            text: percent(*ratio),
        })
        .collect();
    let max = rows.iter().map(|row| row.1).fold(0.0, f64::max);
    Figure {
        id: "reuse-limits",
        title: "How much of the prompts need not be computed again?".to_owned(),
        description:
            "Parts of all prompt tokens. What placement can do lies between the first bar and the bar of perfect \
                      placement; what is above that needs more memory or better eviction."
                .to_owned(),
        is_simulated: true,
        drawings: vec![(String::new(), lying(&bars, max, None))],
        legend: Vec::new(),
        columns: ["", "reused", "from"].map(str::to_owned).into(),
        rows: rows
            .iter()
            .map(|(name, ratio, is_simulated)| {
                vec![name.clone(), percent(*ratio), if *is_simulated { "simulation" } else { "counting" }.to_owned()]
            })
            .collect(),
    }
}
