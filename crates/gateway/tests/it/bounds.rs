//! What all clients together can hold of the gateway is bounded, and so is how long one can do without reading.

use std::time::Duration;

use http::Method;

use crate::support::{
    Gateway, Reply, Upstream, Wire, chat, content, get, invocations, post, replicas, request, soon, until,
};

const CHAT: &str = "/v1/chat/completions";

async fn gateway(settings: &str, upstream: &Upstream) -> Gateway {
    Gateway::start(&format!("{settings}\n{}", replicas(&[upstream]))).await
}

#[tokio::test]
async fn above_the_limit_of_connections_the_next_waits_until_one_is_closed() {
    let upstream = Upstream::ok().await;
    let gateway = gateway("limits: {connections_max: 2}", &upstream).await;
    let (idle, mut busy) = (Wire::connect(gateway.address()).await, Wire::connect(gateway.address()).await);
    let ask = "GET /livez HTTP/1.1\r\nhost: g\r\n\r\n";
    busy.write(ask).await.unwrap();
    assert!(soon(busy.head()).await.unwrap().is_some());
    assert_eq!(gateway.metrics().await.sum("kvroute_client_connections", &[]), 2.0);
    let mut third = Wire::connect(gateway.address()).await;
    third.write(ask).await.unwrap();
    let waited = tokio::time::timeout(Duration::from_millis(150), third.head()).await;
    assert!(waited.is_err(), "there was no room for it: {waited:?}");
    drop(idle);
    let mut third = Wire::connect(gateway.address()).await;
    third.write(ask).await.unwrap();
    drop(busy);
    assert!(soon(third.head()).await.unwrap().is_some());
    until("all have left", async || gateway.metrics().await.sum("kvroute_client_connections", &[]) <= 2.0).await;
    assert_eq!(get(gateway.admin_address(), "/metrics").await.status, 200, "the admin port has room of its own");
}

#[tokio::test]
async fn above_the_limit_of_all_bodies_requests_are_refused_until_one_is_answered() {
    let upstream = Upstream::ok().await;
    let gateway = gateway("limits: {body_bytes_max: 1024, bodies_bytes_max: 1500}", &upstream).await;
    let mut slow = Wire::connect(gateway.address()).await;
    let part = "x".repeat(1_000);
    slow.write(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 1010\r\n\r\n{part}")).await.unwrap();
    let held = async || gateway.metrics().await.sum("kvroute_request_bodies_bytes", &[]);
    until("it has come", async || held().await == 1_000.0).await;
    let large = chat(&"y".repeat(800));
    let refused = post(gateway.address(), CHAT, large.clone()).await;
    assert_eq!((refused.status.as_u16(), refused.openai_error().as_str()), (503, "overloaded"));
    assert_eq!(refused.headers["retry-after"], "1");
    let refused = post(gateway.address(), &invocations("default"), large.clone()).await;
    assert_eq!(refused.status, 503);
    assert_eq!(refused.headers["x-amzn-errortype"], "ServiceUnavailable");
    assert_eq!(gateway.chat("small").await.status, 200, "what fits is served");
    slow.write("xxxxxxxxxx").await.unwrap();
    assert!(soon(slow.head()).await.unwrap().is_some());
    assert_eq!(post(gateway.address(), CHAT, large).await.status, 200);
    until("all is given back", async || held().await == 0.0).await;
}

/// A client that acknowledges what comes and never reads it.
#[tokio::test]
async fn a_client_that_takes_nothing_of_its_answer_gives_its_place_up() {
    let flood = "x".repeat(256 << 10);
    let reply =
        (0..256).fold(Reply::chunked("text/event-stream").chunk(content("one")), |reply, _| reply.chunk(&flood));
    let upstream = Upstream::always(reply.end()).await;
    let gateway = gateway("timeouts: {client_stall_ms: 100}", &upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{{}}")).await.unwrap();
    gateway.has_ended("client_gone", 1).await;
    gateway.is_at_rest().await;
    until("the replica stops", async || upstream.cut_off() == 1).await;
    drop(client);
}

#[tokio::test]
async fn a_client_that_waits_for_its_answer_is_not_taken_for_one_that_does_not_read() {
    let upstream =
        Upstream::always(Reply::default().pause(Duration::from_millis(300)).and(Reply::json(200, "{}"))).await;
    let gateway = gateway("timeouts: {client_stall_ms: 50}", &upstream).await;
    let sent = request(Method::POST, CHAT, &[("content-type", "application/json")], chat("hi"));
    assert_eq!(crate::support::Call::start(gateway.address(), sent).await.answer().await.status, 200);
}
