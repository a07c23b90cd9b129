//! Health checks decide who gets traffic, and nothing else.

use std::time::{Duration, Instant};

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Refusing, Reply, Upstream, content, get, replicas, request, streamed_chat,
    until,
};

const OFTEN: &str = "health: {interval_ms: 15, failures: 2, successes: 2}\n";

#[tokio::test]
async fn a_replica_that_fails_its_checks_gets_no_traffic_until_it_is_well_again() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let settings = format!("{OFTEN}routing: {{strategy: round_robin}}\n{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&settings).await;
    a.set_healthy(false);
    gateway.becomes("r0", "down").await;
    let before = a.count();
    for _ in 0..10 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(a.count(), before);
    let page = gateway.metrics().await;
    let ready = |label| page.sum("kvroute_replica_ready", &[label]);
    assert_eq!((ready("replica=\"r0\""), ready("replica=\"r1\"")), (0.0, 1.0));

    a.set_healthy(true);
    gateway.becomes("r0", "ready").await;
    for _ in 0..2 {
        gateway.chat("hi").await;
    }
    assert_eq!(a.count(), before + 1, "in turn again");
}

#[tokio::test]
async fn a_replica_that_goes_down_keeps_its_streams_and_loses_its_cache_view() {
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::start(&format!("{OFTEN}{}", replicas(&[&upstream]))).await;
    let sent = request(http::Method::POST, "/v1/chat/completions", &[], streamed_chat(&"x".repeat(5000)));
    let mut stream = Call::start(gateway.address(), sent).await.streaming().await;
    stream.brings(&content("one")).await;
    let held = async || gateway.metrics().await.sum("kvroute_replica_predicted_blocks", &[]);
    assert!(held().await > 0.0);
    upstream.set_healthy(false);
    gateway.becomes("r0", "down").await;
    until("the cache view is empty", async || held().await == 0.0).await;
    assert_eq!(gateway.in_flight("r0").await, 1, "health checks do not touch counters");
    gate.open();
    let rest = stream.rest().await;
    assert!(rest.is_complete && rest.text() == DONE);
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_few_failures_are_not_enough() {
    let upstream = Upstream::ok().await;
    let settings = format!("health: {{interval_ms: 10, failures: 1000}}\n{}", replicas(&[&upstream]));
    let gateway = Gateway::start(&settings).await;
    gateway.becomes("r0", "ready").await;
    upstream.set_healthy(false);
    let before = upstream.probes();
    until("some checks have failed", async || upstream.probes() > before + 5).await;
    assert_eq!(gateway.status("r0", "state").await, "ready");
    assert_eq!(gateway.chat("hi").await.status, 200);
}

#[tokio::test]
async fn with_every_replica_down_requests_are_refused_and_readiness_says_no() {
    let (upstream, refusing) = (Upstream::ok().await, Refusing::new());
    upstream.set_healthy(false);
    let settings =
        format!("{OFTEN}replicas: [{{id: r0, url: {}}}, {{id: r1, url: {}}}]", upstream.url(), refusing.url());
    let gateway = Gateway::start(&settings).await;
    gateway.becomes("r0", "down").await;
    gateway.becomes("r1", "down").await;
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    assert_eq!((answer.header("retry-after"), upstream.count()), (Some("1"), 0));
    for address in [gateway.address(), gateway.admin_address()] {
        let answer = get(address, "/readyz").await;
        assert_eq!((answer.status.as_u16(), answer.text()), (503, "not ready: no replica is ready\n"));
        assert_eq!(get(address, "/livez").await.status, 200);
    }
    upstream.set_healthy(true);
    gateway.becomes("r0", "ready").await;
    assert_eq!(get(gateway.address(), "/readyz").await.status, 200);
    assert_eq!(gateway.chat("hi").await.replica(), "r0");
}

/// S61: nothing but its checks has changed.
#[tokio::test]
async fn a_replica_that_has_not_answered_a_check_yet_waits_for_its_first() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    b.answer_checks(Reply::default().never());
    let health = "health: {interval_ms: 15, timeout_ms: 30, failures: 1000}\nrouting: {strategy: round_robin}\n";
    let gateway = Gateway::start(&format!("{health}{}", replicas(&[&a, &b]))).await;
    gateway.becomes("r0", "ready").await;
    for _ in 0..4 {
        assert_eq!(gateway.chat("hi").await.replica(), "r0");
    }
    assert_eq!(gateway.status("r1", "state").await, "warming");
    gateway.admin("r0/drain").await;
    assert_eq!(gateway.chat("hi").await.replica(), "r1", "where nobody else can, it gets a chance");
    gateway.admin("r0/ready").await;
    b.set_healthy(true);
    gateway.becomes("r1", "ready").await;
    let before = b.count();
    for _ in 0..4 {
        gateway.chat("hi").await;
    }
    assert_eq!(b.count(), before + 2);
}

