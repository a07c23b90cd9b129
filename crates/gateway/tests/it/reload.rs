//! A new configuration takes effect at once, and what it does not touch does not notice.

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Refusing, Reply, Upstream, content, replicas, request, streamed_chat,
    until,
};

const TURNS: &str = "routing: {strategy: round_robin}\nhealth: {interval_ms: 15}\n";

fn settings(upstreams: &[&Upstream]) -> String {
    format!("{TURNS}{}", replicas(upstreams))
}

/// An engine whose streams go on until the gate opens.
async fn slow(gate: &Gate) -> Upstream {
    Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(gate).chunk(DONE).end()).await
}

async fn stream(gateway: &Gateway) -> Call {
    Call::start(gateway.address(), request(http::Method::POST, "/v1/chat/completions", &[], streamed_chat("hi"))).await
}

#[tokio::test]
async fn an_added_replica_gets_traffic_and_a_removed_one_gets_neither_traffic_nor_checks() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&settings(&[&a])).await;
    gateway.chat("hi").await;
    assert_eq!((a.count(), b.count()), (1, 0));
    gateway.apply(&settings(&[&a, &b]));
    until("the new one is well", async || gateway.status("r1", "state").await == "ready").await;
    for _ in 0..4 {
        gateway.chat("hi").await;
    }
    assert_eq!((a.count(), b.count()), (3, 2));
    until("both are checked", async || a.probes() > 3 && b.probes() > 3).await;

    gateway.apply(&format!("{TURNS}replicas: [{{id: r1, url: {}}}]", b.url()));
    for _ in 0..4 {
        gateway.chat("hi").await;
    }
    assert_eq!((a.count(), b.count()), (3, 6));
    // A check that was under way when the replica went may still arrive; after it there is none.
    let (a_probes, b_probes) = (a.probes(), b.probes());
    until("the other is checked on", async || b.probes() > b_probes + 10).await;
    assert!(a.probes() <= a_probes + 1, "checked {} times after its end", a.probes() - a_probes);
}

#[tokio::test]
async fn streams_and_counters_go_on_through_a_reload() {
    let gate = Gate::new();
    let (a, b) = (slow(&gate).await, slow(&gate).await);
    let gateway = Gateway::start(&settings(&[&a, &b])).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        let mut stream = stream(&gateway).await.streaming().await;
        stream.brings(&content("one")).await;
        streams.push(stream);
    }
    // The second replica goes, the order changes, and timeouts that need new connections change too.
    let more = "timeouts: {first_byte_ms: 5000}\n";
    gateway.apply(&format!("{TURNS}{more}replicas: [{{id: r9, url: {}}}, {{id: r0, url: {}}}]", b.url(), a.url()));
    assert_eq!((gateway.in_flight("r0").await, gateway.in_flight("r9").await), (2, 0));
    assert_eq!(gateway.status("r0", "routed").await, 2);
    let (a_cut, b_cut) = (a.cut_off(), b.cut_off());
    gate.open();
    for stream in streams {
        let rest = stream.rest().await;
        assert!(rest.is_complete && rest.text() == DONE, "{rest:?}");
    }
    gateway.is_at_rest().await;
    gateway.has_ended("ok", 4).await;
    assert_eq!((a.cut_off(), b.cut_off()), (a_cut, b_cut));
}

#[tokio::test]
async fn a_replica_with_a_new_address_starts_anew() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&settings(&[&a])).await;
    gateway.chat(&"x".repeat(5000)).await;
    gateway.apply(&settings(&[&b]));
    assert_eq!(gateway.status("r0", "routed").await, 0);
    assert_eq!(gateway.status("r0", "url").await, b.url());
    assert_eq!(gateway.metrics().await.sum("kvroute_replica_predicted_blocks", &[]), 0.0);
    gateway.chat("hi").await;
    assert_eq!((a.count(), b.count()), (1, 1));
}

#[tokio::test]
async fn strategy_and_limits_change_at_once() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let both = replicas(&[&a, &b]);
    let gateway = Gateway::start(&format!("routing: {{strategy: prefix_aware}}\n{both}")).await;
    for _ in 0..4 {
        gateway.chat("the same").await;
    }
    assert!((a.count(), b.count()) == (4, 0) || (a.count(), b.count()) == (0, 4));
    gateway.apply(&format!("routing: {{strategy: round_robin}}\nlimits: {{body_bytes_max: 1024}}\n{both}"));
    let before = a.count();
    for _ in 0..4 {
        assert_eq!(gateway.chat("the same").await.decision(), "load");
    }
    assert_eq!(a.count(), before + 2);
    assert_eq!(gateway.chat(&"x".repeat(2000)).await.status, 413);
}

