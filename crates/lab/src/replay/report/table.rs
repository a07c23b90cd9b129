//! The table for terminals: strategies as columns, changes against the first.

use super::Report;
use crate::replay::comparison::Column;
use crate::replay::measures::{Measures, Recovery};
use crate::report::columns::{Cell, Comparison, table};

struct Row {
    label: &'static str,
    value: fn(&Measures) -> Option<f64>,
    decimals: usize,
    comparison: Comparison,
}

const fn row(label: &'static str, value: fn(&Measures) -> Option<f64>, decimals: usize, comparison: Comparison) -> Row {
    Row { label, value, decimals, comparison }
}

fn percentile(summary: &crate::stats::Summary, percent: f64) -> Option<f64> {
    summary.percentiles.iter().find(|(known, _)| *known == percent).map(|(_, value)| *value)
}

fn answered(m: &Measures, value: Option<f64>) -> Option<f64> {
    value.filter(|_| m.answered > 0)
}

const ROWS: [Row; 19] = [
    row("TTFT mean (ms)", |m| answered(m, Some(m.ttft_ms.mean)), 0, Comparison::LessPercent),
    row("TTFT P50 (ms)", |m| answered(m, Some(m.ttft_ms.median)), 0, Comparison::LessPercent),
    row("TTFT P90 (ms)", |m| answered(m, percentile(&m.ttft_ms, 90.0)), 0, Comparison::LessPercent),
    row("TTFT P99 (ms)", |m| answered(m, percentile(&m.ttft_ms, 99.0)), 0, Comparison::LessPercent),
    row("TPOT P50 (ms)", |m| answered(m, Some(m.tpot_ms.median)), 1, Comparison::LessPercent),
    row("ITL P99 (ms)", |m| answered(m, percentile(&m.itl_ms, 99.0)), 1, Comparison::LessPercent),
    row("E2E P50 (ms)", |m| answered(m, Some(m.e2el_ms.median)), 0, Comparison::LessPercent),
    row("Available (%)", |m| Some(m.locality.ratio(m.locality.available_tokens) * 100.0), 1, Comparison::No),
    row("Captured (%)", |m| Some(m.locality.ratio(m.locality.captured_tokens) * 100.0), 1, Comparison::MorePoints),
    row("Delivered (%)", |m| Some(m.locality.delivered_ratio() * 100.0), 1, Comparison::MorePoints),
    row("Output (tok/s)", |m| Some(m.output_throughput()), 0, Comparison::MorePercent),
    row("Goodput (req/s)", Measures::request_goodput, 2, Comparison::MorePercent),
    row("Largest share (x)", |m| Some(m.share_max_to_mean()), 2, Comparison::No),
    row("Spill (%)", |m| Some(m.spill_ratio * 100.0), 1, Comparison::No),
    row("Waiting (mean)", |m| Some(m.queue.mean), 1, Comparison::No),
    row("GPU-s busy", |m| Some(m.gpu.busy_s), 0, Comparison::LessPercent),
    row("GPU-s prefill saved", |m| Some(m.gpu.prefill_saved_s), 0, Comparison::No),
    row("Preemptions", |m| Some(m.preemptions as f64), 0, Comparison::No),
    row("Failed requests", |m| Some((m.lost + m.refused + m.too_long) as f64), 0, Comparison::No),
];

/// Rows that say nothing where all their values are zero or unknown.
const OFTEN_NOTHING: [&str; 4] = ["Goodput (req/s)", "Spill (%)", "Preemptions", "Failed requests"];

impl Report {
    /// Tables of at most `width` characters a line, as many strategies in each as fit.
    pub fn table(&self, width: usize, colour: bool) -> String {
        let rows: Vec<&Row> = ROWS.iter().filter(|row| self.says_something(row)).collect();
        let labels: Vec<&str> = rows.iter().map(|row| row.label).collect();
        let mut columns: Vec<(String, Vec<Cell>)> = self
            .columns
            .iter()
            .enumerate()
            .map(|(index, column)| (column.contender.to_string(), self.cells(&rows, index, column)))
            .collect();
        let mut text = self.heading();
        while !columns.is_empty() {
            let fitting =
                (1..=columns.len()).rev().find(|count| *count == 1 || fits(&labels, &columns[..*count], width));
            let rest = columns.split_off(fitting.unwrap_or(1));
            text.push_str(&drawn(&labels, &columns, colour));
            text.push('\n');
            columns = rest;
        }
        text.push_str(&self.recoveries());
        text.push_str(&self.notes());
        text
    }

