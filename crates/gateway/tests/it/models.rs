//! `/v1/models` tells what all replicas serve, each model once.

use std::time::Duration;

use http::Method;

use crate::support::{Call, Gate, Gateway, Refusing, Reply, Upstream, get, post, request, until};

fn list(entries: &str) -> Reply {
    Reply::json(200, format!("{{\"object\":\"list\",\"data\":[{entries}]}}"))
}

async fn ids(gateway: &Gateway) -> Vec<String> {
    let answer = get(gateway.address(), "/v1/models").await;
    assert_eq!((answer.status.as_u16(), answer.header("content-type")), (200, Some("application/json")));
    let models = answer.json();
    assert_eq!(models["object"], "list");
    models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_lists_of_all_replicas_are_merged_and_each_model_is_listed_once() {
    let a = Upstream::always(list(r#"{"id":"base","max_model_len":4096},{"id":"lora-a","parent":"base"}"#)).await;
    let b = Upstream::always(list(r#"{"id":"base","max_model_len":1},{"id":"lora-b"}"#)).await;
    let gateway = Gateway::start(&format!(
        "endpoints: [{{name: e, models: [base, alias], replicas: [{{url: {}, api_key: sk-1}}, {}], adapters: [{{name: lora-c}}]}}]",
        a.url(),
        b.url()
    ))
    .await;
    assert_eq!(ids(&gateway).await, ["base", "lora-a", "lora-b", "alias", "lora-c"]);
    let models = get(gateway.address(), "/v1/models").await.json();
    assert_eq!((&models["data"][0]["max_model_len"], &models["data"][1]["parent"]), (&4096.into(), &"base".into()));
    let asked = a.requests();
    assert_eq!((asked[0].method(), asked[0].target()), ("GET", "/v1/models"));
    assert_eq!(asked[0].header("authorization"), Some("Bearer sk-1"));
    assert_eq!(b.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn replicas_that_cannot_tell_are_left_out() {
    let good = Upstream::always(list(r#"{"id":"m"}"#)).await;
    let broken = Upstream::always(Reply::json(500, list_of_nothing())).await;
    let nonsense = Upstream::always(Reply::json(200, "<html>")).await;
    let cut = Upstream::always(Reply::raw("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"data\":[").close()).await;
    let refusing = Refusing::new();
    let urls = [broken.url(), nonsense.url(), cut.url(), refusing.url(), good.url()].join(", ");
    let gateway = Gateway::start(&format!("replicas: [{urls}]")).await;
    assert_eq!(ids(&gateway).await, ["m"]);
    assert!(gateway.metrics().await.sum("kvroute_replica_routed_requests_total", &[]) == 0.0);
}

/// S75
#[tokio::test]
async fn the_list_is_the_same_every_time_whoever_answers_first() {
    let a = Upstream::always(list(r#"{"id":"base","max_model_len":4096},{"id":"l1","parent":"base"}"#)).await;
    let slow = list(r#"{"id":"base","max_model_len":1},{"id":"l2","permission":[{"id":"p"}]}"#);
    let b = Upstream::in_turn([Reply::default().pause(Duration::from_millis(30)).and(slow.clone()), slow]).await;
    let refusing = Refusing::new();
    let settings = format!("replicas: [{}, {}, {}]", refusing.url(), a.url(), b.url());
    let gateway = Gateway::start(&settings).await;
    let first = get(gateway.address(), "/v1/models").await;
    for _ in 0..20 {
        gateway.apply(&settings); // what was told before is not told again
        assert_eq!(get(gateway.address(), "/v1/models").await.text(), first.text());
    }
    let models = first.json();
    assert_eq!(models["data"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&models["data"][0]["max_model_len"], &models["data"][2]["permission"][0]["id"]),
        (&4096.into(), &"p".into())
    );
}

fn list_of_nothing() -> &'static str {
    r#"{"object":"list","data":[{"id":"not this"}]}"#
}

#[tokio::test]
async fn where_no_replica_lists_anything_the_configured_names_are_the_list() {
    let refusing = Refusing::new();
    let url = refusing.url();
    let gateway = Gateway::start(&format!(
        "endpoints:\n- {{name: e, models: [a, b], replicas: [{url}], adapters: [{{name: lora, component: l}}]}}"
    ))
    .await;
    assert_eq!(ids(&gateway).await, ["a", "b", "lora"]);
}

/// S75
#[tokio::test]
async fn where_nobody_can_tell_the_models_that_is_said_in_place_of_an_empty_list() {
    let refusing = Refusing::new();
    let gateway = Gateway::start(&format!("replicas: [{}]", refusing.url())).await;
    let answer = get(gateway.address(), "/v1/models").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    let empty = Upstream::always(list("")).await;
    let gateway = Gateway::start(&format!("replicas: [{}]", empty.url())).await;
    assert!(ids(&gateway).await.is_empty());
}

#[tokio::test]
async fn whoever_asks_at_the_same_time_or_shortly_after_shares_one_list() {
    let gate = Gate::new();
    let upstream = Upstream::always(list(r#"{"id":"m"}"#).after(&gate)).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let call = async || Call::start(gateway.address(), request(Method::GET, "/v1/models", &[], "")).await;
    let first = call().await;
    upstream.has_got(1).await;
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(call().await);
    }
    // One that leaves hands its task to the next.
    first.leave().await;
    upstream.has_got(2).await;
    gate.open();
    for other in others {
        assert_eq!(other.answer().await.json()["data"][0]["id"], "m");
    }
    assert_eq!(upstream.count(), 2);
    until("it is asked anew", async || {
        ids(&gateway).await;
        upstream.count() == 3
    })
    .await;
}

#[tokio::test]
async fn a_replica_that_gets_no_requests_is_not_asked_for_its_models_either() {
    let (a, b) = (Upstream::always(list(r#"{"id":"a"}"#)).await, Upstream::always(list(r#"{"id":"b"}"#)).await);
    let gateway = Gateway::before(&[&a, &b]).await;
    gateway.admin("r0/drain").await;
    assert_eq!(ids(&gateway).await, ["b"]);
    assert_eq!(a.count(), 0);
}

#[tokio::test]
async fn a_model_selects_its_endpoint() {
    let (a, b, any) = (Upstream::ok().await, Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!(
        "endpoints:\n- {{name: a, models: [m-a], adapters: [{{name: lora}}], replicas: [{}]}}\n- {{name: b, models: [m-b], replicas: [{}]}}\n- {{name: any, replicas: [{}]}}",
        a.url(),
        b.url(),
        any.url()
    ))
    .await;
    for (model, upstream) in [("m-a", &a), ("lora", &a), ("m-b", &b), ("other", &any), ("", &any)] {
        let before = upstream.count();
        let body = format!("{{\"prompt\":\"x\",\"model\":\"{model}\"}}");
        assert_eq!(post(gateway.address(), "/v1/completions", body).await.status, 200);
        assert_eq!(upstream.count(), before + 1, "{model}");
    }
}

#[tokio::test]
async fn one_model_is_told_as_the_list_has_it_whichever_replica_serves_it() {
    let a = Upstream::always(list(r#"{"id":"base","max_model_len":4096}"#)).await;
    let b = Upstream::always(list(r#"{"id":"org/other", "root" :"/models/x"}"#)).await;
    let endpoint = |name: &str, upstream: &Upstream, models: &str| {
        format!("- {{name: {name}, models: {models}, replicas: [{}]}}\n", upstream.url())
    };
    let endpoints = [endpoint("a", &a, "[base, later]"), endpoint("b", &b, "[org/other]")].concat();
    let gateway = Gateway::start(&format!("endpoints:\n{endpoints}")).await;
    for (id, entry) in [
        ("base", r#"{"id":"base","max_model_len":4096}"#),
        ("org/other", r#"{"id":"org/other", "root" :"/models/x"}"#),
        ("org%2fother", r#"{"id":"org/other", "root" :"/models/x"}"#),
    ] {
        let answer = get(gateway.address(), &format!("/v1/models/{id}")).await;
        assert_eq!((answer.status.as_u16(), answer.text()), (200, entry));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
    assert_eq!(get(gateway.address(), "/v1/models/later").await.json()["owned_by"], "kvroute");
    let answer = get(gateway.address(), "/v1/models/none").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (404, "model_not_found"));
}
