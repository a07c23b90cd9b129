use bytes::Bytes;
use http_body_util::Full;
use hyper::Request;
use serde_json::{Value, json};

use super::client::{Reply, get, metric, post, post_request, read, send};
use super::{config, engine};
use crate::server::{CHAT_TOKENS_DEFAULT, COMPLETION_TOKENS_DEFAULT, EngineConfig, start};
use crate::vocab::Vocab;

fn words(count: usize) -> String {
    let vocab = Vocab::shared();
    let words: Vec<u32> = vocab.words().iter().cycle().copied().take(count).collect();
    String::from_utf8(vocab.decode(&words)).unwrap()
}

fn chat(content: &str, more: Value) -> Value {
    let Value::Object(mut body) = more else { panic!("{more} is not an object") };
    body.insert("model".to_owned(), json!("m"));
    body.insert("messages".to_owned(), json!([{"role": "user", "content": content}]));
    Value::Object(body)
}

#[tokio::test]
async fn a_chat_is_answered_with_words_and_usage() {
    let engine = engine().await;
    let reply = post(engine.addr(), "/v1/chat/completions", &chat("hello", json!({"max_tokens": 5}))).await;
    assert_eq!((reply.status, &reply.headers["content-type"]), (200, &"application/json".parse().unwrap()));
    let answer = reply.json();
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(answer["model"], "m");
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["message"]["role"], "assistant");
    let content = choice["message"]["content"].as_str().unwrap();
    assert_eq!(Vocab::shared().encode(content).len(), 5, "{content:?}");
    // <|im_start|> user \n hello <|im_end|> \n <|im_start|> assistant \n
    assert_eq!(answer["usage"]["prompt_tokens"], 9);
    assert_eq!(answer["usage"]["completion_tokens"], 5);
    assert_eq!(answer["usage"]["total_tokens"], 14);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
    engine.shutdown().await;
}

#[tokio::test]
async fn the_limit_says_how_long_an_answer_is_and_why_it_ends() {
    let engine = engine().await;
    let (chat_path, completion_path) = ("/v1/chat/completions", "/v1/completions");
    let prompt = json!({"prompt": "hello"});
    for (path, body, tokens, reason) in [
        (chat_path, chat("hi", json!({})), CHAT_TOKENS_DEFAULT, "stop"),
        (chat_path, chat("hi", json!({"max_tokens": 3})), 3, "length"),
        (chat_path, chat("hi", json!({"max_tokens": 3, "max_completion_tokens": 1})), 1, "length"),
        (chat_path, chat("hi", json!({"max_completion_tokens": 2, "ignore_eos": true})), 2, "length"),
        (completion_path, prompt, COMPLETION_TOKENS_DEFAULT, "length"),
        (completion_path, json!({"prompt": [5, 6, 7], "max_tokens": 4, "n": 1}), 4, "length"),
    ] {
        let answer = post(engine.addr(), path, &body).await.json();
        assert_eq!(answer["usage"]["completion_tokens"], tokens, "{body}");
        assert_eq!(answer["choices"][0]["finish_reason"], reason, "{body}");
    }
}

