//! Prompts of made-up texts, as names of their blocks.

use std::sync::Arc;

use kvroute_core::{hash, moment::Entropy};

use crate::trace::{Blocks, Content, Record};

/// Tokens a block.
pub(super) const BLOCK_TOKENS: u32 = 64;

/// A prompt as it grows: each piece of text begins where the one before ends, on no grid.
#[derive(Clone, Default)]
pub(super) struct Text {
    /// Names of all full blocks, and what is in the started one.
    blocks: Vec<u64>,
    started: u64,
    tokens: u32,
}

impl Text {
    /// Appends `tokens` tokens of the text called `name`.
    pub(super) fn push(&mut self, name: u64, tokens: u32) {
        let mut taken = 0;
        while taken < tokens {
            let room = BLOCK_TOKENS - self.tokens % BLOCK_TOKENS;
            let piece = room.min(tokens - taken);
            self.started = hash::mix(self.started, hash::mix(name, u64::from(taken)));
            taken += piece;
            self.tokens += piece;
            if self.tokens.is_multiple_of(BLOCK_TOKENS) {
                self.blocks.push(self.started);
                self.started = 0;
            }
        }
    }

    /// A request with this prompt.
    pub(super) fn request(&self, output_tokens: u32) -> Record {
        let rest = (!self.tokens.is_multiple_of(BLOCK_TOKENS)).then_some(self.started);
        let ids: Arc<[u64]> = self.blocks.iter().copied().chain(rest).collect();
        Record {
            content: Content::Blocks(Blocks { ids, tokens: BLOCK_TOKENS }),
            input_tokens: Some(self.tokens),
            output_tokens: Some(output_tokens),
            ..Record::default()
        }
    }
}

/// A whole number from `low` to `high`, both included.
pub(super) fn between(entropy: &mut Entropy, low: u32, high: u32) -> u32 {
    low + entropy.below(high - low + 1)
}

/// What a text is for; texts of different purposes share nothing.
#[derive(Clone, Copy)]
pub(super) enum Purpose {
    Prefix = 1,
    Question = 2,
    Answer = 3,
}

/// The name of a text.
pub(super) fn name(seed: u64, purpose: Purpose, index: u64) -> u64 {
    hash::mix(hash::mix(seed, purpose as u64), index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_begin_alike_as_far_as_their_pieces_do_and_on_the_grid_of_blocks() {
        let mut first = Text::default();
        first.push(1, 100);
        let mut second = first.clone();
        first.push(2, 100);
        second.push(3, 100);
        let ids = |text: &Text| match text.request(1).content {
            Content::Blocks(blocks) => blocks.ids,
            other => panic!("{other:?}"),
        };
        let (a, b) = (ids(&first), ids(&second));
        assert_eq!((a.len(), a[0], first.request(1).input_tokens), (4, b[0], Some(200)));
        assert!(a[1..].iter().zip(&b[1..]).all(|(a, b)| a != b));
    }
}