#[tokio::test]
async fn readiness_says_no_before_the_first_checks_have_ended() {
    let upstream = Upstream::ok().await;
    let gate = Gate::new();
    upstream.answer_checks(Reply::json(200, "{}").after(&gate));
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = get(gateway.address(), "/readyz").await;
    assert_eq!((answer.status.as_u16(), answer.text()), (503, "not ready: replicas have not been checked yet\n"));
    gate.open();
    until("it is ready", async || get(gateway.address(), "/readyz").await.status == 200).await;
}

/// S55
#[tokio::test]
async fn a_replica_that_only_answers_its_checks_late_keeps_its_cache_view_and_serves_where_nobody_else_can() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let health = "health: {interval_ms: 15, timeout_ms: 30, failures: 2}\nrouting: {strategy: round_robin}\n";
    let gateway = Gateway::start(&format!("{health}{}", replicas(&[&a, &b]))).await;
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    for i in 0..2 {
        gateway.chat(&format!("{i}{}", "x".repeat(4000))).await;
    }
    a.answer_checks(Reply::default().never());
    gateway.becomes("r0", "unresponsive").await;
    let before = a.count();
    for _ in 0..6 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(a.count(), before);
    let held = gateway.metrics().await.sum("kvroute_replica_predicted_blocks", &["replica=\"r0\""]);
    assert!(held > 0.0, "busy is not dead");

    b.set_healthy(false);
    gateway.becomes("r1", "down").await;
    for _ in 0..6 {
        assert_eq!(gateway.chat("hi").await.replica(), "r0");
    }
}

/// S55: an engine in the middle of a long prefill answers requests, but no checks.
#[tokio::test]
async fn answers_to_requests_are_signs_of_life_while_checks_are_late() {
    let upstream = Upstream::ok().await;
    let health = "health: {interval_ms: 10, timeout_ms: 20, failures: 10}\n";
    let gateway = Gateway::start(&format!("{health}{}", replicas(&[&upstream]))).await;
    gateway.becomes("r0", "ready").await;
    upstream.answer_checks(Reply::default().never());
    let begun = Instant::now();
    // Three times as long as it takes to be found unresponsive.
    while begun.elapsed() < Duration::from_millis(900) {
        assert_eq!(gateway.chat("hi").await.status, 200);
        assert_eq!(gateway.status("r0", "state").await, "ready");
    }
    gateway.becomes("r0", "unresponsive").await;
    until("the answers that it gives as a last resort bring it back", async || {
        assert_eq!(gateway.chat("hi").await.status, 200);
        gateway.status("r0", "state").await == "ready"
    })
    .await;
}

/// S57
#[tokio::test]
async fn after_all_replicas_have_died_under_load_service_comes_back_with_them() {
    let engine = || Reply::chunked(EVENT_STREAM).chunk(content("one")).never();
    let died = [Upstream::always(engine()).await, Upstream::always(engine()).await];
    let settings = format!("{OFTEN}routing: {{strategy: round_robin}}\n{}", replicas(&died.each_ref()));
    let gateway = Gateway::start(&settings).await;
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    // As many as can be open on each without their end ejecting it, which would take five seconds to get over.
    let mut streams = Vec::new();
    for i in 0..8 {
        streams.push(gateway.stream(&format!("prompt {i}")).await);
    }
    died.iter().for_each(Upstream::kill);
    for stream in streams {
        assert!(!stream.rest().await.is_complete);
    }
    gateway.becomes("r0", "down").await;
    gateway.becomes("r1", "down").await;
    let mut calls = Vec::new();
    for i in 0..200 {
        calls.push(gateway.ask(&format!("prompt {i}")).await);
    }
    for call in calls {
        let answer = call.answer().await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    }
    gateway.is_at_rest().await;

    let mut back = Vec::new();
    for upstream in &died {
        back.push(Upstream::start_at(upstream.address, |_| Reply::json(200, "{}")).await);
    }
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    for i in 0..8 {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.status, 200);
    }
    assert!(back.iter().all(|upstream| upstream.count() == 4));
}
