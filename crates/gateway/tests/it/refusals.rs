//! What clients get when no replica answers, when one answers with an error, and when they ask for what is not there.

use http::Method;
use serde_json::Value;

use crate::support::{
    Answer, Call, EVENT_STREAM, Gateway, Refusing, Reply, Upstream, chat, get, invocations, invocations_stream, post,
    post_with, replicas, request,
};

const CHAT: &str = "/v1/chat/completions";

/// Checks a native error; gives its body.
fn native_error(answer: &Answer, status: u16, error_type: &str) -> Value {
    assert_eq!((answer.status.as_u16(), answer.header("x-amzn-errortype")), (status, Some(error_type)), "{answer:?}");
    assert!(answer.json()["Message"].is_string());
    answer.json()
}

/// A server that answers no health checks: one that does would be preferred to those that refuse connections.
async fn unchecked() -> Upstream {
    let upstream = Upstream::ok().await;
    upstream.answer_checks(Reply::default().never());
    upstream
}

#[tokio::test]
async fn a_replica_that_refuses_the_connection_is_passed_over() {
    let upstream = unchecked().await;
    let (first, second) = (Refusing::new(), Refusing::new());
    let listed = [("bad1", first.url()), ("bad2", second.url()), ("good", upstream.url())];
    let listed = listed.map(|(id, url)| format!("{{id: {id}, url: {url}}}")).join(", ");
    let gateway = Gateway::start(&format!("replicas: [{listed}]\nrouting: {{strategy: random}}")).await;
    let mut retries = 0;
    for _ in 0..20 {
        let answer = gateway.chat("hi").await;
        assert_eq!((answer.status.as_u16(), answer.replica()), (200, "good"));
        retries += match answer.decision() {
            "load" => 0,
            "load;attempt=2" => 1,
            "load;attempt=3" => 2,
            other => panic!("{other}"),
        };
    }
    assert_eq!(upstream.count(), 20);
    let page = gateway.metrics().await;
    assert!(retries > 0, "two thirds of the replicas refuse");
    assert_eq!(page.sum("kvroute_retries_total", &[]), f64::from(retries));
    assert_eq!(page.sum("kvroute_retries_total", &["replica=\"good\""]), 0.0);
    let routed = page.sum("kvroute_replica_routed_requests_total", &[]);
    assert_eq!(routed, 20.0 + f64::from(retries), "retries included");
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn the_body_of_a_retry_is_complete() {
    let upstream = unchecked().await;
    let refusing = Refusing::new();
    let gateway = Gateway::start(&format!(
        "replicas: [{}, {}]\nrouting: {{strategy: round_robin}}",
        refusing.url(),
        upstream.url()
    ))
    .await;
    let body = chat(&"a long prompt ".repeat(20_000));
    for _ in 0..2 {
        post(gateway.address(), CHAT, body.clone()).await;
    }
    assert!(upstream.requests().iter().all(|arrived| arrived.body == body));
    assert_eq!((upstream.count(), gateway.metrics().await.sum("kvroute_retries_total", &[])), (2, 1.0));
}

#[tokio::test]
async fn when_all_replicas_refuse_the_answer_is_503_and_says_when_to_try_again() {
    let refusing = [Refusing::new(), Refusing::new()];
    let gateway = Gateway::start(&format!("replicas: [{}, {}]", refusing[0].url(), refusing[1].url())).await;
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (503, "no_replica"));
    assert_eq!(answer.header("retry-after"), Some("1"));
    for path in [invocations("default"), invocations_stream("default")] {
        let answer = post(gateway.address(), &path, chat("hi")).await;
        native_error(&answer, 503, "ServiceUnavailable");
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
    gateway.has_ended("unreachable", 3).await;
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn a_replica_that_never_answers_is_given_up_in_time_and_not_replaced() {
    let (a, b) = (Upstream::always(Reply::default().never()).await, Upstream::always(Reply::default().never()).await);
    let gateway = Gateway::start(&format!("timeouts: {{first_byte_ms: 50}}\n{}", replicas(&[&a, &b]))).await;
    let answer = gateway.chat("hi").await;
    assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (504, "replica_timeout"));
    let answer = post(gateway.address(), &invocations("default"), chat("hi")).await;
    assert_eq!(native_error(&answer, 424, "ModelError")["OriginalStatusCode"], 0);
    gateway.has_ended("first_byte_timeout", 2).await;
    gateway.is_at_rest().await;
    assert_eq!(a.count() + b.count(), 2, "it may be generating, so nobody else is asked");
}

#[tokio::test]
async fn a_lost_connection_is_told_apart_from_an_error_of_the_model() {
    for reply in [Reply::default().close(), Reply::raw("HTTP/1.1 200 O").close(), Reply::raw("nonsense\r\n\r\n")] {
        let (a, b) = (Upstream::always(reply.clone()).await, Upstream::always(reply).await);
        let gateway = Gateway::before(&[&a, &b]).await;
        let answer = gateway.chat("hi").await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (502, "replica_lost"));
        let answer = post(gateway.address(), &invocations("default"), chat("hi")).await;
        native_error(&answer, 424, "ModelError");
        gateway.has_ended("lost", 2).await;
        assert_eq!(a.count() + b.count(), 2, "it may be generating, so nobody else is asked");
    }
}

