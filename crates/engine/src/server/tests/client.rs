//! A client that shows everything.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HeaderMap};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response read to its end.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Reply {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{:?}", self.body))
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The JSON of every server-sent event; the last must be `[DONE]`.
    pub(super) fn events(&self) -> Vec<Value> {
        let mut events: Vec<&str> = self.text().split_terminator("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"));
        let data = |event: &&str| event.strip_prefix("data: ").unwrap().to_owned();
        events.iter().map(|event| serde_json::from_str(&data(event)).unwrap()).collect()
    }
}

impl Reply {
    /// Name and JSON of every server-sent event, all of which must be named by their type.
    pub(super) fn named_events(&self) -> Vec<(String, Value)> {
        let named = |event: &str| {
            let (name, data) = event.strip_prefix("event: ").unwrap().split_once("\ndata: ").unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["type"], name);
            (name.to_owned(), data)
        };
        self.text().split_terminator("\n\n").map(named).collect()
    }
}

/// What comes back over a connection of its own, byte for byte, and whether it ended in good order.
pub(super) async fn exchange(addr: SocketAddr, path: &str, body: &Value) -> (String, std::io::Result<()>) {
    let body = body.to_string();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    let end = stream.read_to_end(&mut bytes).await.map(drop);
    (String::from_utf8(bytes).unwrap(), end)
}

pub(super) async fn send(addr: SocketAddr, request: Request<Full<Bytes>>) -> Response<Incoming> {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender.send_request(request).await.unwrap()
}

pub(super) async fn read(response: Response<Incoming>) -> Reply {
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Reply { status: parts.status.as_u16(), headers: parts.headers, body }
}

pub(super) async fn get(addr: SocketAddr, path: &str) -> Reply {
    let request = Request::get(path).header("host", "engine").body(Full::default()).unwrap();
    read(send(addr, request).await).await
}

pub(super) fn post_request(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(path)
        .header("host", "engine")
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body.into()))
        .unwrap()
}

pub(super) async fn delete(addr: SocketAddr, path: &str) -> Reply {
    let request = Request::delete(path).header("host", "engine").body(Full::default()).unwrap();
    read(send(addr, request).await).await
}

pub(super) async fn post(addr: SocketAddr, path: &str, body: &Value) -> Reply {
    read(send(addr, post_request(path, body.to_string())).await).await
}

/// The value of a metric without labels of its own.
pub(super) async fn metric(addr: SocketAddr, name: &str) -> f64 {
    let page = get(addr, "/metrics").await;
    let line = format!("vllm:{name}{{engine=\"0\",model_name=\"m\"}} ");
    let value = page.text().lines().find_map(|found| found.strip_prefix(&line));
    value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}
