//! `random`: uniformly at random, by weight.

use super::{Pick, eligible};
use crate::decision::{Candidate, Reason};
use crate::moment::Entropy;

/// Picks by weight.
pub fn pick(candidates: &[Candidate], entropy: &mut Entropy) -> Pick {
    let total: f64 = eligible(candidates).map(|(_, c)| c.weight).sum();
    let mut point = entropy.unit() * total;
    let mut picked = 0;
    for (index, candidate) in eligible(candidates) {
        picked = index; // the last one also takes what rounding leaves over
        point -= candidate.weight;
        if point < 0.0 {
            break;
        }
    }
    Pick::new(picked, Reason::Load)
}
