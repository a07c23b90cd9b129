//! An answer that breaks off does not look complete, and where its form allows it, it says what happened.

use http::Method;
use kvroute_wire::eventstream::{Decoder, Frame};
use serde_json::Value;

use crate::support::{
    Answer, Call, EVENT_STREAM, Gateway, Reply, Upstream, content, invocations_stream, request, streamed_chat,
};

const CHAT: &str = "/v1/chat/completions";

/// The ways in which a replica can leave in the middle of a chunked body.
fn breaks(begun: &Reply) -> [(&'static str, Reply); 4] {
    [
        ("reset between chunks", begun.clone().reset()),
        ("closed between chunks", begun.clone().close()),
        ("closed in a chunk", begun.clone().send("40\r\n").close()),
        ("nonsense for a chunk", begun.clone().send("what?\r\n")),
    ]
}

/// The answer of a gateway to a request that a replica answers so.
async fn answer(path: &str, reply: Reply) -> Answer {
    let upstream = Upstream::always(reply).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let json = [("content-type", "application/json")];
    let request = request(Method::POST, path, &json, streamed_chat("hi"));
    let answer = Call::start(gateway.address(), request).await.answer().await;
    gateway.has_ended("broken_off", 1).await;
    gateway.is_at_rest().await;
    answer
}

#[tokio::test]
async fn a_stream_between_two_events_ends_with_an_error_event_and_an_aborted_connection() {
    for ending in ["\n\n", "\r\n\r\n"] {
        let passed = content("one").replace("\n\n", ending);
        for (how, reply) in breaks(&Reply::chunked(EVENT_STREAM).chunk(&passed)) {
            let answer = answer(CHAT, reply).await;
            assert!(!answer.is_complete, "{how}");
            let event = answer.text().strip_prefix(&*passed).unwrap_or_else(|| panic!("{how}: {answer:?}"));
            let data = event.strip_prefix("data: ").and_then(|event| event.strip_suffix("\n\n"));
            let error: Value = serde_json::from_str(data.unwrap_or_else(|| panic!("{how}: {event:?}"))).unwrap();
            assert_eq!(error["error"]["code"], "stream_broken", "{how}");
            assert_eq!(error["error"]["type"], "server_error", "{how}");
        }
    }
}

#[tokio::test]
async fn a_stream_without_any_event_yet_ends_with_an_error_event_too() {
    let answer = answer(CHAT, Reply::chunked(EVENT_STREAM).reset()).await;
    assert!(answer.text().starts_with("data: {\"error\":") && !answer.is_complete, "{answer:?}");
}

/// Bytes added inside an event would become part of it.
#[tokio::test]
async fn a_stream_inside_an_event_is_cut_off_where_it_stands() {
    for passed in ["data: {\"choices\":[{\"del", "data: {}\n", "data: {}\r\n", "data: {}\n\ndata: "] {
        for (how, reply) in breaks(&Reply::chunked(EVENT_STREAM).chunk(passed)) {
            let answer = answer(CHAT, reply).await;
            assert_eq!((answer.text(), answer.is_complete), (passed, false), "{how}");
        }
    }
}

/// An event that fills the length up would make the answer look complete.
#[tokio::test]
async fn a_stream_of_a_known_length_gets_no_event_added() {
    let passed = content("one");
    let length = passed.len() + 10;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ncontent-length: {length}\r\n\r\n");
    let answer = answer(CHAT, Reply::raw(head).send(passed.clone()).close()).await;
    assert_eq!((answer.text(), answer.is_complete), (&*passed, false));
}

#[tokio::test]
async fn an_answer_that_is_no_event_stream_is_cut_off_where_it_stands() {
    let with_length = Reply::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n");
    let begun = [with_length.send("{\"a\":"), Reply::chunked("application/json").chunk("{\"a\":")];
    for (i, begun) in begun.into_iter().enumerate() {
        for reply in [begun.clone().close(), begun.reset()] {
            let answer = answer(CHAT, reply).await;
            assert_eq!((answer.text(), answer.is_complete), ("{\"a\":", false), "{i}");
        }
    }
    // What has no length ends by closing; a reset still shows.
    let open = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nabc";
    let answer = answer(CHAT, Reply::raw(open).reset()).await;
    assert!(!answer.is_complete, "{answer:?}");
}

fn frames(answer: &Answer) -> Vec<Frame> {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    decoder.feed(&answer.body, &mut frames).unwrap();
    assert!(decoder.is_between_frames(), "{answer:?}");
    frames
}

#[tokio::test]
async fn a_native_stream_ends_cleanly_after_an_exception_frame() {
    for passed in [&content("one"), "data: {\"cho"] {
        for (how, reply) in breaks(&Reply::chunked(EVENT_STREAM).chunk(passed)) {
            let answer = answer(&invocations_stream("default"), reply).await;
            assert!(answer.is_complete, "{how}");
            let mut frames = frames(&answer);
            let last = frames.pop().unwrap();
            assert_eq!(last.header(":message-type"), Some("exception"), "{how}");
            assert_eq!(last.header(":exception-type"), Some("ModelStreamError"), "{how}");
            let body: Value = serde_json::from_slice(&last.payload).unwrap();
            assert_eq!(body["ErrorCode"], "StreamBroken", "{how}");
            assert!(body["Message"].as_str().unwrap().contains("r0"), "{how}: {body}");
            let parts: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.to_vec()).collect();
            assert_eq!(parts, passed.as_bytes(), "{how}");
        }
    }
}

#[tokio::test]
async fn a_native_answer_in_one_piece_is_cut_off() {
    let begun = Reply::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 50\r\n\r\n{");
    let answer = answer("/endpoints/default/invocations", begun.close()).await;
    assert_eq!((answer.text(), answer.is_complete), ("{", false));
}
