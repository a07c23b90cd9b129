//! A sweep as people and programs read it.

use serde_json::{Value, json};

use super::{Cell, KeyShape, Sweep, TOLERANCE};
use crate::replay::LengthUnit;

/// A sweep with what the trace says of keys.
#[derive(Debug, Clone)]
pub struct SweepReport {
    /// The sweep.
    pub sweep: Sweep,
    /// Keys by prefix length, where that is an axis.
    pub keys: Vec<KeyShape>,
    /// What a prefix length counts.
    pub unit: LengthUnit,
    /// The trace's name, or the scenario's.
    pub source: String,
    /// What was assumed.
    pub assumptions: Vec<String>,
    /// The command that reproduces it.
    pub command: Option<String>,
}

impl SweepReport {
    /// A table for one axis, a map for two, a list for more; then what to set.
    pub fn table(&self) -> String {
        let mut text = format!("{}: {} by {}\n\n", self.source, self.sweep.objective.as_str(), self.axes_in_words());
        match self.sweep.axes.len() {
            2 => self.map(&mut text),
            _ => self.list(&mut text),
        }
        if !self.keys.is_empty() {
            self.keys_table(&mut text);
        }
        text.push_str(&self.advice());
        self.assumptions.iter().for_each(|said| text.push_str(&format!("- {said}\n")));
        text.push_str("All times are simulated.\n");
        text
    }

    fn axes_in_words(&self) -> String {
        let names: Vec<&str> = self.sweep.axes.iter().map(|axis| axis.name.as_str()).collect();
        names.join(" and ")
    }

    /// Rows are the first axis, columns the second. `*` marks the plateau, `>` what to take.
    fn map(&self, text: &mut String) {
        let [rows, columns] = &self.sweep.axes[..] else { return };
        let width = columns.values.iter().map(String::len).max().unwrap_or(0).max(9) + 2;
        let label = rows.values.iter().map(String::len).chain([rows.name.len()]).max().unwrap_or(0);
        text.push_str(&format!("{:>label$}", rows.name));
        columns.values.iter().for_each(|value| text.push_str(&format!("{value:>width$}")));
        text.push_str(&format!("  {}\n", columns.name));
        for (row, value) in rows.values.iter().enumerate() {
            text.push_str(&format!("{value:>label$}"));
            for column in 0..columns.values.len() {
                let index = row * columns.values.len() + column;
                let shown = format!("{:.1}{}", self.sweep.cells[index].objective, self.mark(index));
                text.push_str(&format!("{shown:>width$}"));
            }
            text.push('\n');
        }
        text.push('\n');
    }

    fn list(&self, text: &mut String) {
        for (index, cell) in self.sweep.cells.iter().enumerate() {
            let settings = self.settings(cell);
            text.push_str(&format!("{settings:<60} {:>12.1}{}\n", cell.objective, self.mark(index)));
        }
        text.push('\n');
    }

    fn mark(&self, index: usize) -> &'static str {
        match (index == self.sweep.recommended, self.sweep.cells[index].is_plateau) {
            (true, _) => "<",
            (false, true) => "*",
            _ => " ",
        }
    }

    fn keys_table(&self, text: &mut String) {
        text.push_str("prefix_length       keys   largest key (%)   hit ceiling (%)\n");
        for keys in &self.keys {
            let ceiling = keys.hit_ceiling.map_or_else(|| "-".to_owned(), |ratio| format!("{:.1}", ratio * 100.0));
            let largest = keys.largest_key_ratio * 100.0;
            text.push_str(&format!("{:>13} {:>10} {largest:>17.1} {ceiling:>17}\n", keys.prefix_length, keys.keys));
        }
        text.push('\n');
    }

    /// What to set, in a sentence.
    pub fn advice(&self) -> String {
        let sweep = &self.sweep;
        let (best, take) = (&sweep.cells[sweep.best], &sweep.cells[sweep.recommended]);
        let good = sweep.cells.iter().filter(|cell| cell.is_plateau).count();
        let unit = if sweep.axes.iter().any(|axis| axis.name == "prefix_length") {
            format!(" (prefix_length in {})", self.unit.as_str())
        } else {
            String::new()
        };
        format!(
            "Take {}{unit}: {} {:.1}, the middle (<) of a plateau of {good} of {} settings (*) that are within {:.0} % of \
             the best or not told from it by chance. The best is {} with {:.1}.\n",
            self.settings(take),
            sweep.objective.as_str(),
            take.objective,
            sweep.cells.len(),
            TOLERANCE * 100.0,
            self.settings(best),
            best.objective,
        )
    }

    fn settings(&self, cell: &Cell) -> String {
        let pairs =
            self.sweep.axes.iter().zip(&cell.place).map(|(axis, at)| format!("{}={}", axis.name, axis.values[*at]));
        pairs.collect::<Vec<_>>().join(" ")
    }

    /// All of it.
    pub fn json(&self) -> Value {
        let sweep = &self.sweep;
        let cells = sweep.cells.iter().map(|cell| {
            let m = &cell.measures;
            json!({
                "place": cell.place,
                "objective": cell.objective.is_finite().then_some(cell.objective),
                "is_good": cell.is_good,
                "is_plateau": cell.is_plateau,
                "mean_ttft_ms": m.ttft_ms.mean,
                "median_ttft_ms": m.ttft_ms.median,
                "ttft_ms": m.ttft_ms.percentiles,
                "delivered_ratio": m.locality.delivered_ratio(),
                "output_throughput": m.output_throughput(),
                "request_goodput": m.request_goodput(),
                "share_max_to_mean": m.share_max_to_mean(),
                "spill_ratio": m.spill_ratio,
            })
        });
        json!({
            "kvroute_sweep": 1,
            "simulated": true,
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.command,
            "source": self.source,
            "prefix_length_unit": self.unit.as_str(),
            "strategy": sweep.cells.first().map(|cell| cell.contender.name()),
            "objective": sweep.objective.as_str(),
            "tolerance": TOLERANCE,
            "axes": sweep.axes.iter().map(|axis| json!({ "name": axis.name, "values": axis.values })).collect::<Vec<_>>(),
            "cells": cells.collect::<Vec<_>>(),
            "best": sweep.best,
            "recommended": sweep.recommended,
            "keys": self.keys,
            "assumptions": self.assumptions,
        })
    }
}
