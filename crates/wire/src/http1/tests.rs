use bytes::BytesMut;
use http::header::{HeaderMap, HeaderValue};
use http::{Method, StatusCode, Version};
use proptest::prelude::*;

use super::*;

const HEAD_MAX: usize = 8 << 10;

/// A head that was read: what it says, how its body ends, and what was not taken.
type Read = (String, String, bool, bool, usize);

/// What comes of these pieces; `None` where more would have to come.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<Read>, BadRequest> {
    let (mut reader, mut buffer) = (RequestReader::new(HEAD_MAX), BytesMut::new());
    let mut pieces = pieces.into_iter();
    while let Some(piece) = pieces.next() {
        buffer.extend_from_slice(piece);
        if let Some(head) = reader.next(&mut buffer, &mut HeaderMap::new())? {
            let framing = format!("{:?}", head.framing);
            let left = buffer.len() + pieces.map(<[u8]>::len).sum::<usize>();
            return Ok(Some((format!("{:?}", head.request), framing, head.keeps_alive, head.expects_continue, left)));
        }
    }
    Ok(None)
}

fn status(head: &str) -> Option<u16> {
    read([head.as_bytes()]).err().map(|refused| refused.status.as_u16())
}

#[test]
fn a_head_is_the_same_in_every_cut_and_one_byte_at_a_time() {
    let head = b"\r\nPOST /v1/x?y=%20 HTTP/1.1\r\nHost: g\r\nExpect: 100-Continue\r\nX-A:  one \r\nx-a:two\r\n\
                 Content-Length: 5\r\nConnection: keep-alive, CLOSE\r\n\r\nhello";
    let whole = read([&head[..]]).unwrap().unwrap();
    assert_eq!((&*whole.1, whole.2, whole.3, whole.4), ("Known(5)", false, true, 5));
    for first in 0..=head.len() {
        for second in first..=head.len() {
            let pieces = [&head[..first], &head[first..second], &head[second..]];
            assert_eq!(read(pieces).unwrap().as_ref(), Some(&whole), "cut at {first} and {second}");
        }
    }
    assert_eq!(read(head.chunks(1)).unwrap(), Some(whole));
}

#[test]
fn a_head_without_its_end_is_waited_for_up_to_its_limit() {
    for head in ["", "\r\n\r\n\r", "GET", "GET / HTTP/1.1\r\nhost: g\r\n", "GET / HTTP/1.1\r\nhost: g\r\n\r"] {
        assert_eq!(read([head.as_bytes()]), Ok(None), "{head:?}");
    }
    let filled = |bytes: usize| {
        let head = "GET / HTTP/1.1\r\nhost: g\r\nx: ";
        format!("{head}{}\r\n\r\n", "y".repeat(bytes - head.len() - 4))
    };
    for pieces in [usize::MAX, 1, 1_000] {
        let status = |head: &str| read(head.as_bytes().chunks(pieces)).map_err(|refused| refused.status.as_u16());
        assert!(status(&filled(HEAD_MAX)).unwrap().is_some());
        assert_eq!(status(&filled(HEAD_MAX + 1)), Err(431));
        assert_eq!(status(&filled(HEAD_MAX * 2)[..HEAD_MAX * 2 - 9]), Err(431), "its end has not come");
        assert_eq!(status(&format!("GET /{}", "x".repeat(HEAD_MAX))), Err(414));
    }
    let many = |count| format!("GET / HTTP/1.1\r\nhost: g\r\n{}\r\n", "x: y\r\n".repeat(count));
    assert_eq!((status(&many(HEADERS_MAX - 1)), status(&many(HEADERS_MAX))), (None, Some(431)));
    let mut reader = RequestReader::new(1 << 20);
    let mut long = BytesMut::from(&*format!("GET /{} HTTP/1.1\r\nhost: g\r\n\r\n", "x".repeat(65_534)));
    assert_eq!(reader.next(&mut long, &mut HeaderMap::new()).unwrap_err().status, StatusCode::URI_TOO_LONG);
}

