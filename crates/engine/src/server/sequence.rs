//! A request's tokens, those of its answer included.
//!
//! The answer is decided before the model starts: words drawn by a hash of the prompt and the
//! engine's seed. So every block of the request has its hash from the beginning, a later prompt that
//! quotes the answer finds it cached, and events can name the tokens of any block.

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::model::Request;
use crate::vocab::Vocab;

/// Why an answer ends where it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Of itself.
    Stop,
    /// At the limit that the request set.
    Length,
}

/// What [`Sequence::new`] is made from.
pub(super) struct SequenceSpec<'a> {
    /// At least one token.
    pub(super) prompt: Vec<u32>,
    /// How long the answer is, at least 1.
    pub(super) answer_tokens: u32,
    pub(super) ending: Ending,
    /// Scopes the cache, as the salt does: two models share nothing.
    pub(super) model: &'a str,
    pub(super) salt: Option<String>,
    pub(super) session_id: Option<String>,
    /// Tokens a KV block, above zero.
    pub(super) block_tokens: u32,
    pub(super) seed: u64,
}

/// See the module.
pub(super) struct Sequence {
    prompt: Vec<u32>,
    answer_tokens: u32,
    ending: Ending,
    answer_seed: u64,
    /// Of every full block of prompt and answer.
    block_hashes: Arc<[u64]>,
    salt: Option<String>,
    session_id: Option<String>,
}

impl Sequence {
    pub(super) fn new(spec: SequenceSpec<'_>) -> Self {
        let SequenceSpec { prompt, answer_tokens, salt, .. } = spec;
        let block_tokens = spec.block_tokens as usize;
        let mut scope = spec.model.as_bytes().to_vec();
        scope.push(0);
        scope.extend_from_slice(salt.as_deref().unwrap_or_default().as_bytes());

        let mut chain = Chain { parent: xxh3_64(&scope), bytes: Vec::new() };
        let full = prompt.len() / block_tokens * block_tokens;
        let mut block_hashes: Vec<u64> =
            prompt[..full].chunks_exact(block_tokens).map(|block| chain.next(block)).collect();
        let answer_seed = Chain { parent: chain.parent ^ mix(spec.seed), bytes: Vec::new() }.next(&prompt[full..]);

        let mut sequence = Self {
            prompt,
            answer_tokens,
            ending: spec.ending,
            answer_seed,
            block_hashes: Arc::default(),
            salt,
            session_id: spec.session_id,
        };
        let end = sequence.prompt.len() + answer_tokens as usize;
        let mut block = Vec::with_capacity(block_tokens);
        for start in (full..end).step_by(block_tokens).take_while(|start| start + block_tokens <= end) {
            block.clear();
            block.extend((start..start + block_tokens).map(|index| sequence.token(index)));
            block_hashes.push(chain.next(&block));
        }
        sequence.block_hashes = block_hashes.into();
        sequence
    }

    /// The request in the model's terms.
    pub(super) fn to_request(&self, id: u64) -> Request {
        Request {
            id,
            prompt_tokens: self.prompt.len() as u32,
            block_hashes: Arc::clone(&self.block_hashes),
            output_tokens: self.answer_tokens,
            output_seed: self.answer_seed,
        }
    }

    pub(super) fn prompt(&self) -> &[u32] {
        &self.prompt
    }

    pub(super) fn answer_tokens(&self) -> u32 {
        self.answer_tokens
    }

    pub(super) fn ending(&self) -> Ending {
        self.ending
    }

    pub(super) fn salt(&self) -> Option<&str> {
        self.salt.as_deref()
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// The token at a place in prompt and answer.
    pub(super) fn token(&self, index: usize) -> u32 {
        match self.prompt.get(index) {
            Some(&token) => token,
            None => self.answer_token((index - self.prompt.len()) as u32),
        }
    }

    /// The answer's token at a place, counted from 0.
    pub(super) fn answer_token(&self, index: u32) -> u32 {
        let words = Vocab::shared().words();
        words[(mix(self.answer_seed.wrapping_add(u64::from(index))) % words.len() as u64) as usize]
    }
}

impl Ending {
    /// As in `finish_reason`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
        }
    }
}

/// The running hash over blocks.
struct Chain {
    parent: u64,
    /// Kept for its capacity.
    bytes: Vec<u8>,
}

impl Chain {
    fn next(&mut self, tokens: &[u32]) -> u64 {
        self.bytes.clear();
        self.bytes.extend(tokens.iter().flat_map(|token| token.to_le_bytes()));
        self.parent = xxh3_64_with_seed(&self.bytes, self.parent);
        self.parent
    }
}

/// Spreads a counter over all 64 bits (the finalizer of SplitMix64).
pub(super) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(prompt: &[u32], answer_tokens: u32, salt: Option<&str>, seed: u64) -> Sequence {
        Sequence::new(SequenceSpec {
            prompt: prompt.to_vec(),
            answer_tokens,
            ending: Ending::Length,
            model: "m",
            salt: salt.map(str::to_owned),
            session_id: None,
            block_tokens: 4,
            seed,
        })
    }

    #[test]
    fn a_prompt_that_quotes_the_answer_has_the_same_blocks() {
        let first = sequence(&[1, 2, 3, 4, 5, 6], 7, None, 9);
        let tokens: Vec<u32> = (0..13).map(|index| first.token(index)).collect();
        let second = sequence(&tokens, 3, None, 9);
        assert_eq!(first.block_hashes.len(), 3);
        assert_eq!(second.block_hashes.len(), 4);
        assert_eq!(second.block_hashes[..3], first.block_hashes[..]);
    }

    #[test]
    fn salt_and_earlier_tokens_change_the_hashes() {
        let plain = sequence(&[1, 2, 3, 4, 5, 6, 7, 8], 1, None, 0).block_hashes;
        let salted = sequence(&[1, 2, 3, 4, 5, 6, 7, 8], 1, Some("s"), 0).block_hashes;
        let other = sequence(&[9, 2, 3, 4, 5, 6, 7, 8], 1, None, 0).block_hashes;
        let same_start = sequence(&[1, 2, 3, 4, 9, 6, 7, 8], 1, None, 0).block_hashes;
        assert!(plain.iter().zip(&*salted).all(|(a, b)| a != b));
        assert!(plain.iter().zip(&*other).all(|(a, b)| a != b));
        assert_eq!(plain[0], same_start[0]);
        assert_ne!(plain[1], same_start[1]);
    }

    #[test]
    fn the_answer_follows_from_the_whole_prompt_and_the_seed() {
        let answer = |prompt: &[u32], seed| {
            let sequence = sequence(prompt, 8, None, seed);
            (0..8).map(|index| sequence.answer_token(index)).collect::<Vec<_>>()
        };
        assert_eq!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 5], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 6], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[9, 2, 3, 4, 5], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 5], 1));
    }
}
