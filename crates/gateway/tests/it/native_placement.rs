//! Where an invocation goes: by variant, component, copy and adapter, and by the beginning of its body.

use std::collections::BTreeSet;

use serde_json::json;

use crate::support::{Answer, Gateway, Upstream, chat, invocations, invocations_stream, post, post_with, replicas};

const VARIANT: &str = "x-amzn-sagemaker-target-variant";
const TENANT: &str = "x-amzn-sagemaker-prefix-aware-id";
const COMPONENT: &str = "x-amzn-sagemaker-inference-component";
const ADAPTER: &str = "x-amzn-sagemaker-adapter-identifier";

async fn invoke(gateway: &Gateway, headers: &[(&str, &str)], body: String) -> Answer {
    let answer = post_with(gateway.address(), &invocations("e"), headers, body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer
}

#[tokio::test]
async fn a_variant_is_chosen_by_name_or_by_weight() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!(
        "endpoints:\n- name: e\n  variants:\n  - {{name: live, weight: 1, replicas: [{}]}}\n  - {{name: shadow, weight: 0, replicas: [{}]}}",
        a.url(),
        b.url()
    ))
    .await;
    for _ in 0..10 {
        let answer = invoke(&gateway, &[], chat("hi")).await;
        assert_eq!(answer.header("x-amzn-invoked-production-variant"), Some("live"));
    }
    let answer = invoke(&gateway, &[(VARIANT, "shadow")], chat("hi")).await;
    assert_eq!(answer.header("x-amzn-invoked-production-variant"), Some("shadow"));
    assert_eq!((a.count(), b.count()), (10, 1));
}

