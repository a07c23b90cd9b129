//! Adapters and context lengths are learned from the engines' own lists of models, and followed.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use crate::support::{Answer, Gateway, Reply, Upstream, post, until};

const CHAT: &str = "/v1/chat/completions";
const OFTEN: &str = "metrics_scrape: {enabled: false, interval_ms: 100}\n";

/// An engine with adapters that are loaded and unloaded.
struct Engine {
    upstream: Upstream,
    adapters: Arc<Mutex<Vec<&'static str>>>,
}

impl Engine {
    async fn start(context_tokens: u64) -> Self {
        let adapters = Arc::new(Mutex::new(Vec::new()));
        let loaded = adapters.clone();
        let upstream = Upstream::start(move |arrived| match arrived.target() {
            "/v1/models" => {
                let base = json!({ "id": "base", "parent": null, "max_model_len": context_tokens });
                let loaded = loaded.lock();
                let adapted = loaded.iter().map(|name| json!({ "id": name, "parent": "base", "max_model_len": null }));
                let data: Vec<_> = std::iter::once(base).chain(adapted).collect();
                Reply::json(200, json!({ "object": "list", "data": data }).to_string())
            }
            _ => Reply::json(200, "{}"),
        });
        Self { upstream: upstream.await, adapters }
    }

    /// How often its list has been read.
    fn looks(&self) -> usize {
        self.upstream.requests().iter().filter(|arrived| arrived.target() == "/v1/models").count()
    }
}

fn settings(engines: &[&Engine], more: &str) -> String {
    let replica = |(i, engine): (usize, &&Engine)| format!("{{id: r{i}, url: {}}}", engine.upstream.url());
    let listed: Vec<String> = engines.iter().enumerate().map(replica).collect();
    format!("{OFTEN}endpoints: [{{name: e, replicas: [{}], {more}}}]", listed.join(", "))
}

async fn before(engines: &[&Engine], more: &str) -> Gateway {
    let gateway = Gateway::start(&settings(engines, more)).await;
    for i in 0..engines.len() {
        gateway.becomes(&format!("r{i}"), "ready").await;
    }
    gateway
}

async fn ask(gateway: &Gateway, model: &str, n: usize) -> Answer {
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": format!("question {n}") }] });
    post(gateway.address(), CHAT, body.to_string()).await
}

/// Waits until 20 requests in a row of this model are shared by exactly these replicas.
async fn is_served_by(gateway: &Gateway, model: &str, replicas: &[&str]) {
    until(&format!("{model} is served by {replicas:?}"), async || {
        let mut served = BTreeSet::new();
        for n in 0..20 {
            served.insert(ask(gateway, model, n).await.replica().to_owned());
        }
        served.into_iter().collect::<Vec<_>>() == replicas
    })
    .await;
}

/// S76
#[tokio::test]
async fn an_adapter_is_served_where_the_engines_list_it_and_loading_and_unloading_are_followed() {
    let engines = [Engine::start(8_192).await, Engine::start(8_192).await, Engine::start(8_192).await];
    let gateway = before(&engines.each_ref(), "discover_models: true").await;
    *engines[0].adapters.lock() = vec!["sql"];
    is_served_by(&gateway, "sql", &["r0"]).await;
    is_served_by(&gateway, "base", &["r0", "r1", "r2"]).await;

    engines[1].adapters.lock().push("sql");
    is_served_by(&gateway, "sql", &["r0", "r1"]).await;
    engines[0].adapters.lock().clear();
    is_served_by(&gateway, "sql", &["r1"]).await;
    // A reload forgets nothing, and a replica that goes takes what it listed with it.
    let two = [&engines[0], &engines[1]];
    gateway.apply(&settings(&two, "discover_models: true, models: [base]"));
    assert_eq!(ask(&gateway, "sql", 1).await.replica(), "r1");
    gateway.apply(&settings(&two[..1], "discover_models: true, models: [base]"));
    assert_eq!(ask(&gateway, "sql", 1).await.openai_error(), "model_not_found", "of an endpoint that lists its models");
}

#[tokio::test]
async fn without_the_setting_no_list_is_read() {
    let engines = [Engine::start(8_192).await, Engine::start(8_192).await];
    *engines[0].adapters.lock() = vec!["sql"];
    let gateway = before(&engines.each_ref(), "discover_models: true").await;
    is_served_by(&gateway, "sql", &["r0"]).await;
    gateway.apply(&settings(&engines.each_ref(), "discover_models: false"));
    is_served_by(&gateway, "sql", &["r0", "r1"]).await;
    let before = engines[0].looks();
    gateway.apply(&settings(&engines.each_ref(), "routing: {strategy: random}"));
    is_served_by(&gateway, "sql", &["r0", "r1"]).await;
    assert!(engines[0].looks() <= before + 1, "one look may have been under way");
}

#[tokio::test]
async fn a_context_length_is_learned_from_the_list() {
    let engines = [Engine::start(1_000).await, Engine::start(100_000).await];
    let gateway = before(&engines.each_ref(), "discover_models: true").await;
    until("both lists were read", async || engines.iter().all(|engine| engine.looks() > 1)).await;
    let long = "a longer text ".repeat(2_000);
    for n in 0..20 {
        assert_eq!(ask_long(&gateway, n, &long).await.replica(), "r1");
    }
}

async fn ask_long(gateway: &Gateway, n: usize, text: &str) -> Answer {
    let body = json!({ "model": "base", "messages": [{ "role": "user", "content": format!("{n} {text}") }] });
    post(gateway.address(), CHAT, body.to_string()).await
}