/// S09, and RFC 9112, 11.2: what another server could take for two requests is none here.
#[test]
fn what_could_be_framed_in_two_ways_is_refused() {
    for (fields, expected) in [
        ("content-length: 5\r\ncontent-length: 6", 400),
        ("content-length: 5, 6", 400),
        ("content-length: 5, 5", 400),
        ("content-length: +5", 400),
        ("content-length: -5", 400),
        ("content-length: 0x5", 400),
        ("content-length: 5 5", 400),
        ("content-length:", 400),
        ("content-length: 99999999999999999999", 400),
        ("content-length: 5\r\ntransfer-encoding: chunked", 400),
        ("transfer-encoding: chunked\r\ncontent-length: 5", 400),
        ("transfer-encoding: chunked\r\ncontent-length: x", 400),
        ("transfer-encoding: identity\r\ncontent-length: 5", 400),
        ("transfer-encoding: chunked, identity", 400),
        ("transfer-encoding: chunked\r\ntransfer-encoding: identity", 400),
        ("transfer-encoding: chunked, chunked", 400),
        ("transfer-encoding: chunked,", 400),
        ("transfer-encoding: ,chunked", 400),
        ("transfer-encoding: xchunked", 400),
        ("transfer-encoding: \"chunked\"", 400),
        ("transfer-encoding:", 400),
        ("transfer-encoding: gzip, chunked", 501),
        ("transfer-encoding: gzip\r\ntransfer-encoding: chunked", 501),
        ("transfer-encoding : chunked", 400),
        (" transfer-encoding: chunked", 400),
        ("x: y\r\n transfer-encoding: chunked", 400),
        ("x: y\r\n\tfolded", 400),
        ("x: y\rtransfer-encoding: chunked", 400),
        ("x: y\0", 400),
        ("x\0: y", 400),
        ("x: y\x0bz", 400),
        ("no colon", 400),
        (": no name", 400),
        ("x y: z", 400),
        ("host: other", 400),
    ] {
        assert_eq!(status(&format!("POST / HTTP/1.1\r\nhost: g\r\n{fields}\r\n\r\n")), Some(expected), "{fields:?}");
    }
    for (line, expected) in [
        ("GET / HTTP/1.1\r\n", 400), // without a host
        ("GET / HTTP/1.0\r\ntransfer-encoding: chunked\r\n", 400),
        ("GET / HTTP/2.0\r\nhost: g\r\n", 505),
        ("GET / HTTP/1.2\r\nhost: g\r\n", 505),
        ("GET / HTTP/0.9\r\nhost: g\r\n", 505),
        ("GET / http/1.1\r\nhost: g\r\n", 400),
        ("GET /\r\nhost: g\r\n", 400),
        ("GET  / HTTP/1.1\r\nhost: g\r\n", 400),
        ("GET /a b HTTP/1.1\r\nhost: g\r\n", 400),
        ("GET /\x01 HTTP/1.1\r\nhost: g\r\n", 400),
        ("G\x01T / HTTP/1.1\r\nhost: g\r\n", 400),
        ("\x16\x03\x01\x02\x00\x01\x00\x01\r\n", 400), // TLS
    ] {
        assert_eq!(status(&format!("{line}\r\n")), Some(expected), "{line:?}");
    }
}

#[test]
fn what_is_framed_in_one_way_is_taken() {
    for (line, fields, framing, keeps_alive, expects) in [
        ("GET / HTTP/1.1", "host: g", "Done", true, false),
        ("GET http://g/x HTTP/1.1", "host: g\r\nconnection: close", "Done", false, false),
        ("OPTIONS * HTTP/1.1", "host: g\r\nconnection: Keep-Alive", "Done", true, false),
        ("GET / HTTP/1.0", "x: y", "Done", false, false),
        ("GET / HTTP/1.0", "connection: x, Keep-Alive", "Done", true, false),
        ("GET / HTTP/1.0", "connection: keep-alive\r\nconnection: close", "Done", false, false),
        ("POST / HTTP/1.0", "expect: 100-continue\r\ncontent-length: 2", "Known(2)", false, false),
        ("POST / HTTP/1.1", "host: g\r\nexpect: 100-continue\r\ncontent-length: 2", "Known(2)", true, true),
        ("POST / HTTP/1.1", "host: g\r\nexpect: 100-continue\r\ncontent-length: 0", "Done", true, false),
        ("POST / HTTP/1.1", "host: g\r\ncontent-length: 5\r\ncontent-length: 5", "Known(5)", true, false),
        ("POST / HTTP/1.1", "host:\r\ntransfer-encoding:  Chunked ", "Chunked(Size)", true, false),
    ] {
        let read = read([format!("{line}\r\n{fields}\r\n\r\n").as_bytes()]).unwrap().unwrap();
        assert_eq!((&*read.1, read.2, read.3), (framing, keeps_alive, expects), "{line} {fields}");
    }
}

