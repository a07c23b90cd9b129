//! Bodies of every API and shape reach a replica as they are, whichever strategy places them.

use std::collections::BTreeMap;

use kvroute_core::routing::Strategy;
use serde_json::json;

use crate::support::{Gateway, Upstream, chat, completion, post, post_with, replicas};

const CHAT: &str = "/v1/chat/completions";

/// Chat bodies that a gateway with a model of the request would refuse or change.
fn chats() -> Vec<(&'static str, String)> {
    let call = |arguments: &str| {
        format!(r#"{{"id":"x","type":"function","function":{{"name":"f","arguments":{arguments}}}}}"#)
    };
    let history = |assistant: String| {
        format!(
            r#"{{"model":"m","messages":[{{"role":"user","content":"6*7?"}},{{"role":"assistant"{assistant}}},{{"role":"tool","tool_call_id":"x","content":[{{"type":"text","text":"42"}}]}}]}}"#
        )
    };
    let mut tools: Vec<_> = (0..50)
        .map(|i| json!({"type": "function", "function": {"name": format!("f{i}"), "parameters": {"type": "object"}}}))
        .collect();
    tools[47] = json!({"type": "function", "function": {"name": "ping"}});
    vec![
        ("S01 parts", r#"{"messages":[{"role":"user","content":[{"type":"text","text":"T"},{"type":"image_url","image_url":{"url":"data:,x"}}]}]}"#.to_owned()),
        ("S03 null content", history(format!(r#","content":null,"tool_calls":[{}]"#, call("\"{}\"")))),
        ("S03 no content", history(format!(r#","tool_calls":[{}]"#, call("\"{}\"")))),
        ("S03 null arguments", history(format!(r#","content":null,"tool_calls":[{}]"#, call("null")))),
        ("S04", json!({"model": "m", "messages": [], "tools": tools}).to_string()),
        ("S05", r#"{"model":"m","x":1,"y":{"z":[{}]},"chat_template_kwargs":{"thinking":false},"cache_salt":"s","return_token_ids":true,"messages":[{"role":"user","content":"hi","unknown":{"a":null}}],"tools":[{"type":"other","unknown":[1]}]}"#.to_owned()),
    ]
}

/// S02, S03, S04, S05
#[tokio::test]
async fn histories_tools_and_unknown_members_arrive_untouched_and_are_placed_by_their_text() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::before(&[&a, &b]).await;
    for (what, body) in chats() {
        let first = post(gateway.address(), CHAT, body.clone()).await;
        assert_eq!(first.status, 200, "{what}");
        let expected = if what == "S04" { "no_prefix" } else { "cold" };
        assert_eq!(first.decision(), expected, "{what}");
        let home = if first.replica() == "r0" { &a } else { &b };
        assert_eq!(home.requests().pop().unwrap().body, body, "{what}");
    }
}

/// S06, S07
#[tokio::test]
async fn prompts_and_inputs_of_every_form_arrive_untouched() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::before(&[&a, &b]).await;
    for (path, member, values) in [
        ("/v1/completions", "prompt", &[r#""a""#, r#"["a","b"]"#, "[1,2,3]", "[[1,2],[3]]", "[]", r#""""#, "null"][..]),
        ("/v1/embeddings", "input", &[r#""a""#, r#"["a","b"]"#, "[5,6,7]", "[[5,6],[7]]", "[]"]),
    ] {
        for value in values {
            let body = format!(r#"{{"model":"m","{member}":{value},"encoding_format":"base64"}}"#);
            let answer = post(gateway.address(), path, body.clone()).await;
            assert_eq!(answer.status, 200, "{body}");
            let home = if answer.replica() == "r0" { &a } else { &b };
            let arrived = home.requests().pop().unwrap();
            assert_eq!((arrived.target(), &arrived.body[..]), (path, body.as_bytes()));
        }
    }
    gateway.is_at_rest().await;
    assert_eq!(a.count() + b.count(), 12, "each is one request, however many inputs it has");
}

/// S12, S21: no strategy can fail a request, and where it cannot look at the prompt, a metric says so.
#[tokio::test]
async fn every_strategy_places_every_body() {
    let multipart = "--b\r\ncontent-disposition: form-data; name=\"file\"\r\n\r\n\x01\x02\r\n--b--\r\n";
    let bodies = [
        (CHAT, "application/json", chat("hi")),
        ("/v1/completions", "application/json", completion("hi")),
        ("/v1/responses", "application/json", r#"{"model":"m","input":"hi"}"#.to_owned()),
        ("/v1/embeddings", "application/json", r#"{"model":"m","input":["hi"]}"#.to_owned()),
        ("/v1/messages", "application/json", r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#.to_owned()),
        ("/v1/tokenize", "application/json", r#"{"prompt":"hi"}"#.to_owned()),
        ("/v1/audio/transcriptions", "multipart/form-data; boundary=b", multipart.to_owned()),
        (CHAT, "application/json", "{}".to_owned()),
        (CHAT, "application/json", r#"{"model":"m"}"#.to_owned()),
        (CHAT, "text/plain", "no json".to_owned()),
        ("/v1/unknown", "application/json", "[]".to_owned()),
    ];
    for strategy in Strategy::ALL {
        let (a, b) = (Upstream::ok().await, Upstream::ok().await);
        let name = strategy.as_str();
        let gateway = Gateway::start(&format!("routing: {{strategy: {name}}}\n{}", replicas(&[&a, &b]))).await;
        let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
        for (path, content_type, body) in &bodies {
            let answer = post_with(gateway.address(), path, &[("content-type", content_type)], body.clone()).await;
            assert_eq!(answer.status, 200, "{name} {path} {body}");
            *reasons.entry(answer.decision().to_owned()).or_default() += 1;
            let home = if answer.replica() == "r0" { &a } else { &b };
            let arrived = home.requests().pop().unwrap();
            assert_eq!((arrived.header("content-type"), &arrived.body[..]), (Some(*content_type), body.as_bytes()));
        }
        gateway.is_at_rest().await;
        let page = gateway.metrics().await;
        for (reason, count) in &reasons {
            let labels = [&*format!("strategy=\"{name}\""), &format!("reason=\"{reason}\"")];
            assert_eq!(page.sum("kvroute_requests_total", &labels), *count as f64, "{name} {reason}");
        }
        let by_prompt = matches!(strategy, Strategy::PrefixAware | Strategy::Session);
        assert_eq!(reasons.contains_key("no_prefix"), by_prompt, "{name}: {reasons:?}");
        assert_eq!(reasons.contains_key("load"), !by_prompt, "{name}: {reasons:?}");
    }
}
