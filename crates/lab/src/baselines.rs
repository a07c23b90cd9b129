//! Rules of other routers, so that users can compare with what they run.
//!
//! Each is written from its published formula over `core`'s types, one file a rule, and lives in the lab only. They see
//! the places that `core` found (who is there, who is dropped and why, requests in flight) and keep what their own
//! routers keep: an index of what was sent where, or of what engines say that they hold, tokens under way, a ring. What
//! the formula does not settle (who wins a tie, how large an index is) each file says.
//!
//! They are models of rules, not of products: no network, no stale counters but the one that a rule lives by, no bugs.

mod books;
mod chwbl;
mod dynamo;
mod index;
mod llm_d;
mod lmetric;
mod prefix_hash;
mod ring;
mod sglang;
#[cfg(test)]
mod tests;

use kvroute_core::{decision::Candidate, facts::RequestFacts, moment::Entropy, strategy::Pick};
use kvroute_engine::model::Load;

pub(crate) use self::index::Index;
use self::{
    books::Books,
    chwbl::Chwbl,
    dynamo::Dynamo,
    llm_d::{Sticky, Weighted},
    lmetric::LMetric,
    prefix_hash::PrefixHash,
    sglang::Sglang,
};

/// A rule of another router with its settings.
#[derive(Debug, Clone, PartialEq)]
pub enum Baseline {
    /// Ring hash with bounded load.
    Chwbl(chwbl::Settings),
    /// Hash of the first tokens, with a guard against the worst.
    PrefixHash(prefix_hash::Settings),
    /// SGLang's cache-aware rule.
    Sglang(sglang::Settings),
    /// Dynamo's cost.
    Dynamo(dynamo::Settings),
    /// llm-d's weighted scores.
    LlmDWeighted(llm_d::Settings),
    /// llm-d's affinity filter before them.
    LlmDSticky(llm_d::Settings),
    /// LMetric's product.
    LMetric(lmetric::Settings),
}

impl Baseline {
    /// All of them with their published defaults.
    pub fn all() -> Vec<Self> {
        vec![
            Self::Chwbl(chwbl::Settings::default()),
            Self::PrefixHash(prefix_hash::Settings::default()),
            Self::Sglang(sglang::Settings::default()),
            Self::Dynamo(dynamo::Settings::default()),
            Self::LlmDWeighted(llm_d::Settings::default()),
            Self::LlmDSticky(llm_d::Settings::default()),
            Self::LMetric(lmetric::Settings::default()),
        ]
    }

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|baseline| baseline.name() == name)
    }

    /// The name users write.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Chwbl(_) => "chwbl",
            Self::PrefixHash(_) => "prefix_hash",
            Self::Sglang(_) => "sglang",
            Self::Dynamo(_) => "dynamo",
            Self::LlmDWeighted(_) => "llm_d_weighted",
            Self::LlmDSticky(_) => "llm_d_sticky",
            Self::LMetric(_) => "lmetric",
        }
    }

    /// Sets one of its settings, as it is written; the error says what there is.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match self {
            Self::Chwbl(settings) => settings.set(key, value),
            Self::PrefixHash(settings) => settings.set(key, value),
            Self::Sglang(settings) => settings.set(key, value),
            Self::Dynamo(settings) => settings.set(key, value),
            Self::LlmDWeighted(settings) | Self::LlmDSticky(settings) => settings.set(key, value),
            Self::LMetric(settings) => settings.set(key, value),
        }
    }

    /// The rule, knowing nothing yet, for engines whose caches hold `kv_tokens` in blocks of `block_tokens`.
    pub(crate) fn rule(&self, kv: Kv) -> Box<dyn Rule> {
        match self {
            Self::Chwbl(settings) => Box::new(Chwbl::new(settings)),
            Self::PrefixHash(settings) => Box::new(PrefixHash::new(settings, kv)),
            Self::Sglang(settings) => Box::new(Sglang::new(settings, kv)),
            Self::Dynamo(settings) => Box::new(Dynamo::new(settings, kv)),
            Self::LlmDWeighted(settings) => Box::new(Weighted::new(settings, kv)),
            Self::LlmDSticky(settings) => Box::new(Sticky::new(settings, kv)),
            Self::LMetric(settings) => Box::new(LMetric::new(settings, kv)),
        }
    }
}

