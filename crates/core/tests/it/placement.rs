//! Where requests go when nothing is busy.

use kvroute_core::decision::{Candidate, Drop, Reason};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::Variant;
use kvroute_core::hash;
use kvroute_core::live::{Duty, Health};
use kvroute_core::moment::Entropy;
use kvroute_core::router::{self, Attempts, NoRoute};
use kvroute_core::routing::Strategy;
use kvroute_core::strategy::Pick;
use proptest::prelude::*;
use smallvec::smallvec;

use crate::fixture::*;

#[test]
fn equal_beginnings_go_to_the_same_replica_and_different_ones_spread() {
    let endpoint = fleet_of(7, routing(Strategy::PrefixAware, 32));
    let mut counts = [0; 7];
    for key in 0..700u64 {
        let head = format!("{key:>8}").repeat(128); // exactly the prefix length
        let home = pass(&endpoint, &facts(&head), key);
        assert_eq!(home, pass(&endpoint, &facts(&format!("{head} and something else")), key + 10_000));
        counts[home] += 1;
    }
    assert!(counts.iter().all(|&n| (60..=145).contains(&n)), "{counts:?}");
}

#[test]
fn the_home_is_the_replica_with_the_highest_score_in_a_fleet_of_any_size_and_however_often_it_is_asked_for() {
    for (size, weights) in [(2, [1.0, 1.0]), (16, [1.0, 2.0]), (17, [1.0, 1.0]), (60, [0.5, 3.0])] {
        let replicas = (0..size).map(|i| weighted_replica(&format!("r{i}"), weights[i % 2])).collect();
        let endpoint = endpoint(vec![variant("main", routing(Strategy::PrefixAware, 32), replicas)]);
        for n in 0..600u64 {
            let (decision, _place) = place(&endpoint, &facts(&format!("prompt {}", n % 200)), n);
            let score = |index: &usize| decision.candidates[*index].rendezvous;
            let highest = (0..size).max_by(|a, b| score(a).total_cmp(&score(b)));
            assert_eq!(Some(decision.choice.replica), highest, "{size} replicas");
        }
    }
}

#[test]
fn what_another_replica_holds_is_available_in_a_fleet_of_any_size() {
    for size in [3, 16, 17, 200] {
        let endpoint = fleet_of(size, routing(Strategy::PrefixAware, 32));
        let of_tenant =
            |tenant| RequestFacts { tenant: Some(hash::finish(tenant)), ..facts(&"some words ".repeat(500)) };
        let (first, _a) = place(&endpoint, &of_tenant(0), 0);
        let (other, _b) = (1..)
            .map(|tenant| place(&endpoint, &of_tenant(tenant), tenant))
            .find(|(decision, _)| decision.choice != first.choice)
            .expect("some tenant lives elsewhere");
        assert_eq!((other.captured_bytes, other.reason), (0, Reason::Cold), "{size} replicas");
        assert!(other.available_bytes > 5_000, "{size} replicas");
    }
}

#[test]
fn tenants_with_the_same_prompt_may_live_apart_but_each_stays_put() {
    let endpoint = fleet_of(16, routing(Strategy::PrefixAware, 32));
    let of_tenant = |tenant: u64| RequestFacts { tenant: Some(hash::finish(tenant)), ..facts("the same prompt") };
    let homes: std::collections::BTreeSet<usize> = (0..32).map(|t| pass(&endpoint, &of_tenant(t), t)).collect();
    assert!(homes.len() > 8, "{homes:?}");
    assert!((0..32).all(|t| pass(&endpoint, &of_tenant(t), t) == pass(&endpoint, &of_tenant(t), t + 99)));
}