#[tokio::test]
async fn a_removed_replica_leaves_no_series_behind() {
    let (upstream, refusing) = (Upstream::ok().await, Refusing::new());
    // Were it known to be well, it would be preferred to the one that refuses.
    upstream.answer_checks(Reply::default().never());
    let stays = format!("{{id: stays, url: {}}}", upstream.url());
    let spilling = "routing: {concurrency_threshold: 1}\n";
    // Prompts are kept in flight, so that those whose home is the refusing replica spill from it too.
    let gateway =
        Gateway::start(&format!("{spilling}replicas: [{stays}, {{id: goes, url: {}}}]", refusing.url())).await;
    for i in 0..30 {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.replica(), "stays");
    }
    let page = gateway.metrics().await;
    assert!(page.sum("kvroute_retries_total", &["replica=\"goes\""]) > 0.0);
    gateway.apply(&format!("{spilling}replicas: [{stays}]"));
    let page = gateway.metrics().await;
    let left: Vec<_> = page.series().into_iter().filter(|series| series.contains("\"goes\"")).collect();
    assert_eq!(left, Vec::<String>::new());
    assert!(page.sum("kvroute_replica_routed_requests_total", &["replica=\"stays\""]) >= 30.0, "the other goes on");
}

/// S36 has the same root: what is in flight does not depend on what the configuration says.
#[tokio::test]
async fn a_replica_that_is_removed_and_comes_back_has_not_forgotten_what_is_in_flight() {
    let gate = Gate::new();
    let (a, b) = (slow(&gate).await, slow(&gate).await);
    let both = format!("routing: {{strategy: least_outstanding}}\n{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&both).await;
    let mut streams = Vec::new();
    for _ in 0..6 {
        streams.push(gateway.stream("hi").await);
    }
    assert_eq!((gateway.in_flight("r0").await, gateway.in_flight("r1").await), (3, 3));
    for _ in 0..3 {
        gateway.apply(&format!("replicas: [{{id: r1, url: {}}}]", b.url()));
    }
    gateway.apply(&both);
    assert_eq!((gateway.in_flight("r0").await, gateway.status("r0", "routed").await), (3, 3.into()));
    // With nothing known of it, the next two would go there.
    for _ in 0..2 {
        streams.push(gateway.stream("hi").await);
    }
    assert_eq!((gateway.in_flight("r0").await, gateway.in_flight("r1").await), (4, 4));
    gate.open();
    for stream in streams {
        assert!(stream.rest().await.is_complete);
    }
    gateway.is_at_rest().await;
}

/// S60
#[tokio::test]
async fn a_replica_that_is_removed_when_idle_comes_back_as_a_new_one() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let both = format!("{TURNS}{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&both).await;
    for i in 0..4 {
        gateway.chat(&format!("{i}{}", "x".repeat(4000))).await;
    }
    gateway.is_at_rest().await;
    gateway.apply(&format!("{TURNS}replicas: [{{id: r1, url: {}}}]", b.url()));
    let checks = b.probes();
    until("its last check has ended", async || b.probes() > checks + 3).await;
    gateway.apply(&both);
    let page = gateway.metrics().await;
    let held = |id: &str| page.sum("kvroute_replica_predicted_blocks", &[&format!("replica=\"{id}\"")]);
    assert_eq!((held("r0"), gateway.status("r0", "routed").await), (0.0, 0.into()));
    assert!(held("r1") > 0.0);
}

/// S60
#[tokio::test]
async fn replicas_that_come_and_go_leave_nothing_behind() {
    let upstream = Upstream::ok().await;
    let stays = format!("{{id: stays, url: {}}}", upstream.url());
    let gateway = Gateway::start(&format!("replicas: [{stays}]")).await;
    gateway.chat("hi").await;
    gateway.is_at_rest().await;
    let before = gateway.metrics().await.series();
    for i in 0..300 {
        gateway.apply(&format!("replicas: [{stays}, {{id: fresh-{i}, url: {}/{i}}}]", upstream.url()));
        if i % 50 == 0 {
            for prompt in 0..8 {
                gateway.chat(&format!("prompt {prompt}")).await;
            }
        }
    }
    gateway.apply(&format!("replicas: [{stays}]"));
    gateway.is_at_rest().await;
    let page = gateway.metrics().await;
    let added: Vec<_> = page.series().difference(&before).filter(|series| series.contains("fresh")).cloned().collect();
    assert_eq!(added, Vec::<String>::new());
}
