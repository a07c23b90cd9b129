//! What clients may do on an HTTP/1.1 connection, and what they may not.

use std::time::Duration;

use crate::support::{
    DONE, EVENT_STREAM, Gate, Gateway, Head, Reply, Upstream, Wire, chat, content, get, replicas, soon, until,
};

const CHAT: &str = "/v1/chat/completions";
const LIVEZ: &str = "GET /livez HTTP/1.1\r\nhost: g\r\n\r\n";

/// A chat request with these headers in front of its length.
fn ask(version: &str, headers: &str) -> String {
    let body = chat("hi");
    format!("POST {CHAT} HTTP/{version}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len())
}

/// The next answer, whole.
async fn answer(client: &mut Wire) -> (Head, String) {
    let head = soon(client.head()).await.unwrap().expect("there is an answer");
    let body = soon(client.body(&head)).await.unwrap();
    (head, String::from_utf8(body.to_vec()).unwrap())
}

async fn is_closed(client: &mut Wire) -> bool {
    soon(client.rest()).await.unwrap_or_default().is_empty()
}

#[tokio::test]
async fn a_head_may_come_in_any_pieces() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    let sent = ask("1.1", "host: g\r\nx-a: 1\r\n");
    for cut in (1..sent.len()).step_by(7) {
        client.write(&sent[..cut]).await.unwrap();
        tokio::task::yield_now().await;
        client.write(&sent[cut..]).await.unwrap();
        assert_eq!(answer(&mut client).await.0.line, "HTTP/1.1 200 OK", "cut at {cut}");
    }
    for byte in sent.bytes() {
        client.write([byte]).await.unwrap();
    }
    assert_eq!(answer(&mut client).await.0.line, "HTTP/1.1 200 OK");
    assert!(upstream.requests().iter().all(|arrived| arrived.body == chat("hi") && arrived.header("x-a") == Some("1")));
}

#[tokio::test]
async fn a_connection_stays_open_or_not_as_the_client_says() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    for (version, headers, said, is_kept) in [
        ("1.1", "host: g\r\n", None, true),
        ("1.1", "host: g\r\nconnection: x, Close\r\n", Some("close"), false),
        ("1.0", "", Some("close"), false),
        ("1.0", "connection: Keep-Alive\r\n", Some("keep-alive"), true),
    ] {
        let mut client = Wire::connect(gateway.address()).await;
        client.write(ask(version, headers)).await.unwrap();
        let (head, body) = answer(&mut client).await;
        assert_eq!((&*head.line, head.header("connection")), ("HTTP/1.1 200 OK", said), "{version} {headers}");
        assert_eq!(body, r#"{"ok":true}"#);
        match is_kept {
            true => {
                client.write(ask(version, headers)).await.unwrap();
                assert_eq!(answer(&mut client).await.0.line, "HTTP/1.1 200 OK");
            }
            false => assert_eq!(soon(client.rest()).await.unwrap(), b"", "{version} {headers}"),
        }
    }
}

/// It knows no chunks, so the end of the connection is the end of the answer, and must not be where it broke off.
#[tokio::test]
async fn a_client_of_http_1_0_gets_a_stream_that_ends_with_its_connection() {
    let stream = Reply::chunked(EVENT_STREAM).chunk(content("one"));
    for (reply, is_whole) in [(stream.clone().chunk(DONE).end(), true), (stream.chunk("data: {").close(), false)] {
        let upstream = Upstream::always(reply).await;
        let gateway = Gateway::before(&[&upstream]).await;
        let mut client = Wire::connect(gateway.address()).await;
        client.write(ask("1.0", "connection: keep-alive\r\n")).await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!((head.header("transfer-encoding"), head.header("content-length")), (None, None));
        assert_eq!(head.header("connection"), Some("close"));
        match (soon(client.rest()).await, is_whole) {
            (Ok(body), true) => assert_eq!(String::from_utf8(body).unwrap(), [&*content("one"), DONE].concat()),
            (Err(error), false) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
            (got, _) => panic!("{got:?}"),
        }
    }
}

#[tokio::test]
async fn an_answer_to_head_has_a_length_and_no_body_and_the_connection_goes_on() {
    let raw = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 42\r\n\r\n";
    let upstream = Upstream::always(Reply::raw(raw)).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    for (path, length) in [("/livez", "3"), ("/v1/files/m", "42"), ("/livez", "3")] {
        client.write(format!("HEAD {path} HTTP/1.1\r\nhost: g\r\n\r\n")).await.unwrap();
        let head = soon(client.head()).await.unwrap().unwrap();
        assert_eq!((&*head.line, head.header("content-length")), ("HTTP/1.1 200 OK", Some(length)), "{path}");
    }
    client.write(LIVEZ).await.unwrap();
    assert_eq!(answer(&mut client).await.1, "ok\n");
}

