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
pub(crate) fn least_of<'a>(some: impl Iterator<Item = (usize, &'a Candidate)>, entropy: &mut Entropy) -> Option<usize> {
    let mut least: Option<(usize, f64)> = None;
    let mut tied = 0;
    for (index, candidate) in some {
        let load = candidate.relative_load();
        match least {
            Some((_, best)) if load > best => {}
            Some((_, best)) if load == best => {
                tied += 1;
                if entropy.below(tied) == 0 {
                    least = Some((index, load));
                }
            }
            _ => {
                tied = 1;
                least = Some((index, load));
            }
        }
    }
    least.map(|(index, _)| index)
}
