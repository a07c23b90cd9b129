//! Models under other names (S11): the body names the model that the replicas know, in one right framing.

use serde_json::json;

use crate::support::{Answer, Gateway, Reply, Upstream, Wire, get, invocations, post, post_with, replicas, soon};

const CHAT: &str = "/v1/chat/completions";

/// An endpoint `e` with these aliases.
async fn before(upstreams: &[&Upstream], aliases: &str) -> Gateway {
    let replicas = replicas(upstreams);
    Gateway::start(&format!("endpoints:\n- {{name: e, aliases: {{{aliases}}}, {}}}\n", replicas.trim_end())).await
}

#[tokio::test]
async fn a_body_that_names_an_alias_arrives_with_the_model_and_else_byte_for_byte() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream], "alias: m, m-1: longer than the alias, equal: e-qal").await;
    let mut client = Wire::connect(gateway.address()).await;
    for (sent, arrives) in [
        (r#"{"model":"alias","messages":[]}"#, r#"{"model":"m","messages":[]}"#),
        (r#"{"model":"m-1","messages":[]}"#, r#"{"model":"longer than the alias","messages":[]}"#),
        (r#"{"model":"equal","messages":[]}"#, r#"{"model":"e-qal","messages":[]}"#),
        (
            "\n { \"x\" : [1.0e5, {\"model\":\"alias\"}] ,\"model\"\t:\r\n \"\\u0061lias\" , \"ä\":\"\\u00e4\"}\n\n",
            "\n { \"x\" : [1.0e5, {\"model\":\"alias\"}] ,\"model\"\t:\r\n \"m\" , \"ä\":\"\\u00e4\"}\n\n",
        ),
        (r#"{"model":"alias","a":1,"model":"alias"}"#, r#"{"model":"m","a":1,"model":"m"}"#),
        (r#"{"model":"alias-2"}"#, r#"{"model":"alias-2"}"#),
        (r#"{"model":"m"}"#, r#"{"model":"m"}"#),
    ] {
        for is_chunked in [false, true] {
            let head = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ncontent-type: application/json\r\n");
            if is_chunked {
                client.write(format!("{head}transfer-encoding: chunked\r\n\r\n")).await.unwrap();
                for byte in sent.bytes() {
                    client.write([b"1\r\n", &[byte][..], b"\r\n"].concat()).await.unwrap();
                }
                client.write("0\r\n\r\n").await.unwrap();
            } else {
                client.write(format!("{head}content-length: {}\r\n\r\n{sent}", sent.len())).await.unwrap();
            }
            let head = soon(client.head()).await.unwrap().unwrap();
            assert_eq!(head.line, "HTTP/1.1 200 OK", "{sent}");
            soon(client.body(&head)).await.unwrap();
            let arrived = upstream.requests().pop().unwrap();
            assert_eq!(arrived.body, arrives, "{sent}");
            let framing = (arrived.header("content-length"), arrived.header("transfer-encoding"));
            assert_eq!(framing, (Some(&*arrives.len().to_string()), None), "each once at most");
        }
    }
}

async fn ask(gateway: &Gateway, path: &str, model: &str) -> Answer {
    let text = "shared text ".repeat(400);
    let body = json!({ "model": model, "messages": [{ "role": "user", "content": text }] });
    post(gateway.address(), path, body.to_string()).await
}

#[tokio::test]
async fn an_alias_and_its_model_have_one_home_and_one_cache_view() {
    let upstream = Upstream::ok().await;
    for path in [CHAT, &invocations("e"), "/endpoints/e/openai/v1/chat/completions"] {
        let gateway = before(&[&upstream; 8], "fast: a-model-with-a-longer-name").await;
        let home = ask(&gateway, path, "a-model-with-a-longer-name").await;
        let aliased = ask(&gateway, path, "fast").await;
        assert_eq!((home.decision(), aliased.decision()), ("cold", "prefix_hit"), "{path}");
        assert_eq!(home.replica(), aliased.replica());
        let arrived = upstream.requests();
        let [first, second] = arrived.last_chunk().unwrap();
        assert_eq!(first.body, second.body);
    }
}

#[tokio::test]
async fn an_alias_selects_its_endpoint_unless_the_path_names_another() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::start(&format!(
        "endpoints:\n- {{name: any, replicas: [{}]}}\n- {{name: e, models: [m], aliases: {{x: m}}, replicas: [{}]}}\n",
        a.url(),
        b.url()
    ))
    .await;
    ask(&gateway, CHAT, "x").await;
    assert_eq!((a.count(), b.count()), (0, 1));
    assert!(b.request().body.starts_with(b"{\"messages\":") || b.request().body.starts_with(b"{\"model\":\"m\""));
    // There the name is no alias.
    ask(&gateway, "/endpoints/any/openai/v1/chat/completions", "x").await;
    let body = serde_json::from_slice::<serde_json::Value>(&a.request().body).unwrap();
    assert_eq!((&body["model"], b.count()), (&json!("x"), 1));
}

#[tokio::test]
async fn a_retry_names_the_model_too() {
    let busy = Upstream::always(Reply::json(503, "{}")).await;
    let upstream = Upstream::ok().await;
    let replicas = format!("routing: {{strategy: round_robin}}, replicas: [{}, {}]", busy.url(), upstream.url());
    let gateway = Gateway::start(&format!("endpoints: [{{name: e, aliases: {{x: m}}, {replicas}}}]")).await;
    for _ in 0..2 {
        assert_eq!(post(gateway.address(), CHAT, r#"{"model":"x","n":1}"#).await.status, 200);
        assert_eq!(upstream.requests().pop().unwrap().body, r#"{"model":"m","n":1}"#);
    }
    assert_eq!(busy.request().body, r#"{"model":"m","n":1}"#);
}

#[tokio::test]
async fn a_compressed_body_that_names_an_alias_goes_on_plain() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream], "m: another-model").await;
    let sample = include_bytes!("../../../wire/src/coding/samples/chat.json.zst").as_slice();
    let headers = [("content-type", "application/json"), ("content-encoding", "zstd")];
    assert_eq!(post_with(gateway.address(), CHAT, &headers, sample).await.status, 200);
    let arrived = upstream.request();
    let plain = include_str!("../../../wire/src/coding/samples/chat.json");
    assert_eq!(arrived.body, plain.replacen("\"m\"", "\"another-model\"", 1));
    assert_eq!((arrived.header("content-encoding"), arrived.header("transfer-encoding")), (None, None));
    assert_eq!(arrived.header("content-length"), Some(&*arrived.body.len().to_string()));

    // The key is made of what the replica gets.
    let gateway = before(&[&upstream; 8], "m: another-model").await;
    let home = post(gateway.address(), &invocations("e"), arrived.body.clone()).await;
    let answer = post_with(gateway.address(), &invocations("e"), &headers, sample).await;
    assert_eq!((answer.replica(), answer.decision()), (home.replica(), "prefix_hit"));
}

#[tokio::test]
async fn a_body_that_cannot_be_changed_is_refused() {
    let upstream = Upstream::ok().await;
    let gateway = before(&[&upstream], "x: m").await;
    let often = format!("{{{}}}", vec![r#""model":"x""#; 65].join(","));
    for body in [&*often, r#"{"model":"x","messages":[}"#] {
        let answer = post(gateway.address(), CHAT, body.to_owned()).await;
        assert_eq!((answer.status.as_u16(), &*answer.openai_error()), (400, "invalid_request"), "{body}");
    }
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn aliases_are_listed_as_models() {
    let list = Reply::json(200, r#"{"object":"list","data":[{"id":"m"}]}"#);
    let upstream = Upstream::always(list).await;
    let gateway = before(&[&upstream], "x: m").await;
    let models = get(gateway.address(), "/v1/models").await.json();
    let ids: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["m", "x"]);
    let alias = get(gateway.address(), "/v1/models/x").await.json();
    assert_eq!((&alias["id"], &alias["root"]), (&json!("x"), &json!("m")));
}
