//! Clients may speak HTTP/2 with prior knowledge: many requests on one connection, none of which holds up another.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2;
use hyper::rt::Executor;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::support::{
    Arrived, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, chat, content, replicas, soon, streamed_chat, until,
};

/// One connection.
struct Client {
    sender: http2::SendRequest<Full<Bytes>>,
    tasks: Tasks,
}

/// The tasks in which the HTTP library keeps a connection going.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl<F: Future<Output: Send> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.0.lock().spawn(async move { drop(task.await) });
    }
}

impl Client {
    async fn connect(address: SocketAddr) -> Self {
        let tasks = Tasks::default();
        let socket = soon(TcpStream::connect(address)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        let (sender, connection) = soon(http2::handshake(tasks.clone(), TokioIo::new(socket))).await.unwrap();
        tasks.execute(connection);
        Self { sender, tasks }
    }

    /// The head of the answer to a chat request.
    async fn ask(&mut self, body: String) -> Response<Incoming> {
        self.try_ask(body).await.unwrap()
    }

    async fn try_ask(&mut self, body: String) -> hyper::Result<Response<Incoming>> {
        let sent = Request::builder()
            .method(Method::POST)
            .uri("http://gateway/v1/chat/completions")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .unwrap();
        soon(self.sender.send_request(sent)).await
    }

    /// Closes the connection, whatever is on its way.
    fn leave(self) {
        self.tasks.0.lock().abort_all();
    }
}

/// The next piece of an answer.
async fn piece(answer: &mut Response<Incoming>) -> Option<hyper::Result<Bytes>> {
    Some(soon(answer.frame()).await?.map(|frame| frame.into_data().unwrap_or_default()))
}

#[tokio::test]
async fn a_request_arrives_at_the_replica_as_any_other_and_is_answered() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    let answer = client.ask(chat("hi")).await;
    assert_eq!((answer.version(), answer.status()), (Version::HTTP_2, StatusCode::OK));
    assert_eq!(answer.headers()["x-kvroute-replica"], "r0");
    assert_eq!(soon(answer.collect()).await.unwrap().to_bytes(), r#"{"ok":true}"#);
    let arrived = upstream.request();
    assert_eq!(
        (&*arrived.head.line, arrived.body.as_ref()),
        ("POST /v1/chat/completions HTTP/1.1", chat("hi").as_bytes())
    );
    assert_eq!(arrived.header("host"), Some(&*upstream.address.to_string()));
    gateway.is_at_rest().await;
}

/// S93: of many streams on one connection, one that is not read does not hold up the others.
#[tokio::test]
async fn streams_on_one_connection_do_not_wait_for_one_that_is_not_read() {
    let flood = "x".repeat(8 << 20);
    let script = move |arrived: &Arrived| match arrived.body.len() {
        0..100 => Reply::stream([&*content("one"), DONE]),
        _ => Reply::chunked("text/plain").chunk(&flood).end(),
    };
    let upstream = Upstream::start(script).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    let unread = client.ask(chat(&"x".repeat(200))).await;
    upstream.has_got(1).await;
    for _ in 0..100 {
        let answer = client.ask(streamed_chat("hi")).await;
        let body = soon(answer.collect()).await.unwrap().to_bytes();
        assert_eq!(body, [content("one"), DONE.to_owned()].concat());
    }
    assert_eq!(soon(unread.collect()).await.unwrap().to_bytes().len(), 8 << 20);
    gateway.is_at_rest().await;
}

/// Its connection is in use all the while, so only the stream itself can be given up.
#[tokio::test]
async fn a_stream_that_is_left_unread_for_too_long_gives_its_place_up_and_no_other_is_harmed() {
    let flood = "x".repeat(8 << 20);
    let script = move |arrived: &Arrived| match arrived.body.len() {
        0..100 => Reply::stream([&*content("one"), DONE]),
        _ => Reply::chunked("text/plain").chunk(&flood).end(),
    };
    let upstream = Upstream::start(script).await;
    let settings = format!("timeouts: {{client_stall_ms: 100}}\n{}", replicas(&[&upstream]));
    let gateway = Gateway::start(&settings).await;
    let mut client = Client::connect(gateway.address()).await;
    let unread = client.ask(chat(&"x".repeat(200))).await;
    until("it is given up", async || {
        let answer = client.ask(streamed_chat("hi")).await;
        assert_eq!(soon(answer.collect()).await.unwrap().to_bytes(), [content("one"), DONE.to_owned()].concat());
        gateway.metrics().await.sum("kvroute_requests_total", &["outcome=\"client_gone\""]) == 1.0
    })
    .await;
    assert!(soon(unread.collect()).await.is_err(), "the client can see that it is not complete");
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn many_streams_are_open_on_one_connection_and_each_is_counted() {
    const STREAMS: usize = 300;
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let (a, b) = (Upstream::always(reply.clone()).await, Upstream::always(reply).await);
    let settings = format!("routing: {{strategy: least_outstanding}}\n{}", replicas(&[&a, &b]));
    let gateway = Gateway::start(&settings).await;
    let mut client = Client::connect(gateway.address()).await;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(client.ask(streamed_chat("hi")).await);
    }
    for stream in &mut streams {
        assert_eq!(piece(stream).await.unwrap().unwrap(), content("one"));
    }
    assert_eq!(gateway.in_flight("r0").await + gateway.in_flight("r1").await, STREAMS as u64);
    gate.open();
    for stream in streams {
        assert_eq!(soon(stream.collect()).await.unwrap().to_bytes(), DONE);
    }
    gateway.is_at_rest().await;
}

/// S42, S47
#[tokio::test]
async fn a_stream_that_breaks_and_one_that_is_left_end_alone() {
    let gates = [Gate::new(), Gate::new()];
    let begun = || Reply::chunked(EVENT_STREAM).chunk(content("one"));
    let upstream = Upstream::in_turn([
        begun().wait(&gates[0]).reset(),
        begun().never(),
        begun().wait(&gates[1]).chunk(DONE).end(),
    ])
    .await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let mut stream = client.ask(streamed_chat("hi")).await;
        assert_eq!(piece(&mut stream).await.unwrap().unwrap(), content("one"));
        streams.push(stream);
    }
    let [mut breaks, left, goes_on] = streams.try_into().unwrap_or_else(|_| panic!("three"));
    drop(left);
    until("the replica sees that nobody waits", async || upstream.cut_off() == 1).await;
    gates[0].open();
    let told = piece(&mut breaks).await.unwrap().unwrap();
    assert!(told.starts_with(b"data: {\"error\":"), "{told:?}");
    assert!(piece(&mut breaks).await.is_none_or(|end| end.is_err()), "it does not look complete");
    gates[1].open();
    assert_eq!(soon(goes_on.collect()).await.unwrap().to_bytes(), DONE);
    for outcome in ["broken_off", "client_gone", "ok"] {
        gateway.has_ended(outcome, 1).await;
    }
    gateway.is_at_rest().await;
    assert!(client.sender.is_ready(), "the connection goes on");
}

