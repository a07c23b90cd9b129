//! Markdown and CSV: a line a strategy.

use super::{Report, metrics};

/// A column of the Markdown table: heading, metric, factor, decimals.
type Column = (&'static str, &'static str, f64, usize);

const COLUMNS: [Column; 9] = [
    ("TTFT mean (ms)", "mean_ttft_ms", 1.0, 0),
    ("P50", "median_ttft_ms", 1.0, 0),
    ("P90", "p90_ttft_ms", 1.0, 0),
    ("P99", "p99_ttft_ms", 1.0, 0),
    ("TPOT P50 (ms)", "median_tpot_ms", 1.0, 1),
    ("hit (%)", "delivered_ratio", 100.0, 1),
    ("output (tok/s)", "output_throughput", 1.0, 0),
    ("largest share (x)", "share_max_to_mean", 1.0, 2),
    ("spill (%)", "spill_ratio", 100.0, 1),
];

impl Report {
    /// A table for a pull request or a page, and what was assumed.
    pub fn markdown(&self) -> String {
        let mut text = String::from("| strategy |");
        COLUMNS.iter().for_each(|(heading, ..)| text.push_str(&format!(" {heading} |")));
        text.push_str("\n|---|");
        COLUMNS.iter().for_each(|_| text.push_str("---:|"));
        for column in &self.columns {
            let metrics = metrics::of(self, column);
            text.push_str(&format!("\n| `{}` |", column.contender));
            for (_, name, factor, decimals) in COLUMNS {
                let value = metrics.iter().find(|(known, _)| known == name).and_then(|(_, value)| *value);
                let value = value.map_or_else(|| "-".to_owned(), |value| format!("{:.decimals$}", value * factor));
                text.push_str(&format!(" {value} |"));
            }
        }
        text.push_str("\n\n*Simulated.* ");
        text.push_str(&self.assumptions.join("; "));
        text.push_str(".\n");
        text
    }

    /// Every number, a line a strategy, ratios 0 to 1; an empty field where there is none.
    pub fn csv(&self) -> String {
        let mut lines = Vec::new();
        for column in &self.columns {
            let metrics = metrics::of(self, column);
            if lines.is_empty() {
                let names: Vec<&str> = metrics.iter().map(|(name, _)| name.as_str()).collect();
                lines.push(format!("strategy,{}\n", names.join(",")));
            }
            let values: Vec<String> =
                metrics.iter().map(|(_, value)| value.map_or_else(String::new, |value| value.to_string())).collect();
            // A name has no comma or quote: it was made of words, colons and equals signs.
            lines.push(format!("{},{}\n", column.contender, values.join(",")));
        }
        lines.concat()
    }
}
