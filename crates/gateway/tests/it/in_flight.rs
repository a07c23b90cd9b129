//! A place on a replica is free again however the request ended, and the replica hears of it when nobody waits any more.

use http::Method;

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Refusing, Reply, Upstream, chat, content, invocations_stream, post,
    request, streamed_chat, until_within,
};

const CHAT: &str = "/v1/chat/completions";

async fn ask(gateway: &Gateway, path: &str) -> Call {
    let json = [("content-type", "application/json")];
    Call::start(gateway.address(), request(Method::POST, path, &json, streamed_chat("hi"))).await
}

#[tokio::test]
async fn one_is_in_flight_while_a_stream_runs_and_none_after_it() {
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut streams = Vec::new();
    for count in 1..=3 {
        let mut stream = ask(&gateway, CHAT).await.streaming().await;
        stream.brings(&content("one")).await;
        assert_eq!(gateway.in_flight("r0").await, count);
        streams.push(stream);
    }
    gate.open();
    for stream in streams {
        assert!(stream.rest().await.is_complete);
    }
    gateway.is_at_rest().await;
    gateway.has_ended("ok", 3).await;
    assert_eq!(gateway.status("r0", "routed").await, 3);
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_frees_its_place_and_ends_the_work_at_the_replica() {
    for path in [CHAT, &invocations_stream("default")] {
        let upstream = Upstream::always(Reply::default().never()).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let call = ask(&gateway, path).await;
        upstream.has_got(1).await;
        assert_eq!(gateway.in_flight("r0").await, 1);
        call.leave().await;
        until_within(1, "the replica sees its connection closing", async || upstream.cut_off() == 1).await;
        gateway.is_at_rest().await;
        gateway.has_ended("client_gone", 1).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_a_silent_stream_frees_its_place_and_ends_the_work_at_the_replica() {
    for path in [CHAT, &invocations_stream("default")] {
        let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).never()).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let mut stream = ask(&gateway, path).await.streaming().await;
        stream.piece().await.unwrap().unwrap();
        assert_eq!(gateway.in_flight("r0").await, 1);
        stream.leave().await;
        until_within(1, "the replica sees its connection closing", async || upstream.cut_off() == 1).await;
        gateway.is_at_rest().await;
        gateway.has_ended("client_gone", 1).await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_on_the_end_mark_has_got_its_answer() {
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).chunk("data: [DONE]\n\n").never();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut stream = ask(&gateway, CHAT).await.streaming().await;
    let mut seen = Vec::new();
    while !seen.ends_with(b"[DONE]\n\n") {
        seen.extend_from_slice(&stream.piece().await.unwrap().unwrap());
    }
    stream.leave().await;
    gateway.is_at_rest().await;
    gateway.has_ended("ok", 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_while_it_sends_was_never_on_a_replica() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = crate::support::Wire::connect(gateway.address()).await;
    client.write("POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 100\r\n\r\n{\"prompt\":").await.unwrap();
    drop(client);
    gateway.is_at_rest().await;
    assert_eq!((upstream.count(), gateway.status("r0", "routed").await.as_u64()), (0, Some(0)));
}

#[tokio::test]
async fn a_replica_that_resets_frees_the_place() {
    let in_stream = Reply::chunked(EVENT_STREAM).chunk(content("one")).reset();
    for (reply, outcome, status) in [(Reply::default().reset(), "lost", 502), (in_stream, "broken_off", 200)] {
        let (a, b) = (Upstream::always(reply.clone()).await, Upstream::always(reply).await);
        let gateway = Gateway::before(&[&a, &b]).await;
        let answer = ask(&gateway, CHAT).await.answer().await;
        assert_eq!(answer.status, status);
        gateway.has_ended(outcome, 1).await;
        gateway.is_at_rest().await;
        assert_eq!(a.count() + b.count(), 1, "it may have begun to generate, so nobody else is asked");
    }
}

#[tokio::test]
async fn a_retry_frees_the_place_it_left() {
    let gate = Gate::new();
    let upstream = Upstream::always(Reply::json(200, "{}").after(&gate)).await;
    // Were it known to be well, it would be preferred to the one that refuses.
    upstream.answer_checks(Reply::default().never());
    let refusing = Refusing::new();
    let gateway = Gateway::start(&format!(
        "replicas: [{{id: bad, url: {}}}, {{id: good, url: {}}}]\nrouting: {{strategy: round_robin}}",
        refusing.url(),
        upstream.url()
    ))
    .await;
    let calls = [ask(&gateway, CHAT).await, ask(&gateway, CHAT).await];
    upstream.has_got(2).await;
    assert_eq!((gateway.in_flight("bad").await, gateway.in_flight("good").await), (0, 2));
    gate.open();
    for call in calls {
        assert_eq!(call.answer().await.replica(), "good");
    }
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn answers_without_a_body_free_their_place() {
    for head in ["HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n"] {
        let upstream = Upstream::always(Reply::raw(head)).await;
        let gateway = Gateway::before(&[&upstream]).await;
        post(gateway.address(), CHAT, chat("hi")).await;
        gateway.has_ended("ok", 1).await;
        gateway.is_at_rest().await;
    }
}

/// S23: what the gateway does not know it places by load, and counts.
#[tokio::test]
async fn requests_to_any_path_are_counted_and_spread() {
    let gate = Gate::new();
    let mut upstreams = Vec::new();
    for _ in 0..4 {
        upstreams.push(Upstream::always(Reply::json(200, "{}").after(&gate)).await);
    }
    let gateway = Gateway::before(&upstreams.iter().collect::<Vec<_>>()).await;
    let mut calls = Vec::new();
    for path in ["/v1/of/the/engines/own", "/v1/tokenize", "/v1/audio/transcriptions", "/v1/rerank"] {
        for _ in 0..10 {
            let sent = request(Method::POST, path, &[], chat("a prefix that all share"));
            calls.push(Call::start(gateway.address(), sent).await);
        }
    }
    let arrived = || upstreams.iter().map(Upstream::in_flight).collect::<Vec<_>>();
    until_within(8, "all have arrived", async || arrived().iter().sum::<usize>() == 40).await;
    assert_eq!(arrived(), [10; 4]);
    for id in ["r0", "r1", "r2", "r3"] {
        assert_eq!(gateway.in_flight(id).await, 10);
    }
    gate.open();
    for call in calls {
        assert_eq!(call.answer().await.decision(), "no_prefix");
    }
    gateway.is_at_rest().await;
}
