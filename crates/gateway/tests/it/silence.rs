//! Whoever falls silent in the middle is given up in time, and whoever is only slow is not.

use std::time::{Duration, Instant};

use kvroute_wire::eventstream::Decoder;

use crate::support::{
    DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, Wire, chat, content, invocations, invocations_stream, post,
    post_with, soon, streamed_chat, until,
};

const CHAT: &str = "/v1/chat/completions";

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn with_timeouts(timeouts: &str, upstream: &Upstream) -> Gateway {
    Gateway::start(&format!("timeouts: {{{timeouts}}}\nreplicas: [{{id: r0, url: {}}}]", upstream.url())).await
}

/// S42: a replica that vanishes without closing its connection looks like this.
#[tokio::test]
async fn an_answer_that_goes_silent_is_broken_off_where_the_client_can_see_it() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{\"a\":";
    let stream = || Reply::chunked(EVENT_STREAM);
    for (what, reply, passed) in [
        ("between events", stream().chunk(content("one")), content("one")),
        ("before any event", stream(), String::new()),
        ("inside an event", stream().chunk("data: {\"cho"), "data: {\"cho".to_owned()),
        ("in one piece", Reply::raw(whole), "{\"a\":".to_owned()),
    ] {
        let upstream = Upstream::always(reply.never()).await;
        let gateway = with_timeouts("answer_idle_ms: 60", &upstream).await;
        let begun = Instant::now();
        let answer = post(gateway.address(), CHAT, streamed_chat("hi")).await;
        assert!(begun.elapsed() >= ms(60), "{what}: {:?}", begun.elapsed());
        assert!(!answer.is_complete, "{what}");
        let told = answer.text().strip_prefix(&*passed).unwrap_or_else(|| panic!("{what}: {answer:?}"));
        let is_between_events = matches!(what, "between events" | "before any event");
        assert_eq!(told.contains("stream_broken"), is_between_events, "{what}: {told}");
        assert_eq!(told.is_empty(), !is_between_events, "{what}: {told}");
        gateway.has_ended("broken_off", 1).await;
        gateway.is_at_rest().await;
        until("the replica sees its connection closing", async || upstream.cut_off() == 1).await;
    }
}

#[tokio::test]
async fn a_native_stream_that_goes_silent_ends_with_an_exception() {
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).never()).await;
    let gateway = with_timeouts("answer_idle_ms: 60", &upstream).await;
    let answer = post(gateway.address(), &invocations_stream("default"), streamed_chat("hi")).await;
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    decoder.feed(&answer.body, &mut frames).unwrap();
    assert!(answer.is_complete && decoder.is_between_frames());
    assert_eq!(
        frames.iter().map(|frame| frame.header(":exception-type")).collect::<Vec<_>>(),
        [None, Some("ModelStreamError")]
    );
    gateway.has_ended("broken_off", 1).await;
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_slow_answer_may_take_longer_than_any_silence_in_it() {
    let tick = |reply: Reply| reply.pause(ms(60)).chunk(content("tick"));
    let reply = (0..8).fold(Reply::chunked(EVENT_STREAM), |reply, _| tick(reply)).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = with_timeouts("answer_idle_ms: 400", &upstream).await;
    let begun = Instant::now();
    let answer = gateway.stream("hi").await.rest().await;
    assert!(answer.is_complete && answer.text().ends_with(DONE), "{answer:?}");
    assert!(begun.elapsed() > ms(400), "{:?}", begun.elapsed());
}

