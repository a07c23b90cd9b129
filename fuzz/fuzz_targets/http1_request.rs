//! Requests in HTTP/1.1 do not depend on how they are cut, and what is taken can be framed in one way only.
#![no_main]

use bytes::BytesMut;
use http::HeaderMap;
use kvroute_fuzz::{chunks, split};
use kvroute_wire::http1::{Framing, Part, RequestReader};
use libfuzzer_sys::fuzz_target;

const HEAD_BYTES_MAX: usize = 1 << 10;

#[derive(Debug, Default, PartialEq)]
struct Read {
    heads: Vec<String>,
    bodies: Vec<Vec<u8>>,
    is_broken: bool,
    is_over: bool,
}

fn read(bytes: &[u8], cut: u8) -> Read {
    let (mut reader, mut spare) = (RequestReader::new(HEAD_BYTES_MAX), HeaderMap::new());
    let (mut buffer, mut under_way, mut found) = (BytesMut::new(), None::<(Framing, bool)>, Read::default());
    for piece in chunks(bytes, cut) {
        buffer.extend_from_slice(piece);
        loop {
            let Some((framing, keeps_alive)) = &mut under_way else {
                match reader.next(&mut buffer, &mut spare) {
                    Ok(Some(head)) => {
                        let headers = head.request.headers();
                        assert!(!headers.contains_key("transfer-encoding") || !headers.contains_key("content-length"));
                        assert!(!matches!(head.framing, Framing::Connection));
                        found.heads.push(format!("{:?}", head.request));
                        found.bodies.push(Vec::new());
                        under_way = Some((head.framing, head.keeps_alive));
                        continue;
                    }
                    Ok(None) => break,
                    Err(bad) => {
                        assert!(bad.status.is_client_error() || bad.status.is_server_error());
                        found.is_broken = true;
                        return found;
                    }
                }
            };
            match framing.next(&mut buffer) {
                Ok(Some(Part::Data(piece))) => found.bodies.last_mut().expect("a head").extend_from_slice(&piece),
                Ok(Some(Part::Trailers(_))) => {}
                Ok(None) if framing.is_done() => {
                    found.is_over = !*keeps_alive;
                    if found.is_over {
                        return found;
                    }
                    under_way = None;
                }
                Ok(None) => break,
                Err(_) => {
                    found.is_broken = true;
                    return found;
                }
            }
        }
    }
    found
}

fuzz_target!(|data: &[u8]| {
    let Some((_, cut, bytes)) = split(data) else { return };
    let (whole, cut) = (read(bytes, 0), read(bytes, cut));
    if whole.is_broken {
        // What is wrong is looked for when more has come, which here it may not.
        assert!(whole.heads.starts_with(&cut.heads));
    } else {
        assert_eq!(whole, cut);
    }
});
