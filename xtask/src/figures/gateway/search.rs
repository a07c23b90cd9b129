//! What it costs to search a whole large body: time on this machine, the best of several.

use anyhow::{Result, bail};

use super::super::figure::{Bar, Figure, Footing, Reading, Source};
use super::decision::Decision;
use crate::workspace::Workspace;

const TIMES: &str = "40";

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 2] = [
    figure(
        "search_text",
        Some(Bar::AtMost(600.0)),
        "CPU time for each MB of a 6 MB conversation with `prompt_cache_key` at its end, scan, key and choice",
    ),
    figure("search_structure", None, "the same for a short conversation and 6 MB of tools, nothing but structure"),
];

const fn figure(name: &'static str, bar: Option<Bar>, how: &'static str) -> Figure {
    Figure { name, group: "gateway", unit: "us/MB", bar, footing: Footing::Machine, how }
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let decision = Decision::build(workspace)?;
    let reading = |name, case: &str| {
        let [ns, bytes] = decision.numbers(&format!("time {case} {TIMES}"))?[..] else { bail!("no time for {case}") };
        // A nanosecond a byte is a thousand microseconds a megabyte.
        let detail = format!("{:.1} ms for {:.1} MB", ns as f64 / 1e6, bytes as f64 / 1e6);
        Ok(Reading::new(name, ns as f64 / bytes as f64 * 1e3, detail))
    };
    Ok(vec![reading("search_text", "text_6m")?, reading("search_structure", "structure_6m")?])
}
