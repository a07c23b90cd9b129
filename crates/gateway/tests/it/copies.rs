//! A copy with an address of its own is an engine of its own: checked, ejected and left alone apart from its replica.

use kvroute_core::breaker::FAILURES_MAX;

use crate::support::{Answer, Arrived, Gateway, Reply, Upstream, chat, get, invocations, post_with, replicas, until};

const OFTEN: &str = "health: {interval_ms: 15, failures: 2}\n";
const IN_TURN: &str = "routing: {strategy: round_robin}\n";

/// Invokes the component, or, without one, the endpoint's replicas.
async fn invoke(gateway: &Gateway, component: Option<&str>, text: &str) -> Answer {
    let name = "x-amzn-sagemaker-inference-component";
    let headers: Vec<_> = component.into_iter().map(|component| (name, component)).collect();
    post_with(gateway.address(), &invocations("e"), &headers, chat(text)).await
}

/// An endpoint `e` of these replicas, with a component `c` whose copies are `(replica, address)`.
fn settings(upstreams: &[&Upstream], copies: &[(&str, Option<&Upstream>)]) -> String {
    let copy = |(replica, upstream): &(&str, Option<&Upstream>)| match upstream {
        Some(upstream) => format!("{{replica: {replica}, url: {}}}", upstream.url()),
        None => (*replica).to_owned(),
    };
    let copies = copies.iter().map(copy).collect::<Vec<_>>().join(", ");
    format!("endpoints:\n- name: e\n  {}  components: [{{name: c, copies: [{copies}]}}]\n", replicas(upstreams))
}

/// Waits until eight invocations in a row went to none but `replica`.
async fn all_go_to(gateway: &Gateway, replica: &str) {
    until(&format!("all go to {replica}"), async || {
        for i in 0..8 {
            let answer = invoke(gateway, Some("c"), &format!("prompt {i}")).await;
            assert_eq!(answer.status, 200, "{answer:?}");
            if answer.replica() != replica {
                return false;
            }
        }
        true
    })
    .await;
}

#[tokio::test]
async fn a_copy_that_fails_its_checks_leaves_its_replica_and_the_other_copies_alone() {
    let replicas = [Upstream::ok().await, Upstream::ok().await];
    let copies = [Upstream::ok().await, Upstream::ok().await];
    let placed = [("r0", Some(&copies[0])), ("r1", Some(&copies[1]))];
    let gateway = Gateway::start(&format!("{OFTEN}{IN_TURN}{}", settings(&replicas.each_ref(), &placed))).await;
    let engines = || replicas.iter().chain(&copies);
    until("all are checked", async || engines().all(|engine| engine.probes() > 2)).await;

    copies[0].set_healthy(false);
    all_go_to(&gateway, "r1").await;
    assert_eq!(gateway.status("r0", "state").await, "ready");
    let before = replicas[0].count();
    for _ in 0..4 {
        assert_eq!(invoke(&gateway, None, "hi").await.status, 200);
    }
    assert_eq!(replicas[0].count(), before + 2, "its replica serves what names no component");

    copies[0].set_healthy(true);
    copies[1].set_healthy(false);
    all_go_to(&gateway, "r0").await;
    copies[0].set_healthy(false);
    until("no copy is left", async || invoke(&gateway, Some("c"), "hi").await.status == 503).await;
    assert_eq!(gateway.status("r1", "state").await, "ready");
}

#[tokio::test]
async fn the_replica_that_fails_its_checks_does_not_take_a_copy_of_its_own_with_it() {
    let (replica, copy) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!("{OFTEN}{}", settings(&[&replica], &[("r0", Some(&copy))]))).await;
    gateway.becomes("r0", "ready").await;
    replica.set_healthy(false);
    gateway.becomes("r0", "down").await;
    assert_eq!(invoke(&gateway, Some("c"), "hi").await.status, 200);
    assert_eq!(invoke(&gateway, None, "hi").await.status, 503);
    assert_eq!((copy.count(), replica.count()), (1, 0));
}

#[tokio::test]
async fn a_copy_at_its_replicas_address_shares_the_replicas_checks() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!("{OFTEN}{}", settings(&[&a, &b], &[("r0", None), ("r1", None)]))).await;
    gateway.becomes("r0", "ready").await;
    a.set_healthy(false);
    gateway.becomes("r0", "down").await;
    for i in 0..8 {
        assert_eq!(invoke(&gateway, Some("c"), &format!("prompt {i}")).await.replica(), "r1");
    }
    assert_eq!(a.count(), 0);

    let alone = Upstream::ok().await;
    let gateway = Gateway::start(&settings(&[&alone], &[("r0", None), ("r0", None)])).await;
    gateway.becomes("r0", "ready").await;
    assert_eq!(alone.probes(), 1, "one engine, one check");
}

