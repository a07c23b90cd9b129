use serde_json::{Value, json};

use super::client::{get, post};
use super::engine;

fn body(more: &Value) -> Value {
    let mut body = json!({
        "model": "m",
        "max_tokens": 4,
        "system": [{"type": "text", "text": " word".repeat(60)}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    });
    for (key, value) in more.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

#[tokio::test]
async fn a_message_is_answered_with_usage_that_adds_up() {
    let engine = engine().await;
    let first = post(engine.addr(), "/v1/messages", &body(&json!({}))).await.json();
    assert_eq!((&first["type"], &first["role"]), (&json!("message"), &json!("assistant")));
    assert!(first["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!((&first["stop_reason"], &first["stop_sequence"]), (&json!("max_tokens"), &Value::Null));
    assert_eq!(first["content"][0]["type"], "text");
    let prompt_tokens = first["usage"]["input_tokens"].as_u64().unwrap();
    assert_eq!(first["usage"]["cache_read_input_tokens"], 0);
    assert_eq!(first["usage"]["output_tokens"], 4);
    let second = post(engine.addr(), "/v1/messages", &body(&json!({}))).await.json();
    assert_eq!(second["content"], first["content"]);
    let cached = second["usage"]["cache_read_input_tokens"].as_u64().unwrap();
    assert_eq!(cached, (prompt_tokens - 1) / 16 * 16);
    assert_eq!(second["usage"]["input_tokens"], prompt_tokens - cached);
}

#[tokio::test]
async fn the_same_conversation_is_the_same_prompt_in_chat() {
    let engine = engine().await;
    post(engine.addr(), "/v1/messages", &body(&json!({}))).await;
    let chat = json!({
        "max_tokens": 4,
        "messages": [{"role": "system", "content": " word".repeat(60)}, {"role": "user", "content": "hello"}],
    });
    let answer = post(engine.addr(), "/v1/chat/completions", &chat).await.json();
    let prompt_tokens = answer["usage"]["prompt_tokens"].as_u64().unwrap();
    let cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert_eq!(cached, (prompt_tokens - 1) / 16 * 16);
}

#[tokio::test]
async fn a_stream_says_the_same_in_named_events() {
    let engine = engine().await;
    let whole = post(engine.addr(), "/v1/messages", &body(&json!({}))).await.json();
    let reply = post(engine.addr(), "/v1/messages", &body(&json!({"stream": true}))).await;
    assert_eq!(reply.headers["content-type"], "text/event-stream; charset=utf-8");
    let events = reply.named_events();
    let names: Vec<&str> = events.iter().map(|(name, _)| &**name).collect();
    let delta = "content_block_delta";
    assert_eq!(
        names,
        [
            "message_start",
            "content_block_start",
            delta,
            delta,
            delta,
            delta,
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    let text: String = events.iter().filter_map(|(_, event)| event.pointer("/delta/text")?.as_str()).collect();
    assert_eq!(text, whole["content"][0]["text"].as_str().unwrap());
    let (start, end) = (&events[0].1["message"], &events[7].1);
    assert!(start["usage"]["cache_read_input_tokens"].as_u64().unwrap() > 0);
    assert_eq!((&start["content"], &start["stop_reason"]), (&json!([]), &Value::Null));
    assert_eq!(end["delta"]["stop_reason"], "max_tokens");
    assert_eq!(end["usage"]["output_tokens"], 4);
    assert_eq!(end["usage"]["cache_read_input_tokens"], start["usage"]["cache_read_input_tokens"]);
}

#[tokio::test]
async fn what_tools_gave_back_is_part_of_the_prompt() {
    let engine = engine().await;
    let tokens = async |result: Value| {
        let messages =
            json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": result}]}]);
        let answer = post(engine.addr(), "/v1/messages", &body(&json!({"messages": messages}))).await.json();
        answer["usage"]["input_tokens"].as_u64().unwrap() + answer["usage"]["cache_read_input_tokens"].as_u64().unwrap()
    };
    let (empty, said) = (tokens(json!("")).await, tokens(json!(" word word word")).await);
    assert_eq!(said, empty + 3);
    assert_eq!(tokens(json!([{"type": "text", "text": " word word word"}])).await, said);
}

#[tokio::test]
async fn errors_have_the_shape_of_the_api() {
    let engine = engine().await;
    for (body, status, kind) in [
        (json!({"max_tokens": 1}), 400, "invalid_request_error"),
        (body(&json!({"max_tokens": null})), 400, "invalid_request_error"),
        (body(&json!({"max_tokens": 0})), 400, "invalid_request_error"),
        (body(&json!({"model": "other"})), 404, "not_found_error"),
        (json!([]), 400, "invalid_request_error"),
    ] {
        let reply = post(engine.addr(), "/v1/messages", &body).await;
        assert_eq!(reply.status, status, "{body}");
        let error = reply.json();
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!(kind)));
        assert!(!error["error"]["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(get(engine.addr(), "/v1/messages").await.status, 405);
}