#[test]
fn seven_to_eight_to_seven_replicas_moves_few_keys_and_brings_them_back() {
    let seven = fleet_of(7, routing(Strategy::PrefixAware, 32));
    let eight = fleet_of(8, routing(Strategy::PrefixAware, 32));
    let again = fleet_of(7, routing(Strategy::PrefixAware, 32));
    let keyed = |key: u64| RequestFacts { prefix_keys: smallvec![Some(hash::finish(key))], ..RequestFacts::default() };
    let homes = |endpoint| (0..10_000).map(|key| pass(endpoint, &keyed(key), key)).collect::<Vec<_>>();
    let (before, during, after) = (homes(&seven), homes(&eight), homes(&again));
    let moved = before.iter().zip(&during).filter(|(a, b)| a != b).count();
    assert!(moved as f64 / 10_000.0 <= 1.0 / 7.0 + 0.02, "{moved} of 10,000 keys moved");
    assert!(before.iter().zip(&during).all(|(a, b)| a == b || *b == 7), "keys move only to the new replica");
    assert_eq!(before, after);
}

#[test]
fn the_order_in_which_replicas_are_listed_does_not_matter() {
    let names = ["a", "b", "c", "d", "e"];
    let forward = endpoint(vec![variant("main", routing(Strategy::PrefixAware, 32), names.map(replica).into())]);
    let mut reversed = names.map(replica);
    reversed.reverse();
    let backward = endpoint(vec![variant("main", routing(Strategy::PrefixAware, 32), reversed.into())]);
    for key in 0..200 {
        let facts = facts(&format!("prompt {key}"));
        assert_eq!(pass(&forward, &facts, key), 4 - pass(&backward, &facts, key));
    }
}

#[test]
fn a_retry_goes_where_the_key_would_have_its_home_without_the_replicas_tried() {
    let endpoint = fleet_of(5, routing(Strategy::PrefixAware, 32));
    for key in 0..50 {
        let facts = facts(&format!("prompt {key}"));
        let (first, _place) = place(&endpoint, &facts, key);
        let mut tried = vec![first.choice];
        while tried.len() < 5 {
            let attempts = Attempts { variant: Some(first.variant), tried: &tried };
            let retry = attempt(&endpoint, &facts, attempts, moment(key)).expect("some are left");
            assert!(!tried.contains(&retry.decision.choice), "nobody is asked twice");
            for choice in &tried {
                endpoint.variants[0].replicas[choice.replica].live.set_health(Health::Down);
            }
            assert_eq!(pass(&endpoint, &facts, key), retry.decision.choice.replica);
            endpoint.variants[0].replicas.iter().for_each(|replica| {
                replica.live.set_health(Health::Up);
            });
            tried.push(retry.decision.choice);
        }
        let attempts = Attempts { variant: Some(first.variant), tried: &tried };
        let exhausted = attempt(&endpoint, &facts, attempts, moment(key)).expect_err("all were tried");
        assert_eq!(exhausted, NoRoute::NoReplica(vec![(Drop::Tried, 5)]));
    }
}

#[test]
fn a_retry_keeps_to_the_threshold_too() {
    let endpoint = fleet_of(4, routing(Strategy::PrefixAware, 1));
    let hot = facts("hot");
    let (first, _first_place) = place(&endpoint, &hot, 0);
    let mut open = Vec::new();
    for n in 1..4 {
        let attempts = Attempts { variant: Some(0), tried: &[first.choice] };
        let retry = attempt(&endpoint, &hot, attempts, moment(n)).expect("some are left");
        let before = retry.decision.candidates[retry.decision.choice.replica].in_flight;
        assert_eq!(before, 0, "three are idle for three retries");
        open.push(retry.reservation);
    }
}

#[test]
fn a_second_request_with_the_same_prompt_is_a_hit_and_counts_what_it_captured() {
    let endpoint = fleet_of(3, routing(Strategy::PrefixAware, 32));
    let facts = facts(&"some words ".repeat(500));
    let (first, _a) = place(&endpoint, &facts, 1);
    assert_eq!((first.reason, first.available_bytes, first.captured_bytes), (Reason::Cold, 0, 0));
    let (second, _b) = place(&endpoint, &facts, 2);
    assert_eq!(second.reason, Reason::PrefixHit);
    assert_eq!(second.available_bytes, second.captured_bytes);
    assert!(second.captured_bytes > 5_000 && second.captured_bytes <= facts.prompt.text_bytes);
}

