use serde_json::{Value, json};

use super::client::{Reply, delete, get, post, post_request, read, send};
use super::config;
use crate::model::Preset;
use crate::server::{AdapterConfig, EngineConfig, Running, StartError, start};

fn adapter(name: &str) -> AdapterConfig {
    AdapterConfig { name: name.to_owned(), path: format!("/adapters/{name}") }
}

async fn engine(adapters: &[&str]) -> Running {
    start(EngineConfig { adapters: adapters.iter().map(|name| adapter(name)).collect(), ..config() }).await.unwrap()
}

fn body(model: &str) -> Value {
    json!({"model": model, "prompt": " word".repeat(100), "max_tokens": 1})
}

async fn complete(engine: &Running, model: &str) -> Reply {
    post(engine.addr(), "/v1/completions", &body(model)).await
}

fn cached(reply: &Reply) -> &'static str {
    match reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap() {
        0 => "cold",
        96 => "warm",
        other => panic!("{other} tokens"),
    }
}

#[tokio::test]
async fn adapters_are_loaded_and_unloaded_with_the_words_of_the_engine() {
    let engine = engine(&[]).await;
    let (load, unload) = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter");
    for (path, body, status, says) in [
        (load, json!({"lora_name": "a", "lora_path": "/a"}), 200, "Success: LoRA adapter 'a' added successfully."),
        (load, json!({"lora_name": "a", "lora_path": "/a"}), 400, "has already been loaded"),
        (load, json!({"lora_name": "a", "lora_path": "/b", "load_inplace": true}), 200, "Success: "),
        (load, json!({"lora_name": "b"}), 400, "must be provided"),
        (load, json!({"lora_name": "m", "lora_path": "/a"}), 400, "base model"),
        (unload, json!({"lora_name": "b"}), 404, "cannot be found"),
        (unload, json!({}), 400, "needs to be provided"),
        (unload, json!({"lora_name": "a", "lora_int_id": 1}), 200, "Success: LoRA adapter 'a' removed successfully."),
        (unload, json!({"lora_name": "a"}), 404, "cannot be found"),
    ] {
        let reply = post(engine.addr(), path, &body).await;
        assert_eq!(reply.status, status, "{path} {body}");
        let said = match status {
            200 => reply.text().to_owned(),
            _ => reply.json()["error"]["message"].as_str().unwrap().to_owned(),
        };
        assert!(said.contains(says), "{said}");
        if status != 200 {
            let kind = if status == 404 { "NotFoundError" } else { "InvalidUserInput" };
            assert_eq!(reply.json()["error"]["type"], kind);
            assert_eq!(reply.json()["error"]["code"], status);
        }
    }
}

#[tokio::test]
async fn the_paths_of_sagemaker_do_the_same() {
    let engine = engine(&[]).await;
    let register = json!({"name": "ad 1", "src": "/a"});
    let reply = post(engine.addr(), "/adapters", &register).await;
    assert_eq!((reply.status, reply.text()), (200, "Adapter ad 1 registered"));
    assert_eq!(post(engine.addr(), "/adapters", &register).await.status, 400);
    assert_eq!(complete(&engine, "ad 1").await.status, 200);
    let reply = delete(engine.addr(), "/adapters/ad%201").await;
    assert_eq!((reply.status, reply.text()), (200, "Adapter ad 1 unregistered"));
    assert_eq!(delete(engine.addr(), "/adapters/ad%201").await.status, 404);
    assert_eq!(complete(&engine, "ad 1").await.status, 404);
    assert_eq!(get(engine.addr(), "/adapters").await.status, 405);
    assert_eq!(get(engine.addr(), "/adapters/x").await.status, 405);
}

