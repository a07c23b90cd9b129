//! Bodies that are too large are refused without harm, and `expect: 100-continue` spares sending them.

use crate::support::{Gateway, Upstream, Wire, chat, post, soon};

const SETTINGS: &str = "limits: {body_bytes_max: 4096}\n";
const CHAT: &str = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n";

async fn before(upstream: &Upstream) -> Gateway {
    Gateway::start(&format!("{SETTINGS}replicas: [{}]", upstream.url())).await
}

/// A body of `bytes` bytes.
fn body_of(bytes: usize) -> String {
    let filler = "x".repeat(bytes - chat("").len());
    chat(&filler)
}

#[tokio::test]
async fn the_limit_itself_is_allowed_and_one_byte_more_is_not() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    for (bytes, status) in [(4096, 200), (4097, 413)] {
        assert_eq!(post(gateway.address(), "/v1/chat/completions", body_of(bytes)).await.status, status, "{bytes}");
    }
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_in_the_terms_of_the_api() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    let answer = post(gateway.address(), "/v1/chat/completions", body_of(5000)).await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (413, "body_too_large"));
    let answer = post(gateway.address(), "/endpoints/default/invocations", body_of(5000)).await;
    assert_eq!((answer.status.as_u16(), answer.header("x-amzn-errortype")), (413, Some("ValidationError")));
    assert!(answer.json()["Message"].as_str().unwrap().contains("4096"));
    assert_eq!(upstream.count(), 0);
    let refused = gateway.metrics().await.sum("kvroute_refused_requests_total", &["code=\"413\""]);
    assert_eq!(refused, 2.0);
}

/// A client that writes everything before it reads must still get the answer: not a reset.
#[tokio::test]
async fn whoever_sends_far_too_much_reads_the_refusal_and_then_the_end_of_the_connection() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    let megabyte = vec![b'x'; 1 << 20];
    let chunk = [b"100000\r\n", &megabyte[..], b"\r\n"].concat();
    for (framing, piece, end) in [
        ("content-length: 16777216\r\n\r\n", &megabyte, &b""[..]),
        ("transfer-encoding: chunked\r\n\r\n", &chunk, b"0\r\n\r\n"),
    ] {
        let mut client = Wire::connect(gateway.address()).await;
        client.write(format!("{CHAT}{framing}")).await.unwrap();
        for _ in 0..16 {
            soon(client.write(piece)).await.unwrap_or_else(|error| panic!("{framing}: {error}"));
        }
        soon(client.write(end)).await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(head.line, "HTTP/1.1 413 Payload Too Large");
        assert_eq!(head.header("connection"), Some("close"));
        soon(client.body(&head)).await.unwrap();
        assert_eq!(soon(client.rest()).await.unwrap(), b"");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_refusal_for_another_reason_is_read_too_and_the_connection_goes_on() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    let body = vec![b' '; 16 << 20];
    let head =
        "POST /endpoints/default/invocations HTTP/1.1\r\nhost: gateway\r\nx-amzn-sagemaker-target-variant: _\r\n";
    for _ in 0..2 {
        client.write(format!("{head}content-length: {}\r\n\r\n", body.len())).await.unwrap();
        soon(client.write(&body)).await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(head.line, "HTTP/1.1 400 Bad Request");
        soon(client.body(&head)).await.unwrap();
    }
}

#[tokio::test]
async fn a_body_without_end_is_refused_and_cut_off() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(format!("{CHAT}transfer-encoding: chunked\r\n\r\n")).await.unwrap();
    let chunk = [&b"10000\r\n"[..], &[b'x'; 0x10000], b"\r\n"].concat();
    soon(async { while client.write(&chunk).await.is_ok() {} }).await;
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_client_that_expects_100_continue_gets_it_before_it_sends_the_body() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    let body = chat("hi");
    client.write(format!("{CHAT}expect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len())).await.unwrap();
    assert_eq!(soon(client.head()).await.unwrap().unwrap().line, "HTTP/1.1 100 Continue");
    client.write(&body).await.unwrap();
    assert_eq!(soon(client.head()).await.unwrap().unwrap().line, "HTTP/1.1 200 OK");
    let arrived = upstream.request();
    assert_eq!((arrived.header("expect"), &arrived.body[..]), (None, body.as_bytes()));
}

#[tokio::test]
async fn a_client_that_expects_100_continue_for_too_large_a_body_is_refused_before_it_sends_it() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(format!("{CHAT}expect: 100-continue\r\ncontent-length: 5000\r\n\r\n")).await.unwrap();
    let head = soon(client.head()).await.unwrap().unwrap();
    assert_eq!(head.line, "HTTP/1.1 413 Payload Too Large");
    soon(client.body(&head)).await.unwrap();
    assert_eq!(soon(client.rest()).await.unwrap(), b"");
}
