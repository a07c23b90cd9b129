//! The strategies: one file each, all with the same shape.
//!
//! A strategy sees the candidates (loads read under the variant's lock, scores already there), and random bits; it gives
//! the index of one of them and the reason. It never fails and never picks a dropped candidate; the caller guarantees
//! that at least one is eligible.

pub mod least_outstanding;
pub mod prefix_aware;
pub mod random;
pub mod round_robin;
pub mod session;

use crate::decision::{Candidate, Reason};

/// What a strategy answers.
#[derive(Clone, Copy, Debug)]
pub struct Pick {
    /// Index of the candidate that gets the request.
    pub index: usize,
    /// Why.
    pub reason: Reason,
    /// Index of the candidate where its key belongs.
    pub home: Option<usize>,
}

impl Pick {
    /// A pick without a home.
    pub fn new(index: usize, reason: Reason) -> Self {
        Self { index, reason, home: None }
    }
}

/// The eligible candidates with their indices.
pub(crate) fn eligible(candidates: &[Candidate]) -> impl Iterator<Item = (usize, &Candidate)> + Clone {
    candidates.iter().enumerate().filter(|(_, candidate)| candidate.is_eligible())
}
