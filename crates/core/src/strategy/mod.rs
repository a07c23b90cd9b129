//! The strategies: one file each, all with the same shape.
//!
//! A strategy sees the candidates (loads read under the variant's lock), what it may key on, and random bits; it gives
//! one pick and the reason. It never fails and never sees a dropped candidate as a choice; the caller guarantees that at
//! least one is eligible.

pub mod least_outstanding;
pub mod prefix_aware;
pub mod random;
pub mod round_robin;
pub mod session;

use crate::decision::{Candidate, Choice, Reason};

/// What a strategy answers.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// Where the request goes.
    pub choice: Choice,
    /// Why.
    pub reason: Reason,
    /// Where its key belongs.
    pub home: Option<Choice>,
}

impl Pick {
    /// A pick without a home.
    pub fn new(choice: Choice, reason: Reason) -> Self {
        Self { choice, reason, home: None }
    }
}

/// The candidate at `index` as a choice.
pub(crate) fn choice(candidates: &[Candidate], index: usize) -> Choice {
    let Candidate { copy, target, .. } = candidates[index];
    Choice { replica: index, copy, target }
}

/// The eligible candidates with their indices.
pub(crate) fn eligible(candidates: &[Candidate]) -> impl Iterator<Item = (usize, &Candidate)> + Clone {
    candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_eligible())
}
