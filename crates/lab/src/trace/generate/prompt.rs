//! Prompts made of texts that nobody has written: names of blocks for what is known to be equal.

use xxhash_rust::xxh3;

use crate::trace::{Blocks, Content};

/// A text, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Text(u64);

impl Text {
    /// The text of this kind and number in the traffic of this seed; no other has its name.
    pub(super) fn new(seed: u64, kind: &str, number: u64) -> Self {
        Self(xxh3::xxh3_64_with_seed(&number.to_le_bytes(), xxh3::xxh3_64_with_seed(kind.as_bytes(), seed)))
    }

    /// A part of it.
    pub(super) fn part(self, number: u64) -> Self {
        Self(xxh3::xxh3_64_with_seed(&number.to_le_bytes(), self.0))
    }
}

/// A prompt that grows at its end.
#[derive(Debug, Clone)]
pub(super) struct Prompt {
    block_tokens: u32,
    names: Vec<u64>,
    /// Made of what the started block holds.
    started: u64,
    started_tokens: u32,
    tokens: u32,
}

impl Prompt {
    pub(super) fn new(block_tokens: u32) -> Self {
        Self { block_tokens, names: Vec::new(), started: 0, started_tokens: 0, tokens: 0 }
    }

    /// Goes on with the first `tokens` of a text.
    pub(super) fn push(&mut self, text: Text, tokens: u32) {
        let mut from = 0;
        while from < tokens {
            let taken = (self.block_tokens - self.started_tokens).min(tokens - from);
            let place = u64::from(from) << 32 | u64::from(taken);
            let piece = text.0 ^ place.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            self.started = xxh3::xxh3_64_with_seed(&piece.to_le_bytes(), self.started);
            self.started_tokens += taken;
            from += taken;
            if self.started_tokens == self.block_tokens {
                self.names.push(self.started);
                (self.started, self.started_tokens) = (0, 0);
            }
        }
        self.tokens = self.tokens.saturating_add(tokens);
    }

    /// Its length.
    pub(super) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// It, as a record holds it; the last block counts where it is not whole.
    pub(super) fn content(&self) -> Content {
        let last = (self.started_tokens > 0).then_some(self.started);
        let ids = self.names.iter().copied().chain(last).collect();
        Content::Blocks(Blocks { ids, tokens: self.block_tokens })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[(u64, u32)]) -> Vec<u64> {
        let mut prompt = Prompt::new(16);
        for &(number, tokens) in texts {
            prompt.push(Text::new(1, "t", number), tokens);
        }
        match prompt.content() {
            Content::Blocks(blocks) => blocks.ids.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    fn common(one: &[(u64, u32)], two: &[(u64, u32)]) -> usize {
        names(one).iter().zip(names(two)).take_while(|(a, b)| **a == *b).count()
    }

    #[test]
    fn prompts_share_the_whole_blocks_of_the_texts_they_begin_with() {
        assert_eq!(names(&[(1, 40)]).len(), 3);
        assert_eq!(common(&[(1, 40), (2, 40)], &[(1, 40), (3, 40)]), 2);
        assert_eq!(common(&[(1, 48), (2, 40)], &[(1, 48), (3, 40)]), 3);
        assert_eq!(common(&[(1, 40), (2, 40)], &[(1, 40), (2, 40)]), 5);
        assert_eq!(common(&[(1, 40), (2, 40)], &[(1, 40), (2, 40), (3, 9)]), 5);
        assert_eq!(common(&[(1, 41), (2, 40)], &[(1, 40), (2, 40)]), 2);
        assert_eq!(common(&[(2, 40)], &[(1, 40)]), 0);
        // The same words later in the text are another block.
        assert_ne!(names(&[(1, 32)])[0], names(&[(1, 32)])[1]);
    }
}
