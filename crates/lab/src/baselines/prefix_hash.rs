//! A fixed prefix hash: the first tokens of the prompt choose the replica on a ring; only an overloaded one is passed
//! over, for the least loaded.
//!
//! SMG's `prefix_hash`: 256 tokens, overloaded is more than 1.25 times the mean *and* more than the mean plus 10. The
//! tokens are rounded down to whole blocks, one at least. `guard=off` is the hash alone.

use kvroute_core::{decision::Reason, moment::Entropy, strategy::Pick};

use super::{Ask, Kv, Rule, least, no_such, positive, ring::Ring};

/// See the module.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Tokens that make the key.
    pub prefix_tokens: u32,
    /// Overload as a multiple of the mean, where the guard is on.
    pub load_factor: Option<f64>,
}

/// How far over the mean, in requests, is never an overload.
const SLACK: f64 = 10.0;
/// Points of a replica on the ring.
const POINTS: u32 = 160;

impl Default for Settings {
    fn default() -> Self {
        Self { prefix_tokens: 256, load_factor: Some(1.25) }
    }
}

impl Settings {
    pub(super) fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        match (key, value) {
            ("prefix_tokens", _) => self.prefix_tokens = positive(value)?.min(1e9) as u32,
            ("load_factor", _) => self.load_factor = Some(positive(value)?),
            ("guard", "off") => self.load_factor = None,
            ("guard", "on") => self.load_factor = Self::default().load_factor,
            _ => return Err(no_such(&["prefix_tokens", "load_factor", "guard (on, off)"])),
        }
        Ok(())
    }
}

pub(super) struct PrefixHash {
    settings: Settings,
    key_blocks: usize,
    ring: Ring,
}

impl PrefixHash {
    pub(super) fn new(settings: &Settings, kv: Kv) -> Self {
        let key_blocks = (settings.prefix_tokens / kv.block_tokens).max(1) as usize;
        Self { settings: settings.clone(), key_blocks, ring: Ring::default() }
    }
}

impl Rule for PrefixHash {
    fn pick(&mut self, ask: &Ask<'_>, entropy: &mut Entropy) -> Pick {
        let least_loaded = |entropy: &mut Entropy| {
            least(ask.eligible(), entropy, |place| place.in_flight).expect("a place is eligible")
        };
        let last = ask.blocks.len().min(self.key_blocks).checked_sub(1);
        let Some(key) = last.map(|last| ask.blocks[last]) else {
            return Pick::new(least_loaded(entropy).index, Reason::NoPrefix);
        };
        self.ring.update(ask, POINTS);
        let number = self.ring.from(key).next().expect("the ring holds the eligible places");
        let home = ask.eligible().find(|place| place.number == number).expect("it is eligible");
        let (count, sum) = ask.eligible().fold((0u32, 0u32), |(n, m), place| (n + 1, m + place.in_flight));
        let mean = f64::from(sum) / f64::from(count);
        let load = f64::from(home.in_flight);
        let is_overloaded = self.settings.load_factor.is_some_and(|factor| load > factor * mean && load > mean + SLACK);
        if is_overloaded {
            return Pick {
                index: least_loaded(entropy).index,
                reason: Reason::SpillConcurrency,
                home: Some(home.index),
            };
        }
        Pick { index: home.index, reason: Reason::Cold, home: Some(home.index) }
    }
}
