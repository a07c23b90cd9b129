//! `least_outstanding`: the fewest requests in flight, relative to weight; ties go to one of the tied at random, since
//! giving them to the first makes an idle fleet look like one replica.

use super::{Pick, eligible};
use crate::decision::{Candidate, Reason};
use crate::moment::Entropy;

/// Picks the least outstanding.
pub fn pick(candidates: &[Candidate], entropy: &mut Entropy) -> Pick {
    let least = least_of(eligible(candidates), entropy).expect("a strategy is asked only when a candidate is eligible");
    Pick::new(least, Reason::Load)
}

/// The index of the least outstanding among `some` of the candidates.
pub(crate) fn least_of<'a>(
    some: impl Iterator<Item = (usize, &'a Candidate)> + Clone,
    entropy: &mut Entropy,
) -> Option<usize> {
    least_load(some.map(|(index, candidate)| (index, candidate.relative_load())), entropy)
}

/// The index with the least load.
pub(crate) fn least_load(loads: impl Iterator<Item = (usize, f64)> + Clone, entropy: &mut Entropy) -> Option<usize> {
    let (mut least, mut tied, mut first) = (f64::INFINITY, 0, None);
    for (index, load) in loads.clone() {
        if load < least {
            (least, tied, first) = (load, 1, Some(index));
        } else if load == least {
            tied += 1;
        }
    }
    if tied < 2 {
        return first;
    }
    let drawn = entropy.below(tied) as usize;
    loads.filter(|(_, load)| *load == least).map(|(index, _)| index).nth(drawn)
}
