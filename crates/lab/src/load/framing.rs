//! How an answer's events are framed: server-sent events, as they are or within AWS event-stream frames.
//!
//! Payloads of frames are the container's bytes, cut anywhere, so they are read like any other bytes. That protocol has
//! no closing frame: whether an answer is complete shows in the payload.

use http::{HeaderMap, header::CONTENT_TYPE};
use kvroute_wire::eventstream::{self, Decoder, Frame};
use kvroute_wire::response::{SseEvent, SseReader};

use super::failure::{Failure, FailureKind};

/// Bytes of one event. Chunks of a completion are far smaller.
const EVENT_BYTES_MAX: usize = 1 << 20;

/// Reader of an answer, by its content type.
pub(super) enum Framing {
    /// Plain.
    Sse(SseReader),
    /// Within frames.
    Frames(Decoder, SseReader),
}

impl Framing {
    /// The reader for an answer with these headers.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let mime = content_type.split(';').next().unwrap_or_default().trim();
        let sse = SseReader::new(EVENT_BYTES_MAX);
        if mime.eq_ignore_ascii_case("text/event-stream") {
            return Ok(Self::Sse(sse));
        }
        if mime.eq_ignore_ascii_case(eventstream::CONTENT_TYPE) {
            return Ok(Self::Frames(Decoder::new(), sse));
        }
        Err(Failure::new(FailureKind::NotAStream, &format!("content type {content_type:?}")))
    }

    /// Reads on, calling `event` with the data of each complete event. Gives the first failure.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut event: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (decoder, sse) = match self {
            Self::Sse(sse) => return events(sse, bytes, &mut event),
            Self::Frames(decoder, sse) => (decoder, sse),
        };
        let mut frames = Vec::new();
        let fed = decoder.feed(bytes, &mut frames);
        for frame in &frames {
            if let Some(payload) = payload(frame)? {
                events(sse, payload, &mut event)?;
            }
        }
        fed.map_err(|error| Failure::new(FailureKind::Malformed, &error.to_string()))
    }
}

fn events(
    sse: &mut SseReader,
    bytes: &[u8],
    event: &mut impl FnMut(&[u8]) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut result = Ok(());
    let fed = sse.feed(bytes, |found: SseEvent<'_>| {
        if result.is_ok() {
            result = event(found.data);
        }
    });
    result?;
    fed.map_err(|error| Failure::new(FailureKind::TooLarge, &error.to_string()))
}

/// What a frame carries of the answer: nothing, if it is an event of another kind. An exception is a failure.
fn payload(frame: &Frame) -> Result<Option<&[u8]>, Failure> {
    if matches!(frame.header(":message-type"), Some("exception" | "error")) {
        let name = frame.header(":exception-type").or(frame.header(":error-code")).unwrap_or_default();
        let text = frame.header(":error-message").map_or(&frame.payload[..], str::as_bytes);
        return Err(Failure::from_bytes(FailureKind::ErrorEvent, &[name.as_bytes(), b": ", text].concat()));
    }
    Ok((frame.header(":event-type") == Some("PayloadPart")).then_some(&frame.payload[..]))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    fn read(framing: &mut Framing, bytes: &[u8], piece_bytes: usize) -> Result<Vec<String>, Failure> {
        let mut events = Vec::new();
        for piece in bytes.chunks(piece_bytes) {
            framing.push(piece, |data| {
                events.push(String::from_utf8_lossy(data).into_owned());
                Ok(())
            })?;
        }
        Ok(events)
    }

    fn framing(content_type: &'static str) -> Framing {
        let headers = [(CONTENT_TYPE, http::HeaderValue::from_static(content_type))].into_iter().collect();
        Framing::of(&headers).expect("a stream")
    }

    #[test]
    fn events_are_the_same_in_frames_and_plain_however_either_is_cut() {
        let plain = b"data: one\n\ndata: two\r\n\r\n: comment\n\ndata: [DONE]\n\n";
        let mut framed = BytesMut::new();
        plain.chunks(7).for_each(|piece| eventstream::write_payload(piece, &mut framed));
        for piece_bytes in 1..40 {
            for (content_type, bytes) in
                [("text/event-stream; charset=utf-8", &plain[..]), (eventstream::CONTENT_TYPE, &framed[..])]
            {
                let events = read(&mut framing(content_type), bytes, piece_bytes).expect("all is well");
                assert_eq!(events, ["one", "two", "[DONE]"], "{content_type} in pieces of {piece_bytes}");
            }
        }
    }

    #[test]
    fn an_exception_is_a_failure_with_its_name_and_text() {
        let mut framed = BytesMut::new();
        eventstream::write_exception("ModelStreamError", br#"{"Message":"broken"}"#, &mut framed);
        let failure = read(&mut framing(eventstream::CONTENT_TYPE), &framed, 11).expect_err("it failed");
        assert_eq!(failure, Failure::new(FailureKind::ErrorEvent, r#"ModelStreamError: {"Message":"broken"}"#));
    }

    #[test]
    fn what_cannot_be_read_is_a_failure_of_its_kind() {
        let garbage = read(&mut framing(eventstream::CONTENT_TYPE), &[0x55; 64], 64).expect_err("no frame");
        assert_eq!(garbage.kind, FailureKind::Malformed);
        let endless = vec![b'x'; EVENT_BYTES_MAX + 2];
        let endless = read(&mut framing("text/event-stream"), &endless, 4_096).expect_err("too long");
        assert_eq!(endless.kind, FailureKind::TooLarge);
        let json = [(CONTENT_TYPE, http::HeaderValue::from_static("application/json"))].into_iter().collect();
        assert!(matches!(Framing::of(&json), Err(failure) if failure.kind == FailureKind::NotAStream));
    }

    #[test]
    fn the_first_failure_of_the_reader_of_events_ends_the_reading() {
        let mut seen = 0;
        let result = framing("text/event-stream").push(b"data: 1\n\ndata: 2\n\n", |_| {
            seen += 1;
            Err(Failure::new(FailureKind::Empty, "enough"))
        });
        assert_eq!((result.expect_err("it failed").kind, seen), (FailureKind::Empty, 1));
    }
}
