//! Which headers pass, in both directions.

use crate::support::{Gateway, Reply, Upstream, Wire, chat, post, post_with, replicas, soon};

const CHAT: &str = "/v1/chat/completions";

/// S89
#[tokio::test]
async fn what_belongs_to_the_connection_or_proves_the_client_stays_at_the_gateway() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let sent = [
        ("connection", "keep-alive, x-hop, TE, upgrade"),
        ("upgrade", "x"),
        ("x-hop", "1"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "keep-alive"),
        ("te", "trailers"),
        ("trailer", "x-sum"),
        ("authorization", "Bearer of-the-client"),
        ("proxy-authorization", "Basic of-the-client"),
        ("x-api-key", "of-the-client"),
        ("api-key", "of-the-client"),
        ("x-amz-security-token", "of-the-client"),
        ("cookie", "of=the-client"),
    ];
    post_with(gateway.address(), CHAT, &sent, chat("hi")).await;
    let arrived = upstream.request();
    for (name, _) in sent {
        assert_eq!(arrived.header(name), None, "{name}");
    }
    assert!(!format!("{:?}", arrived.head).contains("client"), "{:?}", arrived.head);
}

#[tokio::test]
async fn everything_else_passes_in_its_order() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let sent = [
        ("content-type", "application/json; charset=utf-8"),
        ("accept", "text/event-stream"),
        ("user-agent", "a client/1.0"),
        ("x-request-id", "r-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=b"),
        ("openai-organization", "org"),
        ("x-many", "1"),
        ("x-many", "2"),
        ("x-empty", ""),
    ];
    post_with(gateway.address(), CHAT, &sent, chat("hi")).await;
    let mut arrived = upstream.request().head.headers;
    arrived.retain(|(name, _)| name != "host" && name != "content-length");
    let mut sent: Vec<(String, String)> = sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    // Only the order of equal names has a meaning.
    for headers in [&mut arrived, &mut sent] {
        headers.sort_by(|a, b| a.0.cmp(&b.0));
    }
    assert_eq!(arrived, sent);
}

#[tokio::test]
async fn a_replica_gets_its_own_key_and_the_clients_only_where_that_is_wanted() {
    for (forward, key, expected) in [
        (false, "", None),
        (true, "", Some("Bearer of-the-client")),
        (false, ", api_key: sk-1", Some("Bearer sk-1")),
        (true, ", api_key: sk-1", Some("Bearer sk-1")),
    ] {
        let upstream = Upstream::ok().await;
        let url = upstream.url();
        let gateway = Gateway::start(&format!(
            "endpoints: [{{name: e, forward_authorization: {forward}, replicas: [{{id: r0, url: {url}{key}}}]}}]"
        ))
        .await;
        post_with(gateway.address(), CHAT, &[("authorization", "Bearer of-the-client")], chat("hi")).await;
        assert_eq!(upstream.request().header("authorization"), expected, "{forward} {key}");
    }
}

/// S89
#[tokio::test]
async fn an_answer_loses_what_belongs_to_the_replicas_connection_and_keeps_the_rest() {
    let reply = Reply::raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close, x-secret\r\nx-secret: 1\r\n\
         keep-alive: timeout=5\r\nproxy-connection: close\r\nx-request-id: r-1\r\nset-cookie: a=1\r\nset-cookie: b=2\r\n\
         x-kvroute-replica: a lie\r\nx-kvroute-decision: a lie\r\ncontent-length: 2\r\n\r\n{}",
    );
    let upstream = Upstream::always(reply.close()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    for _ in 0..2 {
        client.write(format!("POST {CHAT} HTTP/1.1\r\nhost: gateway\r\ncontent-length: 2\r\n\r\n{{}}")).await.unwrap();
        let head = soon(client.head()).await.unwrap().expect("the client's connection stays open");
        for gone in ["connection", "x-secret", "keep-alive", "proxy-connection"] {
            assert_eq!(head.header(gone), None, "{gone}");
        }
        assert_eq!(head.header("x-request-id"), Some("r-1"));
        assert_eq!(head.headers.iter().filter(|(name, _)| name == "set-cookie").count(), 2);
        assert_eq!((head.header("x-kvroute-replica"), head.header("content-length")), (Some("r0"), Some("2")));
        assert_eq!(head.header("x-kvroute-decision"), Some("no_prefix"));
        assert_eq!(soon(client.body(&head)).await.unwrap(), "{}");
    }
    let connections: Vec<_> = upstream.requests().iter().map(|arrived| arrived.connection).collect();
    assert_ne!(connections[0], connections[1], "the replica had closed the first");
}

#[tokio::test]
async fn every_answer_says_where_the_request_went_and_why() {
    let (a, b) = (Upstream::ok().await, Upstream::ok().await);
    let gateway = Gateway::before(&[&a, &b]).await;
    let long = "a prompt that goes on ".repeat(100);
    let first = gateway.chat(&long).await;
    assert_eq!(first.decision(), "cold");
    let second = gateway.chat(&long).await;
    assert_eq!((second.replica(), second.decision()), (first.replica(), "prefix_hit"));
    let home = if first.replica() == "r0" { &a } else { &b };
    assert_eq!(home.count(), 2);
    let other = post(gateway.address(), "/v1/embeddings", r#"{"model":"m","input":"x"}"#).await;
    assert_eq!(other.decision(), "no_prefix");

    gateway.apply(&format!("{}routing: {{strategy: least_outstanding}}\n", replicas(&[&a, &b])));
    assert_eq!(gateway.chat(&long).await.decision(), "load");
}