/// The names of all baselines.
pub fn names() -> impl Iterator<Item = &'static str> {
    Baseline::all().into_iter().map(|baseline| baseline.name())
}

/// What a rule may know of the engines' caches.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kv {
    /// KV tokens of a replica.
    pub(crate) tokens: u32,
    /// Tokens a KV block.
    pub(crate) block_tokens: u32,
}

/// A request that is to be placed.
pub(crate) struct Ask<'a> {
    /// The simulator's number of the request, unique among those under way.
    pub(crate) request: u32,
    /// What the router sees of it.
    pub(crate) facts: &'a RequestFacts,
    /// Hashes of the full blocks of its prompt, as the engine names them.
    pub(crate) blocks: &'a [u64],
    /// Tokens of its prompt.
    pub(crate) input_tokens: u32,
    /// The places; of each the target is the replica's number for good.
    pub(crate) places: &'a [Candidate],
    /// Microseconds of virtual time.
    pub(crate) now_us: u64,
    /// What the engine of a number says about itself.
    pub(crate) engine: &'a dyn Fn(usize) -> Load,
}

impl Ask<'_> {
    /// The places that may serve the request, with their places among all and their numbers.
    pub(crate) fn eligible(&self) -> impl Iterator<Item = Place> + Clone {
        let eligible = self.places.iter().enumerate().filter(|(_, place)| place.is_eligible());
        eligible.map(|(index, place)| Place { index, number: place.target.0 as usize, in_flight: place.in_flight })
    }
}

/// A place as a rule sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it is among the candidates.
    pub(crate) index: usize,
    /// The replica's number for good.
    pub(crate) number: usize,
    /// Requests in flight.
    pub(crate) in_flight: u32,
}

/// A rule at work. What it keeps is told what becomes of what it placed.
pub(crate) trait Rule: Send {
    /// Picks an eligible place; there is at least one.
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick;

    /// Its tokens under way, if it counts them.
    fn books(&mut self) -> Option<&mut Books> {
        None
    }

    /// What it believes that replicas hold, if it asks.
    fn index(&mut self) -> Option<&mut Index> {
        None
    }

    /// A request is over.
    fn ended(&mut self, request: u32) {
        if let Some(books) = self.books() {
            books.done(request);
        }
    }
}

/// One of those for which `value` is smallest (or the only one), drawn among equals.
pub(crate) fn least<T: PartialOrd + Copy>(
    places: impl Iterator<Item = Place>,
    entropy: &mut Entropy,
    mut value: impl FnMut(&Place) -> T,
) -> Option<Place> {
    let mut best: Option<(T, Place)> = None;
    let mut tied = 0;
    for place in places {
        let this = value(&place);
        match best {
            Some((least, _)) if this > least => {}
            Some((least, _)) if this == least => {
                tied += 1;
                // Each of the tied is as likely, without a list of them.
                if entropy.below(tied) == 0 {
                    best = Some((this, place));
                }
            }
            _ => {
                best = Some((this, place));
                tied = 1;
            }
        }
    }
    best.map(|(_, place)| place)
}

/// Reads a number above zero, for settings.
fn positive(value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| "not a number above 0".to_owned())
}

/// Reads a number, zero or more, for settings.
fn not_negative(value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|n| n.is_finite() && *n >= 0.0);
    number.ok_or_else(|| "not a number of 0 or more".to_owned())
}

/// For a setting that there is not.
fn no_such(names: &[&str]) -> String {
    format!("its settings are {}", names.join(", "))
}
