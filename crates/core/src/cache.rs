//! What a replica is believed to hold: the **predicted** cache view.
//!
//! A prompt that was routed to a replica is in its prefix cache until newer prompts push it out, so the view is an LRU
//! set of chain hashes as large as the replica's KV cache. All blocks of a prompt are touched together, last block
//! first, so a beginning is always at least as recent as what follows it: eviction takes leaves before parents, as
//! engines do, and the held part of any chain is a prefix of it.
//!
//! The view is a belief. It decides nothing where the strategy does not look at it; it lets the metrics say how many
//! prompt tokens some replica held (available) and how many the chosen one did (captured).

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use parking_lot::Mutex;

use crate::prompt::{BLOCK_BYTES, BYTES_PER_TOKEN, PrefixChain};

/// KV tokens of a replica that has not told its own figure.
pub const CAPACITY_TOKENS_DEFAULT: u64 = 1_000_000;

const NONE: u32 = u32::MAX;

/// The chain blocks one replica is believed to hold.
#[derive(Debug)]
pub struct CacheView {
    blocks: Mutex<BlockLru>,
}

impl CacheView {
    /// An empty view of a cache of `capacity_tokens`.
    pub fn new(capacity_tokens: u64) -> Self {
        Self::of_blocks(blocks_of_tokens(capacity_tokens))
    }

    /// An empty view of a cache of `blocks` chain blocks, at least one: for chains whose blocks are not those of text.
    pub fn of_blocks(blocks: usize) -> Self {
        Self { blocks: Mutex::new(BlockLru::new(blocks.max(1))) }
    }

    /// How many leading blocks of `chain` are held.
    pub fn matched_blocks(&self, chain: &PrefixChain) -> usize {
        let blocks = self.blocks.lock();
        chain.hashes().partition_point(|hash| blocks.slots.contains_key(hash))
    }

    /// The chain was sent there: it is held now, at the expense of what was used longest ago.
    pub fn insert(&self, chain: &PrefixChain) {
        let mut blocks = self.blocks.lock();
        let held = chain.hashes().len().min(blocks.capacity);
        chain.hashes()[..held].iter().rev().for_each(|&hash| blocks.touch(hash));
    }

    /// Forgets the blocks of a chain from number `kept` on: the request that was to put them there never arrived.
    pub fn forget(&self, chain: &PrefixChain, kept: usize) {
        let mut blocks = self.blocks.lock();
        chain.hashes().iter().skip(kept).for_each(|hash| blocks.remove(hash));
    }

    /// Forgets everything: the replica restarted.
    pub fn clear(&self) {
        let mut blocks = self.blocks.lock();
        let fresh = BlockLru::new(blocks.capacity);
        let before = std::mem::replace(&mut *blocks, fresh);
        drop(blocks);
        drop(before); // megabytes to give back, for which no request has to wait
    }

    /// The replica has told how many KV tokens it has.
    pub fn resize(&self, capacity_tokens: u64) {
        let mut blocks = self.blocks.lock();
        blocks.capacity = blocks_of_tokens(capacity_tokens);
        while blocks.slots.len() > blocks.capacity {
            blocks.evict();
        }
    }

    /// Blocks held.
    pub fn blocks(&self) -> usize {
        self.blocks.lock().slots.len()
    }
}

fn blocks_of_tokens(tokens: u64) -> usize {
    (tokens.saturating_mul(BYTES_PER_TOKEN) as usize / BLOCK_BYTES).clamp(1, 1 << 26)
}

/// Chain hashes are already well mixed. Where the fleet's hash seed is a secret, nobody outside can aim at one bucket.
#[derive(Default)]
struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("only u64 keys are hashed here")
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// An LRU set: a map into a slab whose entries form a list, newest first.
#[derive(Debug)]
struct BlockLru {
    slots: HashMap<u64, u32, BuildHasherDefault<AsIs>>,
    entries: Vec<Entry>,
    /// Slots of entries that were removed.
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    capacity: usize,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    newer: u32,
    older: u32,
}

impl BlockLru {
    fn new(capacity: usize) -> Self {
        Self { slots: HashMap::default(), entries: Vec::new(), free: Vec::new(), newest: NONE, oldest: NONE, capacity }
    }

    fn touch(&mut self, hash: u64) {
        if let Some(&slot) = self.slots.get(&hash) {
            if slot != self.newest {
                self.unlink(slot);
                self.push_newest(slot);
            }
            return;
        }
        while self.slots.len() >= self.capacity {
            self.evict();
        }
        let entry = Entry { hash, newer: NONE, older: NONE };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.slots.insert(hash, slot);
        self.push_newest(slot);
    }

    /// Removes the entry used longest ago. Must not be called on an empty set.
    fn evict(&mut self) {
        let oldest = self.entries[self.oldest as usize].hash;
        self.remove(&oldest);
    }

    fn remove(&mut self, hash: &u64) {
        if let Some(slot) = self.slots.remove(hash) {
            self.unlink(slot);
            self.free.push(slot);
        }
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
    }

