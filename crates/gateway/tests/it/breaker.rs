//! A replica whose requests fail is ejected, and comes back on trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use http::Method;
use kvroute_core::breaker::{EJECTION_US, FAILURES_MAX};

use crate::support::{
    Arrived, Call, DONE, EVENT_STREAM, Gate, Gateway, Refusing, Reply, Upstream, completion, content, post, replicas,
    request, soon, until, within,
};

const CHAT: &str = "/v1/chat/completions";
const IN_TURN: &str = "routing: {strategy: round_robin}\n";
const FAILURES: usize = FAILURES_MAX as usize;

/// Asks two replicas in turn, of which the one at `url` fails with `status`, until that is ejected; then it is not asked.
async fn is_ejected_by(what: &str, url: &str, status: u16) {
    let good = Upstream::ok().await;
    let limits = "timeouts: {first_byte_ms: 30, answer_idle_ms: 30}\n";
    let listed = format!("replicas: [{{id: r0, url: {url}}}, {{id: r1, url: {}}}]", good.url());
    let gateway = Gateway::start(&format!("{limits}{IN_TURN}{listed}")).await;
    gateway.becomes("r0", "ready").await;
    gateway.becomes("r1", "ready").await;
    for _ in 0..3 * FAILURES {
        let answer = gateway.chat("hi").await;
        assert_eq!(
            answer.status,
            if answer.header("x-kvroute-replica") == Some("r1") { 200 } else { status },
            "{what}: {answer:?}"
        );
    }
    gateway.is_at_rest().await;
    assert_eq!(gateway.status("r0", "state").await, "ejected", "{what}");
    assert_eq!(gateway.status("r0", "ejected").await, true, "{what}");
    for _ in 0..4 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1", "{what}");
    }
}

/// S42, S43, S49: whatever speaks against a replica counts, streams that die in the middle included.
#[tokio::test]
async fn failures_in_a_row_eject_whatever_they_are() {
    let begun = || Reply::chunked(EVENT_STREAM).chunk(content("one"));
    let told = "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\n";
    for (what, reply, status) in [
        ("an error of the server's kind", Reply::json(500, "{}"), 500),
        ("another", Reply::json(504, "{}"), 504),
        ("a lost connection", Reply::default().reset(), 502),
        ("no answer in time", Reply::default().never(), 504),
        ("a stream that breaks off", begun().reset(), 200),
        ("a stream that falls silent", begun().never(), 200),
        ("an error inside a stream", begun().chunk(told).chunk(DONE).end(), 200),
    ] {
        let upstream = Upstream::always(reply).await;
        is_ejected_by(what, &upstream.url(), status).await;
        assert_eq!(upstream.count(), FAILURES, "{what}: an ejected replica is not asked");
    }
}

#[tokio::test]
async fn where_nobody_else_can_serve_a_failing_replica_does_and_one_that_cannot_be_reached_is_not_waited_for() {
    let upstream = Upstream::always(Reply::json(500, "{}")).await;
    let gateway = Gateway::before(&[&upstream]).await;
    gateway.becomes("r0", "ready").await;
    for _ in 0..3 * FAILURES {
        assert_eq!(gateway.chat("hi").await.status, 500, "what the engine says reaches the client");
    }
    assert_eq!((upstream.count(), gateway.status("r0", "state").await), (3 * FAILURES, "ejected".into()));

    let gateway = Gateway::start(&format!("replicas: [{{id: r0, url: {}}}]", Refusing::new().url())).await;
    for _ in 0..FAILURES {
        assert!(gateway.chat("hi").await.text().contains("cannot be reached"));
    }
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    assert!(answer.text().contains("1 ejected"), "{answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
}

#[tokio::test]
async fn a_prompt_that_no_engine_can_take_leaves_the_fleet_to_everybody_else() {
    let script = |arrived: &Arrived| match arrived.body.windows(6).any(|part| part == b"poison") {
        true => Reply::json(500, "{}"),
        false => Reply::json(200, "{}"),
    };
    let upstreams = [Upstream::start(script).await, Upstream::start(script).await, Upstream::start(script).await];
    let gateway = Gateway::start(&format!("{IN_TURN}{}", replicas(&upstreams.each_ref()))).await;
    for i in 0..3 {
        gateway.becomes(&format!("r{i}"), "ready").await;
    }
    for _ in 0..6 * FAILURES {
        assert_eq!(gateway.chat("poison").await.status, 500);
    }
    for i in 0..3 {
        assert_eq!(gateway.status(&format!("r{i}"), "ejected").await, true);
    }
    for i in 0..20 {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.status, 200);
    }
}

#[tokio::test]
async fn what_is_no_fault_of_the_replica_does_not_eject_it() {
    let gate = Gate::new();
    for status in [400, 404, 422, 429, 501, 503] {
        let upstream = Upstream::always(Reply::json(status, "{}")).await;
        let gateway = Gateway::before(&[&upstream]).await;
        gateway.becomes("r0", "ready").await;
        for _ in 0..2 * FAILURES {
            assert_eq!(gateway.chat("hi").await.status, status);
        }
        assert_eq!((upstream.count(), gateway.status("r0", "state").await), (2 * FAILURES, "ready".into()), "{status}");
    }
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate)).await;
    let gateway = Gateway::before(&[&upstream]).await;
    gateway.becomes("r0", "ready").await;
    for count in 1..=2 * FAILURES {
        gateway.stream("hi").await.leave().await;
        gateway.has_ended("client_gone", count).await;
    }
    assert_eq!(gateway.status("r0", "state").await, "ready", "clients that leave");
}