#[tokio::test]
async fn every_answer_is_dated() {
    let upstream = Upstream::always(Reply::raw("HTTP/1.1 200 OK\r\ndate: then\r\ncontent-length: 0\r\n\r\n")).await;
    let gateway = Gateway::before(&[&upstream]).await;
    assert_eq!(gateway.chat("hi").await.header("date"), Some("then"), "a replica's date stays");
    let date = get(gateway.address(), "/livez").await.header("date").unwrap().to_owned();
    assert!(httpdate::parse_http_date(&date).is_ok(), "{date}");
}

/// The next request waits while one is answered, and is no reason to stop that.
#[tokio::test]
async fn what_is_sent_while_a_request_is_answered_waits_its_turn() {
    let gate = Gate::new();
    let upstream = Upstream::always(Reply::default().wait(&gate).and(Reply::json(200, "{}"))).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(ask("1.1", "host: g\r\n")).await.unwrap();
    upstream.has_got(1).await;
    let second = ask("1.1", "host: g\r\n");
    client.write(&second[..20]).await.unwrap();
    assert_eq!(get(gateway.address(), "/livez").await.status, 200);
    client.write(&second[20..]).await.unwrap();
    client.write(LIVEZ).await.unwrap();
    assert_eq!((upstream.count(), gateway.in_flight("r0").await), (1, 1));
    gate.open();
    for expected in ["{}", "{}", "ok\n"] {
        assert_eq!(answer(&mut client).await.1, expected);
    }
}

#[tokio::test]
async fn a_client_that_never_stops_asking_is_held_up_while_one_is_answered() {
    let upstream = Upstream::always(Reply::default().never()).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(ask("1.1", "host: g\r\n")).await.unwrap();
    upstream.has_got(1).await;
    let many = LIVEZ.repeat(10_000);
    // What the kernel holds is written; the gateway takes one read of it.
    let sent = async { while client.write(&many).await.is_ok() {} };
    assert!(tokio::time::timeout(Duration::from_millis(300), sent).await.is_err());
    assert_eq!(gateway.in_flight("r0").await, 1);
    drop(client);
}

/// S09, RFC 9112, 11.2: whatever follows such a head must never be taken for a request.
#[tokio::test]
async fn what_is_no_request_is_answered_with_what_is_wrong_and_nothing_after_it_is_read() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("limits: {{header_bytes_max: 8192}}\n{}", replicas(&[&upstream]))).await;
    let many = "x: y\r\n".repeat(101);
    let (long, large) = ("p".repeat(9_000), format!("x: {}\r\n", "y".repeat(9_000)));
    for (line, headers, status) in [
        (&*format!("POST {CHAT} HTTP/1.1"), "host: g\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\ncontent-length: 2\r\ncontent-length: 3\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\ncontent-length : 2\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\nx: y\r\n folded\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\nx: a\rb\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\nx: a\0b\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: g\r\ntransfer-encoding: gzip, chunked\r\n", 501),
        (&format!("POST {CHAT} HTTP/1.0"), "transfer-encoding: chunked\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "content-length: 2\r\n", 400),
        (&format!("POST {CHAT} HTTP/1.1"), "host: a\r\nhost: b\r\n", 400),
        (&format!("POST {CHAT} HTTP/3.0"), "host: g\r\n", 505),
        (&format!("POST /v1/{long} HTTP/1.1"), "host: g\r\n", 414),
        (&format!("POST {CHAT} HTTP/1.1"), &format!("host: g\r\n{large}"), 431),
        (&format!("POST {CHAT} HTTP/1.1"), &format!("host: g\r\n{many}"), 431),
        ("\u{16}\u{3}\u{1} hello", "", 400),
    ] {
        let mut client = Wire::connect(gateway.address()).await;
        let next = ask("1.1", "host: g\r\n");
        client.write(format!("{line}\r\n{headers}\r\n2\r\n[]\r\n0\r\n\r\n{next}")).await.unwrap();
        let (head, told) = answer(&mut client).await;
        let shown = &headers[..headers.len().min(60)];
        assert_eq!(head.line.split(' ').nth(1), Some(&*status.to_string()), "{line:.40} {shown:?}: {told}");
        assert_eq!(head.header("connection"), Some("close"));
        assert!(told.ends_with('\n') && told.len() > 10, "{told:?}");
        assert!(is_closed(&mut client).await, "{shown:?}");
    }
    assert_eq!(upstream.count(), 0);
    assert_eq!(gateway.chat("hi").await.status, 200);
}

