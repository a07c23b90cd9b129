//! `round_robin`: in turn, by weight ("smooth" weighted round robin: a replica of weight 2 gets every other turn of a
//! pair with one of weight 1 and never two bursts).

use super::{Pick, eligible};
use crate::decision::{Candidate, Reason};
use crate::load::Load;

/// Picks the next in turn among those eligible now. `load_of` gives the counters of a candidate, which keep its credit:
/// whoever has saved up most goes next.
pub fn pick<'a>(candidates: &[Candidate], load_of: impl Fn(&Candidate) -> &'a Load) -> Pick {
    let mut total = 0.0;
    let mut next: Option<(usize, f64)> = None;
    for (index, candidate) in eligible(candidates) {
        let load = load_of(candidate);
        let credit = load.turn_credit() + candidate.weight;
        load.set_turn_credit(credit);
        total += candidate.weight;
        if next.is_none_or(|(_, best)| credit > best) {
            next = Some((index, credit));
        }
    }
    let (index, credit) = next.expect("a strategy is asked only when a candidate is eligible");
    load_of(&candidates[index]).set_turn_credit(credit - total);
    Pick::new(index, Reason::Load)
}
