//! The metrics page has the documented families and no others, and nothing a client sent is ever on it.

use std::collections::BTreeSet;

use kvroute_gateway::telemetry::names;

use crate::support::{
    Call, DONE, Gate, Gateway, Reply, Upstream, content, invocations, post, post_with, replicas, request,
    streamed_chat, until, usage,
};

const ENGINE_METRICS: &str = "vllm:num_requests_running{model_name=\"m\"} 2\n\
    vllm:num_requests_waiting{model_name=\"m\"} 1\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.25\n\
    vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"1000\"} 1.0\n";

/// An engine that tells about itself, and whose streams end when the gate opens.
async fn engine(gate: &Gate) -> Upstream {
    let gate = gate.clone();
    Upstream::start(move |arrived| match arrived.target() {
        "/metrics" => Reply::whole(200, "text/plain", ENGINE_METRICS),
        _ => Reply::stream([&*content("one"), &content("two"), &usage(10, 5), DONE]).after(&gate),
    })
    .await
}

#[tokio::test]
async fn every_documented_family_is_there_with_its_labels_and_no_other() {
    let gate = Gate::new();
    let (engine, busy) = (engine(&gate).await, Upstream::always(Reply::json(503, "{}")).await);
    let gateway = Gateway::start(&format!(
        "metrics_scrape: {{enabled: true, interval_ms: 100}}\nrouting: {{concurrency_threshold: 1}}\nreplicas: [{{id: r0, url: {}}}, {{id: r1, url: {}}}]",
        engine.url(),
        busy.url()
    ))
    .await;
    // While all are held on the first replica, a prompt at home there spills, to the one that says it is busy, and
    // comes back.
    let mut calls = Vec::new();
    for i in 0..8 {
        let prompt = format!("prompt {i}");
        let sent = request(http::Method::POST, "/v1/chat/completions", &[], streamed_chat(&prompt));
        calls.push(Call::start(gateway.address(), sent).await);
        engine.has_got(calls.len()).await;
    }
    gate.open();
    for call in calls {
        assert!(call.answer().await.is_complete);
    }
    post(gateway.address(), "/v1/chat/completions", "not json").await;
    post(gateway.address(), "/none", "{}").await;
    until("the engine was read", async || gateway.metrics().await.sum("kvroute_engine_metrics_up", &[]) == 1.0).await;

    let page = gateway.metrics().await;
    let documented = names::ALL.iter().map(|metric| {
        // The text format leaves the suffix of counters out of their family's name.
        let suffix = if metric.kind == names::Kind::Counter { "_total" } else { "" };
        (metric.name.strip_suffix(suffix).unwrap().to_owned(), metric.kind.as_str().to_owned())
    });
    assert_eq!(page.families(), documented.collect());
    for metric in names::ALL {
        let sample = match metric.kind {
            names::Kind::Histogram => format!("{}_count", metric.name),
            _ => metric.name.to_owned(),
        };
        let name_of = |series: &String| series.split('{').next().unwrap() == sample;
        let series: Vec<_> = page.series().into_iter().filter(name_of).collect();
        assert!(!series.is_empty(), "no {sample}");
        for one in series {
            let labels: Vec<_> = labels(&one).into_iter().map(|(name, _)| name).collect();
            assert_eq!(labels, metric.labels, "{one}");
        }
    }
    assert_eq!(page.sum("kvroute_engine_running_requests", &["replica=\"r0\""]), 2.0);
    assert_eq!(page.sum("kvroute_engine_waiting_requests", &["replica=\"r0\""]), 1.0);
    assert_eq!(page.sum("kvroute_engine_kv_cache_usage_ratio", &["replica=\"r0\""]), 0.25);
    assert_eq!(page.sum("kvroute_engine_kv_cache_tokens", &["replica=\"r0\""]), 16_000.0);
    assert!(!page.0.contains("kvroute_engine_running_requests{endpoint=\"default\",variant=\"main\",replica=\"r1\"}"));
    assert_eq!(page.sum("kvroute_replica_ideal_share_ratio", &[]), 1.0);
    assert_eq!(page.sum("kvroute_replica_share_ratio", &[]), 1.0);
}

/// Names and values of a series' labels.
fn labels(series: &str) -> Vec<(String, String)> {
    let inner = series.split_once('{').map_or("", |(_, labels)| labels.trim_end_matches('}'));
    let pairs = inner.split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect()
}

/// One of everything that can be told apart, with `junk` wherever a client can write something.
async fn send_everything(gateway: &Gateway, junk: &str) {
    let address = gateway.address();
    let headers = [
        ("x-request-id", junk),
        ("x-session-id", junk),
        ("x-amzn-sagemaker-prefix-aware-id", junk),
        ("user-agent", junk),
        ("content-type", "application/json"),
    ];
    let body =
        format!("{{\"model\":\"{junk}\",\"prompt\":\"{junk}\",\"prompt_cache_key\":\"{junk}\",\"user\":\"{junk}\"}}");
    let bodies = [body.clone(), format!("{junk} is no json"), format!("{{\"prompt\":\"{junk}")];
    for body in bodies {
        for path in ["/v1/completions", "/v1/chat/completions", &format!("/v1/{junk}?{junk}")] {
            post_with(address, path, &headers, body.clone()).await;
        }
        post_with(address, &invocations("known"), &headers, body).await;
    }
    for path in [format!("/{junk}"), invocations(junk), format!("/endpoints/{junk}/openai/v1/chat/completions")] {
        post_with(address, &path, &headers, body.clone()).await;
    }
    for name in ["x-amzn-sagemaker-target-variant", "x-amzn-sagemaker-inference-component"] {
        post_with(address, &invocations("known"), &[(name, junk)], body.clone()).await;
    }
    let method = http::Method::from_bytes(junk.as_bytes()).unwrap();
    Call::start(address, request(method, "/v1/completions", &[], body)).await.answer().await;
}

#[tokio::test]
async fn nothing_that_a_client_sends_makes_a_series_or_is_shown() {
    let upstreams = [Upstream::ok().await, Upstream::ok().await];
    let listed = replicas(&upstreams.iter().collect::<Vec<_>>());
    let gateway = Gateway::start(&format!("endpoints:\n- name: known\n  {listed}")).await;
    let word = |i: u32| format!("junk{i}word");
    // Placement is by hash; what reasons there are is known after a few.
    for i in 0..5 {
        send_everything(&gateway, &word(i)).await;
    }
    gateway.is_at_rest().await;
    let before = gateway.metrics().await.series();
    for i in 5..15 {
        send_everything(&gateway, &word(i)).await;
    }
    gateway.is_at_rest().await;
    let page = gateway.metrics().await;
    let added: BTreeSet<_> = page.series().difference(&before).cloned().collect();
    assert_eq!(added, BTreeSet::new());
    assert!(!page.0.contains("junk"), "{}", page.0);
    assert!(page.sum("kvroute_refused_requests_total", &[]) >= 15.0 * 5.0);
}
