//! `round_robin`: in turn, by weight ("smooth" weighted round robin: a replica of weight 2 gets every other turn of a
//! pair with one of weight 1 and never two bursts).

use super::{Pick, choice, eligible};
use crate::decision::{Candidate, Reason};
use crate::fleet::Turn;

/// Picks the next in turn among those eligible now.
pub fn pick(candidates: &[Candidate], turn: &mut Turn) -> Pick {
    turn.credits.resize(candidates.len(), 0.0);
    let mut total = 0.0;
    let mut next: Option<usize> = None;
    for (index, candidate) in eligible(candidates) {
        total += candidate.weight;
        turn.credits[index] += candidate.weight;
        if next.is_none_or(|best| turn.credits[index] > turn.credits[best]) {
            next = Some(index);
        }
    }
    let next = next.expect("a strategy is asked only when a candidate is eligible");
    turn.credits[next] -= total;
    Pick::new(choice(candidates, next), Reason::Load)
}
