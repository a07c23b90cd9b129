//! An engine server that answers by a script and remembers what it saw.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, ToSocketAddrs};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

use super::{Head, Wire, until};

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Arrived {
    /// Which of the connections it came on, from 0.
    pub(crate) connection: usize,
    pub(crate) head: Head,
    pub(crate) body: Bytes,
}

impl Arrived {
    pub(crate) fn method(&self) -> &str {
        self.head.line.split(' ').next().unwrap()
    }

    /// Path and query.
    pub(crate) fn target(&self) -> &str {
        self.head.line.split(' ').nth(1).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.header(name)
    }
}

/// Where a script waits until the test lets it go on. Once open, it stays open.
#[derive(Clone, Debug)]
pub(crate) struct Gate(Arc<Semaphore>);

impl Gate {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    pub(crate) fn open(&self) {
        self.0.close();
    }

    async fn wait(&self) {
        // There are no permits, so what ends the wait is that the gate was opened.
        let _ = self.0.acquire().await;
    }
}

/// What a server does for one request, in order. At the end of it the connection stays open for the next.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reply(Vec<Step>);

#[derive(Clone, Debug)]
enum Step {
    Send(Bytes),
    Wait(Gate),
    Pause(Duration),
    Reset,
    Close,
    Never,
}

impl Reply {
    /// Exactly these bytes.
    pub(crate) fn raw(bytes: impl Into<Bytes>) -> Self {
        Self::default().then(Step::Send(bytes.into()))
    }

    /// A whole answer with a length.
    pub(crate) fn whole(status: u16, content_type: &str, body: impl AsRef<str>) -> Self {
        let (body, status) = (body.as_ref(), StatusCode::from_u16(status).unwrap());
        let length = body.len();
        Self::raw(format!(
            "HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    /// A whole JSON answer.
    pub(crate) fn json(status: u16, body: impl AsRef<str>) -> Self {
        Self::whole(status, "application/json", body)
    }

    /// The head of an answer in chunks.
    pub(crate) fn chunked(content_type: &str) -> Self {
        Self::raw(format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"))
    }

    /// A whole stream of these events.
    pub(crate) fn stream<'a>(events: impl IntoIterator<Item = &'a str>) -> Self {
        events.into_iter().fold(Self::chunked(super::EVENT_STREAM), Self::chunk).end()
    }

    fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }

    /// Then exactly these bytes.
    pub(crate) fn send(self, bytes: impl Into<Bytes>) -> Self {
        self.then(Step::Send(bytes.into()))
    }

    /// Then a chunk.
    pub(crate) fn chunk(self, bytes: impl AsRef<[u8]>) -> Self {
        let bytes = bytes.as_ref();
        let framed = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.send(framed)
    }

    /// Then every byte in a chunk of its own, each written alone.
    pub(crate) fn byte_by_byte(self, bytes: &str) -> Self {
        bytes.as_bytes().chunks(1).fold(self, Self::chunk)
    }

    /// Then the mark that ends a chunked body.
    pub(crate) fn end(self) -> Self {
        self.send(&b"0\r\n\r\n"[..])
    }

    /// Then nothing until the gate opens.
    pub(crate) fn wait(self, gate: &Gate) -> Self {
        self.then(Step::Wait(gate.clone()))
    }

    /// Then nothing for a while, as an engine that computes.
    pub(crate) fn pause(self, duration: Duration) -> Self {
        self.then(Step::Pause(duration))
    }

    /// Then another reply's steps.
    pub(crate) fn and(mut self, next: Reply) -> Self {
        self.0.extend(next.0);
        self
    }

    /// Then a reset.
    pub(crate) fn reset(self) -> Self {
        self.then(Step::Reset)
    }

    /// Then the connection is closed.
    pub(crate) fn close(self) -> Self {
        self.then(Step::Close)
    }

    /// Then nothing until the peer gives up.
    pub(crate) fn never(self) -> Self {
        self.then(Step::Never)
    }

    /// The same after the gate opens.
    pub(crate) fn after(mut self, gate: &Gate) -> Self {
        self.0.insert(0, Step::Wait(gate.clone()));
        self
    }
}

type Script = dyn Fn(&Arrived) -> Reply + Send + Sync;

/// A server. It lives as long as the test.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    accepting: AbortHandle,
}

#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    requests: Mutex<Vec<Arrived>>,
    in_flight: AtomicUsize,
    cut_off: AtomicUsize,
    probes: AtomicUsize,
    /// How health checks are answered; well unless said otherwise.
    check: Mutex<Option<Reply>>,
}

impl Upstream {
    /// A server that answers each request as the script says; health checks it answers itself.
    pub(crate) async fn start(script: impl Fn(&Arrived) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0", script).await
    }

