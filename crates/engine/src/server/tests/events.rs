use serde_json::json;

use super::client::{get, post};
use super::config;
use crate::model::Preset;
use crate::server::kv_events::tests::{Value, replay};
use crate::server::{AdapterConfig, EngineConfig, KvEventsConfig, Running, StartError, start};
use crate::vocab::Vocab;

fn kv_config() -> KvEventsConfig {
    KvEventsConfig {
        publish: "tcp://127.0.0.1:0".to_owned(),
        replay: Some("tcp://127.0.0.1:0".to_owned()),
        topic: "kv@m".to_owned(),
        ..KvEventsConfig::default()
    }
}

async fn engine(preset: Preset) -> Running {
    start(EngineConfig { kv_events: Some(kv_config()), preset, ..config() }).await.unwrap()
}

/// All events so far, batch by batch.
async fn batches(engine: &Running) -> Vec<Vec<Value>> {
    let kept = replay(engine.kv_replay_endpoint().unwrap(), 0).await;
    let numbers: Vec<u64> = kept.iter().map(|&(_, seq, _)| seq).collect();
    assert_eq!(numbers, (0..kept.len() as u64).collect::<Vec<_>>());
    kept.iter().map(|(_, _, payload)| Value::read(payload).list()[1].list().to_vec()).collect()
}

fn text_of(event: &Value) -> String {
    let tokens: Vec<u32> = event.get("token_ids").unwrap().list().iter().map(|id| id.int() as u32).collect();
    String::from_utf8(Vocab::shared().decode(&tokens)).unwrap()
}

fn kinds(batch: &[Value]) -> Vec<&str> {
    batch.iter().map(Value::kind).collect()
}

#[tokio::test]
async fn the_text_of_stored_blocks_is_that_of_prompt_and_answer() {
    let engine = engine(Preset::default()).await;
    let prompt = " the same words again and again".repeat(20);
    let body = json!({"prompt": prompt, "max_tokens": 40});
    let answer = post(engine.addr(), "/v1/completions", &body).await.json();
    let batches = batches(&engine).await;
    let stored: Vec<&Value> = batches.iter().flatten().collect();
    assert!(stored.iter().all(|event| event.kind() == "BlockStored"));
    let text: String = stored.iter().map(|event| text_of(event)).collect();
    let whole = prompt.clone() + answer["choices"][0]["text"].as_str().unwrap();
    assert!(whole.starts_with(&text));
    assert!(text.len() > prompt.len());
    // Each event goes on where the one before it ended.
    assert_eq!(stored[0].get("parent_block_hash"), Some(&Value::Nil));
    for pair in stored.windows(2) {
        let last = pair[0].get("block_hashes").unwrap().list().last();
        assert_eq!(pair[1].get("parent_block_hash"), last);
    }
}

#[tokio::test]
async fn a_hit_tells_nothing_and_a_reset_is_told_with_the_next_step() {
    let engine = engine(Preset::default()).await;
    let body = json!({"prompt": " word".repeat(40), "max_tokens": 1, "cache_salt": "s"});
    post(engine.addr(), "/v1/completions", &body).await;
    post(engine.addr(), "/v1/completions", &body).await;
    post(engine.addr(), "/reset_prefix_cache", &json!({})).await;
    let before = batches(&engine).await;
    assert_eq!(before.iter().map(|batch| kinds(batch)).collect::<Vec<_>>(), [["BlockStored"]]);
    let salt = Value::List(vec![Value::Text("s".to_owned())]);
    assert_eq!(before[0][0].get("extra_keys"), Some(&Value::List(vec![salt, Value::Nil])));
    post(engine.addr(), "/v1/completions", &body).await;
    let after = batches(&engine).await;
    assert_eq!(kinds(&after[1]), ["AllBlocksCleared", "BlockStored"]);
    assert_eq!(after[0][0], after[1][1]);
}