    fn push_newest(&mut self, slot: u32) {
        let older = std::mem::replace(&mut self.newest, slot);
        self.entries[slot as usize].newer = NONE;
        self.entries[slot as usize].older = older;
        match older {
            NONE => self.oldest = slot,
            _ => self.entries[older as usize].newer = slot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prompt::{PromptHasher, Settings};
    use proptest::prelude::*;
    use std::sync::Arc;

    const BLOCK_TOKENS: u64 = BLOCK_BYTES as u64 / BYTES_PER_TOKEN;

    /// A chain of `blocks` blocks, the first `shared` of which every chain has.
    fn chain(name: u8, shared: usize, blocks: usize) -> PrefixChain {
        let settings = Settings { seed: 0, prefix_lengths: Arc::from([]), chain_bytes_max: 1 << 20 };
        let mut hasher = PromptHasher::new(settings);
        hasher.text(&vec![b'.'; shared * BLOCK_BYTES]);
        hasher.text(&vec![name; (blocks - shared) * BLOCK_BYTES]);
        hasher.finish().chain
    }

    #[test]
    fn what_was_sent_is_held_and_shared_beginnings_count() {
        let view = CacheView::new(100 * BLOCK_TOKENS);
        view.insert(&chain(b'a', 3, 10));
        assert_eq!(view.matched_blocks(&chain(b'a', 3, 10)), 10);
        assert_eq!(view.matched_blocks(&chain(b'b', 3, 10)), 3);
        assert_eq!(view.matched_blocks(&chain(b'b', 0, 10)), 0);
    }

    #[test]
    fn the_longest_unused_goes_first_and_its_end_before_its_beginning() {
        let view = CacheView::new(10 * BLOCK_TOKENS);
        view.insert(&chain(b'a', 0, 6));
        view.insert(&chain(b'b', 0, 6));
        assert_eq!(view.matched_blocks(&chain(b'b', 0, 6)), 6);
        assert_eq!(view.matched_blocks(&chain(b'a', 0, 6)), 4, "two blocks had to go, from the end");
    }

    #[test]
    fn a_chain_longer_than_the_cache_keeps_its_beginning() {
        let view = CacheView::new(4 * BLOCK_TOKENS);
        view.insert(&chain(b'a', 0, 9));
        assert_eq!(view.matched_blocks(&chain(b'a', 0, 9)), 4);
    }

    #[test]
    fn what_never_arrived_is_forgotten_and_what_was_held_before_is_not() {
        let view = CacheView::new(100 * BLOCK_TOKENS);
        view.insert(&chain(b'a', 3, 5));
        let other = chain(b'b', 3, 8);
        let matched = view.matched_blocks(&other);
        view.insert(&other);
        view.forget(&other, matched);
        assert_eq!((view.matched_blocks(&other), view.matched_blocks(&chain(b'a', 3, 5))), (3, 5));
        view.insert(&other);
        assert_eq!((view.matched_blocks(&other), view.blocks()), (8, 10));
    }

    #[test]
    fn chains_of_other_blocks_are_held_by_their_number() {
        let view = CacheView::of_blocks(3);
        let chain = PrefixChain::of_hashes(vec![1, 2, 3, 4], 2_048);
        view.insert(&chain);
        assert_eq!((view.matched_blocks(&chain), chain.bytes_of(3)), (3, 6_144));
    }

    #[test]
    fn clearing_and_shrinking_forget() {
        let view = CacheView::new(20 * BLOCK_TOKENS);
        view.insert(&chain(b'a', 0, 8));
        view.insert(&chain(b'b', 0, 8));
        view.resize(10 * BLOCK_TOKENS);
        assert_eq!((view.blocks(), view.matched_blocks(&chain(b'a', 0, 8))), (10, 2));
        view.resize(20 * BLOCK_TOKENS);
        view.insert(&chain(b'c', 0, 8));
        assert_eq!((view.blocks(), view.matched_blocks(&chain(b'c', 0, 8))), (18, 8));
        view.clear();
        assert_eq!((view.blocks(), view.matched_blocks(&chain(b'b', 0, 8))), (0, 0));
    }

    proptest! {
        #[test]
        fn it_holds_what_a_naive_lru_holds(
            uses in prop::collection::vec((0u8..6, 1usize..12), 1..60), capacity in 5usize..30,
        ) {
            let view = CacheView::new(capacity as u64 * BLOCK_TOKENS);
            let mut naive: Vec<u64> = Vec::new(); // newest last
            for &(name, blocks) in &uses {
                let chain = chain(name, blocks.min(2), blocks);
                view.insert(&chain);
                for hash in chain.hashes()[..blocks.min(capacity)].iter().rev() {
                    naive.retain(|h| h != hash);
                    naive.push(*hash);
                }
                naive.drain(..naive.len().saturating_sub(capacity));
                let held = chain.hashes().iter().take_while(|h| naive.contains(h)).count();
                prop_assert_eq!(view.matched_blocks(&chain), held);
                prop_assert_eq!(view.blocks(), naive.len());
            }
        }
    }
}
