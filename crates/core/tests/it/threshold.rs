//! What happens when a key's home is busy.

use std::sync::Mutex;

use kvroute_core::decision::Reason;
use kvroute_core::routing::Strategy;

use crate::fixture::*;

const THRESHOLD: u32 = 4;

#[test]
fn no_request_goes_to_a_replica_at_its_threshold_while_another_is_under_it() {
    let endpoint = fleet_of(7, routing(Strategy::PrefixAware, THRESHOLD));
    let hot = facts("one hot prefix");
    let mut open = Vec::new();
    for n in 0..2_000 {
        let before: Vec<u32> = endpoint.variants[0].replicas.iter().map(|r| r.live.load.in_flight()).collect();
        let (decision, reservation) = place(&endpoint, &hot, n);
        let chosen = before[decision.choice.replica];
        let some_under = before.iter().any(|&in_flight| in_flight < THRESHOLD);
        assert!(chosen < THRESHOLD || !some_under, "{before:?} -> {:?}", decision.choice);
        assert_eq!(decision.reason == Reason::SpillSaturated, !some_under);
        open.push(reservation);
        if open.len() >= 40 {
            drop(open.swap_remove(n as usize * 7 % 40)); // 40 in flight over 7 x 4 places
        }
    }
}

#[test]
fn a_burst_from_many_threads_sees_its_own_beginning() {
    let endpoint = fleet_of(7, routing(Strategy::PrefixAware, THRESHOLD));
    let places = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (endpoint, places) = (&endpoint, &places);
            scope.spawn(move || {
                for n in 0..7 {
                    let placed = place(endpoint, &facts("one hot prefix"), thread * 100 + n);
                    places.lock().unwrap().push(placed);
                }
            });
        }
    });
    let in_flight: Vec<u32> = endpoint.variants[0].replicas.iter().map(|r| r.live.load.in_flight()).collect();
    assert_eq!(in_flight, [THRESHOLD; 7], "28 requests fill 7 x 4 places exactly");
    drop(places);
    assert!(endpoint.variants[0].replicas.iter().all(|r| r.live.load.in_flight() == 0));
}

#[test]
fn the_spill_goes_to_the_least_outstanding_and_the_home_is_named() {
    let endpoint = fleet_of(4, routing(Strategy::PrefixAware, 2));
    let hot = facts("hot");
    let (first, _a) = place(&endpoint, &hot, 1);
    let (_, _b) = place(&endpoint, &hot, 2);
    let home = first.choice;
    let (spilled, _c) = place(&endpoint, &hot, 3);
    assert_eq!(spilled.reason, Reason::SpillConcurrency);
    assert_eq!(spilled.home, Some(home));
    assert_eq!(spilled.candidates[spilled.choice.replica].in_flight, 0);
    let (again, _d) = place(&endpoint, &hot, 4);
    assert_eq!(again.candidates[again.choice.replica].in_flight, 0, "the second spill goes to another idle one");
}

#[test]
fn a_heavy_replica_at_its_threshold_is_not_least_outstanding_while_a_light_one_is_under() {
    let replicas = vec![weighted_replica("heavy", 50.0), weighted_replica("light", 1.0)];
    let endpoint = endpoint(vec![variant("main", routing(Strategy::PrefixAware, 2), replicas)]);
    let _open: Vec<_> = (0..4)
        .map(|n| {
            let (decision, place) = place(&endpoint, &facts("hot"), n);
            assert!(decision.candidates[decision.choice.replica].in_flight < 2);
            place
        })
        .collect();
}

#[test]
fn when_all_are_at_their_threshold_the_load_is_spread_evenly() {
    let endpoint = fleet_of(5, routing(Strategy::PrefixAware, 1));
    let _open: Vec<_> = (0..50).map(|n| place(&endpoint, &facts("hot"), n)).collect();
    assert!(endpoint.variants[0].replicas.iter().all(|replica| replica.live.load.in_flight() == 10));
}

#[test]
fn the_threshold_has_no_effect_on_a_single_replica() {
    let endpoint = fleet_of(1, routing(Strategy::PrefixAware, 1));
    let open: Vec<_> = (0..5).map(|n| place(&endpoint, &facts("hot"), n)).collect();
    assert!(open.iter().all(|(decision, _)| decision.reason == Reason::OnlyCandidate));
}

#[test]
fn pending_prefill_is_released_at_first_content_and_only_once() {
    let endpoint = fleet_of(1, routing(Strategy::PrefixAware, 1));
    let (_, mut reservation) = place(&endpoint, &facts(&"word ".repeat(800)), 1);
    let load = &endpoint.variants[0].replicas[0].live.load;
    assert_eq!(load.pending_prefill_tokens(), 1_000);
    reservation.first_content();
    reservation.first_content();
    assert_eq!((load.pending_prefill_tokens(), load.in_flight()), (0, 1));
    drop(reservation);
    assert_eq!((load.pending_prefill_tokens(), load.in_flight(), load.routed()), (0, 0, 1));
}
