use http_body_util::BodyExt;
use serde_json::{Value, json};

use super::client::{post, post_request, send};
use super::{config, engine};
use crate::model::Preset;
use crate::server::{CHAT_TOKENS_DEFAULT, EngineConfig, Running, start};

async fn respond(engine: &Running, body: Value) -> Value {
    let reply = post(engine.addr(), "/v1/responses", &body).await;
    assert_eq!(reply.status, 200, "{body} {:?}", reply.body);
    reply.json()
}

fn text(response: &Value) -> &str {
    response["output"][0]["content"][0]["text"].as_str().unwrap()
}

fn cached(response: &Value) -> u64 {
    response["usage"]["input_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

#[tokio::test]
async fn a_text_is_answered_with_one_message() {
    let engine = engine().await;
    let response = respond(&engine, json!({"model": "m", "input": "hello", "max_output_tokens": 5})).await;
    assert!(response["id"].as_str().unwrap().starts_with("resp_"));
    assert_eq!((&response["object"], &response["status"]), (&json!("response"), &json!("incomplete")));
    assert_eq!(response["incomplete_details"]["reason"], "max_output_tokens");
    assert_eq!(response["output"].as_array().unwrap().len(), 1);
    assert_eq!(response["output"][0]["role"], "assistant");
    assert!(!text(&response).is_empty());
    assert_eq!(response["usage"]["output_tokens"], 5);
    assert_eq!(response["usage"]["total_tokens"], response["usage"]["input_tokens"].as_u64().unwrap() + 5);
    let unlimited = respond(&engine, json!({"input": "hello"})).await;
    assert_eq!((&unlimited["status"], &unlimited["incomplete_details"]), (&json!("completed"), &Value::Null));
    assert_eq!(unlimited["usage"]["output_tokens"], CHAT_TOKENS_DEFAULT);
}

#[tokio::test]
async fn the_same_conversation_is_the_same_prompt_in_chat() {
    let engine = engine().await;
    let (system, question) = (" word".repeat(60), "hello");
    let chat = json!({
        "max_tokens": 4,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}],
    });
    let answer = post(engine.addr(), "/v1/chat/completions", &chat).await.json();
    let response = respond(&engine, json!({"instructions": system, "input": question, "max_output_tokens": 4})).await;
    assert_eq!(response["usage"]["input_tokens"], answer["usage"]["prompt_tokens"]);
    assert_eq!(text(&response), answer["choices"][0]["message"]["content"]);
    assert_eq!(cached(&response), (answer["usage"]["prompt_tokens"].as_u64().unwrap() - 1) / 16 * 16);
}

#[tokio::test]
async fn a_conversation_goes_on_from_a_response_where_that_is_known() {
    let (engine, other) = (engine().await, engine().await);
    let first = respond(&engine, json!({"input": " word".repeat(60), "max_output_tokens": 40})).await;
    let next = json!({"input": "and then?", "previous_response_id": first["id"], "max_output_tokens": 4});
    let second = respond(&engine, next.clone()).await;
    assert_eq!(second["previous_response_id"], first["id"]);
    // Prompt and answer of the first, but for the answer's last token.
    let before = first["usage"]["total_tokens"].as_u64().unwrap();
    assert_eq!(cached(&second), (before - 1) / 16 * 16);
    // The same, said at length.
    let at_length = json!({"max_output_tokens": 4, "input": [
        {"role": "user", "content": " word".repeat(60)}, first["output"][0], {"role": "user", "content": "and then?"},
    ]});
    let said = respond(&engine, at_length).await;
    assert_eq!((text(&said), &said["usage"]["input_tokens"]), (text(&second), &second["usage"]["input_tokens"]));
    // A third goes on from the second.
    let third = json!({"input": "and?", "previous_response_id": second["id"], "max_output_tokens": 1});
    assert!(cached(&respond(&engine, third).await) > cached(&second));

    let reply = post(other.addr(), "/v1/responses", &next).await;
    assert_eq!((reply.status, &reply.json()["error"]["code"]), (404, &json!(404)));
}

#[tokio::test]
async fn a_response_that_is_not_to_be_stored_is_not_known() {
    let engine = engine().await;
    for stream in [false, true] {
        for (store, status) in [(true, 200), (false, 404)] {
            let body = json!({"input": "hello", "store": store, "max_output_tokens": 2, "stream": stream});
            let reply = post(engine.addr(), "/v1/responses", &body).await;
            let id =
                if stream { reply.named_events()[0].1["response"]["id"].clone() } else { reply.json()["id"].clone() };
            let next = json!({"input": "on", "previous_response_id": id, "max_output_tokens": 1});
            assert_eq!(post(engine.addr(), "/v1/responses", &next).await.status, status, "{body}");
        }
    }
}

#[tokio::test]
async fn a_stream_says_the_same_in_numbered_events() {
    let engine = engine().await;
    let body = |stream: bool| json!({"input": "hello", "max_output_tokens": 3, "stream": stream});
    let whole = respond(&engine, body(false)).await;
    let events = post(engine.addr(), "/v1/responses", &body(true)).await.named_events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.strip_prefix("response.").unwrap()).collect();
    let delta = "output_text.delta";
    assert_eq!(
        names,
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            delta,
            delta,
            delta,
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed"
        ]
    );
    for (number, (_, event)) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let deltas: String = events.iter().filter_map(|(_, event)| event["delta"].as_str()).collect();
    assert_eq!(deltas, text(&whole));
    assert_eq!(events[7].1["text"], text(&whole));
    let last = &events[10].1["response"];
    assert_eq!((text(last), &last["usage"]), (text(&whole), &whole["usage"]));
    assert_eq!(last["id"], events[0].1["response"]["id"]);
    assert_eq!(events[0].1["response"]["status"], "in_progress");
}

#[tokio::test]
async fn a_stream_opens_before_the_engine_has_begun() {
    let preset = Preset { overhead_ms: 3_600_000.0, ..Preset::default() };
    let engine = start(EngineConfig { preset, speed: 1.0, ..config() }).await.unwrap();
    let body = json!({"input": "hello", "stream": true}).to_string();
    let mut body = send(engine.addr(), post_request("/v1/responses", body)).await.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"event: response.created\n"));
}

#[tokio::test]
async fn a_response_that_makes_no_sense_is_refused() {
    let engine = engine().await;
    for (body, status) in [
        (json!({}), 400),
        (json!({"input": 1}), 400),
        (json!({"input": "a", "max_output_tokens": 0}), 400),
        (json!({"input": "a", "model": "other"}), 404),
        (json!({"input": "a", "previous_response_id": "resp_0"}), 404),
        (json!({"input": "a", "cache_salt": ""}), 400),
    ] {
        assert_eq!(post(engine.addr(), "/v1/responses", &body).await.status, status, "{body}");
    }
}
