//! What a client sent is what the replica gets, byte for byte, whatever it is and however it came.

use bytes::Bytes;
use http::Method;

use crate::support::{Call, Gateway, Reply, Upstream, Wire, chat, get, post, request, soon};

/// Bodies that a gateway which parses and writes them anew would change.
fn bodies() -> Vec<Vec<u8>> {
    let deep = format!("{{\"x\":{}1{},\"messages\":[]}}", "[".repeat(100), "]".repeat(100));
    [
        &br#"{"model":"m","messages":[{"role":"user","content":"hi","x":{"y":[{"z":null}]}}],"unknown":{"a":[1,{}]}}"#[..],
        b" {\r\n\t\"model\" :\"m\" ,\"messages\": [ { \"content\":\"hi\",\n\"role\":\"user\" } ]\r\n}\n\n ",
        br#"{"model":"a","model":"m","messages":[{"role":"user","role":"system","content":"a","content":"b"}]}"#,
        br#"{"model":"m","n":1e2,"t":0.10,"big":123456789012345678901234567890,"u":"\u00e9\/\ud83d\ude00","prompt":"x"}"#,
        "{\"model\":\"m\",\"prompt\":\"za\u{17c}\u{f3}\u{142}\u{107} \u{1f600}\"}".as_bytes(),
        deep.as_bytes(),
        b"{\"model\":\"m\",\"prompt\":\"cut sho",
        b"[1, 2",
        b"\x00\xff\xfe not json at all",
        b" ",
        b"",
    ]
    .map(<[u8]>::to_vec)
    .into()
}

/// How a body is put on the wire.
#[derive(Clone, Copy, Debug)]
enum Framing {
    Length { piece_bytes: usize },
    Chunks { piece_bytes: usize },
}

async fn send(wire: &mut Wire, body: &[u8], framing: Framing) {
    let head = "POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-type: application/json\r\n";
    match framing {
        Framing::Length { piece_bytes } => {
            wire.write(format!("{head}content-length: {}\r\n\r\n", body.len())).await.unwrap();
            for piece in body.chunks(piece_bytes) {
                wire.write(piece).await.unwrap();
            }
        }
        Framing::Chunks { piece_bytes } => {
            wire.write(format!("{head}transfer-encoding: chunked\r\n\r\n")).await.unwrap();
            for piece in body.chunks(piece_bytes) {
                let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
                wire.write(chunk).await.unwrap();
            }
            wire.write("0\r\n\r\n").await.unwrap();
        }
    }
}

#[tokio::test]
async fn every_body_arrives_byte_for_byte_with_one_framing_on_connections_that_are_used_again() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    let framings = [
        Framing::Length { piece_bytes: usize::MAX },
        Framing::Length { piece_bytes: 3 },
        Framing::Chunks { piece_bytes: 1 },
        Framing::Chunks { piece_bytes: 64 },
    ];
    let mut sent = 0;
    for body in bodies() {
        for framing in framings {
            send(&mut client, &body, framing).await;
            let head = soon(client.head()).await.unwrap().expect("the connection stays open");
            assert_eq!(head.line, "HTTP/1.1 200 OK", "{framing:?}");
            assert_eq!(soon(client.body(&head)).await.unwrap(), r#"{"ok":true}"#);
            let arrived = upstream.requests().pop().unwrap();
            assert_eq!(arrived.body, body, "{framing:?}");
            let (length, coding) = (arrived.header("content-length"), arrived.header("transfer-encoding"));
            // No framing at all is a body of no bytes, too.
            let is_framed = length == Some(&*body.len().to_string()) || (length.is_none() && body.is_empty());
            assert!(is_framed && coding.is_none(), "{framing:?}: {:?}", arrived.head);
            assert_eq!(arrived.header("host"), Some(&*upstream.address.to_string()));
            sent += 1;
        }
    }
    let mut connections: Vec<_> = upstream.requests().iter().map(|arrived| arrived.connection).collect();
    assert_eq!(connections.len(), sent, "each arrived once");
    connections.sort_unstable();
    connections.dedup();
    // A connection may be a moment late in the pool, so not always one; but never one a request.
    assert!(connections.len() <= 4, "{sent} requests on connections {connections:?}");
}

