//! How much of the prompts was there before: what one cache that never forgets would have.
//!
//! Prompts are compared block by block from their beginning: names of blocks as the trace has them, token ids by 16, text
//! by 64 bytes, roles and boundaries included. Only whole blocks count, and the last name of a trace that names a part
//! counts for the tokens that are in it.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3;

use super::canonical::canonical_text;
use super::{Blocks, Content, Record, Segment};

/// Token ids a block.
const IDS_A_BLOCK: usize = 16;
/// Bytes of text a block: about as many as 16 tokens.
const TEXT_BLOCK_BYTES: usize = 64;

/// Blocks that are remembered: about 2 GiB. Beyond, what is new is not remembered, and reuse is understated.
const BLOCKS_MAX: usize = 100_000_000;

/// Units of a prompt: tokens where the trace knows them, else bytes of text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Part {
    /// Of the whole prompt.
    pub total: u64,
    /// Of its beginning that was there before.
    pub reused: u64,
}

/// One cache that never forgets.
#[derive(Debug, Default)]
pub struct InfiniteCache {
    seen: HashSet<u64, BuildHasherDefault<Ready>>,
}

impl InfiniteCache {
    /// Takes a prompt; what of it was there. `None` where only its length is known.
    pub fn take(&mut self, record: &Record) -> Option<Part> {
        match &record.content {
            Content::Blocks(blocks) => Some(self.take_blocks(blocks, record.input_tokens)),
            Content::TokenIds(ids) => Some(self.take_ids(ids)),
            Content::Text(segments) => Some(self.take_text(segments)),
            Content::Unknown => None,
        }
    }

    fn take_blocks(&mut self, blocks: &Blocks, input_tokens: Option<u32>) -> Part {
        let named = blocks.ids.len() as u64 * u64::from(blocks.tokens);
        let total = input_tokens.map_or(named, u64::from);
        let held = self.walk(blocks.ids.iter().map(|id| id.to_le_bytes()));
        Part { total, reused: (held * u64::from(blocks.tokens)).min(total) }
    }

    fn take_ids(&mut self, ids: &[u32]) -> Part {
        let blocks = ids.chunks_exact(IDS_A_BLOCK).map(|block| {
            let mut bytes = [0; IDS_A_BLOCK * 4];
            for (place, id) in bytes.chunks_exact_mut(4).zip(block) {
                place.copy_from_slice(&id.to_le_bytes());
            }
            bytes
        });
        let held = self.walk(blocks);
        Part { total: ids.len() as u64, reused: held * IDS_A_BLOCK as u64 }
    }

    fn take_text(&mut self, segments: &[Segment]) -> Part {
        let text = canonical_text(segments);
        let held = self.walk(text.chunks_exact(TEXT_BLOCK_BYTES));
        Part { total: text.len() as u64, reused: held * TEXT_BLOCK_BYTES as u64 }
    }

    /// How many of the first blocks are held; all are afterwards.
    fn walk<B: AsRef<[u8]>>(&mut self, blocks: impl Iterator<Item = B>) -> u64 {
        let (mut chain, mut held, mut is_held) = (0, 0, true);
        for block in blocks {
            chain = xxh3::xxh3_64_with_seed(block.as_ref(), chain);
            let is_known =
                if self.seen.len() < BLOCKS_MAX { !self.seen.insert(chain) } else { self.seen.contains(&chain) };
            is_held &= is_known;
            held += u64::from(is_held);
        }
        held
    }
}

/// Takes what is a hash already.
#[derive(Debug, Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3::xxh3_64_with_seed(bytes, self.0);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content: Content, input_tokens: Option<u32>) -> Record {
        Record { content, input_tokens, ..Record::default() }
    }

    fn blocks(ids: &[u64], input_tokens: u32) -> Record {
        of(Content::Blocks(Blocks { ids: ids.into(), tokens: 100 }), Some(input_tokens))
    }

    #[test]
    fn what_is_reused_is_the_beginning_that_was_there_before() {
        let mut cache = InfiniteCache::default();
        for (ids, input_tokens, reused) in [
            (&[1, 2, 3][..], 250, 0),
            (&[1, 2, 3], 250, 250),
            (&[1, 2, 4], 300, 200),
            (&[2, 3], 200, 0),
            (&[1, 9, 3], 300, 100),
            (&[], 50, 0),
        ] {
            let part = cache.take(&blocks(ids, input_tokens)).unwrap();
            assert_eq!((part.total, part.reused), (u64::from(input_tokens), reused), "{ids:?}");
        }
    }

    #[test]
    fn text_and_token_ids_are_compared_block_by_block_and_lengths_not_at_all() {
        let said = |role: &str, text: String| of(Content::Text(vec![Segment { role: role.into(), text }]), None);
        let mut cache = InfiniteCache::default();
        assert_eq!(cache.take(&said("user", "a".repeat(200))).unwrap().reused, 0);
        assert_eq!(cache.take(&said("user", "a".repeat(200))).unwrap().reused, 192);
        assert_eq!(cache.take(&said("system", "a".repeat(200))).unwrap().reused, 0);
        let ids = |count: u32| of(Content::TokenIds((0..count).collect()), None);
        assert_eq!(cache.take(&ids(40)).unwrap(), Part { total: 40, reused: 0 });
        assert_eq!(cache.take(&ids(50)).unwrap(), Part { total: 50, reused: 32 });
        assert_eq!(cache.take(&of(Content::Unknown, Some(9))), None);
    }
}
