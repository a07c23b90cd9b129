//! Published tables as single commands: a workload, a fleet and the strategies that were compared.
//!
//! What a publication does not say is chosen here, once, and written down beside the number. Physical constants that had
//! to be fitted (the fixed overhead of a request, the scale of prefill) are knobs of the engine's preset and the same for
//! every strategy.

mod aws_8k;
mod aws_chat;
mod llm_d_37;
mod million;
mod names;
mod shared;

use std::sync::Arc;

pub(super) use self::shared::Shared;
use super::comparison::Case;
use super::prepare::{PrepareOptions, Unusable, prepare};
use super::sim::Setting;
use crate::trace::Record;

/// See the module.
#[derive(Debug)]
pub struct Scenario {
    /// The name users write.
    pub name: &'static str,
    /// What it is, in a sentence.
    pub about: &'static str,
    /// What was published, for comparison.
    pub published: &'static str,
    /// Strategies, the first of which the others are compared with.
    pub strategies: &'static [&'static str],
    /// Length of the keys of `prefix_aware`, tokens.
    pub prefix_length: u32,
    /// Fleet, arrivals, end and warm-up.
    pub setting: fn() -> Setting,
    records: fn(u64) -> Records,
}

/// Requests, made one at a time.
pub(super) type Records = Box<dyn Iterator<Item = Record> + Send>;

impl Scenario {
    /// All of them.
    pub const ALL: [&'static Self; 4] =
        [&aws_8k::SCENARIO, &aws_chat::SCENARIO, &llm_d_37::SCENARIO, &million::SCENARIO];

    /// The one of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name == name)
    }

    /// Its requests, which are others for every seed.
    pub fn records(&self, seed: u64) -> Records {
        (self.records)(seed)
    }

    /// Its requests as a case, with keys of these lengths.
    ///
    /// # Errors
    /// None that the caller can cause, but those of an option.
    pub fn case(&self, seed: u64, prefix_lengths: &[u32]) -> Result<Case, Unusable> {
        let options = PrepareOptions { prefix_lengths: prefix_lengths.to_vec(), seed, ..PrepareOptions::default() };
        Ok(Case { seed, jobs: Arc::new(prepare(self.records(seed), &options)?) })
    }
}

#[cfg(test)]
mod tests;