    /// Such a server at an address of the test's choice.
    pub(crate) async fn start_at(
        address: impl ToSocketAddrs,
        script: impl Fn(&Arrived) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let (shared, script): (_, Arc<Script>) = (seen.clone(), Arc::new(script));
        let accepting = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let connection = shared.connections.fetch_add(1, SeqCst);
                open.spawn(shared.clone().serve(Wire::new(socket), connection, script.clone()));
            }
        });
        Self { address, seen, accepting: accepting.abort_handle() }
    }

    /// A server that gives every request this answer.
    pub(crate) async fn always(reply: Reply) -> Self {
        Self::start(move |_| reply.clone()).await
    }

    /// A server that gives its first request the first of these answers, and so on; the last is for all that follow.
    pub(crate) async fn in_turn(replies: impl IntoIterator<Item = Reply>) -> Self {
        let (replies, next) = (replies.into_iter().collect::<Vec<_>>(), AtomicUsize::new(0));
        Self::start(move |_| replies[next.fetch_add(1, SeqCst).min(replies.len() - 1)].clone()).await
    }

    /// A server that gives every request a small answer.
    pub(crate) async fn ok() -> Self {
        Self::always(Reply::json(200, r#"{"ok":true}"#)).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far but health checks.
    pub(crate) fn requests(&self) -> Vec<Arrived> {
        self.seen.requests.lock().clone()
    }

    /// The only request.
    pub(crate) fn request(&self) -> Arrived {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests.into_iter().next().unwrap()
    }

    pub(crate) fn count(&self) -> usize {
        self.seen.requests.lock().len()
    }

    /// Requests that are being answered.
    pub(crate) fn in_flight(&self) -> usize {
        self.seen.in_flight.load(SeqCst)
    }

    /// Answers that the peer did not wait for.
    pub(crate) fn cut_off(&self) -> usize {
        self.seen.cut_off.load(SeqCst)
    }

    /// Health checks so far.
    pub(crate) fn probes(&self) -> usize {
        self.seen.probes.load(SeqCst)
    }

    /// Ends it with all its connections; new ones are refused.
    pub(crate) fn kill(&self) {
        self.accepting.abort();
    }

    /// Says how health checks are answered from now on.
    pub(crate) fn set_healthy(&self, is_healthy: bool) {
        self.answer_checks(Reply::json(if is_healthy { 200 } else { 503 }, "{}"));
    }

    /// Says exactly how health checks are answered from now on.
    pub(crate) fn answer_checks(&self, reply: Reply) {
        *self.seen.check.lock() = Some(reply);
    }

    /// Waits for that many requests.
    pub(crate) async fn has_got(&self, count: usize) {
        until("requests have arrived", async || self.count() >= count).await;
    }
}

impl Seen {
    async fn serve(self: Arc<Self>, mut wire: Wire, connection: usize, script: Arc<Script>) {
        while let Ok(Some(head)) = wire.head().await {
            let Ok(body) = wire.body(&head).await else { return };
            let arrived = Arrived { connection, head, body };
            if matches!(arrived.target(), "/health" | "/ping") {
                self.probes.fetch_add(1, SeqCst);
                let reply = self.check.lock().clone().unwrap_or_else(|| Reply::json(200, "{}"));
                match perform(&mut wire, reply).await {
                    Ok(End::Open) => continue,
                    _ => return,
                }
            }
            let reply = script(&arrived);
            self.in_flight.fetch_add(1, SeqCst);
            self.requests.lock().push(arrived);
            let end = perform(&mut wire, reply).await;
            self.in_flight.fetch_sub(1, SeqCst);
            match end {
                Ok(End::Open) => {}
                Ok(End::Closed) => return,
                Ok(End::Reset) => return wire.reset(),
                Err(_) => {
                    self.cut_off.fetch_add(1, SeqCst);
                    return;
                }
            }
        }
    }
}

enum End {
    Open,
    Closed,
    Reset,
}

/// An error if the peer left before the end.
async fn perform(wire: &mut Wire, reply: Reply) -> io::Result<End> {
    for step in reply.0 {
        match step {
            Step::Send(bytes) => wire.write(bytes).await?,
            Step::Wait(gate) => tokio::select! {
                () = gate.wait() => {}
                () = wire.closed() => return Err(io::ErrorKind::ConnectionAborted.into()),
            },
            Step::Pause(duration) => tokio::select! {
                () = tokio::time::sleep(duration) => {}
                () = wire.closed() => return Err(io::ErrorKind::ConnectionAborted.into()),
            },
            Step::Reset => return Ok(End::Reset),
            Step::Close => return Ok(End::Closed),
            Step::Never => {
                wire.closed().await;
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
    }
    Ok(End::Open)
}

/// An address that refuses connections, and that nobody else can take meanwhile.
pub(crate) struct Refusing {
    address: SocketAddr,
    /// Bound, but does not listen.
    _socket: TcpSocket,
}

impl Refusing {
    pub(crate) fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Self { address: socket.local_addr().unwrap(), _socket: socket }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}
