//! A request's tokens, those of its answer included.
//!
//! The answer is decided before the model starts: words drawn by a hash of the prompt and the
//! engine's seed. So every block of the request has its hash from the beginning, a later prompt that
//! quotes the answer finds it cached, and events can name the tokens of any block.

use std::sync::Arc;

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::adapters::Adapter;
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
    /// How long the answer is; 0 where only the prompt is computed.
    pub(super) answer_tokens: u32,
    pub(super) ending: Ending,
    /// Scopes the cache, as adapter and salt do: two models share nothing.
    pub(super) model: &'a str,
    pub(super) adapter: Option<Arc<Adapter>>,
    pub(super) cache: CacheOptions,
    /// Tokens a KV block, above zero.
    pub(super) block_tokens: u32,
    pub(super) seed: u64,
}

/// What a request says about the KV cache.
#[derive(Clone, Debug, Default)]
pub(super) struct CacheOptions {
    /// Who has another salt, or none, shares no block.
    pub(super) salt: Option<String>,
    /// Repeated in the events.
    pub(super) session_id: Option<String>,
    /// Whether blocks that are found cached are published once more.
    pub(super) report_cached: bool,
}

/// See the module.
pub(super) struct Sequence {
    prompt: Vec<u32>,
    answer_tokens: u32,
    ending: Ending,
    answer_seed: u64,
    /// Of every full block of prompt and answer.
    block_hashes: Arc<[u64]>,
    adapter: Option<Arc<Adapter>>,
    cache: CacheOptions,
}

impl Sequence {
    pub(super) fn new(spec: SequenceSpec<'_>) -> Self {
        let SequenceSpec { prompt, answer_tokens, cache, adapter, .. } = spec;
        let block_tokens = spec.block_tokens as usize;
        let scope = scope(spec.model, adapter.as_deref(), cache.salt.as_deref());
        let mut chain = Chain { parent: scope, bytes: Vec::new() };
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
            adapter,
            cache,
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
            adapter: self.adapter.as_ref().map(|adapter| adapter.id),
            report_cached: self.cache.report_cached,
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

    pub(super) fn adapter(&self) -> Option<&Adapter> {
        self.adapter.as_deref()
    }

    pub(super) fn salt(&self) -> Option<&str> {
        self.cache.salt.as_deref()
    }

    pub(super) fn session_id(&self) -> Option<&str> {
        self.cache.session_id.as_deref()
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

/// What tells caches apart that share nothing, in one hash. Each part is hashed by itself, so that no
/// name can be made to look like two.
fn scope(model: &str, adapter: Option<&Adapter>, salt: Option<&str>) -> u64 {
    let mut scope = xxh3_64(model.as_bytes());
    if let Some(adapter) = adapter {
        scope = xxh3_64_with_seed(adapter.path.as_bytes(), xxh3_64_with_seed(adapter.name.as_bytes(), mix(scope)));
    }
    if let Some(salt) = salt {
        scope = xxh3_64_with_seed(salt.as_bytes(), !scope);
    }
    scope
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

    fn spec(prompt: &[u32]) -> SequenceSpec<'static> {
        SequenceSpec {
            prompt: prompt.to_vec(),
            answer_tokens: 1,
            ending: Ending::Length,
            model: "m",
            adapter: None,
            cache: CacheOptions::default(),
            block_tokens: 4,
            seed: 0,
        }
    }

    #[test]
    fn a_prompt_that_quotes_the_answer_has_the_same_blocks() {
        let first = Sequence::new(SequenceSpec { answer_tokens: 7, seed: 9, ..spec(&[1, 2, 3, 4, 5, 6]) });
        let tokens: Vec<u32> = (0..13).map(|index| first.token(index)).collect();
        let second = Sequence::new(SequenceSpec { answer_tokens: 3, seed: 9, ..spec(&tokens) });
        assert_eq!(first.block_hashes.len(), 3);
        assert_eq!(second.block_hashes.len(), 4);
        assert_eq!(second.block_hashes[..3], first.block_hashes[..]);
    }

    fn adapter(name: &str, path: &str) -> Option<Arc<Adapter>> {
        Some(Arc::new(Adapter { id: 1, name: name.to_owned(), path: path.to_owned() }))
    }

    #[test]
    fn earlier_tokens_change_the_hashes_of_later_blocks() {
        let hashes = |prompt: &[u32]| Sequence::new(spec(prompt)).block_hashes;
        let plain = hashes(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let other = hashes(&[9, 2, 3, 4, 5, 6, 7, 8]);
        let same_start = hashes(&[1, 2, 3, 4, 9, 6, 7, 8]);
        assert!(plain.iter().zip(&*other).all(|(a, b)| a != b));
        assert_eq!(plain[0], same_start[0]);
        assert_ne!(plain[1], same_start[1]);
    }

    #[test]
    fn model_adapter_and_salt_each_have_blocks_of_their_own() {
        let salted = |salt: &str| CacheOptions { salt: Some(salt.to_owned()), ..CacheOptions::default() };
        let base = || spec(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let scopes = [
            base(),
            SequenceSpec { model: "n", ..base() },
            SequenceSpec { cache: salted("s"), ..base() },
            SequenceSpec { cache: salted("a"), ..base() },
            SequenceSpec { adapter: adapter("a", "/p"), ..base() },
            SequenceSpec { adapter: adapter("a", "/q"), ..base() },
            SequenceSpec { adapter: adapter("b", "/p"), ..base() },
            SequenceSpec { adapter: adapter("a", "/p"), cache: salted("s"), ..base() },
        ];
        let mut seen = std::collections::BTreeSet::new();
        for scope in scopes {
            let hashes = Sequence::new(scope).block_hashes;
            assert_eq!(hashes.len(), 2);
            assert!(hashes.iter().all(|&hash| seen.insert(hash)));
        }
    }

    #[test]
    fn the_answer_follows_from_the_whole_prompt_and_the_seed() {
        let answer = |prompt: &[u32], seed| {
            let sequence = Sequence::new(SequenceSpec { answer_tokens: 8, seed, ..spec(prompt) });
            (0..8).map(|index| sequence.answer_token(index)).collect::<Vec<_>>()
        };
        assert_eq!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 5], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 6], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[9, 2, 3, 4, 5], 0));
        assert_ne!(answer(&[1, 2, 3, 4, 5], 0), answer(&[1, 2, 3, 4, 5], 1));
    }
}
