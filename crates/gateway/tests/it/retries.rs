//! A request that nobody has begun to answer goes elsewhere: once to each place, and within a budget.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::support::{
    DONE, EVENT_STREAM, Gateway, Refusing, Reply, Upstream, chat, content, invocations, invocations_stream, post,
    post_with, replicas,
};

/// A refusal for load.
fn busy(status: u16, retry_after: Option<&str>) -> Reply {
    let wait = retry_after.map(|wait| format!("retry-after: {wait}\r\n")).unwrap_or_default();
    Reply::raw(format!(
        "HTTP/1.1 {status} Busy\r\n{wait}content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
    ))
}

/// S52, S53: where the first places refuse, the request ends at the one that does not.
#[tokio::test]
async fn a_busy_replica_is_passed_over_and_no_place_is_asked_twice_for_one_request() {
    for status in [429, 503] {
        let refusing = [
            Upstream::always(busy(status, None)).await,
            Upstream::always(busy(status, None)).await,
            Upstream::always(busy(status, None)).await,
        ];
        let good = Upstream::ok().await;
        let gateway = Gateway::before(&[&refusing[0], &refusing[1], &refusing[2], &good]).await;
        for i in 0..12 {
            let answer = gateway.chat(&format!("prompt {i}")).await;
            assert_eq!((answer.status.as_u16(), answer.replica()), (200, "r3"), "{status}");
        }
        assert_eq!(good.count(), 12, "{status}");
        let mut asked: HashMap<_, usize> = HashMap::new();
        for (i, upstream) in refusing.iter().enumerate() {
            upstream.requests().into_iter().for_each(|arrived| *asked.entry((i, arrived.body)).or_default() += 1);
        }
        assert!(asked.values().all(|count| *count == 1), "{status}: {asked:?}");
        let retries = gateway.metrics().await.sum("kvroute_retries_total", &[]);
        assert!(retries > 0.0 && retries == asked.len() as f64, "{status}: {retries} for {}", asked.len());
        gateway.is_at_rest().await;
    }
}

