use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::{BodyExt, Empty};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use kvroute_wire::http1::write_request;

use super::{Connection, Request};
use crate::upstream::body::Pieces;

const LIMIT: Duration = Duration::from_secs(10);

/// What came of an exchange: status, headers, body, trailers and whether the connection can be used again; or where it
/// broke.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Answer { status: u16, headers: HeaderMap, body: Vec<u8>, trailers: Option<HeaderMap>, is_kept: bool },
    NoHead,
    BrokenBody(Vec<u8>),
}

fn request(method: &Method, body: &[u8]) -> Request {
    let mut pieces = Pieces::default();
    if !body.is_empty() {
        pieces.push(Bytes::copy_from_slice(body));
    }
    let pieces = pieces.complete();
    let head = write_request(method, ("", "/v1/x"), &HeaderValue::from_static("h"), [].into_iter(), pieces.len());
    Request::new(method, head, pieces)
}

/// What this client makes of an answer that comes in these pieces, after which the connection is closed.
async fn ours(method: Method, pieces: Vec<Bytes>) -> Outcome {
    let (near, far) = tokio::io::duplex(1 << 20);
    let served = tokio::spawn(serve(far, pieces));
    let outcome = match Connection::new(near).exchange(request(&method, b""), LIMIT).await {
        Err(_) => Outcome::NoHead,
        Ok(response) => {
            let (head, mut body) = response.into_parts();
            let (mut bytes, mut trailers) = (Vec::new(), None);
            let mut is_broken = false;
            while let Some(frame) = std::future::poll_fn(|cx| body.poll_frame(cx)).await {
                match frame.map(|frame| frame.into_data().map_err(http_body::Frame::into_trailers)) {
                    Ok(Ok(piece)) => bytes.extend_from_slice(&piece),
                    Ok(Err(said)) => trailers = said.ok(),
                    Err(_) => {
                        is_broken = true;
                        break;
                    }
                }
            }
            let (status, headers) = (head.status.as_u16(), head.headers);
            match is_broken {
                true => Outcome::BrokenBody(bytes),
                false => Outcome::Answer { status, headers, body: bytes, trailers, is_kept: body.spent().is_some() },
            }
        }
    };
    served.abort();
    outcome
}

/// What hyper makes of it.
async fn hypers(method: Method, pieces: Vec<Bytes>) -> Outcome {
    let (near, far) = tokio::io::duplex(1 << 20);
    let served = tokio::spawn(serve(far, pieces));
    let io = hyper_util::rt::TokioIo::new(near);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    let driven = tokio::spawn(connection);
    let request = http::Request::builder().method(method).uri("/v1/x").header("host", "h");
    let request = request.body(Empty::<Bytes>::new().map_err(|never: Infallible| never)).unwrap();
    let outcome = match sender.send_request(request).await {
        Err(_) => Outcome::NoHead,
        Ok(response) => {
            let (head, mut body) = response.into_parts();
            let (mut bytes, mut trailers) = (Vec::new(), None);
            let mut is_broken = false;
            while let Some(frame) = body.frame().await {
                match frame.map(|frame| frame.into_data().map_err(http_body::Frame::into_trailers)) {
                    Ok(Ok(piece)) => bytes.extend_from_slice(&piece),
                    Ok(Err(said)) => trailers = said.ok(),
                    Err(_) => {
                        is_broken = true;
                        break;
                    }
                }
            }
            let (status, headers) = (head.status.as_u16(), head.headers);
            match is_broken {
                true => Outcome::BrokenBody(bytes),
                false => Outcome::Answer { status, headers, body: bytes, trailers, is_kept: false },
            }
        }
    };
    driven.abort();
    served.abort();
    outcome
}

/// Takes a request's head, writes the pieces one by one, and closes.
async fn serve(mut far: DuplexStream, pieces: Vec<Bytes>) {
    let mut taken = Vec::new();
    while !taken.ends_with(b"\r\n\r\n") {
        if far.read_buf(&mut taken).await.is_ok_and(|read| read == 0) {
            return;
        }
    }
    for piece in pieces {
        if far.write_all(&piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

fn block<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
}

fn cut(bytes: &[u8], cuts: &[usize]) -> Vec<Bytes> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).chain([0, bytes.len()]).collect();
    places.sort_unstable();
    places.windows(2).map(|pair| Bytes::copy_from_slice(&bytes[pair[0]..pair[1]])).filter(|b| !b.is_empty()).collect()
}

