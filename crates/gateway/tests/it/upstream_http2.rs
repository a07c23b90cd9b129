//! Replicas may be asked over HTTP/2: many requests share a connection, and each is counted and ended by itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Channel, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::{DONE, Gateway, chat, content, get, post, streamed_chat, until};

const CHAT: &str = "/v1/chat/completions";

/// A replica that speaks HTTP/2 by prior knowledge. It streams one event and goes on when told to; what does not stream is
/// answered with what arrived.
#[derive(Clone, Default)]
struct Replica {
    connections: Arc<AtomicUsize>,
    streaming: Arc<AtomicUsize>,
    go_on: Arc<Notify>,
    kill: Arc<Notify>,
}

impl Replica {
    async fn start() -> (Self, SocketAddr) {
        let (replica, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let (serving, address) = (replica.clone(), listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                serving.connections.fetch_add(1, Ordering::Relaxed);
                let replica = serving.clone();
                let service = service_fn(move |request| replica.clone().answer(request));
                let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                http2.max_header_list_size(1 << 20);
                let connection = http2.serve_connection(TokioIo::new(socket), service);
                let kill = serving.kill.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        _ = connection => {}
                        () = kill.notified() => {}
                    }
                });
            }
        });
        (replica, address)
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<BoxBody<Bytes, Infallible>>, Infallible> {
        assert_eq!(request.version(), Version::HTTP_2);
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let is_check = request.method() == http::Method::GET;
        let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        if is_check || !body.windows(8).any(|bytes| bytes == b"\"stream\"") {
            let said = Full::new(Bytes::from(serde_json::json!({"bytes": body.len(), "host": host}).to_string()));
            let answer = Response::builder().header("content-type", "application/json");
            return Ok(answer.body(said.boxed()).unwrap());
        }
        let end = if body.windows(8).any(|bytes| bytes == b"unmarked") { content("two") } else { DONE.to_owned() };
        let (mut sender, stream) = Channel::<Bytes, Infallible>::new(1);
        tokio::spawn(async move {
            self.streaming.fetch_add(1, Ordering::Relaxed);
            if sender.send_data(content("one").into()).await.is_ok() {
                self.go_on.notified().await;
                let _ = sender.send_data(end.into()).await;
            }
            self.streaming.fetch_sub(1, Ordering::Relaxed);
        });
        Ok(Response::builder().header("content-type", "text/event-stream").body(stream.boxed()).unwrap())
    }
}

async fn gateway(address: SocketAddr) -> Gateway {
    let routing = "routing: {concurrency_threshold: 1024}";
    let gateway =
        Gateway::start(&format!("{routing}\nreplicas: [{{id: r0, url: 'http://{address}', http2: true}}]")).await;
    gateway.becomes("r0", "ready").await;
    gateway
}

/// S93
#[tokio::test]
async fn requests_share_connections_and_streams_run_side_by_side() {
    let (replica, address) = Replica::start().await;
    let gateway = gateway(address).await;
    let answer = post(gateway.address(), CHAT, chat(&"x".repeat(100_000))).await.json();
    assert_eq!(answer["host"], address.to_string());
    assert!(answer["bytes"].as_u64() > Some(100_000));
    let mut streams = Vec::new();
    for _ in 0..150 {
        let mut stream = gateway.stream("hi").await;
        assert_eq!(stream.piece().await.unwrap().unwrap(), content("one"));
        streams.push(stream);
    }
    assert_eq!(gateway.in_flight("r0").await, 150);
    assert_eq!(replica.connections.load(Ordering::Relaxed), 2, "a hundred on each");
    replica.go_on.notify_waiters();
    for stream in streams {
        let rest = stream.rest().await;
        assert!(rest.is_complete && rest.text() == DONE, "{rest:?}");
    }
    gateway.is_at_rest().await;
    gateway.has_ended("ok", 151).await;
}

/// On HTTP/2 every stream has an end that shows, whatever its last event is.
#[tokio::test]
async fn a_stream_without_an_end_mark_is_complete_when_its_stream_ends() {
    let (replica, address) = Replica::start().await;
    let gateway = gateway(address).await;
    let mut stream = gateway.stream("unmarked").await;
    stream.piece().await.unwrap().unwrap();
    replica.go_on.notify_waiters();
    let rest = stream.rest().await;
    assert!(rest.is_complete && rest.text() == content("two"), "{rest:?}");
    gateway.has_ended("ok", 1).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_own_stream_only() {
    let (replica, address) = Replica::start().await;
    let gateway = gateway(address).await;
    let (mut one, mut other) = (gateway.stream("a").await, gateway.stream("b").await);
    one.piece().await.unwrap().unwrap();
    other.piece().await.unwrap().unwrap();
    one.leave().await;
    gateway.has_ended("client_gone", 1).await;
    assert_eq!(gateway.in_flight("r0").await, 1);
    replica.go_on.notify_waiters();
    assert!(other.rest().await.is_complete);
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_connection_that_breaks_breaks_its_streams_and_the_next_request_has_a_new_one() {
    let (replica, address) = Replica::start().await;
    let gateway = gateway(address).await;
    let mut streams = [gateway.stream("a").await, gateway.stream("b").await];
    for stream in &mut streams {
        stream.piece().await.unwrap().unwrap();
    }
    replica.kill.notify_waiters();
    for stream in streams {
        let rest = stream.rest().await;
        assert!(!rest.is_complete && rest.text().contains("stream_broken"), "{rest:?}");
    }
    gateway.has_ended("broken_off", 2).await;
    until("it is served again", async || post(gateway.address(), CHAT, chat("hi")).await.status == 200).await;
    gateway.is_at_rest().await;
}

/// A replica that does not speak HTTP/2 is not well, rather than every request to it failing in its own way.
#[tokio::test]
async fn a_replica_that_does_not_speak_http2_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    let health = "health: {interval_ms: 20, failures: 1}";
    let gateway =
        Gateway::start(&format!("{health}\nreplicas: [{{id: r0, url: 'http://{address}', http2: true}}]")).await;
    gateway.becomes("r0", "down").await;
    assert_eq!(post(gateway.address(), CHAT, streamed_chat("hi")).await.status, 503);
    assert_eq!(get(gateway.address(), "/livez").await.status, 200);
}

/// The base path goes before the client's own path, and a URI has an end.
#[tokio::test]
async fn a_path_that_cannot_be_passed_on_is_refused_and_speaks_against_no_replica() {
    let (_replica, address) = Replica::start().await;
    let gateway = Gateway::start(&format!(
        "limits: {{header_bytes_max: 131072}}\nreplicas: [{{id: r0, url: 'http://{address}/a/base', http2: true}}]"
    ))
    .await;
    for (bytes, status) in [(62 << 10, 200), ((62 << 10) + 1, 414), (65_534, 414)] {
        let query = "x".repeat(bytes - CHAT.len() - 1);
        let answer = post(gateway.address(), &format!("{CHAT}?{query}"), chat("hi")).await;
        assert_eq!(answer.status, status, "{bytes}: {:?}", answer.text());
    }
    let page = gateway.metrics().await;
    assert_eq!(page.sum("kvroute_replica_routed_requests_total", &[]), 1.0);
    gateway.is_at_rest().await;
}