    fn says_something(&self, row: &Row) -> bool {
        let is_something = |column: &Column| (row.value)(&column.measures).is_some_and(|value| value != 0.0);
        !OFTEN_NOTHING.contains(&row.label) || self.columns.iter().any(is_something)
    }

    fn cells(&self, rows: &[&Row], index: usize, column: &Column) -> Vec<Cell> {
        let base = (index > 0).then(|| &self.columns[0].measures);
        rows.iter()
            .map(|row| {
                let value = (row.value)(&column.measures);
                let mut cell = Cell::new(value, base.and_then(row.value), row.decimals, row.comparison);
                if let Some(change) = cell.change.as_mut().filter(|_| may_be_chance(row.label, column)) {
                    change.text.push('~');
                }
                cell
            })
            .collect()
    }

    fn heading(&self) -> String {
        let shape = &self.shape;
        let seeds = if self.seeds.len() > 1 { format!(", {} seeds", self.seeds.len()) } else { String::new() };
        format!(
            "{}: {} requests, {:.1} M prompt tokens over {} simulated replicas{seeds}\n\n",
            self.source.name,
            shape.requests,
            shape.prompt_tokens as f64 / 1e6,
            self.question.setting.fleet.replicas(),
        )
    }

    fn recoveries(&self) -> String {
        let mut text = String::new();
        for column in self.columns.iter().filter(|column| !column.measures.recoveries.is_empty()) {
            text.push_str(&format!("{}:\n", column.contender));
            column.measures.recoveries.iter().for_each(|recovery| text.push_str(&told(recovery)));
        }
        if !text.is_empty() {
            text.push('\n');
        }
        text
    }

    fn notes(&self) -> String {
        let mut text: String = self.assumptions.iter().map(|said| format!("- {said}\n")).collect();
        if self.columns.iter().any(|column| column.changes.is_some()) {
            text.push_str(
                "- changes are against the first strategy; ~ marks those of TTFT and hits that may be chance (95 %)\n",
            );
        }
        text.push_str("All times are simulated.\n");
        text
    }
}

fn told(recovery: &Recovery) -> String {
    let at = format!("  {:.0} s {}", recovery.at_s, recovery.event);
    match (recovery.ttft_p90_before_ms, recovery.ttft_p90_worst_ms, recovery.recovered_s) {
        (Some(before), Some(worst), Some(after)) => {
            format!("{at}: TTFT P90 {before:.0} -> {worst:.0} ms, as usual after {after:.0} s\n")
        }
        (Some(before), Some(worst), None) => {
            format!("{at}: TTFT P90 {before:.0} -> {worst:.0} ms, and not as usual again\n")
        }
        _ => format!("{at}: too few requests around it to tell\n"),
    }
}

/// Whether the interval of the difference covers zero.
fn may_be_chance(label: &str, column: &Column) -> bool {
    let Some(changes) = &column.changes else { return false };
    let interval = match label {
        "TTFT mean (ms)" => changes.ttft_mean,
        "TTFT P50 (ms)" => changes.ttft_p50,
        "TTFT P90 (ms)" => changes.ttft_p90,
        "TTFT P99 (ms)" => changes.ttft_p99,
        "Delivered (%)" => changes.delivered,
        _ => return false,
    };
    interval.covers_zero()
}

fn drawn(labels: &[&str], columns: &[(String, Vec<Cell>)], colour: bool) -> String {
    let columns: Vec<(&str, &[Cell])> = columns.iter().map(|(name, cells)| (name.as_str(), cells.as_slice())).collect();
    table(labels, &columns, colour)
}

fn fits(labels: &[&str], columns: &[(String, Vec<Cell>)], width: usize) -> bool {
    drawn(labels, columns, false).lines().all(|line| line.chars().count() <= width)
}
