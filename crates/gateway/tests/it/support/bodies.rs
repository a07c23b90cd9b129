//! Bodies of requests, and the events of streamed answers.

use serde_json::{Value, json};

/// Content type of server-sent events.
pub(crate) const EVENT_STREAM: &str = "text/event-stream";

/// The event that ends a stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// A chat request with one message.
pub(crate) fn chat(text: &str) -> String {
    json!({ "model": "m", "messages": [{ "role": "user", "content": text }] }).to_string()
}

/// A chat request that wants a stream.
pub(crate) fn streamed_chat(text: &str) -> String {
    json!({ "model": "m", "stream": true, "messages": [{ "role": "user", "content": text }] }).to_string()
}

/// A completion request.
pub(crate) fn completion(text: &str) -> String {
    json!({ "model": "m", "prompt": text }).to_string()
}

/// An event with generated text.
pub(crate) fn content(text: &str) -> String {
    event(&json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }))
}

/// An event with the usage of a prompt of `prompt` tokens, `cached` of them reused.
pub(crate) fn usage(prompt: u64, cached: u64) -> String {
    let details = json!({ "cached_tokens": cached });
    let usage = json!({ "prompt_tokens": prompt, "completion_tokens": 2, "prompt_tokens_details": details });
    event(&json!({ "choices": [], "usage": usage }))
}

fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// The path of an invocation of `endpoint`.
pub(crate) fn invocations(endpoint: &str) -> String {
    format!("/endpoints/{endpoint}/invocations")
}

/// The path of an invocation of `endpoint` whose answer is streamed.
pub(crate) fn invocations_stream(endpoint: &str) -> String {
    format!("/endpoints/{endpoint}/invocations-response-stream")
}