#[tokio::test]
async fn a_copy_whose_requests_fail_is_ejected_alone() {
    let replicas = [Upstream::ok().await, Upstream::ok().await];
    let (failing, good) = (Upstream::always(Reply::json(500, "{}")).await, Upstream::ok().await);
    let placed = [("r0", Some(&failing)), ("r1", Some(&good))];
    let gateway = Gateway::start(&format!("{IN_TURN}{}", settings(&replicas.each_ref(), &placed))).await;
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    for _ in 0..4 * FAILURES_MAX {
        invoke(&gateway, Some("c"), "hi").await;
    }
    assert_eq!(failing.count(), FAILURES_MAX as usize);
    assert_eq!(gateway.status("r0", "state").await, "ready");
    for _ in 0..4 {
        assert_eq!(invoke(&gateway, None, "hi").await.status, 200);
    }
    assert_eq!((replicas[0].count(), replicas[1].count()), (2, 2));
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn draining_a_replica_drains_its_copies() {
    let replicas = [Upstream::ok().await, Upstream::ok().await];
    let copies = [Upstream::ok().await, Upstream::ok().await];
    let placed = [("r0", Some(&copies[0])), ("r1", Some(&copies[1]))];
    let gateway = Gateway::start(&format!("{IN_TURN}{}", settings(&replicas.each_ref(), &placed))).await;
    gateway.admin("r0/drain").await;
    for _ in 0..6 {
        assert_eq!(invoke(&gateway, Some("c"), "hi").await.replica(), "r1");
    }
    gateway.admin("r0/ready").await;
    gateway.admin("r1/maint").await;
    for _ in 0..6 {
        assert_eq!(invoke(&gateway, Some("c"), "hi").await.replica(), "r0");
    }
    assert_eq!((copies[0].count(), copies[1].count()), (6, 6));

    assert_eq!(get(gateway.address(), "/readyz").await.status, 200);
    gateway.admin("r0/drain").await;
    assert_eq!(get(gateway.address(), "/readyz").await.status, 503, "copies cannot serve where no replica may");
}

#[tokio::test]
async fn a_retry_may_go_to_another_copy_on_the_same_replica() {
    let replica = Upstream::ok().await;
    let (full, idle) = (Upstream::always(Reply::json(503, "{}")).await, Upstream::ok().await);
    let placed = [("r0", Some(&full)), ("r0", Some(&idle))];
    let gateway = Gateway::start(&format!("{IN_TURN}{}", settings(&[&replica], &placed))).await;
    for _ in 0..6 {
        let answer = invoke(&gateway, Some("c"), "hi").await;
        assert_eq!((answer.status.as_u16(), answer.replica()), (200, "r0"));
    }
    assert_eq!((idle.count(), replica.count()), (6, 0));
    let retried = gateway.metrics().await.sum("kvroute_retries_total", &["replica=\"r0\""]);
    assert!(full.count() >= 2 && retried == full.count() as f64, "{retried}");
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_removed_copy_is_not_checked_any_more() {
    let replica = Upstream::ok().await;
    let copies = [Upstream::ok().await, Upstream::ok().await];
    let both = [("r0", Some(&copies[0])), ("r0", Some(&copies[1]))];
    let gateway = Gateway::start(&format!("{OFTEN}{}", settings(&[&replica], &both))).await;
    until("both are checked", async || copies.iter().all(|copy| copy.probes() > 2)).await;
    gateway.apply(&format!("{OFTEN}{}", settings(&[&replica], &both[..1])));
    let (first, second) = (copies[0].probes(), copies[1].probes());
    until("the other is checked on", async || copies[0].probes() > first + 10).await;
    // One check may have been under way.
    assert!(copies[1].probes() <= second + 1, "checked {} times after its end", copies[1].probes() - second);
}

/// Opens a session, then goes on with it.
#[tokio::test]
async fn a_session_that_a_copy_opened_goes_back_to_that_copy() {
    let container = |name: &'static str| {
        Upstream::start(move |arrived: &Arrived| {
            let is_new = arrived.header("x-amzn-sagemaker-session-id") == Some("NEW_SESSION");
            let opened = if is_new { format!("x-amzn-sagemaker-new-session-id: {name}\r\n") } else { String::new() };
            Reply::raw(format!("HTTP/1.1 200 OK\r\n{opened}content-length: {}\r\n\r\n{name}", name.len()))
        })
    };
    let replica = Upstream::ok().await;
    let copies = [container("copy-0").await, container("copy-1").await, container("copy-2").await];
    let url = |i: usize| copies[i].url();
    let gateway = Gateway::start(&format!(
        "{IN_TURN}endpoints:\n- name: e\n  replicas: [{{id: r0, url: {}, api: sagemaker, stateful_sessions: true}}]\n  \
         components: [{{name: c, copies: [{{replica: r0, url: {}}}, {{replica: r0, url: {}}}, {{replica: r0, url: {}}}]}}]\n",
        replica.url(),
        url(0),
        url(1),
        url(2)
    ))
    .await;
    let invoke = async |session: &str| {
        let headers = [("x-amzn-sagemaker-inference-component", "c"), ("x-amzn-sagemaker-session-id", session)];
        post_with(gateway.address(), &invocations("e"), &headers, chat("hi")).await
    };
    for _ in 0..3 {
        let opened = invoke("NEW_SESSION").await;
        let keeper = opened.text().to_owned();
        assert_eq!(opened.header("x-amzn-sagemaker-new-session-id"), Some(&*keeper));
        for _ in 0..5 {
            let next = invoke(&keeper).await;
            assert_eq!((next.text(), next.decision()), (&*keeper, "pinned"));
        }
    }
    assert!(copies.iter().all(|copy| copy.count() == 6) && replica.count() == 0, "each opened one in its turn");
}
