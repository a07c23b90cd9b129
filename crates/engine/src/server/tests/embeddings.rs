use serde_json::{Value, json};

use super::client::{metric, post};
use super::engine;
use crate::server::EMBEDDING_DIMENSIONS_DEFAULT;
use crate::vocab::Vocab;

#[tokio::test]
async fn every_form_of_input_is_embedded() {
    let engine = engine().await;
    let ids = Vocab::shared().encode("hello");
    for (input, vectors, tokens) in [
        (json!("hello"), 1, 1),
        (json!(["hello", "and hello again"]), 2, 1 + Vocab::shared().encode("and hello again").len()),
        (json!(ids), 1, 1),
        (json!([ids, [5, 6]]), 2, 3),
    ] {
        let reply = post(engine.addr(), "/v1/embeddings", &json!({"model": "m", "input": input})).await;
        assert_eq!(reply.status, 200, "{input}");
        let answer = reply.json();
        assert_eq!(answer["object"], "list");
        let data = answer["data"].as_array().unwrap();
        assert_eq!(data.len(), vectors, "{input}");
        for (index, item) in data.iter().enumerate() {
            assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(index)));
            assert_eq!(item["embedding"].as_array().unwrap().len(), EMBEDDING_DIMENSIONS_DEFAULT as usize);
        }
        assert_eq!(answer["usage"]["prompt_tokens"], tokens, "{input}");
        assert_eq!(answer["usage"]["total_tokens"], tokens);
    }
    // Text and its tokens are the same input.
    let of = async |input: Value| {
        post(engine.addr(), "/v1/embeddings", &json!({"input": input})).await.json()["data"][0]["embedding"].clone()
    };
    assert_eq!(of(json!("hello")).await, of(json!(ids)).await);
    assert_ne!(of(json!("hello")).await, of(json!("goodbye")).await);
}

#[tokio::test]
async fn base64_holds_the_same_numbers() {
    let engine = engine().await;
    let body = |format: &str| json!({"input": "hello", "dimensions": 3, "encoding_format": format});
    let numbers = post(engine.addr(), "/v1/embeddings", &body("float")).await.json();
    let text = post(engine.addr(), "/v1/embeddings", &body("base64")).await.json();
    let numbers = numbers["data"][0]["embedding"].as_array().unwrap();
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| (number.as_f64().unwrap() as f32).to_le_bytes()).collect();
    let text = text["data"][0]["embedding"].as_str().unwrap();
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits: Vec<u8> = text.bytes().flat_map(|byte| (0..6).rev().map(move |bit| digit(byte) >> bit & 1)).collect();
    let decoded: Vec<u8> = bits.chunks(8).map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)).collect();
    assert_eq!(decoded, bytes);
}

#[tokio::test]
async fn an_input_is_computed_and_cached_and_generates_nothing() {
    let engine = engine().await;
    let prompt = " word".repeat(100);
    let body = json!({"input": [prompt, "hello"]});
    post(engine.addr(), "/v1/embeddings", &body).await;
    post(engine.addr(), "/v1/embeddings", &body).await;
    for (name, expected) in [
        ("prompt_tokens_total", 202.0),
        ("prompt_tokens_cached_total", 96.0),
        ("generation_tokens_total", 0.0),
        ("time_to_first_token_seconds_count", 0.0),
        ("e2e_request_latency_seconds_count", 4.0),
        ("num_requests_running", 0.0),
    ] {
        assert_eq!(metric(engine.addr(), name).await, expected, "{name}");
    }
    let chat = json!({"prompt": prompt, "max_tokens": 1});
    let answer = post(engine.addr(), "/v1/completions", &chat).await.json();
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 96);
}

#[tokio::test]
async fn invocations_with_an_input_are_embedded() {
    let engine = engine().await;
    let reply = post(engine.addr(), "/invocations", &json!({"input": ["a", "b"]})).await;
    assert_eq!(reply.json()["data"].as_array().unwrap().len(), 2);
    let both = json!({"input": "a", "prompt": "b", "max_tokens": 1});
    assert_eq!(post(engine.addr(), "/invocations", &both).await.json()["object"], "text_completion");
}

#[tokio::test]
async fn an_input_that_makes_no_sense_is_refused() {
    let engine = engine().await;
    for (body, status) in [
        (json!({}), 400),
        (json!({"input": ""}), 400),
        (json!({"input": []}), 400),
        (json!({"input": [""]}), 400),
        (json!({"input": [1_000_000]}), 400),
        (json!({"input": "a", "dimensions": 0}), 400),
        (json!({"input": "a", "dimensions": 4097}), 400),
        (json!({"input": "a", "encoding_format": "bits"}), 400),
        (json!({"input": vec!["a"; 2049]}), 400),
        (json!({"input": "x ".repeat(200_000)}), 400),
        (json!({"input": "a", "model": "other"}), 404),
    ] {
        let reply = post(engine.addr(), "/v1/embeddings", &body).await;
        assert_eq!(reply.status, status, "{:.80}", body.to_string());
    }
    assert_eq!(metric(engine.addr(), "prompt_tokens_total").await, 0.0);
}
