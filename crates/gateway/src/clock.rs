//! The edge where time and randomness come from: everything behind it gets them as arguments.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kvroute_core::moment::{Entropy, Moment};

/// The gateway's clock and dice.
#[derive(Debug)]
pub(crate) struct Clock {
    origin: Instant,
    dice: AtomicU64,
}

impl Clock {
    /// A clock that starts now, with dice that no other process shares.
    pub(crate) fn start() -> Self {
        let seed = RandomState::new().hash_one(std::process::id());
        Self { origin: Instant::now(), dice: AtomicU64::new(seed) }
    }

    /// Now, with fresh random bits.
    pub(crate) fn moment(&self) -> Moment {
        // An odd step walks through all values; the sequence behind spreads it.
        let seed = self.dice.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        Moment { now_us: self.origin.elapsed().as_micros() as u64, entropy: Entropy::new(seed) }
    }
}
