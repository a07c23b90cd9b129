//! The less usual ways in which bodies end: with trailers, or with the connection alone.

use http::Method;
use kvroute_wire::eventstream::Decoder;

use crate::support::{
    Call, DONE, EVENT_STREAM, Gateway, Reply, Upstream, Wire, chat, content, invocations_stream, post, request, soon,
    streamed_chat,
};

const CHAT: &str = "/v1/chat/completions";

#[tokio::test]
async fn an_answer_with_trailers_is_complete_and_frees_its_place() {
    let events = [content("one"), DONE.to_owned()].concat();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n"
    );
    let upstream = Upstream::always(Reply::raw(head).chunk(&events).send("0\r\nx-sum: 1\r\n\r\n")).await;
    let gateway = Gateway::before(&[&upstream]).await;
    for headers in [&[][..], &[("te", "trailers")]] {
        let sent = request(Method::POST, CHAT, headers, streamed_chat("hi"));
        let answer = Call::start(gateway.address(), sent).await.answer().await;
        assert!(answer.is_complete && answer.text() == events, "{answer:?}");
    }
    let native = post(gateway.address(), &invocations_stream("default"), streamed_chat("hi")).await;
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    decoder.feed(&native.body, &mut frames).unwrap();
    let joined: Vec<u8> = frames.iter().flat_map(|frame| frame.payload.to_vec()).collect();
    assert!(native.is_complete && decoder.is_between_frames() && joined == events.as_bytes(), "{native:?}");
    gateway.has_ended("ok", 3).await;
    gateway.is_at_rest().await;
}

/// S09: chunks with extensions, and fields after the last of them.
#[tokio::test]
async fn a_request_in_chunks_with_extensions_and_trailers_arrives_whole_in_one_framing() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    let body = chat("hi");
    let (first, second) = body.split_at(10);
    for _ in 0..2 {
        client
            .write(format!(
                "POST {CHAT} HTTP/1.1\r\nhost: g\r\ntrailer: x-sum\r\ntransfer-encoding: chunked\r\n\r\n\
                 {:x};name=value\r\n{first}\r\n{:X};a;b=\"c\"\r\n{second}\r\n0;last\r\nx-sum: 1\r\n\r\n",
                first.len(),
                second.len()
            ))
            .await
            .unwrap();
        let head = soon(client.head()).await.unwrap().expect("the connection goes on");
        assert_eq!(head.line, "HTTP/1.1 200 OK");
        soon(client.body(&head)).await.unwrap();
        let arrived = upstream.requests().pop().unwrap();
        assert_eq!(arrived.body, body);
        assert_eq!((arrived.header("transfer-encoding"), arrived.header("x-sum")), (None, None));
    }
}

/// S09: what says its length in two ways may mean different things to two servers, and what follows it may be taken for a
/// request by one of them.
#[tokio::test]
async fn a_request_with_two_framings_is_refused_and_is_the_last_on_its_connection() {
    let next = "POST /v1/completions HTTP/1.1\r\nhost: g\r\ncontent-length: 2\r\n\r\n{}";
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    for framing in [
        "content-length: 60\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 60",
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: xchunked",
    ] {
        let mut client = Wire::connect(gateway.address()).await;
        let sent = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\n{framing}\r\n\r\n2\r\n[]\r\n0\r\n\r\n{next}");
        client.write(sent).await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!(head.line, "HTTP/1.1 400 Bad Request", "{framing}");
        soon(client.body(&head)).await.unwrap();
        assert_eq!(soon(client.rest()).await.unwrap_or_default(), b"", "{framing}: it is closed");
    }
    assert_eq!(upstream.count(), 0);
}

/// The end of a connection is the end of such an answer, and the end of a replica too; an event stream has a mark.
#[tokio::test]
async fn a_stream_that_ends_with_its_connection_is_complete_only_with_its_end_mark() {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {EVENT_STREAM}\r\n\r\n");
    let one = content("one");
    for (passed, is_whole) in [
        (format!("{one}{DONE}"), true),
        (one.clone(), false),
        (format!("{one}data: {{\"cho"), false),
        (String::new(), false),
    ] {
        let upstream = Upstream::always(Reply::raw(head.clone()).send(passed.clone()).close()).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let answer = gateway.stream("hi").await.rest().await;
        assert_eq!(answer.is_complete, is_whole, "{passed:?}: {answer:?}");
        let told = answer.text().strip_prefix(&*passed).unwrap();
        assert_eq!(told.contains("stream_broken"), !is_whole && !passed.ends_with("cho"), "{passed:?}: {told}");
        gateway.has_ended(if is_whole { "ok" } else { "broken_off" }, 1).await;
        gateway.is_at_rest().await;
    }
}

/// Not every engine sends the mark. Where the framing says that the stream is whole, nothing is missing.
#[tokio::test]
async fn a_stream_in_chunks_is_complete_without_an_end_mark() {
    let upstream = Upstream::always(Reply::stream([&*content("one")])).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let answer = gateway.stream("hi").await.rest().await;
    assert!(answer.is_complete && answer.text() == content("one"), "{answer:?}");
    gateway.has_ended("ok", 1).await;
}
