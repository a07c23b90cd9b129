//! Health checks decide who gets traffic, and nothing else.

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Refusing, Reply, Upstream, content, get, replicas, request, streamed_chat,
    until,
};

const OFTEN: &str = "health: {interval_ms: 15, failures: 2, successes: 2}\n";

async fn becomes(gateway: &Gateway, id: &str, state: &str) {
    until(&format!("{id} is {state}"), async || gateway.status(id, "state").await == state).await;
}

#[tokio::test]
async fn a_replica_that_fails_its_checks_gets_no_traffic_until_it_is_well_again() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let settings = format!("{OFTEN}routing: {{strategy: round_robin}}\n{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&settings).await;
    a.set_healthy(false);
    becomes(&gateway, "r0", "down").await;
    let before = a.count();
    for _ in 0..10 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(a.count(), before);
    let page = gateway.metrics().await;
    let ready = |label| page.sum("kvroute_replica_ready", &[label]);
    assert_eq!((ready("replica=\"r0\""), ready("replica=\"r1\"")), (0.0, 1.0));

    a.set_healthy(true);
    becomes(&gateway, "r0", "ready").await;
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
    becomes(&gateway, "r0", "down").await;
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
    becomes(&gateway, "r0", "ready").await;
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
    becomes(&gateway, "r0", "down").await;
    becomes(&gateway, "r1", "down").await;
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    assert_eq!((answer.header("retry-after"), upstream.count()), (Some("1"), 0));
    for address in [gateway.address(), gateway.admin_address()] {
        let answer = get(address, "/readyz").await;
        assert_eq!((answer.status.as_u16(), answer.text()), (503, "not ready: no replica is ready\n"));
        assert_eq!(get(address, "/livez").await.status, 200);
    }
    upstream.set_healthy(true);
    becomes(&gateway, "r0", "ready").await;
    assert_eq!(get(gateway.address(), "/readyz").await.status, 200);
    assert_eq!(gateway.chat("hi").await.replica(), "r0");
}
