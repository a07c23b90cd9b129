//! A replay's report as it was saved: the JSON, read again for pages and differences.
//!
//! Only what these need is read, so a newer report with more in it can be read too.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Version of the shape that can be read.
const VERSION: u32 = 1;

/// Why a saved report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// It is no JSON, or another one.
    #[error("is no report of `kvroute replay --json`: {0}")]
    Shape(#[from] serde_json::Error),
    /// It is of another version.
    #[error(
        "is a report of version {found}, and this kvroute reads version {VERSION}: make it again with `kvroute replay`"
    )]
    Version {
        /// Its version.
        found: u32,
    },
    /// There is nothing in it.
    #[error("holds no strategy")]
    Empty,
}

/// A saved report.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedReplay {
    kvroute_replay: u32,
    /// Version of kvroute that made it.
    pub version: String,
    /// The command that makes it again.
    pub command: Option<String>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// What was read.
    pub source: SavedSource,
    /// What that looks like.
    pub trace: SavedTrace,
    /// What a prefix length counts: `characters` or `tokens`.
    pub prefix_length_unit: String,
    /// The fleet.
    pub fleet: SavedFleet,
    /// How requests arrive, in words.
    pub arrivals: String,
    /// What was assumed, a sentence each.
    pub assumptions: Vec<String>,
    /// Price of a GPU and hour, US dollars.
    pub gpu_hour_usd: Option<f64>,
    /// The strategies; the others are compared with the first.
    pub strategies: Vec<SavedStrategy>,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SavedSource {
    /// Name of the trace or scenario.
    pub name: String,
    /// Its format.
    pub format: String,
    /// Digest of its records.
    pub digest: Option<String>,
}

/// What the trace looks like. Histograms are upper bounds and counts.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedTrace {
    /// Requests.
    pub requests: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Seconds from the first arrival to the last.
    pub span_s: Option<f64>,
    /// Prompt lengths, tokens.
    pub prompt_tokens_histogram: Vec<[u64; 2]>,
    /// Answer lengths, tokens.
    pub output_tokens_histogram: Vec<[u64; 2]>,
    /// Requests of a session.
    pub turns_histogram: Vec<[u64; 2]>,
}

/// The fleet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedFleet {
    /// Replicas of one kind each.
    pub groups: Vec<SavedGroup>,
    /// Its changes, in words.
    pub events: Vec<String>,
}

/// Replicas of one kind.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedGroup {
    /// How many.
    pub replicas: u32,
    /// Name of the engine preset.
    pub preset: String,
}

/// One strategy.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedStrategy {
    /// Its name with its settings.
    pub name: String,
    /// Its name alone.
    pub rule: String,
    /// Whether it is another router's.
    pub is_baseline: bool,
    /// Length of its keys.
    pub prefix_length: Option<u32>,
    /// In flight at which a replica is passed over.
    pub concurrency_threshold: Option<u32>,
    /// Numbers by name.
    pub metrics: BTreeMap<String, Option<f64>>,
    /// What each replica got.
    pub shares: Vec<SavedShare>,
    /// Against the first strategy.
    pub changes: Option<BTreeMap<String, SavedInterval>>,
    /// How long events were felt.
    pub recoveries: Vec<SavedRecovery>,
    /// What happened to the fleet.
    pub marks: Vec<SavedMark>,
    /// What plots draw.
    pub series: SavedSeries,
}

/// What a replica got.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedShare {
    /// Its id.
    pub replica: String,
    /// Part of the requests, 0..1.
    pub share: f64,
    /// In flight there, 99th percentile.
    pub in_flight_p99: f64,
}

/// A difference with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
pub struct SavedInterval {
    /// The difference.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// How an event was felt.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedRecovery {
    /// The event.
    pub event: String,
    /// When, seconds.
    pub at_s: f64,
    /// 90th percentile of TTFT before, milliseconds.
    pub p90_ttft_ms_before: Option<f64>,
    /// The worst until it was over.
    pub p90_ttft_ms_worst: Option<f64>,
    /// Seconds until it was over.
    pub recovered_s: Option<f64>,
}

/// Something that happened to the fleet.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedMark {
    /// When, seconds.
    pub at_s: f64,
    /// What.
    pub what: String,
    /// Whether it is an event, and no consequence of one.
    pub is_event: bool,
}

/// What plots draw.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedSeries {
    /// Milliseconds, and the part of the requests with a TTFT up to it.
    pub ttft_cdf: Vec<[f64; 2]>,
    /// By time.
    pub over_time: SavedOverTime,
    /// Of the most used keys: requests, and how many of them left their home.
    pub spill_by_rank: Vec<[u64; 2]>,
}

/// Columns, one value a span of time.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct SavedOverTime {
    /// Seconds from one value to the next.
    pub step_s: f64,
    /// Part of the prompt tokens that was reused.
    pub hit_ratio: Vec<Option<f64>>,
    /// Part of the requests that left their home.
    pub spill_ratio: Vec<Option<f64>>,
    /// 90th percentile of TTFT, milliseconds.
    pub ttft_p90_ms: Vec<Option<f64>>,
}

impl SavedReplay {
    /// Reads a saved report.
    ///
    /// # Errors
    /// It is not one, or of another version.
    pub fn read(json: &str) -> Result<Self, SavedError> {
        let report: Self = serde_json::from_str(json)?;
        if report.kvroute_replay != VERSION {
            return Err(SavedError::Version { found: report.kvroute_replay });
        }
        if report.strategies.is_empty() {
            return Err(SavedError::Empty);
        }
        Ok(report)
    }
}

impl SavedStrategy {
    /// A number by its name.
    pub fn metric(&self, name: &str) -> Option<f64> {
        self.metrics.get(name).copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::saved_sample::sample;
    use super::*;

    #[test]
    fn what_is_no_replay_of_this_version_is_refused_with_the_reason() {
        assert!(SavedReplay::read(&sample().to_string()).is_ok());
        let mut newer = sample();
        newer["kvroute_replay"] = 2.into();
        let mut empty = sample();
        empty["strategies"] = serde_json::json!([]);
        let cases = [
            (newer.to_string(), "version 2"),
            (empty.to_string(), "no strategy"),
            ("{}".into(), "no report of"),
            ("x".into(), "no report of"),
        ];
        for (json, why) in cases {
            let error = SavedReplay::read(&json).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
