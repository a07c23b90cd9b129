//! Inference components with copies, and adapters.

use std::sync::Arc;

use kvroute_core::decision::{Drop, Reason};
use kvroute_core::facts::RequestFacts;
use kvroute_core::fleet::{Adapter, Component, Copy, Endpoint, TargetId};
use kvroute_core::hash;
use kvroute_core::live::{Duty, Health};
use kvroute_core::router::NoRoute;
use kvroute_core::routing::Strategy;

use crate::fixture::*;

fn component(name: &str, replicas_of_copies: &[usize]) -> Component {
    let copies = replicas_of_copies.iter().enumerate().map(|(i, &replica)| {
        let (target, key) = (TargetId(100 + i as u32), hash::finish(i as u64));
        Copy { replica, target, has_own_address: true, live: live(), key }
    });
    Component { name: name.to_owned(), variant: 0, copies: copies.collect() }
}

/// Four replicas; `llama` has two copies on each of the first three, `mistral` one on the first.
fn endpoint_with_components(threshold: u32) -> Endpoint {
    let mut endpoint = fleet_of(4, routing(Strategy::PrefixAware, threshold));
    endpoint.components = vec![component("llama", &[0, 0, 1, 1, 2, 2]), component("mistral", &[0])];
    endpoint
}

fn invoking(component: &str, text: &str) -> RequestFacts {
    RequestFacts { component: Some(component.to_owned()), ..facts(text) }
}

#[test]
fn equal_beginnings_go_to_the_same_copy() {
    let endpoint = endpoint_with_components(8);
    let mut used = std::collections::BTreeSet::new();
    for key in 0..100 {
        let facts = invoking("llama", &format!("prompt {key}"));
        let (first, _) = place(&endpoint, &facts, key);
        let (second, _) = place(&endpoint, &facts, key + 500);
        assert_eq!(first.choice, second.choice);
        let copy = first.choice.copy.expect("a copy is chosen");
        assert_eq!(endpoint.components[0].copies[copy].replica, first.choice.replica);
        used.insert(copy);
    }
    assert_eq!(used.len(), 6, "all copies are somebody's home");
}

#[test]
fn at_the_threshold_another_copy_on_the_same_replica_comes_before_other_replicas() {
    let endpoint = endpoint_with_components(2);
    let hot = invoking("llama", "hot");
    let open: Vec<_> = (0..12).map(|n| place(&endpoint, &hot, n)).collect();
    let home = open[0].0.choice;
    let reasons: Vec<Reason> = open.iter().map(|(decision, _)| decision.reason).collect();
    assert_eq!(reasons[2..4], [Reason::SpillCopy; 2]);
    assert!(reasons[4..].iter().all(|r| *r == Reason::SpillConcurrency), "{reasons:?}");
    assert!(open[..4].iter().all(|(d, _)| d.choice.replica == home.replica));
    assert!(open[4..].iter().all(|(d, _)| d.choice.replica != home.replica));
    assert!(endpoint.components[0].copies.iter().all(|copy| copy.live.load.in_flight() == 2));
    assert_eq!(place(&endpoint, &hot, 99).0.reason, Reason::SpillSaturated);
}

#[test]
fn requests_of_another_component_on_the_replica_do_not_count_towards_the_threshold() {
    let endpoint = endpoint_with_components(2);
    let _busy: Vec<_> = (0..20).map(|n| place(&endpoint, &invoking("mistral", "x"), n)).collect();
    let under =
        (0..40).all(|key| !place(&endpoint, &invoking("llama", &format!("prompt {key}")), key).0.reason.is_spill());
    assert!(under);
    assert_eq!(endpoint.variants[0].replicas[0].live.load.in_flight(), 20, "but the replica's own count includes them");
}

#[test]
fn replicas_without_a_copy_are_dropped_with_the_reason() {
    let endpoint = endpoint_with_components(2);
    let (decision, _place) = place(&endpoint, &invoking("llama", "x"), 1);
    let without: Vec<usize> =
        decision.candidates.iter().filter(|c| c.dropped == Some(Drop::NoCopy)).map(|c| c.replica).collect();
    assert_eq!(without, [3]);
    assert_eq!(decision.candidates.len(), 7, "six copies and the replica without one");
    assert_eq!(refusal(&endpoint, &invoking("qwen", "x")), NoRoute::UnknownComponent("qwen".to_owned()));
}