#[tokio::test]
async fn a_chat_streams_a_role_then_a_token_an_event_then_usage() {
    let engine = engine().await;
    let options = json!({"stream": true, "max_tokens": 4, "stream_options": {"include_usage": true}});
    let reply = post(engine.addr(), "/v1/chat/completions", &chat("hello", options)).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream; charset=utf-8");
    let events = reply.events();
    assert_eq!(events.len(), 6);
    assert!(events.iter().all(|event| event["object"] == "chat.completion.chunk"));
    assert!(events.iter().all(|event| event["id"] == events[0]["id"]));
    assert_eq!(events[0]["choices"][0]["delta"], json!({"role": "assistant", "content": ""}));
    assert_eq!(events[0]["prompt_token_ids"], Value::Null);
    for event in &events[1..5] {
        let content = event["choices"][0]["delta"]["content"].as_str().unwrap();
        assert_eq!(Vocab::shared().encode(content).len(), 1);
        assert!(event.get("usage").is_none());
    }
    let reasons: Vec<&Value> = events[1..5].iter().map(|e| &e["choices"][0]["finish_reason"]).collect();
    assert_eq!(reasons, [&Value::Null, &Value::Null, &Value::Null, &json!("length")]);
    assert_eq!(events[5]["choices"], json!([]));
    assert_eq!(events[5]["usage"]["completion_tokens"], 4);
    assert_eq!(events[5]["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

#[tokio::test]
async fn a_stream_says_the_same_as_a_whole_answer() {
    let engine = engine().await;
    for (path, body, text) in [
        ("/v1/completions", json!({"prompt": "hello", "max_tokens": 6}), "/choices/0/text"),
        ("/v1/chat/completions", chat("hello", json!({"max_tokens": 6})), "/choices/0/message/content"),
    ] {
        let whole = post(engine.addr(), path, &body).await.json();
        let mut streamed = body.clone();
        streamed["stream"] = json!(true);
        let events = post(engine.addr(), path, &streamed).await.events();
        let delta = if path.contains("chat") { "/choices/0/delta/content" } else { "/choices/0/text" };
        let joined: String = events.iter().map(|event| event.pointer(delta).unwrap().as_str().unwrap()).collect();
        assert_eq!(whole.pointer(text).unwrap(), &joined);
        assert!(events.iter().all(|event| event.get("usage").is_none()));
    }
}

#[tokio::test]
async fn token_ids_are_those_of_the_text() {
    let engine = engine().await;
    let vocab = Vocab::shared();
    let body = chat("hello", json!({"max_tokens": 3, "return_token_ids": true}));
    let answer = post(engine.addr(), "/v1/chat/completions", &body).await.json();
    let prompt = "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(answer["prompt_token_ids"], json!(vocab.encode(prompt)));
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(answer["choices"][0]["token_ids"], json!(vocab.encode(content)));

    let body = json!({"prompt": "hello", "max_tokens": 3, "return_token_ids": true, "stream": true});
    let events = post(engine.addr(), "/v1/completions", &body).await.events();
    assert_eq!(events[0]["choices"][0]["prompt_token_ids"], json!(vocab.encode("hello")));
    for event in &events {
        let text = event["choices"][0]["text"].as_str().unwrap();
        assert_eq!(event["choices"][0]["token_ids"], json!(vocab.encode(text)));
    }
}

fn cached(reply: &Reply) -> u64 {
    reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn a_prompt_seen_before_is_cached_but_for_its_last_block() {
    let engine = engine().await;
    let body = |salt: Option<&str>| json!({"prompt": words(100), "max_tokens": 1, "cache_salt": salt});
    for (salt, expected) in [(None, 0), (None, 96), (Some("s"), 0), (Some("s"), 96), (None, 96)] {
        let reply = post(engine.addr(), "/v1/completions", &body(salt)).await;
        assert_eq!(cached(&reply), expected, "{salt:?}");
    }
    assert_eq!(metric(engine.addr(), "prefix_cache_hits_total").await, 3.0 * 96.0);
    assert_eq!(metric(engine.addr(), "prefix_cache_queries_total").await, 500.0);

    assert_eq!(post(engine.addr(), "/reset_prefix_cache", &json!({})).await.status, 200);
    assert_eq!(cached(&post(engine.addr(), "/v1/completions", &body(None)).await), 0);
}

#[tokio::test]
async fn the_next_turn_of_a_conversation_finds_the_answer_cached() {
    let engine = engine().await;
    let path = "/v1/chat/completions";
    let mut body = chat(&words(60), json!({"max_tokens": 64}));
    let first = post(engine.addr(), path, &body).await.json();
    let prompt_tokens = first["usage"]["prompt_tokens"].as_u64().unwrap();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "and then?"}));
    let second = post(engine.addr(), path, &body).await;
    // All but the answer's last token, whose keys and values nobody has computed.
    assert_eq!(cached(&second), (prompt_tokens + 63) / 16 * 16);
}

#[tokio::test]
async fn invocations_dispatch_by_the_shape_of_the_body() {
    let engine = engine().await;
    for (body, status, object) in [
        (json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}), 200, "chat.completion"),
        (json!({"prompt": "hi", "max_tokens": 1}), 200, "text_completion"),
        (json!({"inputs": "hi"}), 400, ""),
        (json!({"prompt": "hi", "model": "other"}), 404, ""),
    ] {
        let reply = post(engine.addr(), "/invocations", &body).await;
        assert_eq!(reply.status, status, "{body}");
        assert_eq!(reply.json()["object"].as_str().unwrap_or_default(), object, "{body}");
    }
    let stream = json!({"prompt": "hi", "max_tokens": 2, "stream": true});
    assert_eq!(post(engine.addr(), "/invocations", &stream).await.events().len(), 2);
    for (header, status) in [("x-amzn-sagemaker-session-id", 400), ("x-amzn-sagemaker-adapter-identifier", 404)] {
        let mut request = post_request("/invocations", r#"{"prompt":"hi"}"#);
        request.headers_mut().insert(header, "x".parse().unwrap());
        assert_eq!(send(engine.addr(), request).await.status().as_u16(), status, "{header}");
    }
}

