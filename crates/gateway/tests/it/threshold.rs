//! `prefix_aware` under a hot prefix: the home first, then the least outstanding, each up to the threshold.

use std::collections::BTreeMap;

use crate::support::{Call, Gate, Gateway, Reply, Upstream, chat, replicas, request, until};

const REPLICAS: usize = 7;
const THRESHOLD: usize = 4;
const REQUESTS: usize = 40;

async fn hot(gateway: &Gateway, i: usize) -> Call {
    let prompt = format!("{} question {i}", "an instruction that all share. ".repeat(200));
    Call::start(gateway.address(), request(http::Method::POST, "/v1/chat/completions", &[], chat(&prompt))).await
}

#[tokio::test]
async fn no_replica_is_filled_beyond_the_threshold_while_another_is_under_it() {
    let gate = Gate::new();
    let mut upstreams = Vec::new();
    for _ in 0..REPLICAS {
        upstreams.push(Upstream::always(Reply::json(200, "{}").after(&gate)).await);
    }
    let listed = replicas(&upstreams.iter().collect::<Vec<_>>());
    let gateway = Gateway::start(&format!("routing: {{concurrency_threshold: {THRESHOLD}}}\n{listed}")).await;
    let mut calls = Vec::new();
    for i in 0..REQUESTS {
        calls.push(hot(&gateway, i).await);
    }
    let arrived = || upstreams.iter().map(Upstream::in_flight).collect::<Vec<_>>();
    until("all have arrived", async || arrived().iter().sum::<usize>() == REQUESTS).await;
    // 28 places under the threshold, and 12 more as evenly as can be.
    assert!(arrived().iter().all(|count| matches!(count, 5 | 6)), "{:?}", arrived());
    for (i, upstream) in upstreams.iter().enumerate() {
        assert_eq!(gateway.in_flight(&format!("r{i}")).await, upstream.in_flight() as u64);
    }

    gate.open();
    let mut decisions: BTreeMap<(String, String), usize> = BTreeMap::new();
    for call in calls {
        let answer = call.answer().await;
        *decisions.entry((answer.replica().to_owned(), answer.decision().to_owned())).or_default() += 1;
    }
    let at = |replica: &str, decision: &str| {
        decisions.get(&(replica.to_owned(), decision.to_owned())).copied().unwrap_or_default()
    };
    let ids: Vec<_> = (0..REPLICAS).map(|i| format!("r{i}")).collect();
    let home = ids.iter().find(|id| at(id, "cold") == 1).expect("the first was cold");
    for id in &ids {
        let (prefix, spilled) = (at(id, "cold") + at(id, "prefix_hit"), at(id, "spill_concurrency"));
        let expected = if id == home { (THRESHOLD, 0) } else { (0, THRESHOLD) };
        assert_eq!((prefix, spilled), expected, "{id} of {decisions:?}");
    }
    let saturated: usize = ids.iter().map(|id| at(id, "spill_saturated")).sum();
    assert_eq!(saturated, REQUESTS - REPLICAS * THRESHOLD);
    gateway.is_at_rest().await;
    let page = gateway.metrics().await;
    let spills = page.sum("kvroute_spills_total", &[&format!("replica=\"{home}\"")]);
    assert_eq!(spills, (REQUESTS - THRESHOLD) as f64, "all of them left the same home");
    assert_eq!(page.sum("kvroute_spills_total", &[]), spills);
}

#[tokio::test]
async fn the_home_gets_the_next_request_when_it_is_under_its_threshold_again() {
    let gate = Gate::new();
    let held = gate.clone();
    // Only the held prompts wait.
    let script = move |arrived: &crate::support::Arrived| {
        let reply = Reply::json(200, "{}");
        if arrived.header("x-held").is_some() { reply.after(&held) } else { reply }
    };
    let (a, b) = (Upstream::start(script.clone()).await, Upstream::start(script).await);
    let gateway = Gateway::start(&format!("routing: {{concurrency_threshold: 1}}\n{}", replicas(&[&a, &b]))).await;
    let home = gateway.chat("hot").await.replica().to_owned();
    let sent = request(http::Method::POST, "/v1/chat/completions", &[("x-held", "1")], chat("hot"));
    let call = Call::start(gateway.address(), sent).await;
    until("the home is busy", async || gateway.in_flight(&home).await == 1).await;
    let spilled = gateway.chat("hot").await;
    assert_eq!(spilled.decision(), "spill_concurrency");
    assert_ne!(spilled.replica(), home);
    gate.open();
    assert_eq!(call.answer().await.replica(), home);
    gateway.is_at_rest().await;
    assert_eq!(gateway.chat("hot").await.replica(), home);
}

/// S22: rounds of health checks do not touch counters, so what is full stays full.
#[tokio::test]
async fn a_full_home_is_spilled_from_however_often_it_is_checked() {
    let gate = Gate::new();
    let (a, b) = (
        Upstream::always(Reply::json(200, "{}").after(&gate)).await,
        Upstream::always(Reply::json(200, "{}").after(&gate)).await,
    );
    let settings =
        format!("health: {{interval_ms: 10}}\nrouting: {{concurrency_threshold: 20}}\n{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&settings).await;
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    let mut calls = Vec::new();
    for i in 0..20 {
        calls.push(hot(&gateway, i).await);
    }
    until("the home is full", async || a.in_flight().max(b.in_flight()) == 20).await;
    let (a_probes, b_probes) = (a.probes(), b.probes());
    until("both were checked", async || a.probes() > a_probes + 3 && b.probes() > b_probes + 3).await;
    for i in 20..40 {
        calls.push(hot(&gateway, i).await);
    }
    until("all have arrived", async || a.in_flight() + b.in_flight() == 40).await;
    assert_eq!((a.in_flight(), b.in_flight()), (20, 20));
    assert_eq!((gateway.in_flight("r0").await, gateway.in_flight("r1").await), (20, 20));
    gate.open();
    for call in calls {
        call.answer().await;
    }
    gateway.is_at_rest().await;
}
