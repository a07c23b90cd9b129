//! Requests go to replicas that can do what they demand, and are refused where none ever could.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::{Answer, Gateway, Upstream, completion, invocations, post};

const CHAT: &str = "/v1/chat/completions";

/// A gateway before one upstream for each of these settings of a replica.
async fn before(settings: &[&str]) -> (Gateway, Vec<Upstream>) {
    let mut upstreams = Vec::new();
    let mut listed = Vec::new();
    for (i, more) in settings.iter().enumerate() {
        let upstream = Upstream::ok().await;
        listed.push(format!("{{id: r{i}, url: {}, {more}}}", upstream.url()));
        upstreams.push(upstream);
    }
    let gateway = Gateway::start(&format!("endpoints: [{{name: e, replicas: [{}]}}]", listed.join(", "))).await;
    for i in 0..settings.len() {
        gateway.becomes(&format!("r{i}"), "ready").await;
    }
    (gateway, upstreams)
}

/// A chat of a long text that differs by `n`, then this part.
fn chat_with(n: usize, part: &Value) -> String {
    let text = format!("question {n} ").repeat(4_000);
    json!({ "model": "m", "messages": [
        { "role": "system", "content": text },
        { "role": "user", "content": [{ "type": "text", "text": "look" }, part] },
    ]})
    .to_string()
}

fn image() -> Value {
    json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,iVBORw0KGgo=" } })
}

fn sound() -> Value {
    json!({ "type": "input_audio", "input_audio": { "data": "UklGRg==", "format": "wav" } })
}

/// The replicas that 20 such bodies go to.
async fn serving(gateway: &Gateway, path: &str, body: impl Fn(usize) -> String) -> Vec<String> {
    let mut served = BTreeSet::new();
    for n in 0..20 {
        let answer = post(gateway.address(), path, body(n)).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        served.insert(answer.replica().to_owned());
    }
    served.into_iter().collect()
}

/// Both APIs say that it is the request that cannot be served, and why.
async fn is_refused(gateway: &Gateway, body: String, why: &str) {
    let answer = post(gateway.address(), CHAT, body.clone()).await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (400, "no_replica_fits"));
    let native: Answer = post(gateway.address(), &invocations("e"), body).await;
    assert_eq!((native.status.as_u16(), native.header("x-amzn-errortype")), (400, Some("ValidationError")));
    for answer in [answer, native] {
        assert!(answer.text().contains(why), "{answer:?}");
        assert_eq!(answer.header("retry-after"), None, "waiting does not help");
    }
}

#[tokio::test]
async fn media_go_to_replicas_that_read_them_wherever_in_a_long_prompt_they_are() {
    let settings = ["modalities: [text]", "modalities: [text, image]", "modalities: [audio, image]"];
    let (gateway, upstreams) = before(&settings).await;
    assert_eq!(serving(&gateway, CHAT, |n| chat_with(n, &image())).await, ["r1", "r2"]);
    assert_eq!(serving(&gateway, CHAT, |n| chat_with(n, &sound())).await, ["r2"]);
    assert_eq!(serving(&gateway, CHAT, |n| chat_with(n, &json!("and think"))).await, ["r0", "r1", "r2"]);
    assert!(!upstreams[0].requests().iter().any(|arrived| arrived.body.windows(9).any(|part| part == b"image_url")));

    let (text_only, upstreams) = before(&["modalities: [text]", "modalities: [text]"]).await;
    is_refused(&text_only, chat_with(1, &image()), "2 without the modality").await;
    assert_eq!(upstreams[0].count() + upstreams[1].count(), 0);
}

#[tokio::test]
async fn a_prompt_that_is_clearly_too_long_for_a_context_goes_elsewhere_or_is_refused() {
    let (gateway, _upstreams) = before(&["context_tokens_max: 1000", "context_tokens_max: 100000"]).await;
    let words = |n: usize, words: usize| completion(&format!("{n:>5}").repeat(words));
    assert_eq!(serving(&gateway, "/v1/completions", |n| words(n, 200)).await, ["r0", "r1"]);
    assert_eq!(
        serving(&gateway, "/v1/completions", |n| words(n, 4_000)).await,
        ["r1"],
        "20000 bytes, 1250 tokens at least"
    );
    let answer_of = |n: usize, tokens: u64| {
        json!({ "model": "m", "prompt": format!("prompt {n}"), "max_tokens": tokens }).to_string()
    };
    assert_eq!(serving(&gateway, "/v1/completions", |n| answer_of(n, 500)).await, ["r0", "r1"]);
    assert_eq!(
        serving(&gateway, "/v1/completions", |n| answer_of(n, 5_000)).await,
        ["r1"],
        "it is likely refused there"
    );
    let ids = |n: usize| json!({ "model": "m", "prompt": vec![n; 1_200] }).to_string();
    assert_eq!(serving(&gateway, "/v1/completions", ids).await, ["r1"]);
    // Several prompts are several requests to the engine; together they are no longer than the longest.
    let several =
        |n: usize| json!({ "model": "m", "prompt": vec![format!("prompt {n} ").repeat(100); 100] }).to_string();
    assert_eq!(serving(&gateway, "/v1/completions", several).await, ["r0", "r1"]);

    let (short, upstreams) = before(&["context_tokens_max: 1000"]).await;
    let long = chat_with(1, &json!("and think"));
    is_refused(&short, long, "1 with too short a context").await;
    assert_eq!(upstreams[0].count(), 0);
    let wanting = post(short.address(), "/v1/completions", answer_of(1, 5_000)).await;
    assert_eq!(
        (wanting.status.as_u16(), wanting.replica()),
        (200, "r0"),
        "what is only likely is for the engine to say"
    );
    let many = json!({ "model": "m", "input": vec!["x".repeat(1_000); 100] }).to_string();
    assert_eq!(
        post(short.address(), "/v1/embeddings", many).await.status,
        200,
        "each input has the context for itself"
    );
}

#[tokio::test]
async fn a_replica_that_does_a_part_of_the_work_gets_no_requests() {
    let (gateway, upstreams) = before(&["role: prefill", "role: decode", "role: both"]).await;
    for i in 0..6 {
        assert_eq!(gateway.chat(&format!("prompt {i}")).await.replica(), "r2");
    }
    assert_eq!((upstreams[0].count(), upstreams[1].count()), (0, 0));
    let (parts, _upstreams) = before(&["role: prefill", "role: decode"]).await;
    is_refused(&parts, chat_with(1, &json!("x")), "2 with another role").await;
}