#[test]
fn round_robin_takes_turns_in_proportion_to_weight_without_bursts() {
    let replicas = vec![weighted_replica("a", 2.0), weighted_replica("b", 1.0), weighted_replica("c", 1.0)];
    let endpoint = endpoint(vec![variant("main", routing(Strategy::RoundRobin, 32), replicas)]);
    let turns: Vec<usize> = (0..8).map(|n| pass(&endpoint, &facts("x"), n)).collect();
    assert_eq!(turns.iter().filter(|&&r| r == 0).count(), 4, "{turns:?}");
    assert!(turns.windows(3).all(|w| !(w[0] == w[1] && w[1] == w[2])), "{turns:?}");
}

#[test]
fn random_follows_the_weights() {
    let replicas = vec![weighted_replica("a", 3.0), weighted_replica("b", 1.0)];
    let endpoint = endpoint(vec![variant("main", routing(Strategy::Random, 32), replicas)]);
    let first = (0..10_000).filter(|&n| pass(&endpoint, &facts("x"), n) == 0).count();
    assert!((7_300..=7_700).contains(&first), "{first}");
}

#[test]
fn least_outstanding_fills_evenly_by_weight_and_breaks_ties_fairly() {
    let replicas = vec![weighted_replica("a", 2.0), weighted_replica("b", 1.0), weighted_replica("c", 1.0)];
    let endpoint = endpoint(vec![variant("main", routing(Strategy::LeastOutstanding, 32), replicas)]);
    let places: Vec<_> = (0..40).map(|n| place(&endpoint, &facts("x"), n)).collect();
    let in_flight: Vec<u32> = endpoint.variants[0].replicas.iter().map(|r| r.live.load.in_flight()).collect();
    assert_eq!(in_flight, [20, 10, 10]);
    drop(places);
    let idle = fleet_of(4, routing(Strategy::LeastOutstanding, 32));
    let mut counts = [0; 4];
    (0..4_000).for_each(|n| counts[pass(&idle, &facts("x"), n)] += 1);
    assert!(counts.iter().all(|&n| (850..=1_150).contains(&n)), "an idle fleet is used evenly: {counts:?}");
}

#[test]
fn a_session_stays_on_its_replica_whatever_it_says() {
    let endpoint = fleet_of(7, routing(Strategy::Session, 32));
    let turn = |session: u64, text: &str| RequestFacts { session: Some(hash::finish(session)), ..facts(text) };
    for session in 0..50 {
        let (decision, _place) = place(&endpoint, &turn(session, "first"), session);
        assert_eq!(decision.reason, Reason::Session);
        assert_eq!(pass(&endpoint, &turn(session, "something else entirely"), session + 77), decision.choice.replica);
    }
}

#[test]
fn a_request_without_anything_to_hash_goes_by_load_and_says_so() {
    for strategy in [Strategy::PrefixAware, Strategy::Session] {
        let endpoint = fleet_of(3, routing(strategy, 32));
        let places: Vec<_> = (0..9).map(|n| place(&endpoint, &RequestFacts::default(), n)).collect();
        assert!(places.iter().all(|(decision, _)| decision.reason == Reason::NoPrefix));
        assert!(endpoint.variants[0].replicas.iter().all(|replica| replica.live.load.in_flight() == 3));
    }
}

#[test]
fn replicas_that_are_down_or_draining_get_nothing_and_the_refusal_says_why() {
    let endpoint = fleet_of(3, routing(Strategy::PrefixAware, 32));
    let replicas = &endpoint.variants[0].replicas;
    replicas[0].live.set_health(Health::Down);
    replicas[1].live.set_duty(Duty::Drain);
    assert!((0..50).all(|n| pass(&endpoint, &facts(&format!("prompt {n}")), n) == 2));
    let (decision, place) = place(&endpoint, &facts("x"), 1);
    assert_eq!(decision.reason, Reason::OnlyCandidate);
    assert_eq!(
        decision.candidates.iter().map(|c| c.dropped).collect::<Vec<_>>(),
        [Some(Drop::Down), Some(Drop::Draining), None]
    );
    drop(place);
    replicas[2].live.set_health(Health::Down);
    let refused = refusal(&endpoint, &facts("x"));
    assert_eq!(refused, NoRoute::NoReplica(vec![(Drop::Down, 2), (Drop::Draining, 1)]));
    assert_eq!(refused.to_string(), "no replica can take the request now (2 down, 1 draining)");
}

