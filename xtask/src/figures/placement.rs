//! What `prefix_aware` promises about placement, on the decision code itself: keys that move when the fleet changes,
//! and a threshold that holds while others are under it.

use std::sync::Arc;

use anyhow::{Context, Result};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Endpoint, Replica, TargetId, Variant};
use kvroute_core::hash;
use kvroute_core::live::Live;
use kvroute_core::load::Reservation;
use kvroute_core::moment::{Entropy, Moment};
use kvroute_core::router::{self, Attempts};
use kvroute_core::routing::{PrefixAware, Routing, Strategy};

use super::figure::{Bar, Figure, Footing, Reading, Source, count};
use crate::workspace::Workspace;

const KEYS: u64 = 10_000;
const REPLICAS: usize = 7;
const THRESHOLD: u32 = 4;
const IN_FLIGHT: usize = 40;
const PLACEMENTS: u64 = 100_000;

pub(crate) const SOURCE: Source = Source { figures: &FIGURES, measure };

const FIGURES: [Figure; 3] = [
    figure(
        "keys_moved_7_to_8",
        "%",
        // A seventh is the share of the replica that would leave; two points are for chance.
        Bar::AtMost(100.0 / 7.0 + 2.0),
        "keys with another home after an eighth replica joined seven",
    ),
    figure(
        "keys_back_8_to_7",
        "%",
        Bar::AtLeast(100.0),
        "keys at their first home again after the eighth replica left",
    ),
    figure(
        "threshold_violations",
        "requests",
        Bar::AtMost(0.0),
        "requests placed on a replica at its concurrency_threshold of 4 while another was under it: one hot prefix, \
         40 in flight over seven replicas",
    ),
];

const fn figure(name: &'static str, unit: &'static str, bar: Bar, how: &'static str) -> Figure {
    Figure { name, group: "slice", unit, bar: Some(bar), footing: Footing::Exact, how }
}

fn measure(_: &Workspace) -> Result<Vec<Reading>> {
    let (moved, back) = scale()?;
    let violations = crowd()?;
    let percent = |keys: u64| keys as f64 / KEYS as f64 * 100.0;
    let of = |part: u64, all: u64, what: &str| format!("{} of {} {what}", count(part), count(all));
    Ok(vec![
        Reading::new("keys_moved_7_to_8", percent(moved), of(moved, KEYS, "keys")),
        Reading::new("keys_back_8_to_7", percent(back), of(back, KEYS, "keys")),
        Reading::new("threshold_violations", violations as f64, of(violations, PLACEMENTS, "requests")),
    ])
}

/// Keys that moved when a replica joined, and keys that are at home again after it left.
fn scale() -> Result<(u64, u64)> {
    let [before, during, after] = [REPLICAS, REPLICAS + 1, REPLICAS].map(|replicas| {
        let fleet = fleet(replicas);
        (0..KEYS).map(|key| Ok(place(&fleet, key, key)?.0)).collect::<Result<Vec<usize>>>()
    });
    let (before, during, after) = (before?, during?, after?);
    let moved = before.iter().zip(&during).filter(|(before, during)| before != during).count();
    let back = before.iter().zip(&after).filter(|(before, after)| before == after).count();
    Ok((moved as u64, back as u64))
}

/// Requests with one key, 40 at a time, of which a random one ends whenever the next arrives.
fn crowd() -> Result<u64> {
    let fleet = fleet(REPLICAS);
    let mut entropy = Entropy::new(1);
    let mut open: Vec<Reservation> = Vec::with_capacity(IN_FLIGHT);
    let mut violations = 0;
    for request in 0..PLACEMENTS {
        if open.len() == IN_FLIGHT {
            drop(open.swap_remove(entropy.below(IN_FLIGHT as u32) as usize));
        }
        let loads: Vec<u32> = fleet.variants[0].replicas.iter().map(|replica| replica.live.load.in_flight()).collect();
        let (chosen, reservation) = place(&fleet, 0, request)?;
        let is_another_under = loads.iter().any(|&in_flight| in_flight < THRESHOLD);
        violations += u64::from(loads[chosen] >= THRESHOLD && is_another_under);
        open.push(reservation);
    }
    Ok(violations)
}

fn fleet(replicas: usize) -> Endpoint {
    let replica = |i: usize| Replica::new(&format!("r{i}"), 1.0, TargetId(0), Arc::new(Live::new(1 << 20)));
    let prefix_aware = PrefixAware { concurrency_threshold: THRESHOLD, ..PrefixAware::default() };
    let routing = Routing { strategy: Strategy::PrefixAware, prefix_aware, ..Routing::default() };
    let variant = Variant::new("main", 1.0, routing, (0..replicas).map(replica).collect());
    let variants = vec![variant];
    Endpoint { name: "figures".into(), models: vec![], variants, components: vec![], adapters: vec![], discovery: None }
}

/// Routes one request; gives the replica's index and the request's place there.
fn place(fleet: &Endpoint, key: u64, request: u64) -> Result<(usize, Reservation)> {
    let facts =
        RequestFacts { prefix_keys: [Some(hash::finish(key))].into_iter().collect(), ..RequestFacts::default() };
    let moment = Moment { now_us: request, entropy: Entropy::new(hash::finish(request)) };
    let routed = router::route(fleet, &facts, None, Attempts::default(), moment);
    let routed = routed.context("no replica takes the request")?;
    Ok((routed.decision.choice.replica, routed.reservation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crowd_is_larger_than_what_the_replicas_take_below_their_threshold() {
        assert!(IN_FLIGHT > REPLICAS * THRESHOLD as usize, "or the threshold would never be in the way");
    }

    #[test]
    fn a_key_alone_stays_at_home() {
        let fleet = fleet(REPLICAS);
        let homes: Vec<usize> = (0..50).map(|request| place(&fleet, 7, request).unwrap().0).collect();
        assert!(homes.iter().all(|&home| home == homes[0]), "{homes:?}");
    }
}
