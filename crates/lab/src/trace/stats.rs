//! What a trace is like: how much there is of what.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

use super::sharing::InfiniteCache;
use super::{Content, Kind, Record, Summary, TimeBase};
use crate::stats::Series;

/// Percentiles that are told.
const PERCENTILES: [f64; 5] = [50.0, 75.0, 90.0, 95.0, 99.0];

/// Sessions, and models, that are counted; more are passed over.
const NAMES_MAX: usize = 10_000_000;

/// Gathers what is told of a trace.
#[derive(Debug, Default)]
pub struct Gathering {
    requests: u64,
    first_ms: Option<f64>,
    last_ms: Option<f64>,
    input_tokens: Vec<f64>,
    output_tokens: Vec<f64>,
    prompt_bytes: Vec<f64>,
    sessions: HashMap<Arc<str>, u64>,
    models: HashMap<Arc<str>, u64>,
    cache: InfiniteCache,
    blocks: Sharing,
    ids: Sharing,
    text: Sharing,
    seen: Sharing,
}

/// What a trace is like. Times in milliseconds, lengths in tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Stats {
    /// Format of the trace.
    pub format: Option<&'static str>,
    /// What can be asked of it: `lengths`, `hashes` or `content`.
    pub kind: &'static str,
    /// Requests.
    pub requests: u64,
    /// Rows that could not be used.
    pub rows_skipped: u64,
    /// From the first request to the last; absent where the trace has no common clock.
    pub span_ms: Option<f64>,
    /// Requests a second over that time.
    pub requests_per_s: Option<f64>,
    /// Prompt tokens.
    pub input_tokens: Option<Spread>,
    /// Answer tokens.
    pub output_tokens: Option<Spread>,
    /// Bytes of text in a prompt, where the trace has it.
    pub prompt_bytes: Option<Spread>,
    /// Conversations or agent runs that the trace names.
    pub sessions: u64,
    /// Requests of a session.
    pub turns: Option<Spread>,
    /// Models named, the most frequent first; at most ten.
    pub models: Vec<(String, u64)>,
    /// What one cache that never forgets would reuse.
    pub reusable: Vec<Reusable>,
    /// Part of the prompt tokens that the engines said they reused, 0 to 1, where they said it.
    pub observed_cached_ratio: Option<f64>,
}

/// How values spread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// All together.
    pub sum: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// The smallest.
    pub min: f64,
    /// Percentiles by their names, `p50` to `p99`.
    #[serde(flatten, serialize_with = "by_name")]
    pub percentiles: [f64; 5],
    /// The largest.
    pub max: f64,
}

/// What one cache that never forgets would reuse of the prompts that are known in one way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Reusable {
    /// How the prompts are known: `blocks`, `token ids` or `text`.
    pub known_by: &'static str,
    /// Requests whose prompts are.
    pub requests: u64,
    /// Part of their tokens (of text: bytes), 0 to 1.
    pub ratio: f64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sharing {
    requests: u64,
    total: u64,
    reused: u64,
}

impl Sharing {
    fn add(&mut self, total: u64, reused: u64) {
        self.requests += 1;
        self.total += total;
        self.reused += reused;
    }

    fn ratio(&self) -> f64 {
        self.reused as f64 / self.total.max(1) as f64
    }
}

impl Gathering {
    /// Takes the next request of the trace.
    pub fn add(&mut self, record: &Record) {
        self.requests += 1;
        if let Some(at_ms) = record.at_ms {
            self.first_ms = Some(self.first_ms.map_or(at_ms, |first| first.min(at_ms)));
            self.last_ms = Some(self.last_ms.map_or(at_ms, |last| last.max(at_ms)));
        }
        self.input_tokens.extend(record.input_tokens.map(f64::from));
        self.output_tokens.extend(record.output_tokens.map(f64::from));
        if let Content::Text(segments) = &record.content {
            let bytes: usize = segments.iter().map(|segment| segment.text.len()).sum();
            self.prompt_bytes.push(bytes as f64);
        }
        match &record.session {
            Some(session) if self.sessions.len() < NAMES_MAX || self.sessions.contains_key(session) => {
                *self.sessions.entry(Arc::clone(session)).or_default() += 1;
            }
            _ => {}
        }
        if let Some(model) = &record.model
            && (self.models.len() < NAMES_MAX || self.models.contains_key(model))
        {
            *self.models.entry(Arc::clone(model)).or_default() += 1;
        }
        if let Some(part) = self.cache.take(record) {
            let sharing = match &record.content {
                Content::Blocks(_) | Content::Unknown => &mut self.blocks,
                Content::TokenIds(_) => &mut self.ids,
                Content::Text(_) => &mut self.text,
            };
            sharing.add(part.total, part.reused);
        }
        if let (Some(cached), Some(input)) = (record.observed.cached_tokens, record.input_tokens) {
            self.seen.add(input.into(), cached.into());
        }
    }

