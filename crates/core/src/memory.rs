//! A memory of fixed size, from hashes to replicas, that forgets by overwriting.
//!
//! In a large variant two questions cost far more than all the rest of a decision, because every replica has to be looked
//! at: where a key has its home, and who holds how much of a prompt. Both have usually been answered before. The home of
//! a key does not change while the variant is the same; and whoever was sent a block last most likely still holds it.
//!
//! Reading and writing take no lock. A slot holds as much of the hash as it has room for, which leaves a chance of 2^-58
//! that one hash is taken for another.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::prompt::PrefixChain;

/// Variants of fewer replicas remember nothing: there it is as quick to look at all.
pub(crate) const REPLICAS_MIN: usize = 17;
/// The lower bits of a slot hold the replica, the others are those of the hash.
const REPLICA_BITS: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Memory(Box<[AtomicU64]>);

impl Memory {
    /// A memory of `slots` hashes (a power of two) for a variant of so many replicas; none where there are few, or more
    /// than can be told apart.
    pub(crate) fn among(replicas: usize, slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        let slots = if (REPLICAS_MIN..1 << REPLICA_BITS).contains(&replicas) { slots } else { 0 };
        Self((0..slots).map(|_| AtomicU64::new(0)).collect())
    }

    /// The replica that was remembered for a hash.
    pub(crate) fn of(&self, hash: u64) -> Option<usize> {
        let slot = self.slot(hash)?.load(Ordering::Relaxed);
        let replica = slot & ((1 << REPLICA_BITS) - 1);
        // The replica's number is one more than its index, so an empty slot is no replica's.
        (slot ^ replica == tag(hash)).then_some(replica as usize)?.checked_sub(1)
    }

    /// Remembers the index of a replica for a hash.
    pub(crate) fn set(&self, hash: u64, replica: usize) {
        if let Some(slot) = self.slot(hash) {
            slot.store(tag(hash) | (replica as u64 + 1), Ordering::Relaxed);
        }
    }

    /// The replica that is remembered for the longest beginning of a chain.
    pub(crate) fn of_longest(&self, chain: &PrefixChain) -> Option<usize> {
        // Not every block before a remembered one must be remembered too, so this may stop short.
        let length = chain.hashes().partition_point(|hash| self.of(*hash).is_some());
        self.of(*chain.hashes().get(length.checked_sub(1)?)?)
    }

    fn slot(&self, hash: u64) -> Option<&AtomicU64> {
        self.0.get(hash as usize & self.0.len().wrapping_sub(1))
    }
}

fn tag(hash: u64) -> u64 {
    hash >> REPLICA_BITS << REPLICA_BITS
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::hash;
    use crate::prompt::{PromptHasher, Settings};

    fn chain(text: &str) -> PrefixChain {
        let settings = Settings { seed: 0, prefix_lengths: [].into(), chain_bytes_max: 1 << 16 };
        let mut hasher = PromptHasher::new(settings);
        hasher.segment(b"user");
        hasher.text(text.as_bytes());
        hasher.finish().chain
    }

    #[test]
    fn what_is_remembered_is_what_was_last_set_or_nothing() {
        let memory = Memory::among(1_000, 1 << 12);
        let mut naive = HashMap::new();
        for n in 0..20_000 {
            let hash = hash::finish(n % 7_000);
            let expected = naive.get(&hash).copied();
            let told = memory.of(hash);
            assert!(told.is_none() || told == expected, "{n}");
            memory.set(hash, n as usize % 1_000);
            naive.insert(hash, n as usize % 1_000);
            assert_eq!(memory.of(hash), Some(n as usize % 1_000));
        }
        let known = naive.keys().filter(|hash| memory.of(**hash).is_some()).count();
        assert!((2_500..=4_096).contains(&known), "{known} of 4096 slots are in use");
    }

    #[test]
    fn whoever_was_sent_the_longest_beginning_last_is_found() {
        let memory = Memory::among(20, 1 << 12);
        let (short, long) = (chain(&"a".repeat(2_000)), chain(&"a".repeat(9_000)));
        assert_eq!(memory.of_longest(&long), None);
        long.hashes().iter().for_each(|hash| memory.set(*hash, 3));
        short.hashes().iter().for_each(|hash| memory.set(*hash, 19));
        assert_eq!((memory.of_longest(&short), memory.of_longest(&long)), (Some(19), Some(3)));
        assert_eq!(memory.of_longest(&chain(&format!("{}b", "a".repeat(5_000)))), Some(3));
        assert_eq!(memory.of_longest(&chain(&"b".repeat(9_000))), None);
        assert_eq!(memory.of_longest(&PrefixChain::default()), None);
    }

    #[test]
    fn variants_of_few_replicas_or_far_too_many_remember_nothing() {
        for replicas in [0, 1, 16, 1 << 16] {
            let memory = Memory::among(replicas, 1 << 12);
            memory.set(7, 0);
            assert_eq!(memory.of(7), None, "{replicas}");
        }
    }
}
