use std::time::Duration;

use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::client::{delete, exchange, get, post, post_request, read, send};
use super::{config, engine, engine_with_faults, until};
use crate::server::{EngineConfig, start};

const PATH: &str = "/v1/completions";

fn short(stream: bool) -> Value {
    json!({"prompt": "hello", "max_tokens": 8, "stream": stream})
}

fn events(answer: &str) -> usize {
    answer.matches("data: {\"id\"").count()
}

/// Waits a little for something that must not come.
async fn is_silent(answer: impl Future) -> bool {
    tokio::time::timeout(Duration::from_millis(60), answer).await.is_err()
}

#[tokio::test]
async fn faults_are_added_listed_and_lifted() {
    let engine = engine_with_faults().await;
    let addr = engine.addr();
    assert_eq!(get(addr, "/inject").await.json(), json!({"rules": []}));
    let rule = post(addr, "/inject", &json!({"fault": "status", "status": 503, "retry_after": "3", "count": 2})).await;
    assert_eq!((rule.status, &rule.json()["id"], &rule.json()["hits"]), (200, &json!(1), &json!(0)));
    for status in [503, 503, 200] {
        let reply = post(addr, PATH, &short(false)).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.headers.contains_key("retry-after"), status == 503);
    }
    assert_eq!(get(addr, "/inject").await.json()["rules"][0]["hits"], 2);
    post(addr, "/inject", &json!({"fault": "status", "paths": ["*"]})).await;
    assert_eq!(get(addr, "/v1/models").await.status, 500);
    assert_eq!(delete(addr, "/inject").await.json(), json!({"rules": []}));
    assert_eq!(get(addr, "/v1/models").await.status, 200);
    for bad in [json!({"fault": "fire"}), json!({"fault": "hang", "ms": 1}), json!({})] {
        assert_eq!(post(addr, "/inject", &bad).await.status, 400, "{bad}");
    }
    assert_eq!(post(addr, "/debug/requests", &json!({})).await.status, 405);
}

#[tokio::test]
async fn faults_cannot_be_injected_unless_that_is_allowed() {
    let engine = engine().await;
    assert_eq!(post(engine.addr(), "/inject", &json!({"fault": "hang"})).await.status, 404);
    for path in ["/inject", "/debug/requests"] {
        assert_eq!(get(engine.addr(), path).await.status, 404, "{path}");
    }
    assert_eq!(post(engine.addr(), PATH, &short(false)).await.status, 200);
    let config = EngineConfig { allow_injection: true, api_key: Some("k".to_owned()), ..config() };
    let guarded = start(config).await.unwrap();
    for path in ["/inject", "/debug/requests"] {
        assert_eq!(get(guarded.addr(), path).await.status, 401, "{path}");
    }
}

#[tokio::test]
async fn a_connection_is_reset_before_the_headers() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "cut_before_headers", "count": 1})).await;
    let (answer, end) = exchange(engine.addr(), PATH, &short(true)).await;
    assert_eq!((&*answer, end.unwrap_err().kind()), ("", std::io::ErrorKind::ConnectionReset));
    assert_eq!(post(engine.addr(), PATH, &short(false)).await.status, 200);
}

