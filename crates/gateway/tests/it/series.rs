//! What is gone from the configuration is gone from the metrics page, whatever is still under way there.

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, content, request, streamed_chat, until, usage,
};

/// An engine whose streams go on until the gate opens.
async fn slow(gate: &Gate) -> Upstream {
    let begun = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(gate);
    Upstream::always(begun.chunk(content("two")).chunk(usage(10, 5)).chunk(DONE).end()).await
}

async fn stream(gateway: &Gateway, path: &str) -> Call {
    Call::start(gateway.address(), request(http::Method::POST, path, &[], streamed_chat("hi"))).await
}

async fn series_with(gateway: &Gateway, word: &str) -> Vec<String> {
    let page = gateway.metrics().await;
    page.series().into_iter().filter(|series| series.contains(word)).collect()
}

#[tokio::test]
async fn requests_that_end_after_their_replica_variant_and_endpoint_are_gone_bring_no_series_back() {
    let gate = Gate::new();
    let (stays, goes, other) = (slow(&gate).await, slow(&gate).await, slow(&gate).await);
    let in_turn = "routing: {strategy: round_robin}\n";
    let one = format!("{{id: stays, url: {}}}", stays.url());
    let gateway = Gateway::start(&format!(
        "{in_turn}endpoints:\n- name: e\n  variants:\n  - name: v\n    replicas: [{one}, {{id: leaving, url: {}}}]\n  \
         - name: leaving-variant\n    weight: 0\n    replicas: [{{id: r, url: {}}}]\n- name: leaving-endpoint\n  \
         models: [x]\n  replicas: [{{id: q, url: {}}}]\n",
        goes.url(),
        other.url(),
        other.url()
    ))
    .await;
    let path = "/endpoints/e/openai/v1/chat/completions";
    let mut calls = Vec::new();
    for _ in 0..4 {
        calls.push(stream(&gateway, path).await);
    }
    calls.push(stream(&gateway, "/endpoints/leaving-endpoint/openai/v1/chat/completions").await);
    let target = [("x-amzn-sagemaker-target-variant", "leaving-variant"), ("content-type", "application/json")];
    let native = request(http::Method::POST, "/endpoints/e/invocations-response-stream", &target, streamed_chat("hi"));
    calls.push(Call::start(gateway.address(), native).await);
    let mut streams = Vec::new();
    for call in calls {
        streams.push(call.streaming().await);
    }
    assert!(!series_with(&gateway, "leaving").await.is_empty());
    for _ in 0..3 {
        gateway.apply(&format!("{in_turn}endpoints:\n- name: e\n  variants:\n  - name: v\n    replicas: [{one}]\n"));
        assert_eq!(series_with(&gateway, "leaving").await, Vec::<String>::new());
    }
    gate.open();
    for stream in streams {
        assert!(stream.rest().await.is_complete);
    }
    gateway.has_ended("ok", 4).await;
    until("all have ended", async || [&stays, &goes, &other].iter().all(|upstream| upstream.in_flight() == 0)).await;
    assert_eq!(series_with(&gateway, "leaving").await, Vec::<String>::new());
}

#[tokio::test]
async fn what_stays_counts_on_through_a_reload() {
    let upstream = Upstream::ok().await;
    let settings = |more: &str| format!("{more}replicas: [{{id: r0, url: {}}}]", upstream.url());
    let gateway = Gateway::start(&settings("")).await;
    gateway.chat("hi").await;
    gateway.apply(&settings("routing: {strategy: random}\n"));
    gateway.chat("hi").await;
    gateway.has_ended("ok", 2).await;
    assert_eq!(gateway.metrics().await.sum("kvroute_request_duration_seconds_count", &[]), 2.0);
}
