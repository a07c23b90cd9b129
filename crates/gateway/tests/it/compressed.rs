//! Compressed bodies (S08): read for their key, passed on as they came or plain, refused for what is wrong with them.

use crate::support::{Answer, Gateway, Reply, Upstream, Wire, invocations, post_with, replicas, soon, until};

macro_rules! sample {
    ($name:literal) => {
        include_bytes!(concat!("../../../wire/src/coding/samples/", $name)).as_slice()
    };
}

const PLAIN: &[u8] = sample!("chat.json");
const SAMPLES: [(&str, &[u8]); 5] = [
    ("gzip", sample!("chat.json.gz")),
    ("deflate", sample!("chat.json.zlib")),
    ("deflate", sample!("chat.json.deflate")),
    ("br", sample!("chat.json.br")),
    ("zstd", sample!("chat.json.zst")),
];
const CHAT: &str = "/v1/chat/completions";

async fn send(gateway: &Gateway, path: &str, coding: &str, body: &'static [u8]) -> Answer {
    let headers = [("content-type", "application/json"), ("content-encoding", coding), ("content-digest", "d")];
    post_with(gateway.address(), path, &headers, body).await
}

#[tokio::test]
async fn a_compressed_body_has_the_home_of_the_plain_one_and_passes_byte_for_byte() {
    let upstream = Upstream::ok().await;
    for path in [CHAT, &invocations("default")] {
        let gateway = Gateway::start(&replicas(&[&upstream; 8])).await;
        let home = send(&gateway, path, "identity", PLAIN).await;
        assert_eq!((home.status.as_u16(), home.decision()), (200, "cold"));
        for (coding, body) in SAMPLES {
            let answer = send(&gateway, path, coding, body).await;
            assert_eq!((answer.replica(), answer.decision()), (home.replica(), "prefix_hit"), "{path} {coding}");
            let arrived = upstream.requests().pop().unwrap();
            assert_eq!(arrived.body, body);
            assert_eq!(arrived.header("content-encoding"), Some(coding));
            assert_eq!(arrived.header("content-length"), Some(&*body.len().to_string()));
        }
        assert_eq!(gateway.metrics().await.sum("kvroute_unscanned_bodies_total", &[]), 0.0);
    }
}

