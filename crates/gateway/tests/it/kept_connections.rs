//! A connection that was kept may have been closed by the replica in the moment in which it is used again. That is no
//! failure of the request, but it must not be mistaken for a replica that dies on it.

use std::time::Duration;

use crate::support::{Gateway, Reply, Upstream, chat, post};

const CHAT: &str = "/v1/chat/completions";
/// Longer than a connection must have been unused for its loss to be forgiven, and than such a loss takes to show.
const LONG: Duration = Duration::from_millis(1_200);

/// Sends a request, and after a pause a second on the same connection, which the replica answers so; whatever follows it
/// answers like `then`. The second request has this status, and the replica has seen that many in all.
async fn second(pause: Duration, reply: Reply, then: Reply, expected: (u16, usize)) {
    let upstream = Upstream::in_turn([Reply::json(200, "{}"), reply.clone(), then]).await;
    let other = Upstream::ok().await;
    // The other replica is there to be asked wrongly: a prompt stays at its home.
    let gateway = Gateway::start(&format!(
        "endpoints:\n- name: e\n  variants:\n  - {{name: a, replicas: [{}, {}]}}\n",
        upstream.url(),
        other.url()
    ))
    .await;
    let mut prompts = (0..).map(|i| chat(&format!("prompt {i} {}", "x".repeat(3000))));
    let body = loop {
        let body = prompts.next().unwrap();
        let others = other.count();
        assert_eq!(post(gateway.address(), CHAT, body.clone()).await.status, 200);
        if other.count() == others {
            break body;
        }
    };
    let others = other.count();
    tokio::time::sleep(pause).await;
    let answer = post(gateway.address(), CHAT, body.clone()).await;
    assert_eq!((answer.status.as_u16(), upstream.count()), expected, "{reply:?} after {pause:?}: {answer:?}");
    if answer.status == 200 {
        assert_eq!(answer.decision(), "prefix_hit", "the same place, so not another attempt");
    } else {
        assert_eq!(answer.openai_error(), "replica_lost");
    }
    let arrived = upstream.requests();
    assert!(arrived.iter().all(|arrived| arrived.body == body), "the body is complete each time");
    assert_eq!(arrived[0].connection, arrived[1].connection, "the connection was kept");
    assert!(arrived.get(2).is_none_or(|third| third.connection != arrived[0].connection));
    assert_eq!(other.count(), others, "it may be generating, so nobody else is asked");
    gateway.is_at_rest().await;
}

/// S50
#[tokio::test]
async fn a_request_lost_on_a_connection_that_was_long_unused_is_sent_once_more() {
    let (ok, close) = (Reply::json(200, "{}"), Reply::default().close());
    tokio::join!(
        second(LONG, close.clone(), ok.clone(), (200, 3)),
        second(LONG, Reply::default().reset(), ok.clone(), (200, 3)),
        second(LONG, close.clone(), close.clone(), (502, 3)),
        // Just used, it was not closed for being unused: the replica died.
        second(Duration::ZERO, close.clone(), ok.clone(), (502, 2)),
        // What is lost late had arrived.
        second(LONG, Reply::default().pause(LONG).close(), ok, (502, 2)),
    );
}

/// S50: engines close after 5 s by default, so the gateway does before.
#[tokio::test]
async fn an_unused_connection_is_given_up_after_its_time() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("timeouts: {{pool_idle_ms: 30}}\nreplicas: [{}]", upstream.url())).await;
    for pause_ms in [0, 150, 150] {
        tokio::time::sleep(Duration::from_millis(pause_ms)).await;
        assert_eq!(gateway.chat("hi").await.status, 200);
    }
    let connections: Vec<_> = upstream.requests().iter().map(|arrived| arrived.connection).collect();
    assert!(connections[0] < connections[1] && connections[1] < connections[2], "{connections:?}");
}
