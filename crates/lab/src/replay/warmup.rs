//! What counts for nothing, by a stated rule.
//!
//! A replay starts with empty caches and an idle fleet, which what was recorded did not: the first requests would say
//! more about the start than about the strategies. So they fill caches and queues, and no number counts them.

use std::fmt;
use std::str::FromStr;

use super::schedule::duration_us;
use crate::InvalidOption;

/// The rule, as it is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Warmup {
    /// This part of the requests in the order of the trace; of the time, where a replay ends by time.
    Share(f64),
    /// What arrives before this time, in microseconds.
    Until(u64),
}

/// The rule for one replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Requests before this place in the trace count for nothing.
    Before(u32),
    /// Requests that arrive before this time, in microseconds, count for nothing.
    Until(u64),
}

impl Cut {
    /// Whether a request counts.
    pub fn counts(self, job: u32, sent_us: u64) -> bool {
        match self {
            Self::Before(first) => job >= first,
            Self::Until(us) => sent_us >= us,
        }
    }
}

impl Warmup {
    /// The rule for a replay of so many requests, which ends at a time unless that is `u64::MAX`.
    pub fn cut(self, jobs: usize, end_us: u64) -> Cut {
        match self {
            Self::Until(us) => Cut::Until(us),
            Self::Share(share) if end_us == u64::MAX => Cut::Before((jobs as f64 * share) as u32),
            Self::Share(share) => Cut::Until((end_us as f64 * share) as u64),
        }
    }
}

impl Default for Warmup {
    /// A tenth.
    fn default() -> Self {
        Self::Share(0.1)
    }
}

impl FromStr for Warmup {
    type Err = InvalidOption;

    fn from_str(text: &str) -> Result<Self, InvalidOption> {
        let refused = || {
            let problem = format!("{text:?} is neither a part of the requests (10%), nor a time (300s), nor none");
            InvalidOption::new("warmup", problem)
        };
        if text == "none" {
            return Ok(Self::Share(0.0));
        }
        match text.strip_suffix('%') {
            Some(percent) => {
                let percent = percent.parse::<f64>().ok().filter(|percent| (0.0..100.0).contains(percent));
                Ok(Self::Share(percent.ok_or_else(refused)? / 100.0))
            }
            None => Ok(Self::Until(duration_us(text).ok_or_else(refused)?)),
        }
    }
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Before(0) | Self::Until(0) => f.write_str("no warm-up: caches start empty, and every request counts"),
            Self::Before(first) => write!(
                f,
                "warm-up: caches start empty; the first {first} requests of the trace fill them and are not counted"
            ),
            Self::Until(us) => write!(
                f,
                "warm-up: caches start empty; requests that arrive in the first {} s fill them and are not counted",
                *us as f64 / 1e6
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_a_part_or_a_time_or_none() {
        let cut = |text: &str, end_us| text.parse::<Warmup>().unwrap().cut(1_000, end_us);
        assert_eq!(cut("10%", u64::MAX), Cut::Before(100));
        assert_eq!(cut("10%", 60_000_000), Cut::Until(6_000_000));
        assert_eq!(cut("5m", u64::MAX), Cut::Until(300_000_000));
        assert_eq!(cut("none", u64::MAX), Cut::Before(0));
        for text in ["", "100%", "-1%", "x%", "soon"] {
            assert!(text.parse::<Warmup>().is_err(), "{text}");
        }
    }
}
