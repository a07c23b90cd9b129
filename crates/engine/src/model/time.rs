//! Virtual time.

use std::fmt;

/// A moment of virtual time: microseconds since the engine's start.
///
/// Whoever drives the engine says what "now" is; a real-time driver may run it faster than the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// The moment `ms` milliseconds later, rounded to the microsecond.
    ///
    /// Never earlier than `self` and never past the end of time: what is negative or not a number
    /// counts as zero, what is too long as for ever.
    #[must_use]
    pub fn after_ms(self, ms: f64) -> Self {
        Self(self.0.saturating_add((ms * 1000.0).round() as u64))
    }

    /// Milliseconds since the engine's start.
    #[must_use]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1000.0
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} ms", self.as_ms())
    }
}