#[tokio::test]
async fn a_stream_is_reset_after_so_many_chunks() {
    let engine = engine_with_faults().await;
    for chunks in [0, 1, 3] {
        delete(engine.addr(), "/inject").await;
        post(engine.addr(), "/inject", &json!({"fault": "cut_mid_stream", "after_chunks": chunks})).await;
        let (answer, end) = exchange(engine.addr(), PATH, &short(true)).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
        assert_eq!(events(&answer), chunks, "{answer}");
        assert_eq!(end.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    }
}

#[tokio::test]
async fn a_stream_ends_too_early_in_every_way() {
    let engine = engine_with_faults().await;
    for (ending, tail) in
        [("clean", "\n\n\r\n0\r\n\r\n"), ("between_chunks", "\n\n\r\n"), ("in_chunk", "\n\n\r\n400\r\ndata: {")]
    {
        delete(engine.addr(), "/inject").await;
        let rule = json!({"fault": "end_mid_stream", "after_chunks": 2, "ending": ending});
        post(engine.addr(), "/inject", &rule).await;
        let mut body = short(true);
        body["x"] = json!(ending);
        let head_and_body = async {
            let (answer, end) = exchange_once(engine.addr(), &body).await;
            assert!(end.is_ok(), "{ending}");
            answer
        };
        let answer = tokio::time::timeout(Duration::from_secs(5), head_and_body).await.unwrap();
        assert_eq!(events(&answer), 2, "{ending} {answer}");
        assert!(answer.ends_with(tail), "{ending} {answer:?}");
        assert!(!answer.contains("[DONE]"));
    }
}

/// As [`exchange`], but asks for the connection's end after the answer.
async fn exchange_once(addr: std::net::SocketAddr, body: &Value) -> (String, std::io::Result<()>) {
    let body = body.to_string();
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: e\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all((head + &body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    let end = stream.read_to_string(&mut answer).await.map(drop);
    (answer, end)
}

#[tokio::test]
async fn a_stream_tells_an_error_in_the_words_of_its_api() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "error_mid_stream", "after_chunks": 3})).await;
    let answer = post(engine.addr(), PATH, &short(true)).await.events();
    assert_eq!(answer.len(), 4);
    assert_eq!(answer[3]["error"]["code"], 500);
    let body = json!({"max_tokens": 8, "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let answer = post(engine.addr(), "/v1/messages", &body).await.named_events();
    assert_eq!((answer[5].0.as_str(), answer.len()), ("error", 6));
    assert_eq!(answer[5].1["error"]["type"], "api_error");
    let body = json!({"max_output_tokens": 8, "stream": true, "input": "hi"});
    let answer = post(engine.addr(), "/v1/responses", &body).await.named_events();
    assert_eq!(answer.last().unwrap().1["response"]["status"], "failed");
    let whole = exchange(engine.addr(), PATH, &short(false)).await;
    assert!(!whole.0.ends_with('}'), "half of it: {}", whole.0);
}

#[tokio::test]
async fn a_whole_answer_is_cut_in_its_middle() {
    let engine = engine_with_faults().await;
    let whole = post(engine.addr(), PATH, &short(false)).await;
    for (fault, in_order) in [("cut_mid_stream", false), ("end_mid_stream", true)] {
        delete(engine.addr(), "/inject").await;
        post(engine.addr(), "/inject", &json!({"fault": fault})).await;
        let (answer, end) = exchange(engine.addr(), PATH, &short(false)).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", whole.body.len())), "{head}");
        assert_eq!(body.len(), whole.body.len() / 2);
        assert_eq!(end.is_ok(), in_order, "{fault}");
    }
}

#[tokio::test]
async fn a_request_hangs_until_its_client_leaves() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "hang", "count": 1})).await;
    assert!(is_silent(exchange(engine.addr(), PATH, &short(false))).await);
    assert_eq!(post(engine.addr(), PATH, &short(false)).await.status, 200);
    assert_eq!(get(engine.addr(), "/load").await.json(), json!({"server_load": 0}));
}

#[tokio::test]
async fn a_half_open_connection_is_let_go_when_the_fault_is_lifted() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "half_open"})).await;
    let body = short(false);
    let exchange = exchange(engine.addr(), PATH, &body);
    let mut exchange = std::pin::pin!(exchange);
    assert!(is_silent(exchange.as_mut()).await);
    assert_eq!(get(engine.addr(), "/health").await.status, 200);
    delete(engine.addr(), "/inject").await;
    let (answer, end) = exchange.await;
    assert_eq!((&*answer, end.is_err()), ("", true));
}

