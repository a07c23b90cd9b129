use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

use super::client::{delete, get, post, post_request, read, send};
use super::{engine_with_faults, until};

fn request(id: &str, path: &str, body: &Value) -> Request<Full<Bytes>> {
    let mut request = post_request(path, body.to_string());
    request.headers_mut().insert("x-request-id", id.parse().unwrap());
    request
}

/// Received, finished, aborted, failed.
async fn counts(addr: SocketAddr, id: &str) -> [u64; 4] {
    let page = get(addr, "/debug/requests").await.json();
    let found = page["requests"].as_array().unwrap().iter().find(|line| line["id"] == id).cloned();
    let line = found.unwrap_or_else(|| json!({}));
    ["received", "finished", "aborted", "failed"].map(|key| line[key].as_u64().unwrap_or_default())
}

#[tokio::test]
async fn every_way_to_end_is_told_by_the_id_of_the_request() {
    let engine = engine_with_faults().await;
    let addr = engine.addr();
    let path = "/v1/completions";
    let body = |stream: bool| json!({"prompt": "hello", "max_tokens": 4, "stream": stream});
    for (id, path, body, fault, expected) in [
        ("whole", path, body(false), None, [1, 1, 0, 0]),
        ("stream", path, body(true), None, [1, 1, 0, 0]),
        ("embedding", "/v1/embeddings", json!({"input": "a"}), None, [1, 1, 0, 0]),
        ("refused", path, json!({}), None, [1, 0, 0, 1]),
        ("status", path, body(true), Some(json!({"fault": "status"})), [1, 0, 0, 1]),
        ("cut", path, body(true), Some(json!({"fault": "cut_before_headers"})), [1, 0, 0, 1]),
        ("mid", path, body(true), Some(json!({"fault": "cut_mid_stream"})), [1, 0, 0, 1]),
        ("half", path, body(false), Some(json!({"fault": "end_mid_stream"})), [1, 0, 0, 1]),
        ("clean", path, body(true), Some(json!({"fault": "end_mid_stream", "ending": "clean"})), [1, 0, 0, 1]),
        ("error", path, body(true), Some(json!({"fault": "error_mid_stream"})), [1, 0, 0, 1]),
        ("late", path, body(true), Some(json!({"fault": "cut_mid_stream", "after_chunks": 100})), [1, 1, 0, 0]),
    ] {
        delete(addr, "/inject").await;
        if let Some(fault) = fault {
            assert_eq!(post(addr, "/inject", &fault).await.status, 200);
        }
        tokio::spawn(async move { read(send(addr, request(id, path, &body)).await).await });
        until(id, async || counts(addr, id).await == expected).await;
    }
}

#[tokio::test]
async fn who_leaves_is_told_as_such_in_every_state() {
    let engine = engine_with_faults().await;
    let addr = engine.addr();
    let long = |stream: bool| json!({"prompt": "hello", "max_tokens": 100_000, "stream": stream});
    post(addr, "/inject", &json!({"fault": "hang", "paths": ["/v1/chat/completions"]})).await;
    for (id, path, stream) in [
        ("stream", "/v1/completions", true),
        ("whole", "/v1/completions", false),
        ("hang", "/v1/chat/completions", true),
    ] {
        let client = tokio::spawn(async move { read(send(addr, request(id, path, &long(stream))).await).await });
        until("it is received", async || counts(addr, id).await == [1, 0, 0, 0]).await;
        client.abort();
        until("it is aborted", async || counts(addr, id).await == [1, 0, 1, 0]).await;
    }
    assert_eq!(get(addr, "/load").await.json(), json!({"server_load": 0}));
}

#[tokio::test]
async fn a_repeated_id_is_counted_under_one_and_other_paths_are_not_counted() {
    let engine = engine_with_faults().await;
    let addr = engine.addr();
    let body = json!({"prompt": "hello", "max_tokens": 1});
    for _ in 0..3 {
        read(send(addr, request("again", "/v1/completions", &body)).await).await;
    }
    read(send(addr, request("again", "/tokenize", &body)).await).await;
    assert_eq!(counts(addr, "again").await, [3, 3, 0, 0]);
    post(addr, "/v1/completions", &body).await;
    let page = get(addr, "/debug/requests").await.json();
    assert_eq!((&page["without_id"]["finished"], &page["forgotten"]), (&json!(1), &json!(0)));
}