#[test]
fn requests_follow_one_another_in_one_buffer() {
    let (mut reader, mut spare) = (RequestReader::new(HEAD_MAX), HeaderMap::new());
    spare.insert("left-over", HeaderValue::from_static("1"));
    let mut buffer = BytesMut::from("GET /a HTTP/1.1\r\nhost: g\r\nx: 1\r\n\r\n\r\nPUT /b HTTP/1.0\r\n\r\nGET");
    let first = reader.next(&mut buffer, &mut spare).unwrap().unwrap().request;
    assert_eq!((first.method(), first.uri().path(), first.version()), (&Method::GET, "/a", Version::HTTP_11));
    assert_eq!(first.headers().len(), 2);
    let second = reader.next(&mut buffer, &mut spare).unwrap().unwrap().request;
    assert_eq!((second.method(), second.uri().path(), second.version()), (&Method::PUT, "/b", Version::HTTP_10));
    assert!(reader.next(&mut buffer, &mut spare).unwrap().is_none());
    assert_eq!(buffer, "GET");
}

#[test]
fn an_answer_is_written_in_one_form() {
    let date = *b"Sun, 06 Nov 1994 08:49:37 GMT";
    let mut headers = HeaderMap::new();
    for (name, value) in [("x-a", "1"), ("content-length", "7"), ("connection", "x"), ("x-b", "2"), ("x-b", "3")] {
        headers.append(name, HeaderValue::from_static(value));
    }
    let ours = "x-a: 1\r\nx-b: 2\r\nx-b: 3\r\n";
    for (status, body, connection, expected) in [
        (200, AnswerBody::Length(0), Connection::Stays, format!("200 OK\r\n{ours}content-length: 0\r\n")),
        (200, AnswerBody::Length(1234), Connection::Stays, format!("200 OK\r\n{ours}content-length: 1234\r\n")),
        (
            404,
            AnswerBody::Chunked,
            Connection::Closes,
            format!("404 Not Found\r\n{ours}transfer-encoding: chunked\r\nconnection: close\r\n"),
        ),
        (599, AnswerBody::UntilClose, Connection::Closes, format!("599 Status\r\n{ours}connection: close\r\n")),
        (
            304,
            AnswerBody::Absent,
            Connection::StaysInHttp10,
            "304 Not Modified\r\nx-a: 1\r\ncontent-length: 7\r\nx-b: 2\r\nx-b: 3\r\nconnection: keep-alive\r\n".into(),
        ),
        (204, AnswerBody::Absent, Connection::Stays, format!("204 No Content\r\n{ours}")),
    ] {
        let status = StatusCode::from_u16(status).unwrap();
        let mut out = Vec::new();
        write_answer(&mut out, status, &headers, body, connection, || date);
        let expected = format!("HTTP/1.1 {expected}date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n");
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
    headers.insert("date", HeaderValue::from_static("the replica's"));
    write_answer(&mut Vec::new(), StatusCode::OK, &headers, AnswerBody::Chunked, Connection::Stays, || unreachable!());
}

#[test]
fn how_a_body_is_framed_follows_from_what_the_client_can_read() {
    let ok = StatusCode::OK;
    let (old, new) = (Version::HTTP_10, Version::HTTP_11);
    assert_eq!(AnswerBody::of(ok, Some(5), false, old), AnswerBody::Length(5));
    assert_eq!(AnswerBody::of(ok, None, false, new), AnswerBody::Chunked);
    assert_eq!(AnswerBody::of(ok, None, false, old), AnswerBody::UntilClose);
    assert_eq!(AnswerBody::of(ok, Some(5), true, new), AnswerBody::Absent);
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        assert_eq!(AnswerBody::of(status, None, false, new), AnswerBody::Absent);
    }
}

proptest! {
    #[test]
    fn the_size_of_a_chunk_is_read_as_it_was_written(bytes in any::<u32>()) {
        let mut out = Vec::new();
        write_chunk_size(&mut out, bytes as usize);
        prop_assert_eq!(String::from_utf8(out).unwrap(), format!("{bytes:x}\r\n"));
    }

    #[test]
    fn no_bytes_panic_and_cutting_makes_no_difference_to_a_head(
        method in "(GET|POST|G T|)",
        fields in prop::collection::vec("(host|x|content-length|transfer-encoding|connection): ?[ -~\t]{0,12}", 0..6),
        changes in prop::collection::vec((any::<usize>(), any::<u8>()), 0..3),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut head = format!("{method} / HTTP/1.1\r\nhost: g\r\n{}\r\n\r\n", fields.join("\r\n")).into_bytes();
        for (place, byte) in changes {
            let place = place % head.len();
            head[place] = byte;
        }
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut % (head.len() + 1)).chain([0, head.len()]).collect();
        cuts.sort_unstable();
        match (read([&head[..]]), read(cuts.windows(2).map(|pair| &head[pair[0]..pair[1]]))) {
            // What is wrong is looked for when the end comes; here it may never.
            (Err(_), Err(_) | Ok(None)) => {}
            (whole, pieces) => prop_assert_eq!(whole, pieces),
        }
    }
}
