//! Streams pass as they come, and what they tell is learned on the way.

use crate::support::{
    Call, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, chat, content, post, request, streamed_chat, usage,
};

const CHAT: &str = "/v1/chat/completions";

async fn stream(gateway: &Gateway, text: &str) -> Call {
    let json = [("content-type", "application/json")];
    Call::start(gateway.address(), request(http::Method::POST, CHAT, &json, streamed_chat(text))).await
}

#[tokio::test]
async fn a_client_gets_head_and_events_before_the_next_is_sent() {
    let gates = [Gate::new(), Gate::new(), Gate::new()];
    let (first, second) = (content("one"), content("two"));
    let reply = Reply::chunked(EVENT_STREAM).wait(&gates[0]).chunk(&first).wait(&gates[1]).chunk(&second);
    let upstream = Upstream::always(reply.wait(&gates[2]).chunk(DONE).end()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut answer = stream(&gateway, "hi").await.streaming().await;
    assert_eq!((answer.status.as_u16(), answer.headers["content-type"].to_str().unwrap()), (200, EVENT_STREAM));
    for (gate, event) in gates.iter().zip([&first[..], &second, DONE]) {
        gate.open();
        answer.brings(event).await;
    }
    let rest = answer.rest().await;
    assert!(rest.is_complete && rest.body.is_empty(), "{rest:?}");
    gateway.has_ended("ok", 1).await;
}

#[tokio::test]
async fn a_stream_passes_byte_for_byte_whatever_it_is() {
    let text =
        ": a comment\r\n\r\nevent: x\rdata: not json\r\r\nid: 1\nretry: 5\ndata:{\"usage\":}\n\n\u{feff}data\n\nno end";
    let upstream = Upstream::always(Reply::chunked(EVENT_STREAM).byte_by_byte(text).end()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = stream(&gateway, "hi").await.answer().await;
    assert!(answer.is_complete);
    assert_eq!(answer.text(), text);
}

#[tokio::test]
async fn usage_and_first_token_are_seen_however_the_stream_is_cut() {
    let events = [content("one"), content("two"), usage(1000, 600), DONE.to_owned()].concat();
    let whole = Reply::chunked(EVENT_STREAM).chunk(&events).end();
    let cut = Reply::chunked(EVENT_STREAM).byte_by_byte(&events).end();
    for (how, reply) in [("whole", whole), ("byte by byte", cut)] {
        let upstream = Upstream::always(reply).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let prompt = "x".repeat(4000);
        for _ in 0..2 {
            assert_eq!(stream(&gateway, &prompt).await.answer().await.text(), events, "{how}");
        }
        gateway.has_ended("ok", 2).await;
        let page = gateway.metrics().await;
        let place = ["endpoint=\"default\"", "variant=\"main\""];
        let tokens = |usage| page.sum("kvroute_prompt_tokens_total", &[&place[..], &[usage]].concat());
        assert_eq!((tokens("usage=\"reported\""), tokens("usage=\"estimated\"")), (2000.0, 0.0), "{how}");
        let stage =
            |stage| page.sum("kvroute_prefix_tokens_total", &[&place[..], &["usage=\"reported\"", stage]].concat());
        assert_eq!(stage("stage=\"delivered\""), 1200.0, "{how}");
        // The first request found nothing; the second found all but the last block, which is not full.
        let captured = stage("stage=\"captured\"");
        assert!((850.0..1000.0).contains(&captured), "{how}: {captured}");
        assert_eq!(stage("stage=\"available\""), captured, "{how}");
        assert_eq!(page.sum("kvroute_time_to_first_token_seconds_count", &["strategy=\"prefix_aware\""]), 2.0, "{how}");
        assert_eq!(page.sum("kvroute_inter_token_latency_seconds_count", &place), 2.0, "{how}");
        assert_eq!(page.sum("kvroute_request_duration_seconds_count", &place), 2.0, "{how}");
    }
}

#[tokio::test]
async fn the_usage_of_an_answer_in_one_piece_counts_and_none_is_estimated() {
    let with = r#"{"choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":70,"completion_tokens":1}}"#;
    for (body, reported, estimated) in [(with, 70.0, 0.0), ("{}", 0.0, 100.0)] {
        let upstream = Upstream::always(Reply::json(200, body)).await;
        let gateway = Gateway::before(&[&upstream]).await;
        post(gateway.address(), CHAT, chat(&"x".repeat(400))).await;
        gateway.has_ended("ok", 1).await;
        let page = gateway.metrics().await;
        let tokens = |usage| page.sum("kvroute_prompt_tokens_total", &[usage]);
        assert_eq!((tokens("usage=\"reported\""), tokens("usage=\"estimated\"")), (reported, estimated));
        assert_eq!(page.sum("kvroute_time_to_first_token_seconds_count", &[]), 0.0, "its first byte is its end");
        assert_eq!(page.sum("kvroute_prefix_tokens_total", &["stage=\"delivered\""]), 0.0, "the engine did not say");
    }
}

#[tokio::test]
async fn prefill_is_pending_until_the_first_content() {
    let gates = [Gate::new(), Gate::new()];
    let role = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
    let reply = Reply::chunked(EVENT_STREAM).chunk(role).wait(&gates[0]).chunk(content("one")).wait(&gates[1]);
    let upstream = Upstream::always(reply.chunk(DONE).end()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut answer = stream(&gateway, &"x".repeat(400)).await.streaming().await;
    answer.brings(role).await;
    assert_eq!(gateway.status("r0", "pending_prefill_tokens").await, 100);
    gates[0].open();
    answer.brings(&content("one")).await;
    assert_eq!(gateway.status("r0", "pending_prefill_tokens").await, 0);
    assert_eq!(gateway.in_flight("r0").await, 1);
    gates[1].open();
    assert!(answer.rest().await.is_complete);
    gateway.is_at_rest().await;
}

#[tokio::test]
async fn an_error_inside_the_stream_passes_and_is_counted() {
    let events = [content("one"), "data: {\"error\":{\"message\":\"out of memory\",\"code\":500}}\n\n".to_owned()];
    let upstream = Upstream::always(Reply::stream([&*events[0], &events[1], DONE])).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = stream(&gateway, "hi").await.answer().await;
    assert!(answer.is_complete && answer.text() == events.concat() + DONE, "{answer:?}");
    gateway.has_ended("error_in_stream", 1).await;
}

/// S46: nothing is decoded, so coding, length and bytes agree, and nothing waits for more.
#[tokio::test]
async fn a_compressed_stream_passes_as_it_comes() {
    let gate = Gate::new();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let (first, second) = ("\x1f\x08 first part", "second part");
    let upstream = Upstream::always(Reply::raw(head).chunk(first).wait(&gate).chunk(second).end()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut answer = stream(&gateway, "hi").await.streaming().await;
    assert_eq!(answer.headers["content-encoding"], "gzip");
    answer.brings(first).await;
    gate.open();
    let rest = answer.rest().await;
    assert!(rest.is_complete && rest.text() == second, "{rest:?}");
    gateway.has_ended("ok", 1).await;
}
