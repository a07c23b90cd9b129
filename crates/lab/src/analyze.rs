//! Will prefix-aware routing pay on this traffic, and with which settings?
//!
//! One file a question, all pure functions of the trace's records:
//!
//! - [`corpus`]: the prompts as chains of names, in bounded memory; everything below works on these.
//! - [`repeats`]: what repeats, and how deep.
//! - [`reuse`] and [`belady`]: how much could be reused at most, by how much memory.
//! - [`fleet`], [`cuts`] and [`sweep`]: what a fleet would reuse, placed at random or by a key of which length.
//! - [`load`]: how many requests are in flight.
//! - [`serialisation`]: what would repeat, were it written alike.
//! - [`shape`]: whether the trace is representative.
//! - [`advice`] and [`settings`]: what follows.
//!
//! What a trace cannot tell is refused with the reason: names of blocks tell nothing about text, lengths nothing about
//! reuse.

pub mod advice;
pub mod belady;
mod chain;
pub mod corpus;
pub mod cuts;
pub mod fleet;
pub mod load;
mod lru;
pub mod repeats;
pub mod reuse;
#[cfg(test)]
mod sample;
pub mod serialisation;
pub mod settings;
pub mod shape;
pub mod sweep;
#[cfg(test)]
mod tests;
pub mod words;

use std::collections::BTreeMap;

use kvroute_engine::model::Preset;

use self::advice::Advice;
use self::corpus::{Builder, Corpus, Grid};
use self::fleet::Fleet;
use self::load::{Demand, Load};
use self::repeats::Repeats;
use self::reuse::{Distances, Rounding, rounding};
use self::serialisation::{Comparison, Serialisation};
use self::shape::Shape;
use self::sweep::Sweep;
use crate::trace::{Kind, Record};

/// Characters of English text that make a token, where the trace does not tell.
pub const CHARACTERS_PER_TOKEN: f64 = 4.0;

/// What the advice is for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Replicas, at least 1.
    pub replicas: u32,
    /// How fast one is.
    pub preset: Preset,
    /// KV tokens of one; the preset's where `None`.
    pub kv_tokens: Option<u64>,
    /// Tokens of a KV block of the engine: what is shorter is not reused.
    pub block_tokens: u32,
    /// Whether prompt text may be in the result.
    pub show_text: bool,
    /// How much is kept.
    pub limits: corpus::Limits,
}

impl Default for Options {
    /// Eight replicas of the default preset, as `kvroute replay` has them.
    fn default() -> Self {
        let preset = Preset::default();
        Self {
            replicas: 8,
            preset,
            kv_tokens: None,
            block_tokens: preset.block_tokens,
            show_text: false,
            limits: corpus::Limits::default(),
        }
    }
}

/// Everything that was found.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Analysis {
    /// Version of this shape.
    pub version: u32,
    /// What follows from the rest.
    pub advice: Advice,
    /// What the trace tells.
    pub kind: &'static str,
    /// Records that were not looked at, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// How much there is to do.
    pub load: Load,
    /// The fleet that the advice is for.
    pub fleet: FleetFacts,
    /// What that fleet has to do; `None` where the trace has no times.
    pub demand: Option<Demand>,
    /// What repeats and what can be reused; `None` for lengths only.
    pub reuse: Option<Reuse>,
    /// What would repeat, were it written alike; `None` where the trace has no text.
    pub serialisation: Option<Serialisation>,
    /// Histograms.
    pub shape: Shape,
}

/// The fleet that the advice is for.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct FleetFacts {
    /// Replicas.
    pub replicas: u32,
    /// Name of the engine preset.
    pub preset: &'static str,
    /// KV tokens of one replica.
    pub kv_tokens: u64,
    /// Tokens of a KV block.
    pub block_tokens: u32,
}

/// What repeats and what can be reused.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Reuse {
    /// Where prompts were cut.
    pub grid: Grid,
    /// How often the grid was made coarser, to bound memory.
    pub coarsened: u32,
    /// What repeats.
    pub repeats: Repeats,
    /// How much could be reused.
    pub limits: ReuseLimits,
    /// What whole KV blocks lose.
    pub rounding: Rounding,
    /// Placement at random, by load, and by a key of every length. *Simulated.*
    pub sweep: Sweep,
}

/// Parts of the prompt tokens, 0..1.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct ReuseLimits {
    /// One cache that never forgets: nothing reuses more.
    pub infinite: f64,
    /// One LRU cache as large as all replicas' together: what perfect placement would reuse.
    pub pooled_lru: f64,
    /// The same, had it known the future: what perfect placement and eviction would reuse.
    pub pooled_belady: f64,
    /// One LRU cache as large as one replica's.
    pub single_lru: f64,
    /// KV tokens of all replicas together.
    pub pooled_tokens: u64,
    /// What an LRU cache reuses, by its tokens.
    pub curve: Vec<(u64, f64)>,
}