#[tokio::test]
async fn a_connection_that_breaks_frees_every_place_it_had() {
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).chunk(content("one")).never()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    let mut streams = Vec::new();
    for _ in 0..20 {
        streams.push(client.ask(streamed_chat("hi")).await);
    }
    client.leave();
    until("the replica sees that nobody waits", async || upstream.cut_off() == 20).await;
    gateway.has_ended("client_gone", 20).await;
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn draining_lets_open_streams_end_and_takes_no_more() {
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    let mut stream = client.ask(streamed_chat("hi")).await;
    assert_eq!(piece(&mut stream).await.unwrap().unwrap(), content("one"));
    let drained = tokio::spawn(gateway.drain());
    until("the connection takes no more", async || client.try_ask(streamed_chat("hi")).await.is_err()).await;
    gate.open();
    assert_eq!(soon(stream.collect()).await.unwrap().to_bytes(), DONE);
    assert!(soon(drained).await.unwrap(), "everything ended in time");
}

/// A body in answer to `HEAD` would be a fault of the protocol, and nothing but the gateway keeps it back here.
#[tokio::test]
async fn an_answer_to_head_has_the_length_of_the_body_and_none() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Client::connect(gateway.address()).await;
    for (path, bytes) in [("/livez", Some("3")), ("/nowhere", None)] {
        let uri = format!("http://gateway{path}");
        let sent = Request::builder().method(Method::HEAD).uri(uri).body(Full::new(Bytes::new())).unwrap();
        let answer = soon(client.sender.send_request(sent)).await.unwrap();
        let length = answer.headers()["content-length"].to_str().unwrap().to_owned();
        assert!(length != "0" && bytes.is_none_or(|bytes| bytes == length), "{path}: {length}");
        assert_eq!(soon(answer.into_body().collect()).await.unwrap().to_bytes(), "");
    }
    client.leave();
}