/// An engine that fails, until it is well; then it answers when the gate opens.
struct Flaky {
    upstream: Upstream,
    is_well: Arc<AtomicBool>,
    gate: Gate,
}

impl Flaky {
    async fn start() -> Self {
        let (is_well, gate) = (Arc::new(AtomicBool::new(false)), Gate::new());
        let (well, held) = (is_well.clone(), gate.clone());
        let script = move |_: &_| match well.load(SeqCst) {
            true => Reply::json(200, "{}").after(&held),
            false => Reply::json(500, "{}"),
        };
        Self { upstream: Upstream::start(script).await, is_well, gate }
    }
}

#[tokio::test]
async fn an_ejected_replica_comes_back_with_one_request_at_a_time() {
    let (flaky, good) = (Flaky::start().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!("{IN_TURN}{}", replicas(&[&flaky.upstream, &good]))).await;
    gateway.becomes("r0", "ready").await;
    let begun = Instant::now();
    while gateway.status("r0", "state").await != "ejected" {
        assert!(matches!(gateway.chat("hi").await.status.as_u16(), 200 | 500));
    }
    flaky.is_well.store(true, SeqCst);
    let before = flaky.upstream.count();
    for _ in 0..6 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(flaky.upstream.count(), before, "ejected");

    let mut calls = Vec::new();
    within(10, async {
        while flaky.upstream.in_flight() == 0 {
            calls.push(gateway.ask("hi").await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    })
    .await;
    assert!(begun.elapsed() >= Duration::from_micros(EJECTION_US), "{:?}", begun.elapsed());
    for _ in 0..6 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert_eq!(flaky.upstream.in_flight(), 1, "on trial");
    flaky.gate.open();
    for call in calls {
        assert_eq!(call.answer().await.status, 200);
    }
    // Two more trials, and it is as it was.
    while flaky.upstream.count() < before + 3 {
        assert_eq!(soon(gateway.chat("hi")).await.status, 200);
    }
    gateway.is_at_rest().await;
    let counts = || (flaky.upstream.count(), good.count());
    let (flaky_before, good_before) = counts();
    for _ in 0..6 {
        gateway.chat("hi").await;
    }
    assert_eq!(counts(), (flaky_before + 3, good_before + 3));
}

#[tokio::test]
async fn a_replica_that_fails_at_once_does_not_look_idle() {
    let (failing, good) = (Upstream::always(Reply::json(500, "{}")).await, Upstream::ok().await);
    let settings = format!("routing: {{strategy: least_outstanding}}\n{}", replicas(&[&failing, &good]));
    let gateway = Gateway::start(&settings).await;
    for _ in 0..20 {
        gateway.chat("hi").await;
    }
    assert!(failing.count() <= 1, "of two idle ones, {} of 20 requests went to the one that fails", failing.count());
}

/// S56
#[tokio::test]
async fn a_model_whose_replicas_are_all_ejected_is_unavailable_and_one_that_never_was_does_not_exist() {
    let (a, b) = (Refusing::new(), Refusing::new());
    let listed = format!("replicas: [{}, {}]", a.url(), b.url());
    let gateway = Gateway::start(&format!("{IN_TURN}endpoints:\n- name: e\n  models: [m]\n  {listed}")).await;
    for _ in 0..FAILURES {
        assert!(gateway.chat("hi").await.text().contains("cannot be reached"));
    }
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    let never = completion("hi").replace("\"m\"", "\"never\"");
    let answer = post(gateway.address(), "/v1/completions", never).await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (404, "model_not_found"));
}

/// S49
#[tokio::test]
async fn a_replica_that_hangs_holds_up_nobody_but_its_own_requests() {
    let (hanging, good) = (Upstream::always(Reply::default().never()).await, Upstream::ok().await);
    let listed = replicas(&[&hanging, &good]);
    let gateway = Gateway::start(&format!("{IN_TURN}timeouts: {{first_byte_ms: 800}}\n{listed}")).await;
    let begun = Instant::now();
    let mut calls = Vec::new();
    for _ in 0..2 * FAILURES {
        calls.push(gateway.ask("hi").await);
    }
    until("both have their half", async || hanging.count() == FAILURES && good.count() == FAILURES).await;
    gateway.has_ended("ok", FAILURES).await;
    assert!(begun.elapsed() < Duration::from_millis(800), "{:?}", begun.elapsed());
    let mut statuses = Vec::new();
    for call in calls {
        statuses.push(call.answer().await.status.as_u16());
    }
    statuses.sort_unstable();
    assert_eq!(statuses, [vec![200; FAILURES], vec![504; FAILURES]].concat());
    assert_eq!(gateway.status("r0", "state").await, "ejected", "set aside");
    let sent = request(Method::POST, CHAT, &[], completion("hi"));
    assert_eq!(Call::start(gateway.address(), sent).await.answer().await.replica(), "r1");
}