#[tokio::test]
async fn a_body_whose_chunks_are_none_or_that_is_cut_short_reaches_no_replica() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let head = format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\ntransfer-encoding: chunked\r\n\r\n");
    for chunks in ["x\r\n", "-2\r\n[]\r\n", "2\n[]\n0\n\n", "2\r\n[] \r\n0\r\n\r\n", "fffffffffffffffff\r\n[]"] {
        let mut client = Wire::connect(gateway.address()).await;
        client.write(format!("{head}{chunks}{LIVEZ}")).await.unwrap();
        let (head, told) = answer(&mut client).await;
        assert_eq!((&*head.line, head.header("connection")), ("HTTP/1.1 400 Bad Request", Some("close")), "{chunks:?}");
        assert!(told.contains("cannot be read"), "{told}");
        assert!(is_closed(&mut client).await, "{chunks:?}");
    }
    for half in ["5\r\n[\r\n", "2\r\n[]\r\n", "2\r\n[]\r\n0\r\n"] {
        let mut client = Wire::connect(gateway.address()).await;
        client.write(format!("{head}{half}")).await.unwrap();
        drop(client);
    }
    gateway.is_at_rest().await;
    until("all have left", async || gateway.metrics().await.sum("kvroute_client_connections", &[]) == 0.0).await;
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn a_body_that_nobody_reads_is_no_request() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    for address in [gateway.address(), gateway.admin_address()] {
        let mut client = Wire::connect(address).await;
        let body = LIVEZ.repeat(3_000);
        let length = format!("content-length: {}\r\n\r\n{body}", body.len());
        let chunked = format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        for framed in [&length, &chunked] {
            let sent = format!("GET /livez HTTP/1.1\r\nhost: g\r\n{framed}");
            for piece in sent.as_bytes().chunks(50_000) {
                soon(client.write(piece)).await.unwrap();
            }
            assert_eq!(answer(&mut client).await.1, "ok\n");
        }
        client.write("HEAD /readyz HTTP/1.1\r\nhost: g\r\nconnection: close\r\n\r\n").await.unwrap();
        assert_eq!(soon(client.head()).await.unwrap().unwrap().header("connection"), Some("close"));
        assert!(is_closed(&mut client).await, "nothing of the bodies was answered");
    }
}

/// A client that is not told to go on may send its body or not, so nobody knows what its next bytes are.
#[tokio::test]
async fn who_is_answered_in_place_of_100_continue_is_closed_upon() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::before(&[&upstream]).await;
    let head = "POST /nowhere HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n";
    for next in ["", "{}", LIVEZ] {
        let mut client = Wire::connect(gateway.address()).await;
        client.write(format!("{head}{next}")).await.unwrap();
        let (head, _) = answer(&mut client).await;
        assert_eq!((&*head.line, head.header("connection")), ("HTTP/1.1 404 Not Found", Some("close")));
        assert!(is_closed(&mut client).await, "{next:?}");
    }
    let body = chat("hi");
    let head =
        format!("POST {CHAT} HTTP/1.1\r\nhost: g\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut client = Wire::connect(gateway.address()).await;
    client.write(format!("{head}{body}")).await.unwrap();
    assert_eq!(answer(&mut client).await.0.line, "HTTP/1.1 200 OK", "who has not waited need not be told");
}

#[tokio::test]
async fn a_head_that_comes_slower_than_it_may_ends_the_connection_however_long_that_was_idle() {
    let upstream = Upstream::ok().await;
    let gateway = Gateway::start(&format!("timeouts: {{client_idle_ms: 400}}\n{}", replicas(&[&upstream]))).await;
    let mut client = Wire::connect(gateway.address()).await;
    client.write(LIVEZ).await.unwrap();
    answer(&mut client).await;
    // A head has all of the time, whenever it begins.
    tokio::time::sleep(Duration::from_millis(250)).await;
    client.write(&LIVEZ[..10]).await.unwrap();
    tokio::time::sleep(Duration::from_millis(250)).await;
    client.write(&LIVEZ[10..]).await.unwrap();
    assert_eq!(answer(&mut client).await.1, "ok\n");
    let begun = std::time::Instant::now();
    let dripped = async {
        for byte in ask("1.1", "host: g\r\n").bytes() {
            if client.write([byte]).await.is_err() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    soon(dripped).await;
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    let mut client = Wire::connect(gateway.address()).await;
    let begun = std::time::Instant::now();
    soon(async {
        while client.write("\r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(begun.elapsed() < Duration::from_secs(2), "empty lines are no requests: {:?}", begun.elapsed());
    assert_eq!(upstream.count(), 0);
}

#[tokio::test]
async fn while_draining_a_request_that_has_begun_is_served_and_is_the_last() {
    let gate = Gate::new();
    let upstream = Upstream::always(Reply::default().wait(&gate).and(Reply::json(200, "{}"))).await;
    let gateway = Gateway::before(&[&upstream]).await;
    let (mut waiting, mut half) = (Wire::connect(gateway.address()).await, Wire::connect(gateway.address()).await);
    let sent = ask("1.1", "host: g\r\n");
    waiting.write(&sent).await.unwrap();
    upstream.has_got(1).await;
    half.write(&sent[..20]).await.unwrap();
    until("it is read", async || gateway.metrics().await.sum("kvroute_client_connections", &[]) == 2.0).await;
    get(gateway.address(), "/livez").await;
    let address = gateway.address();
    let drained = tokio::spawn(gateway.drain());
    until("connections are refused", async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    half.write(&sent[20..]).await.unwrap();
    upstream.has_got(2).await;
    gate.open();
    for client in [&mut waiting, &mut half] {
        let (head, _) = answer(client).await;
        assert_eq!((&*head.line, head.header("connection")), ("HTTP/1.1 200 OK", Some("close")));
        assert_eq!(soon(client.rest()).await.unwrap(), b"");
    }
    assert!(soon(drained).await.unwrap());
}