/// Takes records one by one.
#[derive(Debug)]
pub struct Analyzer {
    options: Options,
    builder: Builder,
    comparison: Comparison,
    skipped: BTreeMap<String, u64>,
}

impl Analyzer {
    /// Nothing yet.
    pub fn new(options: Options) -> Self {
        Self {
            options,
            builder: Builder::new(options.limits),
            comparison: Comparison::new(options.show_text),
            skipped: BTreeMap::new(),
        }
    }

    /// Takes a record.
    pub fn push(&mut self, record: &Record) {
        match self.builder.push(record) {
            Ok(()) => self.comparison.push(record),
            Err(skip) => *self.skipped.entry(skip.to_string()).or_default() += 1,
        }
    }

    /// Answers all questions. `progress` is told which part is done, 0..1.
    pub fn finish(self, mut progress: impl FnMut(f64)) -> Analysis {
        let options = self.options;
        let kind = self.builder.kind();
        let corpus = self.builder.finish(1.0 / CHARACTERS_PER_TOKEN);
        let fleet = FleetFacts {
            replicas: options.replicas.max(1),
            preset: options.preset.name,
            kv_tokens: options.kv_tokens.unwrap_or(u64::from(options.preset.kv_tokens)),
            block_tokens: options.block_tokens,
        };
        let load = Load::of(&corpus);
        let demand_at = |reused| Demand::of(&corpus, &load, &options.preset, fleet.replicas, reused);
        let has_prompts = matches!(kind, Some(Kind::Content | Kind::Hashes)) && corpus.names_total() > 0;
        let limits = has_prompts.then(|| limits(&corpus, &fleet));
        progress(0.2);
        let demand = demand_at(limits.as_ref().map_or(0.0, |limits| limits.pooled_lru));
        let reuse = limits.map(|limits| reuse(&corpus, &options, &fleet, demand.as_ref(), limits, progress));
        let serialisation = self.comparison.finish();
        let mut analysis = Analysis {
            version: 1,
            advice: Advice::default(),
            kind: kind_name(kind),
            skipped: self.skipped,
            load,
            fleet,
            demand,
            reuse,
            serialisation,
            shape: Shape::of(&corpus),
        };
        analysis.advice = Advice::of(&analysis);
        analysis
    }
}

fn kind_name(kind: Option<Kind>) -> &'static str {
    match kind {
        None => "nothing",
        Some(Kind::Lengths) => "lengths",
        Some(Kind::Hashes) => "hashes",
        Some(Kind::Content) => "content",
    }
}

fn limits(corpus: &Corpus, fleet: &FleetFacts) -> ReuseLimits {
    let distances = Distances::of(corpus);
    let pooled_tokens = fleet.kv_tokens.saturating_mul(u64::from(fleet.replicas));
    let pooled = corpus.grid.steps(pooled_tokens);
    let tokens = |steps: usize| corpus.grid.tokens(steps as u64 * u64::from(corpus.grid.step));
    ReuseLimits {
        infinite: distances.hit_ratio_infinite(),
        pooled_lru: distances.hit_ratio(pooled),
        pooled_belady: belady::hit_ratio(corpus, pooled),
        single_lru: distances.hit_ratio(corpus.grid.steps(fleet.kv_tokens)),
        pooled_tokens,
        curve: distances.curve(1).into_iter().map(|(steps, ratio)| (tokens(steps), ratio)).collect(),
    }
}

fn reuse(
    corpus: &Corpus,
    options: &Options,
    facts: &FleetFacts,
    demand: Option<&Demand>,
    limits: ReuseLimits,
    mut progress: impl FnMut(f64),
) -> Reuse {
    let fleet = Fleet {
        replicas: facts.replicas,
        kv_tokens: facts.kv_tokens,
        preset: options.preset,
        token_ms: demand.map_or(options.preset.decode.base_ms, |demand| demand.token_ms),
    };
    let repeats = Repeats::of(corpus);
    let threshold = advice::threshold(demand.map(|demand| demand.in_flight_mean));
    let sweep = Sweep::of(corpus, &repeats, &fleet, threshold, options.limits.estimated_names_max, |done| {
        progress(0.2 + 0.8 * done);
    });
    Reuse {
        grid: corpus.grid,
        coarsened: corpus.coarsened,
        rounding: rounding(corpus, facts.block_tokens),
        repeats,
        limits,
        sweep,
    }
}
