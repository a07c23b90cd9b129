//! Clients that speak proper HTTP, by hyper.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::soon;

/// A request on a connection of its own, its answer not read yet.
pub(crate) struct Call {
    answer: JoinHandle<hyper::Result<Response<Incoming>>>,
    connection: JoinHandle<hyper::Result<()>>,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    /// As far as it came.
    pub(crate) body: Bytes,
    /// Whether it came to its end.
    pub(crate) is_complete: bool,
}

/// A streamed answer, of which the head has come.
pub(crate) struct Streaming {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    connection: JoinHandle<hyper::Result<()>>,
}

impl Call {
    /// Sends the request; the answer is waited for later.
    pub(crate) async fn start(address: SocketAddr, request: Request<Full<Bytes>>) -> Self {
        let socket = soon(TcpStream::connect(address)).await.unwrap();
        let (mut sender, connection) = http1::handshake(TokioIo::new(socket)).await.unwrap();
        let connection = tokio::spawn(connection);
        let answer = tokio::spawn(async move { sender.send_request(request).await });
        Self { answer, connection }
    }

    /// The head of the answer.
    pub(crate) async fn streaming(self) -> Streaming {
        self.try_streaming().await.expect("there is an answer")
    }

    /// The head of the answer, if there is one.
    pub(crate) async fn try_streaming(self) -> hyper::Result<Streaming> {
        let (head, body) = soon(self.answer).await.unwrap()?.into_parts();
        Ok(Streaming { status: head.status, headers: head.headers, body, connection: self.connection })
    }

    /// The whole answer.
    pub(crate) async fn answer(self) -> Answer {
        self.streaming().await.rest().await
    }

    /// Closes the connection, whatever is on its way.
    pub(crate) async fn leave(self) {
        self.answer.abort();
        self.connection.abort();
        let _ = self.connection.await;
    }
}

impl Streaming {
    /// The next piece; `None` at the end.
    pub(crate) async fn piece(&mut self) -> Option<hyper::Result<Bytes>> {
        let frame = soon(self.body.frame()).await?;
        Some(frame.map(|frame| frame.into_data().unwrap_or_default()))
    }

    /// The next `text.len()` bytes are these.
    pub(crate) async fn brings(&mut self, text: &str) {
        let mut got = Vec::new();
        while got.len() < text.len() {
            got.extend_from_slice(&self.piece().await.expect("more follows").unwrap());
        }
        assert_eq!(String::from_utf8(got).unwrap(), text);
    }

    /// Everything that still comes.
    pub(crate) async fn rest(mut self) -> Answer {
        let (mut body, mut is_complete) = (Vec::new(), true);
        while let Some(piece) = self.piece().await {
            match piece {
                Ok(piece) => body.extend_from_slice(&piece),
                Err(_) => {
                    is_complete = false;
                    break;
                }
            }
        }
        Answer { status: self.status, headers: self.headers, body: body.into(), is_complete }
    }

    /// Closes the connection, whatever is on its way.
    pub(crate) async fn leave(self) {
        self.connection.abort();
        let _ = self.connection.await;
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// The replica that answered.
    pub(crate) fn replica(&self) -> &str {
        self.header("x-kvroute-replica").unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Why that one.
    pub(crate) fn decision(&self) -> &str {
        self.header("x-kvroute-decision").unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Checks that it is an error in OpenAI's form; gives its code.
    pub(crate) fn openai_error(&self) -> String {
        assert_eq!(self.header("content-type"), Some("application/json"));
        let error = &self.json()["error"];
        assert!(error["message"].is_string() && error["type"].is_string(), "{error}");
        error["code"].as_str().unwrap_or_else(|| panic!("{error}")).to_owned()
    }
}

/// A request.
pub(crate) fn request(
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Request<Full<Bytes>> {
    let request = Request::builder().method(method).uri(path).header("host", "gateway");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::new(body.into())).unwrap()
}

/// Posts with headers; gives the whole answer.
pub(crate) async fn post_with(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    Call::start(address, request(Method::POST, path, headers, body)).await.answer().await
}

/// Posts JSON; gives the whole answer.
pub(crate) async fn post(address: SocketAddr, path: &str, body: impl Into<Bytes>) -> Answer {
    post_with(address, path, &[("content-type", "application/json")], body).await
}

/// Gets.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Answer {
    Call::start(address, request(Method::GET, path, &[], Bytes::new())).await.answer().await
}