#[tokio::test]
async fn health_fails_or_hangs_while_work_goes_on() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "unhealthy"})).await;
    for path in ["/health", "/ping"] {
        assert_eq!(get(engine.addr(), path).await.status, 503, "{path}");
    }
    assert_eq!(post(engine.addr(), PATH, &short(false)).await.status, 200);
    delete(engine.addr(), "/inject").await;
    post(engine.addr(), "/inject", &json!({"fault": "health_hang"})).await;
    assert!(is_silent(get(engine.addr(), "/health")).await);
    assert_eq!(post(engine.addr(), PATH, &short(false)).await.status, 200);
    delete(engine.addr(), "/inject").await;
    assert_eq!(get(engine.addr(), "/health").await.status, 200);
}

#[tokio::test]
async fn an_answer_begins_late_or_comes_slowly() {
    let engine = engine_with_faults().await;
    let (long, brief) = (Duration::from_millis(100), Duration::from_millis(70));
    let timed = async |rule: Value| {
        delete(engine.addr(), "/inject").await;
        post(engine.addr(), "/inject", &rule).await;
        let started = tokio::time::Instant::now();
        let response = send(engine.addr(), post_request(PATH, short(true).to_string())).await;
        let headers_after = started.elapsed();
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
        let first_after = started.elapsed();
        body.collect().await.unwrap();
        (headers_after, first_after, started.elapsed())
    };
    let (headers, ..) = timed(json!({"fault": "slow_start", "ms": 100})).await;
    assert!(headers >= long);
    let (headers, first, end) = timed(json!({"fault": "slow_chunks", "ms": 100, "paths": [PATH]})).await;
    assert!(headers < brief && first >= long && end >= 5 * long, "{headers:?} {first:?} {end:?}");
}

#[tokio::test]
async fn errors_of_one_api_stay_in_its_shape_and_faults_end_with_their_count() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "status", "status": 429, "count": 1, "paths": ["/v1/messages"]}))
        .await;
    let body = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "hi"}]});
    let reply = post(engine.addr(), "/v1/messages", &body).await;
    assert_eq!((reply.status, &reply.json()["error"]["type"]), (429, &json!("rate_limit_error")));
    assert_eq!(post(engine.addr(), "/v1/messages", &body).await.status, 200);
}

#[tokio::test]
async fn shutdown_does_not_wait_for_what_hangs() {
    let config = EngineConfig { allow_injection: true, shutdown_ms_max: 50, ..config() };
    let engine = start(config).await.unwrap();
    for fault in ["hang", "half_open"] {
        post(engine.addr(), "/inject", &json!({"fault": fault, "count": 1})).await;
        let addr = engine.addr();
        tokio::spawn(async move { exchange(addr, PATH, &short(false)).await });
    }
    until("both are struck", async || {
        let rules = get(engine.addr(), "/inject").await.json();
        rules["rules"].as_array().unwrap().iter().all(|rule| rule["hits"] == 1)
    })
    .await;
    tokio::time::timeout(Duration::from_secs(5), engine.shutdown()).await.unwrap();
}

#[tokio::test]
async fn a_connection_goes_on_after_a_fault_that_does_not_end_it() {
    let engine = engine_with_faults().await;
    post(engine.addr(), "/inject", &json!({"fault": "status", "status": 500, "count": 1})).await;
    let mut stream = TcpStream::connect(engine.addr()).await.unwrap();
    let body = " ".repeat(200_000) + &short(false).to_string();
    let request = format!(
        "POST {PATH} HTTP/1.1\r\nhost: e\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    for status in ["HTTP/1.1 500", "HTTP/1.1 200"] {
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = vec![0; 16_384];
        let bytes = stream.read(&mut answer).await.unwrap();
        assert!(answer[..bytes].starts_with(status.as_bytes()), "{:?}", String::from_utf8_lossy(&answer[..bytes]));
    }
    drop(read(send(engine.addr(), post_request(PATH, short(false).to_string())).await).await);
}
