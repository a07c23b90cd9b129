//! `session`: requests of one session go to the same replica, with the guard of `prefix_aware`. A request without a
//! session goes to the least outstanding.

use super::{Pick, prefix_aware};
use crate::decision::{Candidate, Reason};
use crate::moment::Entropy;

/// Picks for a session whose scores are in the candidates.
pub fn pick(candidates: &[Candidate], threshold: u32, entropy: &mut Entropy) -> Pick {
    let mut pick = prefix_aware::pick(candidates, threshold, entropy);
    if matches!(pick.reason, Reason::PrefixHit | Reason::Cold) {
        pick.reason = Reason::Session;
    }
    pick
}