#[tokio::test]
async fn an_error_of_the_engine_passes_untouched_on_the_openai_api() {
    for status in [400, 404, 422, 429, 500, 503] {
        let said = " {\"object\":\"error\",\n\"message\":\"as the engine says\"}\n";
        let upstream = Upstream::always(Reply::json(status, said)).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let answer = gateway.chat("hi").await;
        assert_eq!((answer.status.as_u16(), answer.text(), answer.replica()), (status, said, "r0"));
        gateway.has_ended("error_status", 1).await;
        let counted = gateway.metrics().await.sum("kvroute_requests_total", &[&format!("code=\"{status}\"")]);
        assert_eq!((counted, upstream.count()), (1.0, 1));
    }
}

#[tokio::test]
async fn an_error_of_the_engine_is_a_model_error_on_the_native_api() {
    let long = "é".repeat(50_000);
    for (status, said) in [(400, "{\"message\":\"bad\"}"), (500, "oops"), (502, ""), (400, &*long)] {
        let upstream = Upstream::always(Reply::json(status, said)).await;
        let gateway = Gateway::before(&[&upstream]).await;
        for path in [invocations("default"), invocations_stream("default")] {
            let answer = post(gateway.address(), &path, chat("hi")).await;
            let error = native_error(&answer, 424, "ModelError");
            assert_eq!(error["OriginalStatusCode"], status);
            let cut: String = said.chars().take(2048).collect();
            assert_eq!(error["OriginalMessage"], cut, "{status}");
            assert!(error["LogStreamArn"].is_string());
            assert_eq!(answer.replica(), "r0");
        }
        gateway.has_ended("error_status", 2).await;
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn an_engine_that_breaks_off_in_its_error_is_a_model_error_with_what_it_said() {
    let reply = Reply::raw("HTTP/1.1 500 X\r\ncontent-length: 50\r\n\r\nout of mem").close();
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = post(gateway.address(), &invocations("default"), chat("hi")).await;
    assert_eq!(native_error(&answer, 424, "ModelError")["OriginalMessage"], "out of mem");
}

#[tokio::test]
async fn what_is_not_there_is_refused_without_asking_a_replica() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!(
        "endpoints:\n- {{name: e, models: [m], replicas: [{}]}}\n- {{name: f, models: [n], replicas: [{}]}}",
        upstream.url(),
        upstream.url()
    ))
    .await;
    let other = r#"{"model":"other","prompt":"x"}"#;
    for (method, path, body, status, code) in [
        (Method::POST, CHAT, other, 404, "model_not_found"),
        (Method::POST, CHAT, "{}", 404, "model_not_found"),
        (Method::POST, CHAT, "not json", 404, "model_not_found"),
        (Method::POST, "/endpoints/none/openai/v1/chat/completions", "{}", 404, "not_found"),
        (Method::POST, "/endpoints/e/inference-components/none/openai/v1/chat/completions", "{}", 404, "not_found"),
        (Method::POST, "/v2/chat", "{}", 404, "unknown_path"),
        (Method::GET, "/", "", 404, "unknown_path"),
        (Method::GET, CHAT, "", 405, "method_not_allowed"),
        (Method::POST, "/v1/models", "{}", 405, "method_not_allowed"),
    ] {
        let sent = request(method.clone(), path, &[], body);
        let answer = Call::start(gateway.address(), sent).await.answer().await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (status, code), "{method} {path} {body}");
        assert_eq!(answer.header("allow").is_some(), status == 405, "{method} {path}");
    }
    for (path, headers) in [
        (invocations("none"), vec![]),
        (invocations("E"), vec![]),
        (invocations("e"), vec![("x-amzn-sagemaker-target-variant", "none")]),
        (invocations_stream("e"), vec![("x-amzn-sagemaker-inference-component", "none")]),
        (invocations("e"), vec![("x-amzn-sagemaker-target-variant", "not a name")]),
        (invocations_stream("e"), vec![("x-amzn-sagemaker-session-id", "NEW_SESSION")]),
    ] {
        let answer = post_with(gateway.address(), &path, &headers, chat("hi")).await;
        native_error(&answer, 400, "ValidationError");
    }
    for (method, path) in [(Method::GET, "/endpoints/e/invocations"), (Method::POST, "/endpoints/e/invocation")] {
        let answer = Call::start(gateway.address(), request(method, path, &[], "")).await.answer().await;
        native_error(&answer, 400, "ValidationError");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(gateway.metrics().await.sum("kvroute_refused_requests_total", &[]), 17.0);
    assert_eq!(gateway.metrics().await.sum("kvroute_requests_total", &[]), 0.0);
}

