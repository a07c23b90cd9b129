//! A comparison as people and programs read it: table, JSON, Markdown, CSV, and conditions for CI.
//!
//! The JSON is the whole of it: what other forms show is in there, and what a report with plots needs. Its shape is
//! `docs/replay-report.schema.json`. Nothing in it depends on the clock or the machine, so equal replays are equal bytes.

mod condition;
mod json;
mod markdown;
mod metrics;
mod shape;
mod table;
#[cfg(test)]
mod tests;

pub use self::condition::{Condition, Violation};
pub use self::shape::Shape;
use super::comparison::{Case, Column, Question};

/// Where the requests came from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Source {
    /// The trace's name, or the scenario's.
    pub name: String,
    /// Its format.
    pub format: String,
    /// Digest of its records.
    pub digest: Option<String>,
}

/// What a user pays, if they say so.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// For one GPU and hour, in US dollars.
    pub gpu_hour_usd: f64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Report {
    /// The strategies, the first of which the others are compared with.
    pub columns: Vec<Column>,
    /// What was asked.
    pub question: Question,
    /// Where the requests came from.
    pub source: Source,
    /// What they look like.
    pub shape: Shape,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// What was assumed, in sentences.
    pub assumptions: Vec<String>,
    /// What a prefix length counts.
    pub unit: super::LengthUnit,
    /// Tokens a KV block.
    pub block_tokens: u32,
    /// The price, for costs.
    pub price: Option<Price>,
    /// The command that reproduces it.
    pub command: Option<String>,
    /// What the simulation cost in seconds by the clock, for the table; not in the JSON.
    pub took_s: Option<f64>,
}

impl Report {
    /// A report on a comparison of these cases.
    pub fn new(columns: Vec<Column>, question: Question, cases: &[Case], source: Source) -> Self {
        let jobs = &*cases[0].jobs;
        let mut assumptions = jobs.assumptions.clone();
        if let Some((count, why)) = &jobs.skipped {
            assumptions.push(format!("{count} records are left out; the first because {why}"));
        }
        assumptions.push(question.setting.cut.to_string());
        assumptions.push(format!("arrivals: {}", question.setting.pacing.describe()));
        assumptions.extend(engines(&question));
        Self {
            shape: Shape::of(jobs),
            seeds: cases.iter().map(|case| case.seed).collect(),
            unit: jobs.unit,
            block_tokens: jobs.block_tokens,
            columns,
            question,
            source,
            assumptions,
            price: None,
            command: None,
            took_s: None,
        }
    }

    /// Dollars for a million output tokens by a column, if there is a price.
    pub fn usd_per_million_tokens(&self, column: &Column) -> Option<f64> {
        let price = self.price?;
        let measures = &column.measures;
        let gpu_hours = measures.gpu.present_s / 3_600.0;
        let tokens = measures.output_tokens_all as f64;
        (tokens > 0.0).then(|| gpu_hours * price.gpu_hour_usd / tokens * 1e6)
    }
}

/// What the engines are, and how good the model of each is.
fn engines(question: &Question) -> impl Iterator<Item = String> {
    question.setting.fleet.groups.iter().map(|group| {
        let preset = &group.preset;
        let mut said = format!(
            "{} simulated replicas of {}: step times fitted to AIConfigurator's profiles (off by 1 to 3 % on average), {} ms \
             from arrival to scheduler, {} KV tokens",
            group.count, preset.name, preset.overhead_ms, preset.kv_tokens
        );
        if preset.prefill_scale != 1.0 {
            said.push_str(&format!(", prefill times {}", preset.prefill_scale));
        }
        said
    })
}
