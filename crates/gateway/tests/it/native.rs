//! SageMaker's runtime API: paths, headers, placement by name, and the framing of streams.

use http::Method;
use kvroute_wire::eventstream::Decoder;

use crate::support::{
    Answer, Call, DONE, EVENT_STREAM, Gate, Gateway, Reply, Upstream, chat, completion, content, invocations,
    invocations_stream, post, post_with, request, usage,
};

/// An endpoint `e` whose only replica speaks this API.
async fn before(upstream: &Upstream, api: &str) -> Gateway {
    let url = upstream.url();
    Gateway::start(&format!("endpoints: [{{name: e, replicas: [{{id: r0, url: {url}, api: {api}}}]}}]")).await
}

#[tokio::test]
async fn a_body_goes_to_the_path_that_its_shape_names_or_to_the_containers_own() {
    let other = r#"{"inputs":"x"}"#.to_owned();
    for (api, body, expected) in [
        ("openai", chat("hi"), Some("/v1/chat/completions")),
        ("openai", completion("hi"), Some("/v1/completions")),
        ("openai", r#"{"input":["a","b"]}"#.to_owned(), Some("/v1/embeddings")),
        ("openai", r#"{"input":"a","max_output_tokens":9}"#.to_owned(), Some("/v1/responses")),
        ("openai", other.clone(), None),
        ("sagemaker", chat("hi"), Some("/invocations")),
        ("sagemaker", completion("hi"), Some("/invocations")),
        ("sagemaker", r#"{"input":"a"}"#.to_owned(), Some("/invocations")),
        ("sagemaker", other, Some("/invocations")),
        ("sagemaker", "not json".to_owned(), Some("/invocations")),
    ] {
        let upstream = Upstream::ok().await;
        let gateway = before(&upstream, api).await;
        for path in [invocations("e"), invocations_stream("e")] {
            let answer = post(gateway.address(), &path, body.clone()).await;
            match expected {
                Some(path) => {
                    let arrived = upstream.requests().pop().unwrap();
                    assert_eq!((arrived.method(), arrived.target()), ("POST", path), "{api} {body}");
                    assert_eq!(arrived.body, body);
                }
                None => {
                    assert_eq!((answer.status.as_u16(), upstream.count()), (400, 0), "{api} {body}");
                    assert!(answer.json()["Message"].as_str().unwrap().contains("api: sagemaker"));
                }
            }
        }
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn a_container_gets_the_headers_that_sagemaker_passes_on() {
    let upstream = Upstream::ok().await;
    let gateway = before(&upstream, "sagemaker").await;
    let sent = [
        ("x-amzn-sagemaker-custom-attributes", "a=b, c"),
        ("x-amzn-sagemaker-inference-id", "id 1"),
        ("x-amzn-sagemaker-target-model", "m.tar.gz"),
        ("x-request-id", "r-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ];
    let own = [
        ("authorization", "AWS4-HMAC-SHA256 Credential=of-the-client"),
        ("x-amz-date", "20260101T000000Z"),
        ("x-amz-security-token", "of-the-client"),
        ("x-amzn-sagemaker-session-id", "s-1"),
        ("x-amzn-sagemaker-prefix-aware-id", "tenant"),
        ("x-amzn-sagemaker-target-variant", "main"),
        ("x-other", "1"),
    ];
    let headers = [&sent[..], &own, &[("accept", "text/plain")]].concat();
    post_with(gateway.address(), &invocations("e"), &headers, chat("hi")).await;
    let arrived = upstream.request();
    for (name, value) in sent {
        assert_eq!(arrived.header(name), Some(value), "{name}");
    }
    for (name, _) in own {
        assert_eq!(arrived.header(name), None, "{name}");
    }
    assert_eq!(
        (arrived.header("accept"), arrived.header("content-type")),
        (Some("text/plain"), Some("application/json"))
    );

    let headers = [("accept", "*/*"), ("x-amzn-sagemaker-accept", EVENT_STREAM), ("content-type", "text/csv")];
    post_with(gateway.address(), &invocations_stream("e"), &headers, chat("hi")).await;
    let arrived = upstream.requests().pop().unwrap();
    assert_eq!((arrived.header("accept"), arrived.header("content-type")), (Some(EVENT_STREAM), Some("text/csv")));
}

#[tokio::test]
async fn a_client_gets_of_a_containers_headers_what_sagemaker_passes_on() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-amzn-sagemaker-custom-attributes: echo=1\r\n\
                x-request-id: r-1\r\nserver: engine\r\nx-other: 1\r\ncontent-length: 2\r\n\r\n{}";
    let upstream = Upstream::always(Reply::raw(head)).await;
    let gateway = before(&upstream, "openai").await;
    for (path, content_type, inner, length) in [
        (invocations("e"), "application/json", None, Some("2")),
        (invocations_stream("e"), "application/vnd.amazon.eventstream", Some("application/json"), None),
    ] {
        let answer = post(gateway.address(), &path, chat("hi")).await;
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("x-amzn-sagemaker-content-type"), inner);
        assert_eq!(answer.header("content-length"), length);
        assert_eq!(answer.header("x-amzn-sagemaker-custom-attributes"), Some("echo=1"));
        assert_eq!(answer.header("x-amzn-invoked-production-variant"), Some("main"));
        assert_eq!(answer.header("x-request-id"), Some("r-1"));
        assert_eq!((answer.header("server"), answer.header("x-other")), (None, None));
        assert_eq!((answer.replica(), answer.decision()), ("r0", "only_candidate"));
    }
}

/// The payloads of a stream, joined; all of its frames must be parts.
fn joined(answer: &Answer) -> String {
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    decoder.feed(&answer.body, &mut frames).unwrap();
    assert!(decoder.is_between_frames() && answer.is_complete, "{answer:?}");
    assert!(frames.iter().all(|frame| frame.header(":event-type") == Some("PayloadPart")), "{frames:?}");
    String::from_utf8(frames.iter().flat_map(|frame| frame.payload.to_vec()).collect()).unwrap()
}

#[tokio::test]
async fn the_frames_of_a_response_stream_joined_are_the_replicas_bytes() {
    let events = [content("one"), content("two"), usage(30, 10), DONE.to_owned()].concat();
    for (reply, expected) in [
        (Reply::chunked(EVENT_STREAM).byte_by_byte(&events).end(), &*events),
        (Reply::chunked(EVENT_STREAM).chunk(&events).end(), &events),
        (Reply::json(200, "{\"a\":1}"), "{\"a\":1}"),
        (Reply::json(200, ""), ""),
    ] {
        let upstream = Upstream::always(reply).await;
        let gateway = before(&upstream, "openai").await;
        let answer = post(gateway.address(), &invocations_stream("e"), chat("hi")).await;
        assert_eq!(joined(&answer), expected);
        gateway.has_ended("ok", 1).await;
        gateway.is_at_rest().await;
        let reported = gateway.metrics().await.sum("kvroute_prompt_tokens_total", &["usage=\"reported\""]);
        assert_eq!(reported > 0.0, expected == events, "usage is read inside the frames");
    }
}

/// S80
#[tokio::test]
async fn each_part_of_a_stream_of_events_is_one_event_however_it_came() {
    let events = [content("one \u{20ac}"), content("two"), usage(30, 10), DONE.to_owned()];
    let stream = events.concat();
    let middle = stream.find('\u{20ac}').unwrap() + 1;
    let (begin, end) = (&stream.as_bytes()[..middle], &stream.as_bytes()[middle..]);
    let unfinished = "data: {\"unfinished";
    for (reply, last) in [
        (Reply::chunked(EVENT_STREAM).byte_by_byte(&stream).end(), None),
        (Reply::chunked(EVENT_STREAM).chunk(&stream).end(), None),
        (Reply::chunked(EVENT_STREAM).chunk(begin).chunk(end).end(), None),
        (Reply::chunked(EVENT_STREAM).chunk(&stream).chunk(unfinished).end(), Some(unfinished)),
    ] {
        let upstream = Upstream::always(reply).await;
        let gateway = before(&upstream, "openai").await;
        let answer = post(gateway.address(), &invocations_stream("e"), chat("hi")).await;
        let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
        decoder.feed(&answer.body, &mut frames).unwrap();
        let parts: Vec<_> = frames.iter().map(|frame| std::str::from_utf8(&frame.payload).unwrap()).collect();
        let expected: Vec<_> = events.iter().map(String::as_str).chain(last).collect();
        assert_eq!(parts, expected);
        gateway.is_at_rest().await;
    }
}

#[tokio::test]
async fn a_part_arrives_before_the_next_is_sent() {
    let gate = Gate::new();
    let reply = Reply::chunked(EVENT_STREAM).chunk(content("one")).wait(&gate).chunk(DONE).end();
    let upstream = Upstream::always(reply).await;
    let gateway = before(&upstream, "openai").await;
    let sent = request(Method::POST, &invocations_stream("e"), &[], chat("hi"));
    let mut stream = Call::start(gateway.address(), sent).await.streaming().await;
    let (mut decoder, mut frames) = (Decoder::new(), Vec::new());
    while frames.is_empty() {
        decoder.feed(&stream.piece().await.unwrap().unwrap(), &mut frames).unwrap();
    }
    assert_eq!(frames[0].payload, content("one"));
    gate.open();
    assert!(stream.rest().await.is_complete);
}