/// An answer as a replica may write it: every framing, interim answers, extensions, trailers.
fn answers() -> impl Strategy<Value = Vec<u8>> {
    let status = prop::sample::select(vec![200, 201, 204, 304, 400, 404, 429, 500, 503]);
    let interim =
        prop::sample::select(vec!["", "HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"]);
    let framing = prop::sample::select(vec!["length", "chunked", "close", "both", "gzip, chunked"]);
    let connection = prop::sample::select(vec!["", "connection: close\r\n", "Connection: keep-alive, X\r\n"]);
    let chunks = prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 0..6);
    let extension = prop::sample::select(vec!["", ";a=b", " ;q=\"x\""]);
    let trailer = prop::sample::select(vec!["", "x-sum: 1\r\n", "x-sum: 1\r\nx-other: 2\r\n"]);
    (status, interim, framing, connection, chunks, extension, trailer).prop_map(
        |(status, interim, framing, connection, chunks, extension, trailer)| {
            let mut bytes =
                format!("{interim}HTTP/1.1 {status} Some Reason\r\nX-One: 1\r\nx-two:  v \r\n").into_bytes();
            bytes.extend_from_slice(connection.as_bytes());
            let body = chunks.concat();
            match framing {
                "length" => bytes.extend(format!("content-length: {}\r\n", body.len()).bytes()),
                "both" => bytes.extend(b"transfer-encoding: chunked\r\ncontent-length: 3\r\n"),
                "close" => {}
                coding => bytes.extend(format!("Transfer-Encoding: {coding}\r\n").bytes()),
            }
            bytes.extend_from_slice(b"\r\n");
            match framing {
                "length" | "close" => bytes.extend(body),
                _ => {
                    for chunk in chunks {
                        bytes.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
                        bytes.extend(chunk);
                        bytes.extend_from_slice(b"\r\n");
                    }
                    bytes.extend(format!("0\r\n{trailer}\r\n").bytes());
                }
            }
            bytes
        },
    )
}

/// Hyper keeps the length beside chunks in its headers; it says nothing of what is passed on here.
fn comparable(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Answer { status, mut headers, body, trailers, .. } => {
            if headers.contains_key("transfer-encoding") {
                headers.remove("content-length");
            }
            Outcome::Answer { status, headers, body, trailers, is_kept: false }
        }
        other => other,
    }
}

proptest! {
    #[test]
    fn an_answer_is_understood_as_hyper_does_however_it_is_cut(
        answer in answers(),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
        is_head in any::<bool>(),
        kept_bytes in prop::option::weighted(0.3, any::<usize>()),
    ) {
        let answer = &answer[..kept_bytes.map_or(answer.len(), |bytes| bytes % (answer.len() + 1))];
        let method = if is_head { Method::HEAD } else { Method::GET };
        let (ours, hypers) =
            block(async { (ours(method.clone(), cut(answer, &cuts)).await, hypers(method, vec![Bytes::copy_from_slice(answer)]).await) });
        match (&ours, &hypers) {
            // How much of a body that broke was passed on depends on the reads.
            (Outcome::BrokenBody(_), Outcome::BrokenBody(_)) => {}
            _ => prop_assert_eq!(comparable(ours), comparable(hypers)),
        }
    }

    #[test]
    fn an_answer_of_any_bytes_is_the_same_in_any_cut(
        answer in answers(),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..4),
        cuts in prop::collection::vec(any::<usize>(), 0..8),
    ) {
        let mut answer = answer;
        for (place, byte) in changes {
            let place = place % answer.len();
            answer[place] = byte;
        }
        let (whole, pieces) = block(async {
            (ours(Method::GET, cut(&answer, &[])).await, ours(Method::GET, cut(&answer, &cuts)).await)
        });
        match (&whole, &pieces) {
            (Outcome::BrokenBody(_), Outcome::BrokenBody(_)) => {}
            // Bytes after an answer speak against its connection only once they have come.
            _ => prop_assert_eq!(comparable(whole), comparable(pieces)),
        }
    }
}

#[test]
fn a_connection_is_used_again_only_where_nothing_speaks_against_it() {
    for (answer, is_kept) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\n\r\n", true),
        ("HTTP/1.1 204 No Content\r\ncontent-length: 2\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nConnection: X, Close\r\n\r\nok", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", false),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\nconnection: keep-alive\r\n\r\nok", true),
        ("HTTP/1.1 200 OK\r\n\r\nok", false),
        // More came than belongs to the answer: whatever it is, it is not the answer to the next request.
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", false),
    ] {
        let Outcome::Answer { is_kept: found, .. } = block(ours(Method::GET, vec![Bytes::from(answer)])) else {
            panic!("{answer:?} is an answer");
        };
        assert_eq!(found, is_kept, "{answer:?}");
    }
}

