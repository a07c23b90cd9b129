use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::client::{get, metric, post, post_request, read, send};
use super::{config, engine, until};
use crate::model::Preset;
use crate::server::{EngineConfig, StartError, start};

/// A request of many seconds.
fn long(stream: bool) -> String {
    json!({"prompt": "hello", "max_tokens": 100_000, "stream": stream}).to_string()
}

#[tokio::test]
async fn a_client_that_goes_takes_its_request_with_it() {
    let engine = start(EngineConfig { speed: 20.0, ..config() }).await.unwrap();
    let addr = engine.addr();
    for stream in [true, false] {
        let body = long(stream);
        let mut client = TcpStream::connect(addr).await.unwrap();
        let request = format!(
            "POST /v1/completions HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write_all(request.as_bytes()).await.unwrap();
        until("the request runs", async || metric(addr, "num_requests_running").await == 1.0).await;
        assert_eq!(get(addr, "/load").await.json(), json!({"server_load": 1}));
        drop(client);
        until("nothing runs", async || metric(addr, "num_requests_running").await == 0.0).await;
        assert_eq!(get(addr, "/load").await.json(), json!({"server_load": 0}));
        assert_eq!(metric(addr, "kv_cache_usage_perc").await, 0.0);
    }
    assert_eq!(metric(addr, "e2e_request_latency_seconds_count").await, 0.0);
}

#[tokio::test]
async fn a_token_is_sent_when_it_is_there_and_not_later() {
    // A decode step of 10 ms.
    let engine = start(EngineConfig { speed: 1.0, ..config() }).await.unwrap();
    let request = post_request("/v1/completions", long(true));
    let mut body = send(engine.addr(), request).await.into_body();
    for _ in 0..5 {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let text = String::from_utf8(frame.to_vec()).unwrap();
        assert_eq!(text.matches("data: ").count(), 1, "{text}");
    }
}

#[tokio::test]
async fn headers_are_sent_before_the_first_token() {
    let preset = Preset { overhead_ms: 3_600_000.0, ..Preset::default() };
    let engine = start(EngineConfig { preset, speed: 1.0, ..config() }).await.unwrap();
    let response = send(engine.addr(), post_request("/v1/completions", long(true))).await;
    assert_eq!(response.status().as_u16(), 200);
    assert_eq!(metric(engine.addr(), "prefix_cache_queries_total").await, 0.0);
}

#[tokio::test]
async fn more_requests_than_the_limit_are_turned_away() {
    let engine = start(EngineConfig { requests_max: 1, speed: 1.0, ..config() }).await.unwrap();
    let addr = engine.addr();
    let running = send(addr, post_request("/v1/completions", long(true))).await;
    let reply = post(addr, "/v1/completions", &json!({"prompt": "hi"})).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (503, &json!("ServiceUnavailableError")));
    assert_eq!(get(addr, "/health").await.status, 200);
    drop(running);
    until("the place is free", async || {
        post(addr, "/v1/completions", &json!({"prompt": "hi", "max_tokens": 1})).await.status == 200
    })
    .await;
}

#[tokio::test]
async fn shutdown_lets_a_request_finish_and_takes_no_other() {
    let engine = start(EngineConfig { speed: 10.0, ..config() }).await.unwrap();
    let addr = engine.addr();
    let body = json!({"prompt": "hello", "max_tokens": 200, "stream": true}).to_string();
    let response = send(addr, post_request("/v1/completions", body)).await;
    let (reply, ()) = tokio::join!(read(response), engine.shutdown());
    assert_eq!(reply.events().len(), 200);
    assert!(TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn shutdown_cuts_off_what_takes_too_long() {
    let config = EngineConfig { speed: 1.0, shutdown_ms_max: 50, ..config() };
    let engine = start(config).await.unwrap();
    let response = send(engine.addr(), post_request("/v1/completions", long(true))).await;
    tokio::time::timeout(Duration::from_secs(5), engine.shutdown()).await.unwrap();
    assert!(response.into_body().collect().await.is_err());
}

#[tokio::test]
async fn an_engine_that_is_dropped_stops_listening() {
    let engine = engine().await;
    let addr = engine.addr();
    drop(engine);
    until("nobody listens", async || TcpStream::connect(addr).await.is_err()).await;
}

#[tokio::test]
async fn a_body_that_does_not_come_is_not_waited_for() {
    let engine = start(EngineConfig { read_ms_max: 50, ..config() }).await.unwrap();
    let mut client = TcpStream::connect(engine.addr()).await.unwrap();
    let head = "POST /v1/completions HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{";
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let read = tokio::io::AsyncReadExt::read_to_string(&mut client, &mut answer);
    tokio::time::timeout(Duration::from_secs(5), read).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn settings_without_meaning_are_refused() {
    for bad in [
        EngineConfig { speed: 0.0, ..config() },
        EngineConfig { speed: -1.0, ..config() },
        EngineConfig { speed: f64::NAN, ..config() },
        EngineConfig { speed: f64::INFINITY, ..config() },
        EngineConfig { requests_max: 0, ..config() },
        EngineConfig { requests_max: usize::MAX, ..config() },
        EngineConfig { connections_max: 0, ..config() },
        EngineConfig { model: String::new(), ..config() },
    ] {
        assert!(matches!(start(bad).await, Err(StartError::Setting(_))));
    }
    let taken = engine().await;
    let twice = EngineConfig { listen: taken.addr(), ..config() };
    assert!(matches!(start(twice).await, Err(StartError::Listen { .. })));
}
