//! Names of blocks, and how maps keyed by them hash.

use std::hash::{BuildHasherDefault, Hasher};

use xxhash_rust::xxh3::xxh3_64;

/// The hash that names a block which generated tokens fill.
///
/// A function of the hash of the block before it (`None` at the beginning of a sequence), of the
/// request's [`output_seed`](super::Request::output_seed), and of the block's place in the sequence.
/// Stable across platforms and versions: recordings hold it.
#[must_use]
pub fn output_block_hash(parent: Option<u64>, output_seed: u64, block: u32) -> u64 {
    let mut bytes = [0u8; 21];
    bytes[0] = u8::from(parent.is_some());
    bytes[1..9].copy_from_slice(&parent.unwrap_or(0).to_le_bytes());
    bytes[9..17].copy_from_slice(&output_seed.to_le_bytes());
    bytes[17..21].copy_from_slice(&block.to_le_bytes());
    xxh3_64(&bytes)
}

/// The same hashing in every run.
pub(super) type FixedState = BuildHasherDefault<FoldHasher>;

/// A multiplication and a fold a word: the keys hold a hash already, but nobody promises that all of
/// its bits are good.
#[derive(Default)]
pub(super) struct FoldHasher(u64);

/// 2^64 divided by the golden ratio, odd: multiplying by it spreads low bits upwards.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Hasher for FoldHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ SPREAD) * u128::from(SPREAD);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(xxh3_64(bytes));
    }
}
