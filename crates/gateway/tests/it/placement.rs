//! Where prompts go: the same in every gateway, and apart where engines keep their caches apart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::support::{Answer, Gateway, Upstream, post, post_with, replicas};

async fn complete(gateway: &Gateway, body: Value) -> Answer {
    let answer = post(gateway.address(), "/v1/completions", body.to_string()).await;
    assert_eq!(answer.status, 200);
    answer
}

async fn upstreams<const N: usize>() -> [Upstream; N] {
    let mut upstreams = Vec::new();
    for _ in 0..N {
        upstreams.push(Upstream::ok().await);
    }
    upstreams.try_into().unwrap_or_else(|_| panic!("{N} were started"))
}

/// S31: two gateways, or one after a restart, agree without talking, whatever the order of their lists; and a new replica
/// takes its share of the prompts and moves no others.
#[tokio::test]
async fn gateways_with_the_same_replicas_in_any_order_agree_and_a_new_replica_moves_only_what_it_takes() {
    let engines = upstreams::<5>().await;
    let listed = |order: &[usize]| {
        let entry = |i: &usize| format!("{{id: r{i}, url: {}}}", engines[*i].url());
        format!("replicas: [{}]", order.iter().map(entry).collect::<Vec<_>>().join(", "))
    };
    let homes = async |gateway: &Gateway| {
        let mut homes = Vec::new();
        for i in 0..100 {
            homes.push(complete(gateway, json!({"prompt": format!("prompt {i}")})).await.replica().to_owned());
        }
        homes
    };
    let first = Gateway::start(&listed(&[0, 1, 2, 3])).await;
    let expected = homes(&first).await;
    assert_eq!(homes(&Gateway::start(&listed(&[2, 0, 3, 1])).await).await, expected);

    first.apply(&listed(&[4, 3, 2, 1, 0]));
    first.becomes("r4", "ready").await;
    let after = homes(&first).await;
    let moved: Vec<_> = expected.iter().zip(&after).filter(|(before, after)| before != after).collect();
    assert!(moved.iter().all(|(_, after)| *after == "r4"), "{moved:?}");
    assert!((5..=40).contains(&moved.len()), "about a fifth: {}", moved.len());
    let mut shares: BTreeMap<&String, usize> = BTreeMap::new();
    after.iter().for_each(|home| *shares.entry(home).or_default() += 1);
    assert!(shares.len() == 5 && shares.values().all(|share| *share <= 40), "{shares:?}");
}

/// S20: what one engine caches for a model or a salt is of no use to another, so it is not believed to be held there.
#[tokio::test]
async fn models_adapters_and_salts_have_cache_views_of_their_own() {
    let engines = upstreams::<2>().await;
    let gateway = Gateway::start(&format!(
        "endpoints: [{{name: e, {}, adapters: [{{name: a}}, {{name: b}}]}}]",
        replicas(&engines.each_ref()).trim_end()
    ))
    .await;
    let prompt = "x".repeat(4096);
    for (model, salt) in [("m", ""), ("n", ""), ("a", ""), ("b", ""), ("m", "s1"), ("m", "s2"), ("a", "s1")] {
        let mut body = json!({"model": model, "prompt": prompt});
        if !salt.is_empty() {
            body["cache_salt"] = salt.into();
        }
        assert_eq!(complete(&gateway, body.clone()).await.decision(), "cold", "{model} {salt}");
        assert_eq!(complete(&gateway, body).await.decision(), "prefix_hit", "{model} {salt}");
    }
}

/// S06: token ids make a key as text does.
/// S15
#[tokio::test]
async fn a_line_that_changes_with_every_request_is_left_out_of_the_key_and_reaches_the_replica() {
    let upstream = Upstream::ok().await;
    let constant = "constant words of a system prompt ".repeat(600);
    let lines = "key_skip_lines: [\"x-trace:\"]\n";
    for (settings, has_one_home) in [(lines, true), ("", false)] {
        let gateway = Gateway::start(&format!("{settings}{}", replicas(&[&upstream; 8]))).await;
        let mut seen = BTreeSet::new();
        for number in 0..20 {
            let line = format!("x-trace: id={number:08x};\n");
            let content = match number % 2 {
                0 => json!(format!("{line}{constant}")),
                _ => json!([{ "type": "text", "text": line }, { "type": "text", "text": constant }]),
            };
            let messages = json!([{ "role": "system", "content": content }]);
            let body = json!({ "model": "m", "messages": messages }).to_string();
            let answer = post(gateway.address(), "/v1/chat/completions", body.clone()).await;
            seen.insert(answer.replica().to_owned());
            assert_eq!(upstream.requests().pop().unwrap().body, body);
        }
        assert_eq!(seen.len() == 1, has_one_home, "{settings}: {seen:?}");
    }
}

#[tokio::test]
async fn prompts_of_token_ids_have_homes() {
    let engines = upstreams::<4>().await;
    let gateway = Gateway::before(&engines.each_ref()).await;
    let mut homes: BTreeMap<String, usize> = BTreeMap::new();
    for i in 0..20 {
        for prompt in [json!((0..600).map(|id| id + i).collect::<Vec<_>>()), json!([[i, 1], [2, 3]])] {
            let first = complete(&gateway, json!({"prompt": prompt})).await;
            assert_eq!(first.decision(), "cold", "{i}");
            *homes.entry(first.replica().to_owned()).or_default() += 1;
            assert_eq!(complete(&gateway, json!({"prompt": prompt})).await.replica(), first.replica());
        }
    }
    assert_eq!(homes.len(), 4, "{homes:?}");
    for empty in [json!([]), json!(""), json!([[]])] {
        assert_eq!(complete(&gateway, json!({"prompt": empty})).await.decision(), "no_prefix", "{empty}");
    }
}

#[tokio::test]
async fn what_stands_after_a_long_prompt_counts_where_it_can_make_a_difference() {
    let upstreams = upstreams::<4>().await;
    let gateway = Gateway::before(&upstreams.iter().collect::<Vec<_>>()).await;
    let text = "The same beginning. ".repeat(5_000);
    let body = |end: &str| format!(r#"{{"messages":[{{"role":"user","content":"{text}"}}],{end}}}"#);
    let homes = async |tenant: Option<&'static str>| {
        let mut homes = BTreeSet::new();
        for i in 0..12 {
            let mut headers = vec![("content-type", "application/json")];
            headers.extend(tenant.map(|tenant| ("x-amzn-sagemaker-prefix-aware-id", tenant)));
            let sent = body(&format!(r#""model":"m","prompt_cache_key":"{i}""#));
            let answer = post_with(gateway.address(), "/v1/chat/completions", &headers, sent.clone()).await;
            assert_eq!(answer.status, 200);
            let got = upstreams.iter().flat_map(Upstream::requests).any(|arrived| arrived.body == sent);
            assert!(got, "it arrives to its last byte");
            homes.insert(answer.replica().to_owned());
        }
        homes.len()
    };
    assert_eq!(homes(Some("a")).await, 1, "the header names the tenant");
    assert!(homes(None).await > 1, "the key in the body does");
}
