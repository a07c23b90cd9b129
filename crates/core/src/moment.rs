//! Time and randomness as arguments: what a decision may know about "now".

use crate::hash;

/// The moment at which a decision is taken.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Microseconds on the caller's monotonic clock.
    pub now_us: u64,
    /// Fresh random bits for this decision; the same bits give the same decision.
    pub entropy: Entropy,
}

/// A source of random bits that the caller seeds: a SplitMix64 sequence, so that one `u64` a request is enough.
#[derive(Clone, Copy, Debug)]
pub struct Entropy(u64);

impl Entropy {
    /// A sequence determined by `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        hash::finish(self.0)
    }

    /// A number in `0..bound`, without modulo bias that anybody could measure. `bound` must not be 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u32
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