#[tokio::test]
async fn models_are_the_base_and_its_adapters() {
    let engine = engine(&["b", "a"]).await;
    post(engine.addr(), "/v1/load_lora_adapter", &json!({"lora_name": "c", "lora_path": "/c"})).await;
    let models = get(engine.addr(), "/v1/models").await.json();
    let data = models["data"].as_array().unwrap();
    let of = |key: &str| data.iter().map(|model| model[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("id"), ["m", "b", "a", "c"]);
    assert_eq!(of("parent"), [json!(null), json!("m"), json!("m"), json!("m")]);
    assert_eq!(of("root")[1..], ["/adapters/b", "/adapters/a", "/c"]);
    assert_eq!(of("max_model_len"), [json!(131_072), json!(null), json!(null), json!(null)]);
    let permissions: std::collections::BTreeSet<String> =
        data.iter().map(|model| model["permission"][0]["id"].to_string()).collect();
    assert_eq!(permissions.len(), 4);
}

#[tokio::test]
async fn a_request_chooses_its_adapter_and_shares_no_block_with_another() {
    let engine = engine(&["a", "b"]).await;
    for model in ["m", "a", "b"] {
        let (first, second) = (complete(&engine, model).await, complete(&engine, model).await);
        assert_eq!((cached(&first), cached(&second)), ("cold", "warm"), "{model}");
        assert_eq!(first.json()["model"], model);
    }
    // The same name with the same weights has its blocks still; with others it begins anew.
    let load = |path: &str| json!({"lora_name": "a", "lora_path": path, "load_inplace": true});
    post(engine.addr(), "/v1/load_lora_adapter", &load("/adapters/a")).await;
    assert_eq!(cached(&complete(&engine, "a").await), "warm");
    post(engine.addr(), "/v1/load_lora_adapter", &load("/other")).await;
    assert_eq!(cached(&complete(&engine, "a").await), "cold");
}

#[tokio::test]
async fn a_header_chooses_the_adapter_of_an_invocation() {
    let engine = engine(&["a"]).await;
    let input = json!({"input": "hello", "dimensions": 2});
    for (header, body, status, model) in [
        ("a", body("m"), 200, "a"),
        ("m", body("a"), 200, "m"),
        ("b", body("m"), 404, ""),
        ("a", input.clone(), 200, "a"),
        ("b", input, 404, ""),
    ] {
        let mut request = post_request("/invocations", body.to_string());
        request.headers_mut().insert("x-amzn-sagemaker-adapter-identifier", header.parse().unwrap());
        let reply = read(send(engine.addr(), request).await).await;
        assert_eq!(reply.status, status, "{header} {body}");
        assert_eq!(reply.json()["model"].as_str().unwrap_or_default(), model, "{header} {body}");
    }
}

#[tokio::test]
async fn metrics_say_which_adapters_run_and_which_wait() {
    let preset = Preset { adapters_max: 1, ..Preset::default() };
    let adapters = vec![adapter("a"), adapter("b")];
    let engine = start(EngineConfig { adapters, preset, speed: 20.0, ..config() }).await.unwrap();
    let line = async || {
        let page = get(engine.addr(), "/metrics").await;
        let line = page.text().lines().find(|line| line.starts_with("vllm:lora_requests_info")).unwrap();
        let (labels, at) = line.rsplit_once(' ').unwrap();
        assert!(at.parse::<f64>().unwrap() > 1e9 || labels.ends_with(r#"="",waiting_lora_adapters=""}"#), "{line}");
        labels.to_owned()
    };
    let labels = |running: &str, waiting: &str| {
        format!(
            r#"vllm:lora_requests_info{{max_lora="1",running_lora_adapters="{running}",waiting_lora_adapters="{waiting}"}}"#
        )
    };
    assert_eq!(line().await, labels("", ""));
    let long = |model: &str| json!({"model": model, "prompt": "hi", "max_tokens": 10_000, "stream": true}).to_string();
    let first = send(engine.addr(), post_request("/v1/completions", long("a"))).await;
    super::until("the first runs", async || line().await == labels("a", "")).await;
    let second = send(engine.addr(), post_request("/v1/completions", long("b"))).await;
    super::until("the second waits", async || line().await == labels("a", "b")).await;
    drop(first);
    super::until("the second runs", async || line().await == labels("b", "")).await;
    drop(second);
    super::until("none runs", async || line().await == labels("", "")).await;
}

#[tokio::test]
async fn adapters_that_make_no_sense_are_refused_at_the_start() {
    let nowhere = AdapterConfig { path: String::new(), ..adapter("a") };
    for adapters in [vec![adapter("m")], vec![adapter("a"), adapter("a")], vec![adapter("")], vec![nowhere]] {
        let started = start(EngineConfig { adapters, ..config() }).await;
        assert!(matches!(started, Err(StartError::Adapter(_))));
    }
}
