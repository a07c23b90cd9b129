//! An operator takes replicas out of the fleet and back, and nothing else overrules that.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::Full;

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, content, get, post, replicas, request, until,
};

const OFTEN: &str = "health: {interval_ms: 15, failures: 2}\n";
const IN_TURN: &str = "routing: {strategy: round_robin}\n";

async fn before(upstreams: &[&Upstream]) -> Gateway {
    let gateway = Gateway::start(&format!("{OFTEN}{IN_TURN}{}", replicas(upstreams))).await;
    for i in 0..upstreams.len() {
        gateway.becomes(&format!("r{i}"), "ready").await;
    }
    gateway
}

async fn set(gateway: &Gateway, id: &str, duty: &str) {
    let answer = gateway.admin(&format!("{id}/{duty}")).await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    let replicas = answer.json();
    let changed = replicas.as_array().unwrap().iter().find(|replica| replica["id"] == id).unwrap();
    assert_eq!(changed["duty"], duty, "it shows at once");
    if duty != "ready" {
        assert_eq!(changed["state"], duty);
    }
}

/// S59
#[tokio::test]
async fn a_drained_replica_finishes_what_it_has_and_gets_nothing_new_until_it_is_ready_again() {
    for duty in ["drain", "maint"] {
        let gate = Gate::new();
        let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
        let (a, b) = (Upstream::always(reply).await, Upstream::ok().await);
        let gateway = before(&[&a, &b]).await;
        let mut stream = gateway.stream("hi").await;
        while stream.headers["x-kvroute-replica"] != "r0" {
            stream = gateway.stream("hi").await;
        }
        stream.brings(&content("one")).await;
        set(&gateway, "r0", duty).await;
        for _ in 0..10 {
            assert_eq!(gateway.chat("hi").await.replica(), "r1", "{duty}");
        }
        assert_eq!((a.count(), gateway.in_flight("r0").await), (1, 1), "{duty}: progress shows");
        let ready = async |id: &str| {
            let label = format!("replica=\"{id}\"");
            gateway.metrics().await.sum("kvroute_replica_ready", &[&label])
        };
        assert_eq!((ready("r0").await, ready("r1").await), (0.0, 1.0), "{duty}");
        gate.open();
        let rest = stream.rest().await;
        assert!(rest.is_complete && rest.text() == DONE, "{duty}: {rest:?}");
        until("it is drained", async || gateway.in_flight("r0").await == 0).await;

        set(&gateway, "r0", "ready").await;
        gateway.becomes("r0", "ready").await;
        for _ in 0..4 {
            gateway.chat("hi").await;
        }
        assert_eq!(a.count(), 3, "{duty}: in turn again");
    }
}

#[tokio::test]
async fn a_replica_that_is_worked_on_is_left_in_peace_and_has_to_show_that_it_is_well_again() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = before(&[&a, &b]).await;
    for _ in 0..2 {
        gateway.chat(&"a prompt of more than one block ".repeat(40)).await;
    }
    let blocks = async || gateway.metrics().await.sum("kvroute_replica_predicted_blocks", &["replica=\"r0\""]);
    assert!(blocks().await > 0.0);
    set(&gateway, "r0", "drain").await;
    let before = a.probes();
    until("a drained replica is checked on", async || a.probes() > before + 3).await;

    set(&gateway, "r0", "maint").await;
    until("it is known as it is", async || gateway.status("r0", "health").await == "warming").await;
    assert_eq!(blocks().await, 0.0, "whatever was in its cache");
    let (before, other) = (a.probes(), b.probes());
    until("the other is checked on", async || b.probes() > other + 10).await;
    assert_eq!(a.probes(), before);

    a.set_healthy(false);
    set(&gateway, "r0", "ready").await;
    gateway.becomes("r0", "down").await;
    a.set_healthy(true);
    gateway.becomes("r0", "ready").await;
}

#[tokio::test]
async fn neither_good_health_checks_nor_a_reload_bring_a_drained_replica_back() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = before(&[&a, &b]).await;
    set(&gateway, "r0", "drain").await;
    a.set_healthy(false);
    until("its checks fail", async || gateway.status("r0", "health").await == "down").await;
    a.set_healthy(true);
    until("its checks are good", async || gateway.status("r0", "health").await == "up").await;
    gateway.apply(&format!("{OFTEN}{IN_TURN}limits: {{body_bytes_max: 2048}}\n{}", replicas(&[&a, &b])));
    assert_eq!(gateway.status("r0", "duty").await, "drain");
    for _ in 0..4 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(a.count(), 0);
}

