//! An analysis as a document: verdict, what repeats, limits, lengths, what to do, settings.

use super::document::{Block, Cell, Document, Table};
use crate::analyze::advice::Pays;
use crate::analyze::repeats::Branch;
use crate::analyze::sweep::Sweep;
use crate::analyze::words::{amount, count, milliseconds, percent, rate as rate_words, seconds};
use crate::analyze::{Analysis, Reuse};

/// Branches in the table of what repeats.
const BRANCHES_MAX: usize = 12;

/// Puts an analysis into words.
pub fn analysis_document(analysis: &Analysis) -> Document {
    let mut document = Document::default();
    document.push(Block::Verdict(analysis.advice.verdict.clone()));
    document.text(trace_sentence(analysis));
    if let Some(reuse) = &analysis.reuse {
        repeats(&mut document, reuse);
        limits(&mut document, analysis, reuse);
        lengths(&mut document, &reuse.sweep);
    }
    let points: Vec<(bool, String)> =
        analysis.advice.findings.iter().map(|finding| (finding.is_warning, finding.text.clone())).collect();
    if !points.is_empty() {
        document.heading("What to know and to do");
        document.push(Block::Points(points));
    }
    settings(&mut document, analysis);
    if !analysis.advice.refused.is_empty() {
        document.heading("What this trace cannot tell");
        document.push(Block::Points(analysis.advice.refused.iter().map(|text| (false, text.clone())).collect()));
    }
    document
}

/// What was read, and for which fleet.
pub(super) fn trace_sentence(analysis: &Analysis) -> String {
    let load = &analysis.load;
    let mut text = format!("{} requests", count(load.requests as u64));
    if load.sessions > 0 {
        text.push_str(&format!(" in {} sessions", count(load.sessions as u64)));
    }
    if let (Some(span), Some(rate)) = (load.span_s, load.rate_per_s) {
        text.push_str(&format!(" over {} ({} a second)", seconds(span), rate_words(rate)));
    }
    text.push_str(&format!(
        ", {} prompt tokens ({} each, P90 {})",
        amount(load.input.total as f64),
        count(load.input.mean.round() as u64),
        count(load.input.p90.round() as u64)
    ));
    if let Some(output) = &load.output {
        text.push_str(&format!(", answers of {} tokens", count(output.mean.round() as u64)));
    }
    let fleet = &analysis.fleet;
    text.push_str(&format!(
        ". Fleet: {} replicas like {}, {} KV tokens each (--replicas, --engine, --kv-tokens).",
        fleet.replicas,
        fleet.preset,
        amount(fleet.kv_tokens as f64)
    ));
    let skipped: u64 = analysis.skipped.values().sum();
    if skipped > 0 {
        let reasons: Vec<String> = analysis.skipped.iter().map(|(why, n)| format!("{} {why}", count(*n))).collect();
        text.push_str(&format!(" Left out: {}.", reasons.join(", ")));
    }
    text
}

fn repeats(document: &mut Document, reuse: &Reuse) {
    let mut rows = Vec::new();
    fn walk(branch: &Branch, depth: usize, rows: &mut Vec<Vec<Cell>>) {
        let depth_text = format!("{}{} tokens", "  ".repeat(depth), count(branch.to_tokens));
        let from = if branch.from_tokens > 0 { format!("from {}", count(branch.from_tokens)) } else { String::new() };
        rows.push(vec![
            Cell::number(percent(branch.share)),
            Cell::Bar(branch.share),
            Cell::words(depth_text),
            Cell::words(from),
            Cell::number(format!("then {} ways on", count(u64::from(branch.ways_on)))),
        ]);
        branch.branches.iter().for_each(|child| walk(child, depth + 1, rows));
    }
    let root = &reuse.repeats.root;
    if root.to_tokens > 0 {
        walk(root, 0, &mut rows);
    } else {
        root.branches.iter().for_each(|branch| walk(branch, 0, &mut rows));
    }
    if rows.is_empty() {
        return;
    }
    document.heading("What repeats");
    let left_out = rows.len().saturating_sub(BRANCHES_MAX) + reuse.repeats.left_out;
    rows.truncate(BRANCHES_MAX);
    document.push(Block::Table(Table { columns: vec!["share", "", "same up to", "", ""], rows, marked: None }));
    if left_out > 0 {
        document.text(format!("{} further beginnings are not shown.", count(left_out as u64)));
    }
}