#[tokio::test]
async fn a_component_is_served_by_its_copies_each_at_its_own_address() {
    let (r0, r1, copy) = (Upstream::ok().await, Upstream::ok().await, Upstream::ok().await);
    let settings = format!(
        "endpoints:\n- name: e\n  {}  components:\n  - {{name: c, copies: [{{replica: r0, url: {}}}]}}\n  - {{name: d, copies: [r1]}}\n",
        replicas(&[&r0, &r1]),
        copy.url()
    );
    let gateway = Gateway::start(&settings).await;
    for count in 1..=5 {
        let answer = invoke(&gateway, &[(COMPONENT, "c")], chat(&format!("prompt {count}"))).await;
        assert_eq!((answer.replica(), copy.count()), ("r0", count));
        assert_eq!(invoke(&gateway, &[(COMPONENT, "d")], chat("hi")).await.replica(), "r1");
    }
    assert_eq!((r0.count(), r1.count()), (0, 5));
    assert_eq!(copy.requests()[0].header(COMPONENT), None);
    let path = "/endpoints/e/inference-components/c/openai/v1/chat/completions";
    assert_eq!(post(gateway.address(), path, chat("hi")).await.replica(), "r0");
    assert_eq!(copy.requests().pop().unwrap().target(), "/v1/chat/completions");
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn an_adapter_invoked_as_a_component_is_named_to_the_engine_and_goes_where_it_is_loaded() {
    let (r0, r1) = (Upstream::ok().await, Upstream::ok().await);
    let settings = format!(
        "endpoints:\n- name: e\n  {}  adapters: [{{name: sql/1, component: sql, replicas: [r1]}}]\n",
        replicas(&[&r0, &r1])
    );
    let gateway = Gateway::start(&settings).await;
    for i in 0..5 {
        assert_eq!(invoke(&gateway, &[(COMPONENT, "sql")], chat(&format!("prompt {i}"))).await.replica(), "r1");
    }
    assert_eq!(r1.requests()[0].header(ADAPTER), Some("sql/1"));
    let by_model = json!({ "model": "sql/1", "messages": [] }).to_string();
    assert_eq!(post(gateway.address(), "/v1/chat/completions", by_model).await.replica(), "r1");
    assert_eq!(r1.requests().pop().unwrap().header(ADAPTER), None, "the body names it already");
    assert_eq!(r0.count(), 0);
}

/// The replicas to which these bodies go.
async fn homes(gateway: &Gateway, bodies: &[String]) -> BTreeSet<String> {
    let mut homes = BTreeSet::new();
    for body in bodies {
        homes.insert(invoke(gateway, &[], body.clone()).await.replica().to_owned());
    }
    homes
}

async fn seven(routing: &str) -> (Vec<Upstream>, Gateway) {
    let mut upstreams = Vec::new();
    for _ in 0..7 {
        upstreams.push(Upstream::ok().await);
    }
    let listed = replicas(&upstreams.iter().collect::<Vec<_>>());
    let gateway = Gateway::start(&format!("endpoints:\n- name: e\n  {listed}  routing: {routing}\n")).await;
    (upstreams, gateway)
}

#[tokio::test]
async fn bodies_with_equal_beginnings_go_to_one_replica_and_others_spread() {
    let (_upstreams, gateway) = seven("{prefix_length: 1024}").await;
    let long = "an instruction that all share. ".repeat(40);
    let equal: Vec<_> = (0..12).map(|i| chat(&format!("{long} question {i}"))).collect();
    assert_eq!(homes(&gateway, &equal).await.len(), 1);
    let different: Vec<_> = (0..30).map(|i| chat(&format!("question {i} {long}"))).collect();
    assert!(homes(&gateway, &different).await.len() >= 4);
    let tenants = (0..30).map(|i| format!("tenant {i}"));
    let mut homes = BTreeSet::new();
    for tenant in tenants {
        let headers = [("x-amzn-sagemaker-prefix-aware-id", &*tenant)];
        homes.insert(invoke(&gateway, &headers, equal[0].clone()).await.replica().to_owned());
    }
    assert!(homes.len() >= 4, "tenants spread");
}

#[tokio::test]
async fn formatting_changes_the_key_of_a_body_and_not_that_of_its_text() {
    let text = "an instruction that all share. ".repeat(40);
    let message = json!({ "role": "user", "content": text }).to_string();
    let written: Vec<_> = (0..30)
        .map(|i| {
            let space = " ".repeat(i);
            format!("{{{space}\"temperature\":{i},\"messages\":{space}[{message}{space}],\"model\":\"m\"}}")
        })
        .collect();
    let (_upstreams, by_body) = seven("{native_prefix_source: body_bytes}").await;
    assert!(homes(&by_body, &written).await.len() >= 4);
    let (_upstreams, by_text) = seven("{native_prefix_source: message_text}").await;
    assert_eq!(homes(&by_text, &written).await.len(), 1);
    // The key is then the same as that of the OpenAI API.
    let home = invoke(&by_text, &[], written[0].clone()).await.replica().to_owned();
    assert_eq!(post(by_text.address(), "/v1/chat/completions", written[1].clone()).await.replica(), home);
}

#[tokio::test]
async fn a_session_stays_on_its_replica() {
    let (_upstreams, gateway) = seven("{strategy: session}").await;
    for session in ["s-1", "s-2", "s-3"] {
        let headers = [("x-amzn-sagemaker-session-id", session)];
        let first = invoke(&gateway, &headers, chat("hello")).await;
        assert_eq!(first.decision(), "session");
        for i in 0..5 {
            let answer = invoke(&gateway, &headers, chat(&format!("turn {i}"))).await;
            assert_eq!(answer.replica(), first.replica(), "{session}");
        }
    }
}

/// S81: what the headers say counts for both operations alike, and each container hears the same of it.
#[tokio::test]
async fn both_operations_are_placed_alike() {
    let mut upstreams = Vec::new();
    for _ in 0..6 {
        upstreams.push(Upstream::ok().await);
    }
    let url = |i: usize| upstreams[i].url();
    let gateway = Gateway::start(&format!(
        "endpoints:\n- name: e\n  routing: {{strategy: prefix_aware}}\n  variants:\n  - name: a\n    replicas: [{{id: r0, url: {}}}, {{id: r1, url: {}}}, {{id: r2, url: {}}}]\n  - name: b\n    weight: 0\n    replicas: [{{id: r3, url: {}}}, {{id: r4, url: {}}}, {{id: r5, url: {}}}]\n  components: [{{name: c, copies: [r4]}}]\n",
        url(0), url(1), url(2), url(3), url(4), url(5)
    ))
    .await;
    let passed = [("x-amzn-sagemaker-custom-attributes", "a=b"), ("x-amzn-sagemaker-inference-id", "id-1")];
    let mut homes = BTreeSet::new();
    for i in 0..12 {
        let tenant = format!("tenant {i}");
        for (placed, variant) in [((TENANT, &*tenant), "a"), ((VARIANT, "b"), "b"), ((COMPONENT, "c"), "b")] {
            let headers = [&passed[..], &[placed]].concat();
            let mut replicas = BTreeSet::new();
            for path in [invocations("e"), invocations_stream("e")] {
                let answer = post_with(gateway.address(), &path, &headers, chat("hi")).await;
                assert_eq!(answer.status, 200, "{answer:?}");
                assert_eq!(answer.header("x-amzn-invoked-production-variant"), Some(variant), "{path} {placed:?}");
                let replica = answer.replica().to_owned();
                let arrived = upstreams[replica[1..].parse::<usize>().unwrap()].requests().pop().unwrap();
                for (name, value) in passed {
                    assert_eq!(arrived.header(name), Some(value), "{path}");
                }
                replicas.insert(replica);
            }
            assert_eq!(replicas.len(), 1, "{placed:?}");
            homes.extend(replicas.into_iter().filter(|_| variant == "a"));
        }
    }
    assert_eq!(homes.len(), 3, "tenants spread");
}