#[tokio::test]
async fn with_every_replica_taken_out_requests_are_refused_and_readiness_says_no() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream]).await;
    for duty in ["drain", "maint"] {
        set(&gateway, "r0", duty).await;
        let answer = gateway.chat("hi").await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"), "{duty}");
        assert!(answer.text().contains("1 draining"), "{duty}: {answer:?}");
        assert_eq!(get(gateway.address(), "/readyz").await.status, 503, "{duty}");
        assert_eq!(get(gateway.address(), "/livez").await.status, 200, "{duty}");
    }
    assert_eq!(upstream.count(), 0);
    set(&gateway, "r0", "ready").await;
    assert_eq!(gateway.chat("hi").await.status, 200);
}

#[tokio::test]
async fn a_replica_is_named_by_its_id_and_where_that_is_not_enough_by_its_endpoint() {
    let upstream = Upstream::ok().await;
    let url = upstream.url();
    let gateway = Gateway::start(&format!(
        "endpoints:\n- name: e\n  models: [m]\n  replicas: [{{id: r0, url: {url}}}, {url}, {{id: 'rack/7', url: {url}}}]\n\
         - name: f\n  models: [n]\n  replicas: [{{id: r0, url: {url}}}]"
    ))
    .await;
    let by_address = upstream.address.to_string();
    for (rest, status) in [
        ("r0/drain", 409),
        ("r0/drain?endpoint=f", 200),
        ("r0/drain?endpoint=none", 404),
        (&format!("{by_address}/maint"), 200),
        ("rack/7/drain", 200),
        ("rack%2F7/maint?endpoint=%65", 200),
        (&format!("{}/drain", by_address.replace(':', "%3A")), 200),
        ("rack%2/drain", 404),
        ("r0/drain?endpoint=%6", 404),
        ("none/drain", 404),
        ("r0/", 404),
        ("r0", 404),
        ("r0/stop?endpoint=f", 404),
        ("r0/DRAIN?endpoint=f", 404),
        ("/drain", 404),
    ] {
        assert_eq!(gateway.admin(rest).await.status, status, "{rest}");
    }
    let duties = get(gateway.admin_address(), "/api/v1/replicas").await.json();
    let duties: Vec<_> = duties.as_array().unwrap().iter().map(|replica| replica["duty"].as_str().unwrap()).collect();
    assert_eq!(duties, ["ready", "drain", "maint", "drain"]);
}

#[tokio::test]
async fn only_a_post_to_the_admin_port_changes_anything() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream]).await;
    let path = "/api/v1/replicas/r0/drain";
    assert_eq!(get(gateway.admin_address(), path).await.status, 404);
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        let sent = request(method, path, &[], Bytes::new());
        assert_eq!(Call::start(gateway.admin_address(), sent).await.answer().await.status, 405);
    }
    assert_eq!(post(gateway.address(), path, "").await.status, 404);
    assert_eq!(gateway.status("r0", "duty").await, "ready");
}

/// A page in the browser of somebody who can reach the port must not be able to do what that person can.
#[tokio::test]
async fn pages_of_other_origins_change_nothing_even_if_their_name_was_made_to_lead_here() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream]).await;
    for (host, origin, status) in [
        ("127.0.0.1:8781", "https://page.example", 403),
        ("127.0.0.1:8781", "http://localhost:8781", 403),
        ("127.0.0.1:8781", "null", 403),
        ("127.0.0.1:8781", "", 403),
        ("page.example:8781", "http://page.example:8781", 403),
        ("127.0.0.1.page.example", "http://127.0.0.1.page.example", 403),
        ("localhost.page.example", "http://localhost.page.example", 403),
        ("127.0.0.1:8781", "http://127.0.0.1:8781", 200),
        ("[::1]:8781", "http://[::1]:8781", 200),
        ("LocalHost:8781", "http://LocalHost:8781", 200),
    ] {
        let sent = Request::post("/api/v1/replicas/r0/drain").header("host", host).header("origin", origin);
        let answer = Call::start(gateway.admin_address(), sent.body(Full::default()).unwrap()).await.answer().await;
        assert_eq!(answer.status, status, "{origin:?} at {host}");
        let duty = if status == 200 { "drain" } else { "ready" };
        assert_eq!(gateway.status("r0", "duty").await, duty);
        set(&gateway, "r0", "ready").await;
    }
}
