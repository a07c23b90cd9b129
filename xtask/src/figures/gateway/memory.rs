//! Whether what is remembered of prompts is bounded: the decision path, fed with ten million of which no two are alike.

use anyhow::{Result, bail};

use super::super::figure::{Bar, Figure, Footing, Reading, Source};
use super::decision::Decision;
use crate::workspace::Workspace;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 1] = [Figure {
    name: "memory_growth",
    group: "gateway",
    unit: "MiB",
    // Half a byte for each of nine million. Pages that the system joins to a large one make two MiB.
    bar: Some(Bar::AtMost(4.0)),
    footing: Footing::Machine,
    how: "growth of resident memory from one million to ten million distinct prompts of three blocks, each placed by \
          prefix_aware on one of four replicas",
}];

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let sizes = Decision::build(workspace)?.numbers("memory 1000000 10000000")?;
    let [before, after] = sizes[..] else { bail!("two sizes are needed, and there are {}", sizes.len()) };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let detail = format!("{:.1} -> {:.1} MiB", mib(before), mib(after));
    Ok(vec![Reading::new("memory_growth", mib(after) - mib(before), detail)])
}