#[tokio::test]
async fn a_request_can_have_the_reused_prefix_told_again() {
    let engine = engine(Preset::default()).await;
    let body = |more: &str, mode: &str| json!({"prompt": " word".repeat(40) + more, "max_tokens": 1, "vllm_xargs": {"kv_cache_report_mode": mode}});
    let longer = " other".repeat(16);
    post(engine.addr(), "/v1/completions", &body("", "full")).await;
    post(engine.addr(), "/v1/completions", &body("", "full")).await;
    post(engine.addr(), "/v1/completions", &body(&longer, "full")).await;
    post(engine.addr(), "/v1/completions", &body("", "changes")).await;
    let batches = batches(&engine).await;
    assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 2]);
    assert_eq!(batches[0], batches[1]);
    assert_eq!(batches[0][0], batches[2][0]);
    let last = batches[0][0].get("block_hashes").unwrap().list().last();
    assert_eq!(batches[2][1].get("parent_block_hash"), last);
}

#[tokio::test]
async fn an_adapter_is_told_with_its_blocks() {
    let adapters = vec![AdapterConfig { name: "ad".to_owned(), path: "/ad".to_owned() }];
    let engine = start(EngineConfig { kv_events: Some(kv_config()), adapters, ..config() }).await.unwrap();
    let text = |text: &str| Value::Text(text.to_owned());
    for (model, id, name, keys) in
        [("ad", Value::Int(1), text("ad"), Value::List(vec![text("ad")])), ("m", Value::Nil, Value::Nil, Value::Nil)]
    {
        let body = json!({"model": model, "prompt": " word".repeat(40), "max_tokens": 1});
        post(engine.addr(), "/v1/completions", &body).await;
        let batches = batches(&engine).await;
        let event = &batches.last().unwrap()[0];
        assert_eq!(event.get("lora_id"), Some(&id));
        assert_eq!(event.get("lora_name"), Some(&name));
        assert_eq!(event.get("extra_keys"), Some(&Value::List(vec![keys.clone(), keys])));
    }
}

#[tokio::test]
async fn blocks_that_make_room_are_removed_before_those_that_need_it() {
    let preset = Preset { kv_tokens: 160, ..Preset::default() };
    let engine = engine(preset).await;
    for word in [" first", " second"] {
        let body = json!({"prompt": word.repeat(100), "max_tokens": 1});
        post(engine.addr(), "/v1/completions", &body).await;
    }
    let batches = batches(&engine).await;
    let hashes = |event: &Value| event.get("block_hashes").unwrap().list().to_vec();
    let first = hashes(&batches[0][0]);
    assert_eq!(first.len(), 6);
    // Ten blocks: six cached, one free that was not full, three never used; seven are needed.
    assert_eq!(kinds(&batches[1]), ["BlockRemoved", "BlockRemoved", "BlockRemoved", "BlockStored"]);
    let removed: Vec<Value> = batches[1][..3].iter().flat_map(hashes).collect();
    let tail: Vec<Value> = first.iter().rev().take(3).cloned().collect();
    assert_eq!(removed, tail);
}

#[tokio::test]
async fn a_router_can_ask_where_events_are() {
    let engine = engine(Preset::default()).await;
    let sources = get(engine.addr(), "/kv_event_sources").await.json();
    assert_eq!(sources["0"]["enable_kv_cache_events"], true);
    assert_eq!(sources["0"]["endpoint"], engine.kv_endpoint().unwrap());
    assert_eq!(sources["0"]["replay_endpoint"], engine.kv_replay_endpoint().unwrap());
    assert_eq!(sources["0"]["topic"], "kv@m");
    assert!(!engine.kv_endpoint().unwrap().ends_with(":0"));
}

#[tokio::test]
async fn an_endpoint_on_every_interface_keeps_its_star() {
    let kv_events = KvEventsConfig { publish: "tcp://*:0".to_owned(), ..kv_config() };
    let engine = start(EngineConfig { kv_events: Some(kv_events), ..config() }).await.unwrap();
    let port = engine.kv_endpoint().unwrap().strip_prefix("tcp://*:").unwrap();
    assert_ne!(port.parse::<u16>().unwrap(), 0);
}

#[tokio::test]
async fn an_endpoint_that_cannot_be_bound_is_refused() {
    for endpoint in ["", "nonsense", "tcp://127.0.0.1", "tcp://127.0.0.1:99999"] {
        let kv_events = KvEventsConfig { publish: endpoint.to_owned(), ..kv_config() };
        let started = start(EngineConfig { kv_events: Some(kv_events), ..config() }).await;
        assert!(matches!(started, Err(StartError::KvEndpoint { .. })), "{endpoint:?}");
    }
}
