//! The Responses API: placed by its text as a chat is, and later turns stay where their conversation is kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use serde_json::json;

use crate::support::{Gateway, Reply, Upstream, get, post, replicas};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";

/// An engine that names its answers after itself, as the plain and the streaming form do.
async fn engine(name: &'static str) -> Upstream {
    Upstream::start(move |arrived| {
        let id = format!("resp_{name}_{}", arrived.body.len());
        if arrived.target() != RESPONSES {
            return Reply::json(200, "{}");
        }
        if !std::str::from_utf8(&arrived.body).expect("JSON is text").contains("\"stream\"") {
            return Reply::json(200, json!({"id": id, "object": "response", "output": []}).to_string());
        }
        let event = |kind: &str| {
            let data = json!({"type": kind, "response": {"id": id}});
            format!("event: {kind}\ndata: {data}\n\n")
        };
        Reply::stream([&*event("response.created"), &event("response.completed")])
    })
    .await
}

/// S19
#[tokio::test]
async fn a_responses_request_goes_where_the_equal_chat_goes_and_conversations_spread() {
    let engines = [engine("a").await, engine("b").await, engine("c").await, engine("d").await];
    let gateway = Gateway::before(&engines.each_ref()).await;
    let mut homes = std::collections::BTreeSet::new();
    for n in 0..12 {
        let question = format!("question {n}");
        let chat = json!({"model": "m", "messages": [
            {"role": "system", "content": "be brief"}, {"role": "user", "content": question}]});
        let as_text = json!({"model": "m", "input": question, "instructions": "be brief"});
        let as_items = json!({"model": "m", "instructions": "be brief", "input": [
            {"role": "user", "content": [{"type": "input_text", "text": question}]}]});
        let home = post(gateway.address(), CHAT, chat.to_string()).await.replica().to_owned();
        for body in [as_text, as_items] {
            assert_eq!(post(gateway.address(), RESPONSES, body.to_string()).await.replica(), home, "{body}");
        }
        homes.insert(home);
    }
    assert!(homes.len() > 1, "{homes:?}");
}

/// S85
#[tokio::test]
async fn a_request_that_goes_on_with_an_answer_reaches_the_replica_that_keeps_it() {
    let engines = [engine("a").await, engine("b").await, engine("c").await, engine("d").await];
    let gateway = Gateway::start(&format!("routing: {{strategy: random}}\n{}", replicas(&engines.each_ref()))).await;
    for stream in [false, true] {
        for conversation in 0..4 {
            let mut body = json!({"model": "m", "input": format!("conversation {conversation}")});
            if stream {
                body["stream"] = true.into();
            }
            let first = post(gateway.address(), RESPONSES, body.to_string()).await;
            let home = first.replica().to_owned();
            let mut said = first.text().to_owned();
            for turn in 0..6 {
                let at = said.find("resp_").expect("the answer has an id");
                let id: String = said[at..].chars().take_while(|c| *c != '"').collect();
                for path in [format!("{RESPONSES}/{id}"), format!("{RESPONSES}/{id}/input_items?limit=1")] {
                    let asked = get(gateway.address(), &path).await;
                    assert_eq!((asked.replica(), asked.decision()), (&*home, "pinned"), "{path}");
                }
                body["previous_response_id"] = id.into();
                body["input"] = "go on ".repeat(turn + 1).into();
                let next = post(gateway.address(), RESPONSES, body.to_string()).await;
                assert_eq!((next.replica(), next.decision()), (&*home, "pinned"), "{body}");
                said = next.text().to_owned();
            }
        }
    }
    let unknown = json!({"model": "m", "input": "x", "previous_response_id": "resp_of_nobody"});
    let answer = post(gateway.address(), RESPONSES, unknown.to_string()).await;
    assert_eq!((answer.status.as_u16(), answer.decision()), (200, "load"), "whoever gets it says that it is unknown");
}

#[tokio::test]
async fn a_keeper_that_refuses_for_load_is_what_the_client_hears_of() {
    let is_full = Arc::new(AtomicBool::new(false));
    let of = |id: &'static str| {
        let is_full = is_full.clone();
        Upstream::start(move |_: &_| match is_full.load(SeqCst) {
            true => Reply::raw("HTTP/1.1 429 Too Many Requests\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}"),
            false => Reply::json(200, format!("{{\"id\":\"{id}\"}}")),
        })
    };
    let keepers = [of("resp_a").await, of("resp_b").await];
    let gateway = Gateway::before(&[&keepers[0], &keepers[1]]).await;
    let first = post(gateway.address(), RESPONSES, r#"{"model":"m","input":"x"}"#.to_owned()).await;
    let next = json!({"model": "m", "input": "y", "previous_response_id": first.json()["id"]});
    is_full.store(true, SeqCst);
    // The second finds the keeper marked as busy by the first.
    for asked in 1..=2 {
        let before: usize = keepers.iter().map(Upstream::count).sum();
        let answer = post(gateway.address(), RESPONSES, next.to_string()).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, Some("7")), "{asked}");
        assert_eq!((answer.replica(), answer.decision()), (first.replica(), "pinned"), "{asked}");
        assert_eq!(keepers.iter().map(Upstream::count).sum::<usize>(), before + 1, "{asked}");
    }
}