#[test]
fn a_dead_copy_with_an_address_of_its_own_does_not_take_its_replica_with_it() {
    let endpoint = endpoint_with_components(8);
    let copies = &endpoint.components[0].copies;
    copies[0].live.set_health(Health::Down);
    for n in 0..60 {
        let (decision, _place) = place(&endpoint, &invoking("llama", &format!("prompt {n}")), n);
        assert_ne!(decision.choice.copy, Some(0));
    }
    assert!(copies[1].live.load.routed() > 5, "its sibling serves");
    assert!((0..9).all(|n| pass(&endpoint, &facts(&format!("prompt {n}")), n) < 4), "and so does the replica itself");
}

#[test]
fn draining_a_replica_drains_its_copies() {
    let endpoint = endpoint_with_components(8);
    endpoint.variants[0].replicas[0].live.set_duty(Duty::Drain);
    for n in 0..40 {
        let (decision, _place) = place(&endpoint, &invoking("llama", &format!("prompt {n}")), n);
        assert_ne!(decision.choice.replica, 0);
    }
}

#[test]
fn a_copy_that_is_an_engine_of_its_own_has_a_cache_of_its_own() {
    let endpoint = endpoint_with_components(8);
    let long = invoking("llama", &"word ".repeat(1_000));
    let (first, _a) = place(&endpoint, &long, 1);
    let holding: Vec<usize> = {
        let (second, _b) = place(&endpoint, &long, 2);
        assert!(second.captured_bytes > 0);
        let copies = &endpoint.components[0].copies;
        let holds = |copy: &usize| copies[*copy].live.cache.matched_blocks(&long.prompt.chain) > 0;
        (0..copies.len()).filter(holds).collect()
    };
    assert_eq!(holding, [first.choice.copy.expect("a copy was chosen")]);
}

#[test]
fn an_adapter_is_served_only_where_it_is_by_model_name_or_by_its_component_name() {
    let mut endpoint = endpoint_with_components(8);
    endpoint.adapters = vec![Adapter {
        name: "sql".to_owned(),
        component: Some("sql-adapter".to_owned()),
        base: Some(0),
        replicas: Some(vec![Arc::from("r1"), Arc::from("r2")]),
    }];
    let by_model = |n: u64| RequestFacts { model: Some("sql".to_owned()), ..facts(&format!("prompt {n}")) };
    for n in 0..60 {
        for facts in [by_model(n), invoking("sql-adapter", &format!("prompt {n}"))] {
            let (decision, _place) = place(&endpoint, &facts, n);
            assert!([1, 2].contains(&decision.choice.replica));
            assert!(decision.choice.copy.is_some(), "the copies of its base component serve it");
            let on_r0 = |candidate: &&kvroute_core::decision::Candidate| candidate.replica == 0;
            assert!(decision.candidates.iter().filter(on_r0).all(|c| c.dropped == Some(Drop::NoAdapter)));
        }
    }
}

#[test]
fn what_a_copy_keeps_goes_back_to_that_copy_even_where_the_component_is_not_named() {
    let endpoint = endpoint_with_components(2);
    let (llama, replicas) = (&endpoint.components[0], &endpoint.variants[0].replicas);
    for (index, copy) in llama.copies.iter().enumerate() {
        let pinned = Some(llama.engine_of(copy, &replicas[copy.replica]));
        for facts in [invoking("llama", "x"), facts("x")] {
            let pinned = RequestFacts { pinned, ..facts };
            let open: Vec<_> = (0..5).map(|n| place(&endpoint, &pinned, n)).collect();
            assert!(open.iter().all(|(d, _)| (d.choice.copy, d.reason) == (Some(index), Reason::Pinned)));
        }
    }
    // A copy at its replica's address is that engine, like the replica itself.
    let mut endpoint = endpoint_with_components(2);
    endpoint.components[0].copies.iter_mut().for_each(|copy| copy.has_own_address = false);
    let pinned = Some(endpoint.variants[0].replicas[1].engine());
    for (facts, has_copy) in [(invoking("llama", "x"), true), (facts("x"), false)] {
        let (decision, _place) = place(&endpoint, &RequestFacts { pinned, ..facts }, 1);
        assert_eq!((decision.choice.replica, decision.choice.copy.is_some()), (1, has_copy));
    }
}
