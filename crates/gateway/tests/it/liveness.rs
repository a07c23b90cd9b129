//! The gateway answers for itself at once, whatever else it does.

use std::time::{Duration, Instant};

use crate::support::{EVENT_STREAM, Gateway, Reply, Upstream, chat, content, get, post, replicas};

/// S62. How quickly is a figure, not a test: here it must only not wait for the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn liveness_is_answered_amid_open_streams_and_long_prompts() {
    let streaming = Upstream::start(|arrived| match arrived.body.len() {
        0..10_000 => Reply::chunked(EVENT_STREAM).chunk(content("one")).never(),
        _ => Reply::json(200, "{}"),
    })
    .await;
    let settings = format!("routing: {{concurrency_threshold: 1024}}\n{}", replicas(&[&streaming]));
    let gateway = std::sync::Arc::new(Gateway::start(&settings).await);
    let mut streams = Vec::new();
    for _ in 0..200 {
        streams.push(gateway.stream("hi").await);
    }
    let (address, prompt) = (gateway.address(), chat(&"a long prompt ".repeat(70_000)));
    let work: Vec<_> = (0..16)
        .map(|_| {
            let prompt = prompt.clone();
            tokio::spawn(async move { post(address, "/v1/chat/completions", prompt).await.status })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for _ in 0..30 {
        let asked = Instant::now();
        assert_eq!(get(address, "/livez").await.status, 200);
        slowest = slowest.max(asked.elapsed());
    }
    for work in work {
        assert_eq!(work.await.unwrap(), 200);
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert_eq!(gateway.in_flight("r0").await, 200);
}