/// S52: of several that say when to come back, the earliest counts; where none says, no time is invented.
#[tokio::test]
async fn when_all_are_busy_the_client_is_told_the_earliest_time_and_the_next_request_asks_again() {
    let far = "Fri, 31 Dec 9999 23:59:59 GMT";
    for (said, expected) in [
        ([Some("7"), Some("3"), None], Some("3")),
        ([Some(far), None, Some("5")], Some("5")),
        ([None, Some("4"), Some("nonsense")], Some("4")),
        ([None, None, None], None),
    ] {
        let upstreams = [
            Upstream::always(busy(503, said[0])).await,
            Upstream::always(busy(429, said[1])).await,
            Upstream::always(busy(503, said[2])).await,
        ];
        let gateway = Gateway::before(&upstreams.each_ref()).await;
        for request in 1..=2 {
            let answer = gateway.chat("hi").await;
            assert!(matches!(answer.status.as_u16(), 429 | 503), "{said:?}: {answer:?}");
            assert_eq!(answer.header("retry-after"), expected, "{said:?}");
            assert!(upstreams.iter().all(|upstream| upstream.count() == request), "{said:?}: request {request}");
        }
        gateway.has_ended("error_status", 2).await;
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn a_refusal_for_load_has_a_name_of_its_own_on_the_native_api() {
    for (status, error_type) in [(429, "ThrottlingException"), (503, "ServiceUnavailable")] {
        let upstreams = [Upstream::always(busy(status, Some("9"))).await, Upstream::always(busy(status, None)).await];
        let gateway = Gateway::before(&upstreams.each_ref()).await;
        for path in [invocations("default"), invocations_stream("default")] {
            let answer = post(gateway.address(), &path, chat("hi")).await;
            assert_eq!((answer.status.as_u16(), answer.header("x-amzn-errortype")), (status, Some(error_type)));
            assert_eq!(answer.header("retry-after"), Some("9"));
            assert!(answer.json()["Message"].as_str().unwrap().contains("refused by replica r"), "{answer:?}");
            assert!(answer.decision().ends_with(";attempt=2"), "{answer:?}");
        }
        assert_eq!((upstreams[0].count(), upstreams[1].count()), (2, 2));
        gateway.has_ended("error_status", 2).await;
        gateway.is_at_rest().await;
    }
}

/// S52
#[tokio::test]
async fn a_replica_that_says_when_to_come_back_is_left_alone_until_then() {
    let a = Upstream::in_turn([busy(503, Some("1")), Reply::json(200, "{}")]).await;
    let b = Upstream::ok().await;
    let gateway = Gateway::start(&format!("routing: {{strategy: round_robin}}\n{}", replicas(&[&a, &b]))).await;
    let begun = Instant::now();
    while a.count() == 0 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    loop {
        let answer = gateway.chat("hi").await;
        if answer.replica() == "r0" {
            break;
        }
        assert_eq!((answer.decision(), a.count()), ("load", 1), "it is not asked in vain");
        assert!(begun.elapsed() < Duration::from_secs(8), "it never gets a request again");
    }
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

/// S52: a refusal alone is no reason to stay away.
#[tokio::test]
async fn a_replica_that_does_not_say_when_to_come_back_is_asked_again_in_its_turn() {
    let (a, b) = (Upstream::always(busy(429, None)).await, Upstream::ok().await);
    let gateway = Gateway::start(&format!("routing: {{strategy: round_robin}}\n{}", replicas(&[&a, &b]))).await;
    for _ in 0..10 {
        assert_eq!(gateway.chat("hi").await.replica(), "r1");
    }
    assert!(a.count() >= 3, "asked {} times", a.count());
}

/// S44, S53: nothing of a stream is sent before a replica answers, so the client sees one clean stream, or a plain error.
#[tokio::test]
async fn a_stream_that_cannot_begin_at_one_replica_begins_at_another_or_is_a_plain_error() {
    let refusing = Refusing::new();
    let events = [content("one"), DONE.to_owned()].concat();
    let good = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(&events).end()).await;
    let full = Upstream::always(busy(503, None)).await;
    // Were they known to be well, they would be preferred to the one that refuses connections.
    [&good, &full].iter().for_each(|upstream| upstream.answer_checks(Reply::default().never()));
    for (first, second, status) in [
        (refusing.url(), good.url(), 200),
        (full.url(), good.url(), 200),
        (refusing.url(), full.url(), 503),
        (refusing.url(), refusing.url(), 503),
    ] {
        let gateway = Gateway::start(&format!(
            "routing: {{strategy: round_robin}}\nreplicas: [{{id: r0, url: {first}}}, {{id: r1, url: {second}}}]"
        ))
        .await;
        for _ in 0..2 {
            let answer = gateway.stream("hi").await.rest().await;
            assert_eq!((answer.status.as_u16(), answer.is_complete), (status, true), "{first} {second}: {answer:?}");
            let content_type = answer.header("content-type").unwrap();
            if status == 200 {
                assert_eq!((answer.text(), content_type), (&*events, EVENT_STREAM));
            } else {
                assert_eq!(content_type, "application/json");
            }
        }
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn a_retry_stays_within_the_variant_that_the_request_was_given() {
    let (full, idle) = (Upstream::always(busy(503, None)).await, Upstream::ok().await);
    let gateway = Gateway::start(&format!(
        "endpoints:\n- name: e\n  variants:\n  - {{name: a, replicas: [{}]}}\n  - {{name: b, weight: 0, replicas: [{}]}}",
        full.url(),
        idle.url()
    ))
    .await;
    for headers in [&[][..], &[("x-amzn-sagemaker-target-variant", "a")]] {
        let answer = post_with(gateway.address(), &invocations("e"), headers, chat("hi")).await;
        assert_eq!((answer.status.as_u16(), idle.count()), (503, 0));
    }
    assert_eq!(full.count(), 2);
}

#[tokio::test]
async fn a_prompt_that_was_refused_is_believed_to_be_held_only_where_it_was_taken() {
    let (full, good, refusing) = (Upstream::always(busy(503, None)).await, Upstream::ok().await, Refusing::new());
    [&good, &full].iter().for_each(|upstream| upstream.answer_checks(Reply::default().never()));
    let gateway = Gateway::start(&format!(
        "routing: {{strategy: round_robin}}\nreplicas: [{{id: full, url: {}}}, {{id: gone, url: {}}}, {{id: good, url: {}}}]",
        full.url(),
        refusing.url(),
        good.url()
    ))
    .await;
    for i in 0..4 {
        assert_eq!(gateway.chat(&format!("{i}{}", "x".repeat(4000))).await.replica(), "good");
    }
    let page = gateway.metrics().await;
    let left = |id: &str| page.sum("kvroute_retries_total", &[&format!("replica=\"{id}\"")]);
    assert!(left("full") > 0.0 && left("gone") > 0.0);
    let held = |id: &str| page.sum("kvroute_replica_predicted_blocks", &[&format!("replica=\"{id}\"")]);
    assert!(held("good") > 0.0);
    assert_eq!((held("full"), held("gone")), (0.0, 0.0));
}

/// A fleet that is full is not asked ten times as much because of it.
#[tokio::test]
async fn all_requests_share_a_budget_for_retries() {
    const REQUESTS: usize = 60;
    let mut upstreams = Vec::new();
    for _ in 0..10 {
        upstreams.push(Upstream::always(busy(503, None)).await);
    }
    let gateway = Gateway::before(&upstreams.iter().collect::<Vec<_>>()).await;
    let asked = || upstreams.iter().map(Upstream::count).sum::<usize>();
    assert_eq!(gateway.chat("the first").await.status, 503);
    assert_eq!(asked(), 10, "at first there is enough for everybody");
    for i in 1..REQUESTS {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.status, 503);
    }
    let retries = asked() - REQUESTS;
    assert!((100..=112).contains(&retries), "100 saved, and one for every five requests: {retries}");
    assert_eq!(gateway.metrics().await.sum("kvroute_retries_total", &[]), retries as f64);
    gateway.is_at_rest().await;
}
