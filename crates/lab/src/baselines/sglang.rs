//! SGLang's cache-aware rule, as in sglang-router 0.3.2.
//!
//! When the loads are unbalanced (the highest and the lowest in-flight counts differ by more than `balance_abs` and by
//! more than the factor `balance_rel`) the least loaded gets the request, for everybody. Else the replica that was sent
//! the longest beginning of the prompt, if that is more than `cache_threshold` of it; else the least loaded. Whatever is
//! picked is remembered, whole.
//!
//! Its tree counts characters, this index blocks. Of several with the longest match it takes any; here one is drawn. The
//! least loaded of several is the first, as there. The tree holds 67,108,864 characters a worker, 16,777,216 tokens,
//! much more than an engine: it goes on believing in what the engine evicted.

use kvroute_core::{decision::Reason, moment::Entropy, strategy::Pick};

use super::index::{Index, View, chain_of};
use super::{Ask, Kv, Rule, least, no_such, not_negative, positive};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Share of the prompt that has to match, 0..1.
    pub cache_threshold: f64,
    /// Difference of in-flight counts.
    pub balance_abs: f64,
    /// Ratio of them.
    pub balance_rel: f64,
    /// Tokens remembered of each replica.
    pub tree_tokens: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { cache_threshold: 0.3, balance_abs: 64.0, balance_rel: 1.5, tree_tokens: 16_777_216.0 }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "cache_threshold" => self.cache_threshold = not_negative(value)?,
            "balance_abs" => self.balance_abs = not_negative(value)?,
            "balance_rel" => self.balance_rel = positive(value)?,
            "tree_tokens" => self.tree_tokens = positive(value)?,
            _ => return Err(no_such(&["cache_threshold", "balance_abs", "balance_rel", "tree_tokens"])),
        }
        Ok(())
    }
}

pub(super) struct Sglang {
    settings: Settings,
    kv: Kv,
    index: Index,
}

impl Sglang {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        let blocks = (settings.tree_tokens / f64::from(kv.block_tokens)) as usize;
        Self { settings: settings.clone(), kv, index: Index::new(View::Predicted, blocks) }
    }

    fn is_unbalanced(&self, ask: &Ask<'_>) -> bool {
        let loads = || ask.eligible().map(|place| place.in_flight);
        let (most, fewest) = (f64::from(loads().max().unwrap_or(0)), f64::from(loads().min().unwrap_or(0)));
        most - fewest > self.settings.balance_abs && most > fewest * self.settings.balance_rel
    }
}

impl Rule for Sglang {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let chain = chain_of(ask);
        let least_loaded = || ask.eligible().min_by_key(|place| place.in_flight).expect("a place is eligible");
        let (place, reason) = if self.is_unbalanced(ask) {
            (least_loaded(), Reason::SpillConcurrency)
        } else {
            let matched = |place: &super::Place| -> u32 { self.index.matched(place.number, &chain) };
            let best = least(ask.eligible(), entropy, |place| std::cmp::Reverse(matched(place)));
            let best = best.expect("a place is eligible");
            let tokens = f64::from(matched(&best)) * f64::from(self.kv.block_tokens);
            match tokens / f64::from(ask.input_tokens) > self.settings.cache_threshold {
                true => (best, Reason::PrefixHit),
                false => (least_loaded(), Reason::Load),
            }
        };
        self.index.sent(place.number, &chain);
        Pick::new(place.index, reason)
    }

    fn index(&mut self) -> Option<&mut Index> {
        Some(&mut self.index)
    }
}