#[test]
fn traffic_that_names_no_variant_splits_by_weight_and_a_named_one_is_obeyed() {
    let mut heavy = variant("heavy", routing(Strategy::LeastOutstanding, 32), vec![replica("a")]);
    heavy.weight = 3.0;
    let mut dark = variant("dark", routing(Strategy::LeastOutstanding, 32), vec![replica("b")]);
    dark.weight = 0.0;
    let light = variant("light", routing(Strategy::LeastOutstanding, 32), vec![replica("c")]);
    let endpoint = endpoint(vec![heavy, dark, light]);
    let mut counts = [0; 3];
    (0..8_000).for_each(|n| counts[place(&endpoint, &facts("x"), n).0.variant] += 1);
    assert!((5_800..=6_200).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
    let named = |name: &str| RequestFacts { variant: Some(name.to_owned()), ..facts("x") };
    assert_eq!(place(&endpoint, &named("dark"), 1).0.variant, 1);
    assert_eq!(refusal(&endpoint, &named("blue")), NoRoute::UnknownVariant("blue".to_owned()));
}

#[test]
fn what_goes_on_with_something_goes_to_whoever_keeps_it_however_busy_and_elsewhere_only_if_that_is_gone() {
    let one = variant("one", routing(Strategy::PrefixAware, 1), vec![replica("a"), replica("b")]);
    let two = variant("two", routing(Strategy::Random, 1), vec![replica("c"), replica("d")]);
    let endpoint = endpoint(vec![one, two]);
    let pinned = RequestFacts { pinned: Some(endpoint.variants[1].replicas[1].engine()), ..facts("x") };
    let open: Vec<_> = (0..10).map(|n| place(&endpoint, &pinned, n)).collect();
    assert!(open.iter().all(|(d, _)| (d.variant, d.choice.replica, d.reason) == (1, 1, Reason::Pinned)));
    let keeper = &endpoint.variants[1].replicas[1].live;
    keeper.busy_until(u64::MAX);
    for health in [Health::Up, Health::Warming, Health::Unresponsive] {
        keeper.set_health(health);
        assert_eq!(place(&endpoint, &pinned, 1).0.reason, Reason::Pinned, "{health:?}");
        assert_eq!(
            place(&endpoint, &RequestFacts { variant: Some("two".into()), ..facts("x") }, 1).0.choice.replica,
            0
        );
    }
    keeper.set_health(Health::Down);
    let (decision, _place) = place(&endpoint, &pinned, 1);
    assert_ne!(decision.reason, Reason::Pinned);
}

#[test]
fn traffic_avoids_a_variant_that_cannot_serve_it() {
    let up = variant("up", routing(Strategy::LeastOutstanding, 32), vec![replica("a")]);
    let down = variant("down", routing(Strategy::LeastOutstanding, 32), vec![replica("b")]);
    down.replicas[0].live.set_health(Health::Down);
    let endpoint = endpoint(vec![down, up]);
    assert!((0..100).all(|n| place(&endpoint, &facts("x"), n).0.variant == 1));
}

#[test]
fn the_merely_worse_off_serve_only_where_nobody_else_can() {
    let worse: [&dyn Fn(&kvroute_core::live::Live); 3] =
        [&|live| _ = live.set_health(Health::Warming), &|live| _ = live.set_health(Health::Unresponsive), &|live| {
            live.busy_until(1_000);
        }];
    for (i, make_worse) in worse.into_iter().enumerate() {
        let endpoint = fleet_of(2, routing(Strategy::LeastOutstanding, 32));
        let replicas = &endpoint.variants[0].replicas;
        make_worse(&replicas[0].live);
        assert!((0..20).all(|n| pass(&endpoint, &facts("x"), n) == 1), "{i}");
        replicas[1].live.set_health(Health::Down);
        assert_eq!(pass(&endpoint, &facts("x"), 1), 0, "{i}");
    }
    let endpoint = fleet_of(1, routing(Strategy::LeastOutstanding, 32));
    endpoint.variants[0].replicas[0].live.set_duty(Duty::Drain);
    assert_eq!(refusal(&endpoint, &facts("x")), NoRoute::NoReplica(vec![(Drop::Draining, 1)]));
}

#[test]
fn a_target_without_a_path_for_the_request_is_never_asked() {
    let replicas = vec![replica("a"), replica("b")];
    let mut endpoint = endpoint(vec![variant("main", routing(Strategy::Random, 32), replicas)]);
    endpoint.variants[0].replicas[1].target = kvroute_core::fleet::TargetId(1);
    let has_path = |target: kvroute_core::fleet::TargetId| target.0 == 1;
    for n in 0..20 {
        let routed =
            kvroute_core::router::route(&endpoint, &facts("x"), Some(&has_path), Attempts::default(), moment(n));
        assert_eq!(routed.expect("one has it").decision.choice.replica, 1);
    }
    let none = kvroute_core::router::route(&endpoint, &facts("x"), Some(&|_| false), Attempts::default(), moment(0));
    assert_eq!(none.expect_err("none has it"), NoRoute::Unfit(vec![(Drop::NoPath, 2)]));
}

#[test]
fn another_rule_picks_among_the_same_places_and_everything_else_is_as_ever() {
    let fleet = fleet_of(3, routing(Strategy::Random, 32));
    fleet.variants[0].replicas[1].live.set_health(Health::Down);
    let prompt = "a system prompt of more than one block ".repeat(40);
    let route = |n| {
        let mut seen = Vec::new();
        let mut last = |_: &Variant, candidates: &[Candidate], _: &mut Entropy| {
            seen = candidates.iter().map(Candidate::is_eligible).collect();
            Pick::new(2, Reason::Load)
        };
        let routed = router::route_by(&fleet, &facts(&prompt), None, Attempts::default(), moment(n), &mut last);
        assert_eq!(seen, [true, false, true]);
        routed.expect("two can take it")
    };
    let (first, second) = (route(1), route(2));
    assert_eq!((first.decision.choice.replica, first.decision.captured_bytes), (2, 0));
    assert!(second.decision.captured_bytes > 1_024, "the place is believed to hold what it was sent");
    assert_eq!(fleet.variants[0].replicas[2].live.load.in_flight(), 2);
    drop((first, second));
    assert_eq!(fleet.variants[0].replicas[2].live.load.in_flight(), 0);
}

proptest! {
    #[test]
    fn the_same_facts_fleet_and_moment_give_the_same_decision(strategy in 0usize..5, keys in prop::collection::vec(0u64..20, 1..40)) {
        let run = || {
            let endpoint = fleet_of(5, routing(Strategy::ALL[strategy], 3));
            let mut open = Vec::new();
            let mut answers = Vec::new();
            for (n, key) in keys.iter().enumerate() {
                let facts = RequestFacts { session: Some(hash::finish(*key)), ..facts(&format!("prompt {key}")) };
                let (decision, place) = place(&endpoint, &facts, n as u64);
                answers.push((decision.choice, decision.reason, decision.captured_bytes));
                open.push(place);
                if n % 3 == 2 {
                    drop(open.remove(0));
                }
            }
            drop(open);
            let at_rest = endpoint.variants[0].replicas.iter().all(|r| r.live.load.in_flight() == 0 && r.live.load.pending_prefill_tokens() == 0);
            (answers, at_rest)
        };
        let (first, second) = (run(), run());
        prop_assert!(first.1, "counters are zero at rest");
        prop_assert_eq!(first, second);
    }
}