/// The rows of the table of limits: what, part of the prompt tokens, whether it is a simulation.
pub(super) fn limit_rows(analysis: &Analysis, reuse: &Reuse) -> Vec<(String, f64, bool)> {
    let limits = &reuse.limits;
    let mut rows = vec![
        ("placement at random".to_owned(), reuse.sweep.random.reused_ratio, true),
        ("placement by load alone".to_owned(), reuse.sweep.least_outstanding.reused_ratio, true),
    ];
    if let Some(cut) = reuse.sweep.advised() {
        let name = format!("equal beginnings together, prefix_length {}", count(u64::from(cut.prefix_length)));
        rows.push((name, cut.estimate.reused_ratio, true));
    }
    let pooled = amount(limits.pooled_tokens as f64);
    rows.push((format!("perfect placement ({pooled} KV tokens as one LRU cache)"), limits.pooled_lru, false));
    rows.push(("perfect placement and eviction (Belady)".to_owned(), limits.pooled_belady, false));
    rows.push(("a cache that never forgets".to_owned(), limits.infinite, false));
    if (reuse.rounding.cached_ratio - limits.infinite).abs() >= 0.005 {
        let block = count(u64::from(analysis.fleet.block_tokens));
        rows.push((format!("the same in whole KV blocks of {block} tokens"), reuse.rounding.cached_ratio, false));
    }
    rows
}

fn limits(document: &mut Document, analysis: &Analysis, reuse: &Reuse) {
    document.heading("What can be reused, of all prompt tokens");
    let rows = limit_rows(analysis, reuse).into_iter().map(|(name, ratio, is_simulated)| {
        let simulated = if is_simulated { "simulated" } else { "" };
        vec![Cell::words(name), Cell::number(percent(ratio)), Cell::Bar(ratio), Cell::words(simulated)]
    });
    document.push(Block::Table(Table { columns: vec![""; 4], rows: rows.collect(), marked: None }));
}

fn lengths(document: &mut Document, sweep: &Sweep) {
    if sweep.cuts.is_empty() {
        return;
    }
    document.heading("Prefix lengths, simulated (a quick estimate: `kvroute replay` runs the engine model)");
    let has_times = sweep.cuts.iter().all(|cut| cut.estimate.ttft_mean_ms.is_some());
    let mut columns = vec!["characters", "tokens", "keys", "largest key", "reused", "busiest", "spilled"];
    if has_times {
        columns.extend(["TTFT mean", "P90"]);
    }
    let rows = sweep.cuts.iter().map(|cut| {
        let estimate = &cut.estimate;
        let mut row = vec![
            Cell::number(count(u64::from(cut.prefix_length))),
            Cell::number(count(cut.tokens)),
            Cell::number(count(cut.keys as u64)),
            Cell::number(percent(cut.key_share_max)),
            Cell::number(percent(estimate.reused_ratio)),
            Cell::number(percent(estimate.share_max)),
            Cell::number(percent(estimate.spilled_ratio)),
        ];
        if let (Some(mean), Some(p90)) = (estimate.ttft_mean_ms, estimate.ttft_p90_ms) {
            row.extend([mean, p90].map(|ms| Cell::number(milliseconds(ms))));
        }
        row
    });
    document.push(Block::Table(Table { columns, rows: rows.collect(), marked: sweep.advised }));
}

fn settings(document: &mut Document, analysis: &Analysis) {
    let advice = &analysis.advice;
    let (Some(yaml), Some(config)) = (&advice.kvroute_yaml, &advice.sagemaker_routing_config) else { return };
    document.heading("Set these");
    document.push(Block::Code("kvroute.yaml".to_owned(), "yaml", yaml.clone()));
    let json = serde_json::to_string_pretty(config).unwrap_or_default();
    document.push(Block::Code("SageMaker, RoutingConfig of the production variant".to_owned(), "json", json));
    if advice.pays == Pays::Yes {
        document.text("Then run `kvroute replay` with them: what is simulated here is a quick estimate.");
    }
}
