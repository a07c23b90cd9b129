//! What becomes of replicas whose requests fail.

use std::sync::Arc;

use kvroute_core::breaker::{EJECTION_US, FAILURES_MAX, Failure, TRIALS, Verdict};
use kvroute_core::decision::{Drop, Reason};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::Endpoint;
use kvroute_core::live::{Health, Live};
use kvroute_core::router::NoRoute;
use kvroute_core::routing::Strategy;

use crate::fixture::*;

fn fleet(n: usize) -> Endpoint {
    fleet_of(n, routing(Strategy::LeastOutstanding, 32))
}

fn replica_of(endpoint: &Endpoint, index: usize) -> &Arc<Live> {
    &endpoint.variants[0].replicas[index].live
}

/// So many requests there fail.
fn fails(live: &Live, failure: Failure, times: u32, now_us: u64) {
    for _ in 0..times {
        let ticket = live.breaker.admit(now_us);
        live.breaker.failed(&ticket, failure, now_us);
        live.breaker.give_back(&ticket);
    }
}

/// How many of `requests`, all under way together, go to the first replica.
fn share_of_the_first(endpoint: &Endpoint, requests: u64, now_us: u64) -> usize {
    let open: Vec<_> = (0..requests).map(|n| place(endpoint, &facts("x"), now_us + n)).collect();
    open.iter().filter(|(decision, _)| decision.choice.replica == 0).count()
}

#[test]
fn a_replica_whose_requests_fail_is_left_alone_and_comes_back_one_request_at_a_time() {
    let endpoint = fleet(2);
    let failing = replica_of(&endpoint, 0);
    fails(failing, Failure::Request, FAILURES_MAX, 0);
    assert_eq!(share_of_the_first(&endpoint, 50, 100), 0, "ejected");
    let later = 100 + EJECTION_US;
    assert_eq!(share_of_the_first(&endpoint, 30, later), 1, "on trial");
    let mut trials = 0;
    for n in later + 100.. {
        let (decision, mut reservation) = place(&endpoint, &facts("x"), n);
        reservation.succeeded(n);
        trials += u32::from(decision.choice.replica == 0);
        if trials == TRIALS {
            break;
        }
    }
    assert_eq!(share_of_the_first(&endpoint, 30, later + 1_000), 15, "back");
}

#[test]
fn requests_from_before_the_ejection_neither_hold_the_trial_nor_pass_it() {
    let endpoint = fleet(2);
    let mut early: Vec<_> = (0..20).map(|n| place(&endpoint, &facts("x"), n)).collect();
    fails(replica_of(&endpoint, 0), Failure::Request, FAILURES_MAX, 30);
    let later = 30 + EJECTION_US;
    early.iter_mut().for_each(|(_, reservation)| reservation.succeeded(later));
    let verdict = || replica_of(&endpoint, 0).breaker.standing(later).verdict;
    assert_eq!(verdict(), Verdict::Trial { is_taken: false }, "what they say is of the time before");
    assert!(share_of_the_first(&endpoint, 30, later) == 1, "though ten old ones are still there");
}

#[test]
fn of_one_request_the_first_word_counts() {
    let endpoint = fleet(1);
    for n in 0..u64::from(FAILURES_MAX) - 1 {
        let (_, mut reservation) = place(&endpoint, &facts("x"), n);
        assert!(!reservation.failed(Failure::Request, n));
        reservation.succeeded(n);
        assert!(!reservation.failed(Failure::Request, n));
    }
    assert_eq!(replica_of(&endpoint, 0).breaker.standing(10).verdict, Verdict::Closed);
    let (_, mut last) = place(&endpoint, &facts("x"), 10);
    assert!(last.failed(Failure::Request, 10), "success after an error was none");
}

/// A prompt that no engine can take must not take the fleet away from everybody else.
#[test]
fn replicas_that_all_failed_but_can_be_reached_go_on_serving() {
    let endpoint = fleet_of(3, routing(Strategy::PrefixAware, 32));
    let poison = facts("a prompt that no engine can take");
    for n in 0..u64::from(10 * FAILURES_MAX) {
        let (_, mut reservation) = place(&endpoint, &poison, n);
        reservation.failed(Failure::Request, n);
    }
    let is_ejected = |i: usize| {
        matches!(replica_of(&endpoint, i).breaker.standing(100).verdict, Verdict::Ejected { is_reachable: true, .. })
    };
    assert!((0..3).all(is_ejected));
    for n in 100..103 {
        let (decision, mut reservation) = place(&endpoint, &facts("another"), n);
        assert!(matches!(decision.reason, Reason::Cold | Reason::PrefixHit), "to its home, as ever");
        reservation.succeeded(n);
    }
    assert_eq!((0..3).filter(|i| !is_ejected(*i)).count(), 1, "and what serves well is back before its time");
}

#[test]
fn the_few_that_are_well_do_not_get_the_load_of_all_that_fail() {
    for (replicas, failing, is_left_out) in [(2, 1, true), (4, 3, true), (5, 4, false), (10, 9, false), (1, 1, false)] {
        let endpoint = fleet(replicas);
        (0..failing).for_each(|i| fails(replica_of(&endpoint, i), Failure::Request, FAILURES_MAX, 0));
        let share = share_of_the_first(&endpoint, 200, 100);
        assert_eq!(share == 0, is_left_out, "{failing} of {replicas} fail, the first got {share}");
    }
}

#[test]
fn one_that_fails_is_not_asked_while_another_is_well_nor_one_that_is_down_at_all() {
    let endpoint = fleet(2);
    fails(replica_of(&endpoint, 0), Failure::Request, FAILURES_MAX, 0);
    assert_eq!(share_of_the_first(&endpoint, 20, 100), 0);
    replica_of(&endpoint, 1).set_health(Health::Down);
    assert_eq!(share_of_the_first(&endpoint, 20, 200), 20);
    replica_of(&endpoint, 0).set_health(Health::Down);
    assert_eq!(refusal(&endpoint, &facts("x")), NoRoute::NoReplica(vec![(Drop::Down, 2)]));
}

#[test]
fn replicas_that_cannot_be_reached_are_not_asked_even_where_there_is_nobody_else() {
    let endpoint = fleet(2);
    (0..2).for_each(|i| fails(replica_of(&endpoint, i), Failure::Unreachable, FAILURES_MAX, 0));
    assert_eq!(refusal(&endpoint, &facts("x")), NoRoute::NoReplica(vec![(Drop::Ejected, 2)]));
    assert_eq!(share_of_the_first(&endpoint, 30, EJECTION_US), 15, "after their time a burst is not refused");
}

#[test]
fn a_replica_that_fails_fast_does_not_look_idle() {
    let endpoint = fleet(2);
    fails(replica_of(&endpoint, 0), Failure::Request, 3, 0);
    assert_eq!(share_of_the_first(&endpoint, 9, 10), 3, "three failures weigh three");
}

#[test]
fn a_keeper_that_fails_is_still_asked_for_what_only_it_has() {
    let endpoint = fleet(2);
    fails(replica_of(&endpoint, 0), Failure::Request, FAILURES_MAX, 0);
    let pinned = RequestFacts { pinned: Some(endpoint.variants[0].replicas[0].engine()), ..facts("x") };
    assert_eq!(place(&endpoint, &pinned, 100).0.reason, Reason::Pinned);
}