#[tokio::test]
async fn a_compressed_body_in_chunks_arrives_with_one_framing() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    for (coding, body) in SAMPLES {
        let head = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-encoding: {coding}\r\n");
        client.write(format!("{head}transfer-encoding: chunked\r\n\r\n")).await.unwrap();
        for piece in body.chunks(700) {
            client.write([format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat()).await.unwrap();
        }
        client.write("0\r\n\r\n").await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(head.line, "HTTP/1.1 200 OK");
        soon(client.body(&head)).await.unwrap();
        let arrived = upstream.requests().pop().unwrap();
        assert_eq!(arrived.body, body);
        let framing = (arrived.header("content-length"), arrived.header("transfer-encoding"));
        assert_eq!(framing, (Some(&*body.len().to_string()), None));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_compressed_body_is_said_and_no_replica_is_asked() {
    let upstream = Upstream::ok().await;
    let limit = "limits: {decompressed_bytes_max: 1048576}\n";
    let gateway = Gateway::start(&format!("{limit}{}", replicas(&[&upstream]))).await;
    let gzip = SAMPLES[0].1;
    for (coding, body, status, code, message) in [
        ("foo", gzip, 415, "unknown_content_encoding", "gzip, deflate, br and zstd"),
        ("gzip, br", gzip, 415, "unknown_content_encoding", "gzip, deflate, br and zstd"),
        ("gzip", PLAIN, 400, "invalid_request", "damaged"),
        ("zstd", gzip, 400, "invalid_request", "damaged"),
        ("gzip", &gzip[..gzip.len() - 1], 400, "invalid_request", "ends early"),
        ("gzip", sample!("bomb.gz"), 413, "body_too_large", "limits.decompressed_bytes_max"),
        ("deflate", sample!("bomb.zlib"), 413, "body_too_large", "1048576"),
        ("br", sample!("bomb.br"), 413, "body_too_large", "1048576"),
        ("zstd", sample!("bomb.zst"), 413, "body_too_large", "1048576"),
    ] {
        let answer = send(&gateway, CHAT, coding, body).await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (status, code), "{coding}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains(message), "{answer:?}");
        let accepted = (status == 415).then_some("gzip, deflate, br, zstd");
        assert_eq!(answer.header("accept-encoding"), accepted);
        let native = send(&gateway, &invocations("default"), coding, body).await;
        assert_eq!(native.header("x-amzn-errortype"), Some("ValidationError"), "{native:?}");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(gateway.metrics().await.sum("kvroute_refused_requests_total", &[]), 18.0);
}

#[tokio::test]
async fn an_endpoint_may_have_its_replicas_get_plain_bodies() {
    let busy = Upstream::always(Reply::json(503, "{}")).await;
    let upstream = Upstream::ok().await;
    let endpoints = format!(
        "endpoints:\n\
         - {{name: plain, decompress_requests: true, routing: {{strategy: round_robin}}, replicas: [{}, {}]}}\n\
         - {{name: as-it-came, replicas: [{}]}}\n",
        busy.url(),
        upstream.url(),
        upstream.url()
    );
    let gateway = Gateway::start(&endpoints).await;
    for (coding, body) in SAMPLES {
        for _ in 0..2 {
            // One of the two goes to the busy replica first, and from there to the other.
            assert_eq!(send(&gateway, "/endpoints/plain/openai/v1/chat/completions", coding, body).await.status, 200);
            let arrived = upstream.requests().pop().unwrap();
            assert!(arrived.body == PLAIN, "{coding}");
            assert_eq!((arrived.header("content-encoding"), arrived.header("content-digest")), (None, None));
            assert_eq!(arrived.header("content-length"), Some(&*PLAIN.len().to_string()));
        }
        let native = send(&gateway, &invocations("plain"), coding, body).await;
        assert_eq!((native.status.as_u16(), upstream.requests().pop().unwrap().body == PLAIN), (200, true));
        send(&gateway, "/endpoints/as-it-came/openai/v1/chat/completions", coding, body).await;
        let arrived = upstream.requests().pop().unwrap();
        assert_eq!((&arrived.body[..], arrived.header("content-encoding")), (body, Some(coding)));
        assert_eq!(arrived.header("content-digest"), Some("d"));
    }
    assert!(busy.count() > 0);
}

#[tokio::test]
async fn plain_bytes_that_are_kept_count_among_the_bodies() {
    let upstream = Upstream::ok().await;
    let limits = "limits: {body_bytes_max: 65536, bodies_bytes_max: 1000000}\n";
    for (keeps, status) in [(false, 200), (true, 503)] {
        let replicas = replicas(&[&upstream]);
        let endpoint = format!("{{name: e, decompress_requests: {keeps}, {}}}", replicas.trim_end());
        let gateway = Gateway::start(&format!("{limits}endpoints:\n- {endpoint}\n")).await;
        // It is 4 MiB inside.
        assert_eq!(send(&gateway, CHAT, "gzip", sample!("bomb.gz")).await.status, status);
        let counted = async || gateway.metrics().await.sum("kvroute_request_bodies_bytes", &[]);
        until("nothing is counted", async || counted().await == 0.0).await;
    }
}

/// A few bytes make a decoder take megabytes, for as long as the rest of them does not come.
#[tokio::test]
async fn what_decompressing_takes_counts_among_the_bodies_while_they_arrive() {
    let upstream = Upstream::ok().await;
    let limits = "limits: {body_bytes_max: 65536, bodies_bytes_max: 20000000, decompressed_bytes_max: 1048576}\n";
    let gateway = Gateway::start(&format!("{limits}{}", replicas(&[&upstream]))).await;
    let (coding, body) = SAMPLES[3];
    for _ in 0..3 {
        assert_eq!(send(&gateway, CHAT, coding, body).await.status, 200);
    }
    let mut slow = Wire::connect(gateway.address()).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-encoding: {coding}\r\n");
    slow.write(format!("{head}content-length: {}\r\n\r\n", body.len())).await.unwrap();
    slow.write(&body[..10]).await.unwrap();
    let bytes = async || gateway.metrics().await.sum("kvroute_request_bodies_bytes", &[]);
    until("the decoder is counted", async || bytes().await > 17e6).await;
    assert_eq!(send(&gateway, CHAT, coding, body).await.openai_error(), "overloaded");
    assert_eq!(send(&gateway, CHAT, SAMPLES[0].0, SAMPLES[0].1).await.status, 200, "gzip takes less");
    slow.write(&body[10..]).await.unwrap();
    assert_eq!(soon(slow.head()).await.unwrap().unwrap().line, "HTTP/1.1 200 OK");
    until("nothing is counted", async || bytes().await == 0.0).await;
}

#[tokio::test]
async fn a_body_of_no_bytes_is_compressed_in_no_way() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    assert_eq!(send(&gateway, "/v1/tokenize", "gzip", b"").await.status, 200);
}
