//! What the way from a body to a place costs, in instructions: the same on a busy machine as on a quiet one.

use std::env::consts::ARCH;

use anyhow::{Result, ensure};

use super::super::figure::{Bar, Figure, Footing, Reading, Source, count};
use super::decision::Decision;
use super::programs;
use crate::say::note;
use crate::tally::Tally;
use crate::workspace::Workspace;

/// Instructions that scan, key and choice for a 32 KB body may take: a tenth above what was measured (55,400).
const BUDGET_INSTRUCTIONS: f64 = 61_000.0;
/// Where the budget was measured: other processors have other instructions.
const BUDGET_ARCH: &str = "x86_64";

/// Enough that every one of the sixteen prompts has its turn several times.
const TURNS: u64 = 128;
const LARGE_TURNS: u64 = 4;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 3] = [
    figure(
        "decision_32k",
        "instructions",
        Bar::AtMost(BUDGET_INSTRUCTIONS),
        "scan, key and choice for a chat body of 32 KB that is searched to its end, four replicas",
    ),
    figure(
        "decision_6m",
        "x 32 KB",
        Bar::AtMost(1.5),
        "a body of 6 MB whose messages come first, against one of 32 KB, both with the tenant in a header",
    ),
    figure("choose_1000", "x 10", Bar::AtMost(3.0), "the choice alone among 1,000 replicas, against 10"),
];

const fn figure(name: &'static str, unit: &'static str, bar: Bar, how: &'static str) -> Figure {
    Figure { name, group: "gateway", unit, bar: Some(bar), footing: Footing::Exact, how }
}

fn measure(workspace: &Workspace) -> Result<Vec<Reading>> {
    let decision = Decision::build(workspace)?;
    let of = |case, turns| decision.instructions(case, turns);
    let searched = of("chat_32k", TURNS)?;
    let (small, large) = (of("tenant_32k", TURNS)?, of("tenant_6m", LARGE_TURNS)?);
    let (few, many) = (of("choose_10", TURNS)?, of("choose_1000", TURNS)?);
    let detail = |from: f64, to: f64| format!("{} -> {} instructions", count(from as u64), count(to as u64));
    Ok(vec![
        Reading::new("decision_32k", searched, String::new()),
        Reading::new("decision_6m", large / small, detail(small, large)),
        Reading::new("choose_1000", many / few, detail(few, many)),
    ])
}

/// The test of the budget: passed, or skipped where it cannot be counted.
pub(crate) fn budget(workspace: &Workspace) -> Result<Tally> {
    let skipped = Tally { skipped: 1, ..Tally::default() };
    if ARCH != BUDGET_ARCH {
        note!("    the instruction budget is for {BUDGET_ARCH}: skipped");
        return Ok(skipped);
    }
    if let Err(error) = programs::find("valgrind", "valgrind") {
        note!("    the instruction budget cannot be checked: {error}: skipped");
        return Ok(skipped);
    }
    let instructions = Decision::build(workspace)?.instructions("chat_32k", TURNS)?;
    ensure!(
        instructions <= BUDGET_INSTRUCTIONS,
        "scan, key and choice for a 32 KB body take {} instructions, their budget is {}; if that is worth it, raise \
         BUDGET_INSTRUCTIONS in xtask/src/figures/gateway/cost.rs",
        count(instructions as u64),
        count(BUDGET_INSTRUCTIONS as u64)
    );
    Ok(Tally::ONE_PASSED)
}
