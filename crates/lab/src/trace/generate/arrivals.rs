//! When requests (of chats and agents: sessions) arrive.

use super::dice::{Dice, Purpose};
use crate::InvalidOption;

/// Fastest and slowest rate.
const PER_S_MAX: f64 = 1e6;
/// Longest gap, seconds: an absurd draw must stay a time.
const GAP_S_MAX: f64 = 1e9;

/// When requests arrive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Arrivals {
    /// Not said: each user sends when the answer before has come.
    Closed,
    /// Evenly.
    Constant {
        /// Requests a second.
        per_s: f64,
    },
    /// Independently of each other.
    Poisson {
        /// Requests a second, on average.
        per_s: f64,
    },
    /// In gaps drawn from a gamma distribution.
    Gamma {
        /// Requests a second, on average.
        per_s: f64,
        /// Its shape: 1 is Poisson, less is burstier.
        shape: f64,
    },
}

impl Arrivals {
    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        let (per_s, shape) = match *self {
            Self::Closed => return Ok(()),
            Self::Constant { per_s } | Self::Poisson { per_s } => (per_s, 1.0),
            Self::Gamma { per_s, shape } => (per_s, shape),
        };
        if !(per_s > 0.0 && per_s <= PER_S_MAX) {
            return Err(InvalidOption::new("rate", format!("a rate is above 0 and at most {PER_S_MAX} a second")));
        }
        if !(0.01..=1000.0).contains(&shape) {
            return Err(InvalidOption::new("burstiness", "the shape of the gaps is within 0.01..1000"));
        }
        Ok(())
    }

    /// The same at a rate of so many times.
    pub(super) fn times(self, factor: f64) -> Self {
        match self {
            Self::Closed => Self::Closed,
            Self::Constant { per_s } => Self::Constant { per_s: per_s * factor },
            Self::Poisson { per_s } => Self::Poisson { per_s: per_s * factor },
            Self::Gamma { per_s, shape } => Self::Gamma { per_s: per_s * factor, shape },
        }
    }
}

/// Times of arrival, in milliseconds; never descending.
#[derive(Debug)]
pub(super) struct Clock {
    arrivals: Arrivals,
    dice: Dice,
    at_ms: f64,
}

impl Clock {
    pub(super) fn new(arrivals: Arrivals, seed: u64, purpose: Purpose) -> Self {
        Self { arrivals, dice: Dice::new(seed, purpose, 0), at_ms: 0.0 }
    }

    /// The next arrival; `None` where times are not said.
    pub(super) fn next_ms(&mut self) -> Option<f64> {
        let gap_s = match self.arrivals {
            Arrivals::Closed => return None,
            Arrivals::Constant { per_s } => 1.0 / per_s,
            Arrivals::Poisson { per_s } => self.dice.exponential() / per_s,
            Arrivals::Gamma { per_s, shape } => self.dice.gamma(shape) / per_s,
        };
        self.at_ms += gap_s.min(GAP_S_MAX) * 1e3;
        Some(self.at_ms)
    }
}
