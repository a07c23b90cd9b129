//! An answer in HTTP/1.1 does not depend on how it is cut.
#![no_main]

use bytes::BytesMut;
use http::HeaderMap;
use kvroute_fuzz::{chunks, split};
use kvroute_wire::http1::{AnswerHead, Framing, Malformed, Part};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Default, PartialEq)]
struct Read {
    head: Option<(u16, HeaderMap, bool)>,
    body: Vec<u8>,
    trailers: Option<HeaderMap>,
    is_done: bool,
}

fn read(bytes: &[u8], cut: u8, is_head: bool) -> Result<Read, Malformed> {
    let (mut buffer, mut framing, mut found) = (BytesMut::new(), None::<Framing>, Read::default());
    for piece in chunks(bytes, cut) {
        buffer.extend_from_slice(piece);
        if framing.is_none()
            && let Some(head) = AnswerHead::parse(&mut buffer, is_head)?
        {
            let (parts, ()) = head.response.into_parts();
            found.head = Some((parts.status.as_u16(), parts.headers, head.keeps_alive));
            framing = Some(head.framing);
        }
        let Some(framing) = &mut framing else { continue };
        while let Some(part) = framing.next(&mut buffer)? {
            match part {
                Part::Data(piece) => {
                    assert!(!piece.is_empty());
                    found.body.extend_from_slice(&piece);
                }
                Part::Trailers(trailers) => found.trailers = Some(trailers),
            }
        }
        found.is_done = framing.is_done();
    }
    Ok(found)
}

fuzz_target!(|data: &[u8]| {
    let Some((variant, cut, bytes)) = split(data) else { return };
    let is_head = variant & 1 == 1;
    match (read(bytes, 0, is_head), read(bytes, cut, is_head)) {
        // What is wrong with the same bytes may show in another place first, as where a line is too long.
        (Err(_), Err(_)) => {}
        (whole, cut) => assert_eq!(whole, cut),
    }
});
