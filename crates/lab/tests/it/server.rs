//! A server that answers by a script.

use std::{
    convert::Infallible,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use hyper::{
    body::{Body, Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::mpsc, time::sleep};

/// What to answer: a head, then pieces of the body, each after a pause.
#[derive(Clone, Default)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) pieces: Vec<(Duration, Bytes)>,
    pub(crate) end: End,
}

/// How the body ends.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) enum End {
    #[default]
    Clean,
    Broken,
    Never,
}

/// What the server has seen.
#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) in_flight_peak: AtomicUsize,
    pub(crate) requests: Mutex<Vec<(String, HeaderMap, Bytes)>>,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
}

/// Answers request number *n* with body *b* by `script(n, b)`.
pub(crate) type Script = fn(usize, &[u8]) -> Reply;

impl Server {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                socket.set_nodelay(true).unwrap();
                shared.connections.fetch_add(1, SeqCst);
                let seen = Arc::clone(&shared);
                let service = service_fn(move |request| answer(request, Arc::clone(&seen), script));
                let connection = http1::Builder::new().serve_connection(TokioIo::new(socket), service);
                tokio::spawn(async move { drop(connection.await) });
            }
        });
        Self { address, seen }
    }

    pub(crate) fn bodies(&self) -> Vec<serde_json::Value> {
        let requests = self.seen.requests.lock().unwrap();
        requests.iter().map(|(_, _, body)| serde_json::from_slice(body).unwrap()).collect()
    }
}

async fn answer(request: Request<Incoming>, seen: Arc<Seen>, script: Script) -> Result<Response<Pieces>, Infallible> {
    let in_flight = InFlight::enter(Arc::clone(&seen));
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let number = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push((head.uri.path().to_owned(), head.headers, body.clone()));
        requests.len() - 1
    };
    let reply = script(number, &body);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in &reply.headers {
        response = response.header(*name, value);
    }
    let (sender, receiver) = mpsc::channel(1);
    tokio::spawn(async move {
        for (pause, piece) in reply.pieces {
            sleep(pause).await;
            if sender.send(Ok(Frame::data(piece))).await.is_err() {
                break;
            }
        }
        match reply.end {
            End::Clean => {}
            End::Broken => drop(sender.send(Err(io::Error::other("broken"))).await),
            End::Never => sender.closed().await,
        }
        drop(in_flight);
    });
    Ok(response.body(Pieces(receiver)).unwrap())
}

struct InFlight(Arc<Seen>);

impl InFlight {
    fn enter(seen: Arc<Seen>) -> Self {
        let now = seen.in_flight.fetch_add(1, SeqCst) + 1;
        seen.in_flight_peak.fetch_max(now, SeqCst);
        Self(seen)
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, SeqCst);
    }
}

struct Pieces(mpsc::Receiver<io::Result<Frame<Bytes>>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.0.poll_recv(context)
    }
}