#[test]
fn what_breaks_the_rules_of_http_is_no_answer() {
    let many = "x: y\r\n".repeat(129);
    let long = "y".repeat(70_000);
    for answer in [
        "",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\ncontent-length: 99999999999999999999\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        &format!("HTTP/1.1 200 OK\r\n{many}\r\n"),
        &format!("HTTP/1.1 200 OK\r\nx: {long}\r\n\r\n"),
    ] {
        let outcome = block(ours(Method::GET, vec![Bytes::copy_from_slice(answer.as_bytes())]));
        assert_eq!(outcome, Outcome::NoHead, "{:.80}", answer);
    }
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let (extension, trailer) = ("e".repeat(5_000), "t".repeat(70_000));
    for body in [
        "",
        "x\r\n",
        "2\r\nok",
        "2\r\nokay\r\n0\r\n\r\n",
        "2\nok\n0\n\n",
        "11111111111111111\r\nok",
        "0\r\nno colon\r\n\r\n",
        &format!("2;{extension}\r\nok\r\n0\r\n\r\n"),
        &format!("0\r\nx: {trailer}\r\n\r\n"),
    ] {
        let answer = Bytes::from(format!("{head}{body}"));
        let outcome = block(ours(Method::GET, vec![answer]));
        assert!(matches!(outcome, Outcome::BrokenBody(_)), "{:.80}: {:.80}", body, format!("{outcome:?}"));
    }
}

/// What a replica of one answer got, and what the client got, where the body does not fit the socket.
async fn with_large_body(answer: &'static str, takes_bytes: usize) -> (usize, Outcome) {
    let (near, mut far) = tokio::io::duplex(4 << 10);
    let served = tokio::spawn(async move {
        let mut taken = vec![0; takes_bytes];
        far.read_exact(&mut taken).await.unwrap();
        far.write_all(answer.as_bytes()).await.unwrap();
        taken.len()
    });
    let outcome = match Connection::new(near).exchange(request(&Method::POST, &[b'x'; 1 << 20]), LIMIT).await {
        Err(error) => {
            assert!(error.was_begun);
            Outcome::NoHead
        }
        Ok(response) => {
            let (head, mut body) = response.into_parts();
            let mut bytes = Vec::new();
            while let Some(frame) = std::future::poll_fn(|cx| body.poll_frame(cx)).await {
                bytes.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            let is_kept = body.spent().is_some();
            let (status, headers) = (head.status.as_u16(), HeaderMap::new());
            Outcome::Answer { status, headers, body: bytes, trailers: None, is_kept }
        }
    };
    (served.await.unwrap(), outcome)
}

#[test]
fn an_answer_that_comes_before_the_request_is_written_is_heard_and_the_connection_given_up() {
    let (_, outcome) = block(with_large_body("HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nlarge", 10_000));
    let expected = Outcome::Answer {
        status: 413,
        headers: HeaderMap::new(),
        body: b"large".to_vec(),
        trailers: None,
        is_kept: false,
    };
    assert_eq!(outcome, expected);
    let (_, outcome) = block(with_large_body("", 10_000));
    assert_eq!(outcome, Outcome::NoHead, "closed without an answer");
}

#[test]
fn it_is_known_whether_anything_of_a_request_left() {
    let (near, far) = tokio::io::duplex(1 << 10);
    drop(far);
    let failed = block(Connection::new(near).exchange(request(&Method::POST, b"body"), LIMIT)).unwrap_err();
    assert!(!failed.was_begun);
}

#[test]
fn a_request_is_written_in_one_form() {
    let content_type = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let host = HeaderValue::from_static("10.0.0.4:8000");
    for (method, body_bytes, expected) in [
        (
            Method::POST,
            12_345,
            "POST /base/v1/x?q=1 HTTP/1.1\r\nhost: 10.0.0.4:8000\r\ncontent-type: application/json\r\ncontent-length: 12345\r\n\r\n",
        ),
        (
            Method::POST,
            0,
            "POST /base/v1/x?q=1 HTTP/1.1\r\nhost: 10.0.0.4:8000\r\ncontent-type: application/json\r\ncontent-length: 0\r\n\r\n",
        ),
        (
            Method::GET,
            0,
            "GET /base/v1/x?q=1 HTTP/1.1\r\nhost: 10.0.0.4:8000\r\ncontent-type: application/json\r\n\r\n",
        ),
    ] {
        let headers = [(&content_type.0, &content_type.1)];
        let head = write_request(&method, ("/base", "/v1/x?q=1"), &host, headers.into_iter(), body_bytes);
        assert_eq!(head, expected);
    }
}