#[tokio::test]
async fn a_body_that_cannot_be_read_is_the_engines_business() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream, &upstream]).await;
    for (body, reason) in [
        ("{\"prompt\":\"hi\"} and more", "malformed"),
        ("{\"prompt\":\"hi\",", "truncated"),
        ("[1]", "not_an_object"),
        ("", "empty"),
    ] {
        let answer = post(gateway.address(), CHAT, body.to_owned()).await;
        assert_eq!((answer.status.as_u16(), answer.decision()), (200, "no_prefix"), "{reason}");
        let label = format!("reason=\"{reason}\"");
        assert_eq!(gateway.metrics().await.sum("kvroute_unscanned_bodies_total", &[&label]), 1.0, "{reason}");
    }
    assert_eq!(upstream.count(), 4);
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_the_gateway_lives_on() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("limits: {{header_bytes_max: 8192}}\nreplicas: [{}]", upstream.url())).await;
    let large = "x".repeat(20_000);
    let answer = post_with(gateway.address(), CHAT, &[("x-large", &large)], chat("hi")).await;
    assert_eq!(answer.status, 431);
    assert_eq!(gateway.chat("hi").await.status, 200);
    assert_eq!(upstream.count(), 1);
}

#[tokio::test]
async fn an_engine_that_answers_an_upgrade_nobody_asked_for_is_an_error() {
    let upstream =
        Upstream::always(Reply::raw("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"))
            .await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = gateway.chat("hi").await;
    assert_eq!(answer.status, 502);
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn the_gateways_own_paths_are_answered_by_itself() {
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).end()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    crate::support::until("the first health check is done", async || {
        get(gateway.address(), "/readyz").await.status == 200
    })
    .await;
    for path in ["/livez", "/health", "/ping"] {
        assert_eq!(get(gateway.address(), path).await.status, 200, "{path}");
    }
    for path in ["/livez", "/readyz", "/metrics", "/api/v1/replicas"] {
        assert_eq!(get(gateway.admin_address(), path).await.status, 200, "{path}");
    }
    assert_eq!(get(gateway.admin_address(), "/other").await.status, 404);
    assert_eq!(post(gateway.admin_address(), "/metrics", "").await.status, 405);
    assert_eq!(upstream.count(), 0);
}