#[tokio::test]
async fn a_request_that_makes_no_sense_is_refused_with_a_reason() {
    let config = EngineConfig { body_bytes_max: 10_000, ..config() };
    let context_tokens_max = 4096;
    let preset = crate::model::Preset { context_tokens_max, ..config.preset };
    let engine = start(EngineConfig { preset, ..config }).await.unwrap();
    let path = "/v1/completions";
    for (path, body, status, kind) in [
        (path, "{".to_owned(), 400, "BadRequestError"),
        (path, "[]".to_owned(), 400, "BadRequestError"),
        (path, "{}".to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":""}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":[]}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":["a","b"]}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":[1000000]}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","n":2}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","max_tokens":0}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","max_tokens":-1}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","max_tokens":4096}"#.to_owned(), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","cache_salt":""}"#.to_owned(), 400, "BadRequestError"),
        (path, format!(r#"{{"prompt":"p","cache_salt":"{}"}}"#, "s".repeat(1025)), 400, "BadRequestError"),
        (path, format!(r#"{{"prompt":"p","session_id":"{}"}}"#, "s".repeat(1025)), 400, "BadRequestError"),
        (path, r#"{"prompt":"p","model":"other"}"#.to_owned(), 404, "NotFoundError"),
        (path, format!(r#"{{"prompt":"{}"}}"#, "x ".repeat(4100)), 400, "BadRequestError"),
        (path, format!(r#"{{"prompt":"{}"}}"#, "x".repeat(10_000)), 413, "RequestEntityTooLargeError"),
        ("/v1/chat/completions", r#"{"prompt":"p"}"#.to_owned(), 400, "BadRequestError"),
        ("/v1/chat/completions", r#"{"messages":[{"content":"p"}]}"#.to_owned(), 400, "BadRequestError"),
        ("/tokenize", "{}".to_owned(), 400, "BadRequestError"),
        ("/detokenize", "{}".to_owned(), 400, "BadRequestError"),
    ] {
        let reply = read(send(engine.addr(), post_request(path, body.clone())).await).await;
        let body = &body[..body.len().min(60)];
        assert_eq!(reply.status, status, "{path} {body}");
        let error = reply.json()["error"].clone();
        assert_eq!((&error["type"], &error["code"]), (&json!(kind), &json!(status)), "{path} {body}");
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    let fits = json!({"prompt": "p", "max_tokens": 4095});
    assert_eq!(post(engine.addr(), path, &fits).await.status, 200);
}

#[tokio::test]
async fn the_model_may_be_left_out() {
    let engine = engine().await;
    for model in [json!("m"), json!(""), Value::Null] {
        let body = json!({"prompt": "hi", "model": model, "max_tokens": 1});
        let answer = post(engine.addr(), "/v1/completions", &body).await.json();
        assert_eq!(answer["model"], "m");
    }
}

#[tokio::test]
async fn only_json_is_read() {
    let engine = engine().await;
    for (content_type, status) in [
        (None, 400),
        (Some("text/plain"), 400),
        (Some("application/x-www-form-urlencoded"), 400),
        (Some("Application/JSON; charset=utf-8"), 200),
    ] {
        let mut request = post_request("/tokenize", r#"{"prompt":"p"}"#);
        request.headers_mut().remove("content-type");
        if let Some(content_type) = content_type {
            request.headers_mut().insert("content-type", content_type.parse().unwrap());
        }
        assert_eq!(send(engine.addr(), request).await.status().as_u16(), status, "{content_type:?}");
    }
}

#[tokio::test]
async fn a_key_guards_the_api_and_leaves_health_open() {
    let engine = start(EngineConfig { api_key: Some("k".to_owned()), ..config() }).await.unwrap();
    for (method, path, authorization, status) in [
        ("GET", "/v1/models", None, 401),
        ("GET", "/v1/models", Some("Bearer x"), 401),
        ("GET", "/v1/models", Some("k"), 401),
        ("GET", "/v1/models", Some("Bearer k"), 200),
        ("POST", "/v1/completions", None, 401),
        ("POST", "/invocations", None, 401),
        ("GET", "/health", None, 200),
        ("GET", "/ping", None, 200),
        ("GET", "/metrics", None, 200),
    ] {
        let mut request = Request::builder().method(method).uri(path).header("host", "engine");
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let response = send(engine.addr(), request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!(response.status().as_u16(), status, "{path} {authorization:?}");
    }
}

#[tokio::test]
async fn every_path_answers_its_method_and_no_other() {
    let engine = engine().await;
    for (method, path, status) in [
        ("GET", "/health", 200),
        ("GET", "/ping", 200),
        ("POST", "/ping", 200),
        ("GET", "/version", 200),
        ("GET", "/load", 200),
        ("POST", "/health", 405),
        ("GET", "/v1/chat/completions", 405),
        ("GET", "/nowhere", 404),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "engine");
        let response = send(engine.addr(), request.body(Full::<Bytes>::default()).unwrap()).await;
        assert_eq!(response.status().as_u16(), status, "{method} {path}");
    }
    assert_eq!(get(engine.addr(), "/load").await.json(), json!({"server_load": 0}));
    assert_eq!(get(engine.addr(), "/kv_event_sources").await.json(), json!({}));
    let models = get(engine.addr(), "/v1/models").await.json();
    assert_eq!(models["data"][0]["id"], "m");
    assert_eq!(models["data"][0]["max_model_len"], 131_072);
}

#[tokio::test]
async fn text_becomes_tokens_and_text_again() {
    let engine = engine().await;
    let text = "hello <|im_end|> zażółć\n";
    let tokens = post(engine.addr(), "/tokenize", &json!({"prompt": text})).await.json();
    assert_eq!(tokens["tokens"], json!(Vocab::shared().encode(text)));
    assert_eq!(tokens["count"], Vocab::shared().encode(text).len());
    let back = post(engine.addr(), "/detokenize", &json!({"tokens": tokens["tokens"]})).await;
    assert_eq!(back.json(), json!({"prompt": text}));
    let chat = json!({"messages": [{"role": "user", "content": "hi"}], "add_generation_prompt": false});
    let tokens = post(engine.addr(), "/tokenize", &chat).await.json();
    assert_eq!(tokens["tokens"], json!(Vocab::shared().encode("<|im_start|>user\nhi<|im_end|>\n")));
}

#[tokio::test]
async fn metrics_count_what_was_done() {
    let engine = engine().await;
    let body = json!({"prompt": words(100), "max_tokens": 5});
    post(engine.addr(), "/v1/completions", &body).await;
    post(engine.addr(), "/v1/completions", &body).await;
    post(engine.addr(), "/v1/chat/completions", &chat("hello", json!({}))).await;
    for (name, expected) in [
        ("num_requests_running", 0.0),
        ("num_requests_waiting", 0.0),
        ("kv_cache_usage_perc", 0.0),
        ("prompt_tokens_total", 209.0),
        ("prompt_tokens_cached_total", 96.0),
        ("generation_tokens_total", 10.0 + f64::from(CHAT_TOKENS_DEFAULT)),
        ("num_preemptions_total", 0.0),
        ("time_to_first_token_seconds_count", 3.0),
        ("inter_token_latency_seconds_count", 7.0 + f64::from(CHAT_TOKENS_DEFAULT)),
        ("e2e_request_latency_seconds_count", 3.0),
    ] {
        assert_eq!(metric(engine.addr(), name).await, expected, "{name}");
    }
    // 0.04 s before the scheduler and some milliseconds of prefill, at 200 times the speed.
    let first_token = metric(engine.addr(), "time_to_first_token_seconds_sum").await / 3.0;
    assert!((0.0002..0.001).contains(&first_token), "{first_token}");
    let page = get(engine.addr(), "/metrics").await;
    for line in page.text().lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(name.starts_with("vllm:") || name == "process_start_time_seconds", "{line}");
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
    let labels = r#"{engine="0",model_name="m""#;
    for line in [
        format!(r#"vllm:request_success_total{labels},finished_reason="length"}} 2.0"#),
        format!(r#"vllm:request_success_total{labels},finished_reason="stop"}} 1.0"#),
        format!(r#"vllm:cache_config_info{labels},block_size="16","#),
    ] {
        assert!(page.text().lines().any(|found| found.starts_with(&line)), "{line}");
    }
}