    /// What the trace is like.
    pub fn finish(self, summary: &Summary) -> Stats {
        let has_clock = summary.time_base == TimeBase::Trace;
        let span_ms = self.first_ms.zip(self.last_ms).map(|(first, last)| last - first).filter(|_| has_clock);
        let mut models: Vec<_> = self.models.into_iter().map(|(model, count)| (model.to_string(), count)).collect();
        models.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        models.truncate(10);
        let known = [("blocks", self.blocks), ("token ids", self.ids), ("text", self.text)];
        let reusable = known.into_iter().filter(|(_, sharing)| sharing.requests > 0);
        Stats {
            format: summary.format.map(super::Format::name),
            kind: match summary.kind() {
                Kind::Lengths => "lengths",
                Kind::Hashes => "hashes",
                Kind::Content => "content",
            },
            requests: self.requests,
            rows_skipped: summary.skipped,
            span_ms,
            requests_per_s: span_ms.filter(|&span| span > 0.0).map(|span| self.requests as f64 / span * 1e3),
            input_tokens: Spread::of(self.input_tokens),
            output_tokens: Spread::of(self.output_tokens),
            prompt_bytes: Spread::of(self.prompt_bytes),
            sessions: self.sessions.len() as u64,
            turns: Spread::of(self.sessions.into_values().map(|turns| turns as f64).collect()),
            models,
            reusable: reusable
                .map(|(known_by, sharing)| Reusable { known_by, requests: sharing.requests, ratio: sharing.ratio() })
                .collect(),
            observed_cached_ratio: (self.seen.requests > 0).then(|| self.seen.ratio()),
        }
    }
}

impl Spread {
    fn of(values: Vec<f64>) -> Option<Self> {
        if values.is_empty() {
            return None;
        }
        let sum = values.iter().sum();
        let series: Series = values.into_iter().collect();
        Some(Self {
            sum,
            mean: series.mean(),
            min: series.percentile(0.0),
            percentiles: PERCENTILES.map(|percentile| series.percentile(percentile)),
            max: series.percentile(100.0),
        })
    }
}

fn by_name<S: Serializer>(values: &[f64; 5], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(PERCENTILES.iter().zip(values).map(|(percent, value)| (format!("p{percent}"), value)))
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<26}{}", "requests", self.requests)?;
        if self.rows_skipped > 0 {
            writeln!(f, "{:<26}{}", "rows skipped", self.rows_skipped)?;
        }
        match self.span_ms {
            Some(span_ms) => writeln!(f, "{:<26}{}", "time from first to last", span(span_ms))?,
            None => writeln!(f, "{:<26}not known: the trace has no common clock", "time")?,
        }
        if let Some(rate) = self.requests_per_s {
            writeln!(f, "{:<26}{rate:.2}", "requests a second")?;
        }
        if self.sessions > 0 {
            writeln!(f, "{:<26}{}", "sessions", self.sessions)?;
        }
        for (model, count) in &self.models {
            writeln!(f, "{:<26}{model} ({count} requests)", "model")?;
        }
        writeln!(f)?;
        let heads = ["", "mean", "min", "p50", "p75", "p90", "p95", "p99", "max", "sum"];
        write!(f, "{:<16}", heads[0])?;
        for head in &heads[1..] {
            write!(f, "{head:>9}")?;
        }
        writeln!(f)?;
        let rows = [
            ("prompt tokens", &self.input_tokens),
            ("answer tokens", &self.output_tokens),
            ("prompt bytes", &self.prompt_bytes),
            ("turns a session", &self.turns),
        ];
        for (label, spread) in rows {
            let Some(spread) = spread else { continue };
            write!(f, "{label:<16}{:>9.1}{:>9.0}", spread.mean, spread.min)?;
            for value in spread.percentiles.into_iter().chain([spread.max]) {
                write!(f, "{value:>9.0}")?;
            }
            writeln!(f, "{:>9}", short(spread.sum))?;
        }
        writeln!(f)?;
        for reusable in &self.reusable {
            let percent = reusable.ratio * 100.0;
            let what = if reusable.known_by == "text" { "bytes" } else { "tokens" };
            writeln!(
                f,
                "one cache that never forgets would reuse {percent:.2} % of the prompts' {what} (by {}, {} requests)",
                reusable.known_by, reusable.requests
            )?;
        }
        if self.reusable.is_empty() {
            writeln!(f, "how much of the prompts repeats is not known: the trace has lengths only")?;
        }
        if let Some(ratio) = self.observed_cached_ratio {
            writeln!(f, "the engines said that they reused {:.2} % of the prompts' tokens", ratio * 100.0)?;
        }
        Ok(())
    }
}

fn span(ms: f64) -> String {
    let s = ms / 1e3;
    if s < 120.0 {
        format!("{s:.1} s")
    } else if s < 7_200.0 {
        format!("{:.1} min", s / 60.0)
    } else {
        format!("{:.1} h", s / 3600.0)
    }
}

fn short(value: f64) -> String {
    if value >= 1e9 {
        format!("{:.2} G", value / 1e9)
    } else if value >= 1e6 {
        format!("{:.2} M", value / 1e6)
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_trace_is_like_is_told_as_json_and_as_a_table() {
        let mut gathering = Gathering::default();
        for at in 0..5_u32 {
            let session = Some(format!("s{}", at % 2).into());
            gathering.add(&Record {
                at_ms: Some(f64::from(at) * 500.0),
                session,
                input_tokens: Some(100 + at),
                output_tokens: Some(7),
                ..Record::default()
            });
        }
        let stats = gathering.finish(&Summary::default());
        let json = serde_json::to_value(&stats).unwrap();
        assert_eq!(json["input_tokens"]["p50"], 102.0);
        assert_eq!((&json["requests_per_s"], &json["sessions"]), (&2.5.into(), &2.into()));
        assert_eq!(json["turns"]["max"], 3.0);
        let table = stats.to_string();
        assert!(table.contains("time from first to last   2.0 s"), "{table}");
        assert!(table.contains("how much of the prompts repeats is not known"), "{table}");
    }
}
