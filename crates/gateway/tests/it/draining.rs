//! Stopping: what is under way ends well, what is new is refused, and it does not take for ever.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::net::TcpStream;

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, Wire, content, get, replicas, request, soon,
    streamed_chat, until,
};

async fn stream(address: SocketAddr) -> Call {
    Call::start(address, request(http::Method::POST, "/v1/chat/completions", &[], streamed_chat("hi"))).await
}

async fn refuses(address: SocketAddr) {
    until("connections are refused", async || TcpStream::connect(address).await.is_err()).await;
}

#[tokio::test]
async fn an_open_stream_finishes_while_new_connections_are_refused() {
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let (address, admin) = (gateway.address(), gateway.admin_address());
    let mut stream = stream(address).await.streaming().await;
    stream.brings(&content("one")).await;
    let drained = tokio::spawn(gateway.drain());
    refuses(address).await;
    assert_eq!(get(admin, "/readyz").await.status, 503, "the admin port goes last");
    assert!(!drained.is_finished());
    gate.open();
    let rest = stream.rest().await;
    assert!(rest.is_complete && rest.text() == DONE);
    assert!(soon(drained).await.unwrap(), "everything ended in time");
    refuses(admin).await;
}

#[tokio::test]
async fn readiness_says_no_while_requests_are_still_taken() {
    let upstream = Upstream::ok().await;
    let settings = format!("timeouts: {{drain_delay_ms: 400}}\n{}", replicas(&[&upstream]));
    let gateway = Gateway::start(&settings).await;
    let address = gateway.address();
    let begun = Instant::now();
    let drained = tokio::spawn(gateway.drain());
    until("readiness says no", async || get(address, "/readyz").await.status == 503).await;
    assert_eq!(get(address, "/readyz").await.text(), "not ready: draining\n");
    assert_eq!(get(address, "/livez").await.status, 200);
    assert_eq!(stream(address).await.answer().await.status, 200);
    refuses(address).await;
    assert!(begun.elapsed() >= Duration::from_millis(400));
    assert!(soon(drained).await.unwrap());
}

#[tokio::test]
async fn draining_does_not_wait_longer_than_it_may() {
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).never()).await;
    let settings = format!("timeouts: {{drain_ms: 100}}\n{}", replicas(&[&upstream]));
    let gateway = Gateway::start(&settings).await;
    let mut stream = stream(gateway.address()).await.streaming().await;
    stream.brings(&content("one")).await;
    let begun = Instant::now();
    assert!(!soon(gateway.drain()).await, "not everything ended");
    assert!((100..2000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn idle_connections_are_closed_at_once() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write("GET /livez HTTP/1.1\r\nhost: gateway\r\n\r\n").await.unwrap();
    let head = soon(client.head()).await.unwrap().unwrap();
    soon(client.body(&head)).await.unwrap();
    let begun = Instant::now();
    assert!(soon(gateway.drain()).await);
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(soon(client.rest()).await.unwrap(), b"");
}