/// The replica is only as fast as its client lets it be: what waits for a client that does not read is bounded (S45), and
/// that wait is no silence of the replica's.
#[tokio::test]
async fn a_client_that_does_not_read_holds_the_replica_up_and_is_not_taken_for_its_silence() {
    const CHUNKS: usize = 1024;
    let chunk = "x".repeat(64 << 10);
    let reply = (0..CHUNKS).fold(Reply::chunked("text/plain"), |reply, _| reply.chunk(&chunk)).end();
    let upstream = Upstream::always(reply).await;
    let gateway = with_timeouts("answer_idle_ms: 100", &upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{{}}")).await.unwrap();
    let head = soon(client.head()).await.unwrap().unwrap();
    tokio::time::sleep(ms(400)).await;
    assert_eq!(upstream.in_flight(), 1, "64 MiB are more than the kernel holds, and the gateway must not");
    let body = soon(client.body(&head)).await.expect("it is complete");
    assert_eq!(body.len(), CHUNKS * chunk.len());
    gateway.has_ended("ok", 1).await;
}

#[tokio::test]
async fn a_body_that_goes_silent_is_refused_and_its_connection_closed() {
    let upstream = Upstream::ok().await;
    let gateway = with_timeouts("body_idle_ms: 60", &upstream).await;
    for (path, status, told) in [
        (CHAT, "HTTP/1.1 408 Request Timeout", "body_too_slow"),
        (&invocations("default"), "HTTP/1.1 400 Bad Request", "timeouts.body_idle_ms"),
    ] {
        for framing in ["content-length: 100\r\n\r\n{\"model\":", "transfer-encoding: chunked\r\n\r\n3\r\n{\"m\r\n"] {
            let mut client = Wire::connect(gateway.address()).await;
            let begun = Instant::now();
            client.write(format!("POST {path} HTTP/1.1\r\nhost: g\r\n{framing}")).await.unwrap();
            let head = soon(client.head()).await.unwrap().unwrap();
            assert!(begun.elapsed() >= ms(60), "{:?}", begun.elapsed());
            assert_eq!((&*head.line, head.header("connection")), (status, Some("close")), "{path} {framing}");
            let body = soon(client.body(&head)).await.unwrap();
            assert!(String::from_utf8_lossy(&body).contains(told), "{path}: {body:?}");
            soon(client.closed()).await;
        }
    }
    assert_eq!((upstream.count(), gateway.status("r0", "routed").await), (0, 0.into()));
    let refused = gateway.metrics().await.sum("kvroute_refused_requests_total", &["kind=\"body_too_slow\""]);
    assert_eq!(refused, 4.0);
}

#[tokio::test]
async fn a_body_that_comes_slowly_is_taken() {
    let upstream = Upstream::ok().await;
    let gateway = with_timeouts("body_idle_ms: 400", &upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    let body = chat("hi");
    let begun = Instant::now();
    client.write(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: {}\r\n\r\n", body.len())).await.unwrap();
    for piece in body.as_bytes().chunks(body.len() / 8) {
        tokio::time::sleep(ms(60)).await;
        client.write(piece).await.unwrap();
    }
    let head = soon(client.head()).await.unwrap().unwrap();
    assert_eq!(head.line, "HTTP/1.1 200 OK");
    assert!(begun.elapsed() > ms(400), "{:?}", begun.elapsed());
    assert_eq!(upstream.request().body, body);
}

#[tokio::test]
async fn a_client_that_asks_nothing_or_never_ends_its_head_is_disconnected() {
    let upstream = Upstream::ok().await;
    let gateway = with_timeouts("client_idle_ms: 80", &upstream).await;
    let asked = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{{}}");
    for (what, sent, answers) in [
        ("nothing", "", 0),
        ("half of what HTTP/2 begins with", "PRI * HTTP/2.0\r\n\r\n", 0),
        ("half a head", "POST /v1/chat/completions HTTP/1.1\r\nhost: g\r\nx-", 0),
        ("nothing more", &asked, 1),
    ] {
        for address in [gateway.address(), gateway.admin_address()] {
            let mut client = Wire::connect(address).await;
            let begun = Instant::now();
            client.write(sent).await.unwrap();
            for _ in 0..answers {
                let head = soon(client.head()).await.unwrap().unwrap();
                soon(client.body(&head)).await.unwrap();
            }
            soon(client.closed()).await;
            assert!(begun.elapsed() >= ms(80), "{what}: {:?}", begun.elapsed());
        }
    }
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_client_that_waits_for_its_answer_is_not_idle() {
    let gate = Gate::new();
    let reply = Reply::default().wait(&gate).and(Reply::chunked(EVENT_STREAM)).pause(ms(250)).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = with_timeouts("client_idle_ms: 80", &upstream).await;
    let call = gateway.ask("hi").await;
    upstream.has_got(1).await;
    tokio::time::sleep(ms(250)).await;
    gate.open();
    let answer = call.answer().await;
    assert!(answer.is_complete && answer.text() == DONE, "{answer:?}");
}

/// S47: what nobody waits for any more is not generated, in whichever phase it is; S48: also where output waits already.
#[tokio::test]
async fn clients_that_leave_with_output_under_way_leave_no_connection_behind() {
    let flood = "x".repeat(256 << 10);
    let reply = Reply::chunked(EVENT_STREAM).chunk(&flood).chunk(&flood).chunk(&flood).chunk(&flood).never();
    let upstream = Upstream::in_turn(vec![reply; 60].into_iter().chain([Reply::json(200, "{}")])).await;
    let gateway = with_timeouts("connect_ms: 2000", &upstream).await;
    for _ in 0..60 {
        let headers = [("content-type", "application/json")];
        let path = if upstream.count() % 2 == 0 { CHAT.to_owned() } else { invocations_stream("default") };
        let sent = crate::support::request(http::Method::POST, &path, &headers, streamed_chat("hi"));
        crate::support::Call::start(gateway.address(), sent).await.streaming().await.leave().await;
    }
    until("all were cut off", async || upstream.cut_off() == 60 && upstream.in_flight() == 0).await;
    gateway.has_ended("client_gone", 60).await;
    gateway.is_at_rest().await;
    assert_eq!(post_with(gateway.address(), CHAT, &[], chat("hi")).await.status, 200);
}