#[tokio::test]
async fn requests_sent_without_waiting_are_answered_in_their_order() {
    let upstream = Upstream::start(|arrived| Reply::json(200, String::from_utf8_lossy(&arrived.body))).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    for number in 0..5 {
        send(&mut client, chat(&number.to_string()).as_bytes(), Framing::Length { piece_bytes: usize::MAX }).await;
    }
    for number in 0..5 {
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(soon(client.body(&head)).await.unwrap(), chat(&number.to_string()));
    }
}

#[tokio::test]
async fn path_and_query_are_kept_below_the_replicas_own_base_path() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("replicas: [{{id: r0, url: {}/base/}}]", upstream.url())).await;
    for (target, expected) in [
        ("/v1/chat/completions?api-version=1&q=%20%2f+a=b?c", "/base/v1/chat/completions?api-version=1&q=%20%2f+a=b?c"),
        ("/v1/completions?", "/base/v1/completions?"),
        ("/v1/embeddings", "/base/v1/embeddings"),
        ("/v1/a%2Fb//c", "/base/v1/a%2Fb//c"),
        ("/endpoints/default/openai/v1/chat/completions?x=1", "/base/v1/chat/completions?x=1"),
    ] {
        assert_eq!(post(gateway.address(), target, chat("hi")).await.status, 200, "{target}");
        assert_eq!(upstream.requests().pop().unwrap().target(), expected);
    }
}

#[tokio::test]
async fn a_request_without_a_body_stays_without_one() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    assert_eq!(get(gateway.address(), "/v1/files/m").await.status, 200);
    let arrived = upstream.request();
    assert_eq!((arrived.method(), arrived.target()), ("GET", "/v1/files/m"));
    assert_eq!((arrived.header("content-length"), arrived.header("transfer-encoding")), (None, None));
}

#[tokio::test]
async fn the_head_of_an_answer_can_be_asked_for_alone() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 42\r\n\r\n";
    let upstream = Upstream::always(Reply::raw(head)).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let asked = request(Method::HEAD, "/v1/files/m", &[], Bytes::new());
    let answer = Call::start(gateway.address(), asked).await.answer().await;
    assert_eq!((answer.status.as_u16(), answer.header("content-length"), answer.body.len()), (200, Some("42"), 0));
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn five_megabytes_pass_both_ways() {
    let large: Bytes = (0..5_000_000u32).map(|i| b' ' + (i % 89) as u8).collect::<Vec<_>>().into();
    let echoed = large.clone();
    let upstream = Upstream::start(move |_| {
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", echoed.len());
        Reply::raw(head).send(echoed.clone())
    })
    .await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = post(gateway.address(), "/v1/chat/completions", large.clone()).await;
    assert!(answer.is_complete && answer.body == large, "the answer differs");
    assert!(upstream.request().body == large, "the request differs");
}

#[tokio::test]
async fn answers_keep_their_bytes_and_their_framing() {
    let encoded = &b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\n\x1f\x8b\x08\x00"[..];
    for (reply, body, length) in [
        (Reply::json(200, " {\"a\" :1}\n"), &b" {\"a\" :1}\n"[..], Some("10")),
        (Reply::json(200, ""), b"", Some("0")),
        (Reply::raw(encoded), b"\x1f\x8b\x08\x00", Some("4")),
        (Reply::chunked("text/plain").chunk("ab").chunk("c").end(), b"abc", None),
        (Reply::chunked("text/plain").end(), b"", None),
        (Reply::raw("HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nto the end").close(), b"to the end", None),
        (Reply::raw("HTTP/1.0 200 OK\r\n\r\nold").close(), b"old", None),
    ] {
        let upstream = Upstream::always(reply).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let mut client = Wire::connect(gateway.address()).await;
        send(&mut client, b"{}", Framing::Length { piece_bytes: 9 }).await;
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(head.header("content-length"), length);
        assert_eq!(head.header("transfer-encoding"), length.is_none().then_some("chunked"));
        assert_eq!(soon(client.body(&head)).await.unwrap(), body);
        gateway.is_at_rest().await;
    }
}
