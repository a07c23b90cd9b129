//! Prompts that are a shared prefix and a question of their own.

use kvroute_core::moment::Entropy;

use super::Records;
use super::names::{Purpose, Text, between, name};
use crate::workload::order;

/// How many of which size.
#[derive(Debug, Clone, Copy)]
pub(in crate::replay) struct Shared {
    pub(in crate::replay) prefixes: u32,
    /// Of a prefix, in the mean.
    pub(in crate::replay) uses: f64,
    /// Prefixes in use at a time.
    pub(in crate::replay) live: u32,
    pub(in crate::replay) prefix_tokens: u32,
    pub(in crate::replay) question_tokens: u32,
    /// Fewest and most.
    pub(in crate::replay) answer_tokens: (u32, u32),
}

impl Shared {
    /// The requests.
    pub(in crate::replay) fn records(self, seed: u64) -> Records {
        let uses = order::even_uses(self.prefixes, self.uses);
        let mut entropy = Entropy::new(seed);
        let order = order::windowed_by(&uses, self.live, |bound| entropy.below(bound));
        Box::new(order.into_iter().zip(0..).map(move |(prefix, n)| {
            let mut text = Text::default();
            text.push(name(seed, Purpose::Prefix, prefix.into()), self.prefix_tokens);
            text.push(name(seed, Purpose::Question, n), self.question_tokens);
            let mut draw = Entropy::new(name(seed, Purpose::Answer, n));
            text.request(between(&mut draw, self.answer_tokens.0, self.answer_tokens.1))
        }))
    }
}
