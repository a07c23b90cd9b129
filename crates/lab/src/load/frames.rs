//! AWS event-stream frames, as a client of SageMaker reads them.
//!
//! A frame is `total length, header length, CRC of both, headers, payload, CRC of all before`, all
//! numbers big-endian `u32`. Payloads of `PayloadPart` events are the container's bytes, cut anywhere,
//! so they are fed to the [SSE reader](super::sse) like any other bytes. Checksums are verified, since
//! a gateway that builds frames can build them wrongly. The protocol has no closing frame: whether an
//! answer is complete shows in the payload.

use super::failure::{Failure, FailureKind};

/// Lengths and their checksum.
const PRELUDE_BYTES: usize = 12;
/// Prelude and closing checksum: the shortest frame.
const FRAME_BYTES_MIN: usize = PRELUDE_BYTES + 4;
/// Most bytes of a frame; the official client allows a payload of 24 MiB.
const FRAME_BYTES_MAX: usize = 25 << 20;

/// Splits a byte stream into payloads.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    buffer: Vec<u8>,
}

/// What matters of a frame's headers.
#[derive(Debug, Default, PartialEq)]
struct Headers<'a> {
    message_type: &'a str,
    event_type: &'a str,
    /// Type of an exception or code of an error.
    error: &'a str,
}

impl FrameReader {
    /// Reads on, calling `payload` with the payload of each complete `PayloadPart`. An exception or
    /// error frame is a failure, other events are skipped.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut payload: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.buffer.extend_from_slice(bytes);
        let mut rest = self.buffer.as_slice();
        while let Some(frame_bytes) = frame_length(rest)? {
            let Some((frame, after)) = rest.split_at_checked(frame_bytes) else {
                break;
            };
            read_frame(frame, &mut payload)?;
            rest = after;
        }
        let read = self.buffer.len() - rest.len();
        self.buffer.drain(..read);
        Ok(())
    }
}

fn malformed(message: &str) -> Failure {
    Failure::new(FailureKind::Malformed, message)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(four.try_into().ok()?))
}

/// Length of the frame at the start, once its prelude is there and sound.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, Failure> {
    let (Some(total), Some(checksum)) = (u32_at(bytes, 0), u32_at(bytes, 8)) else {
        return Ok(None);
    };
    if crc32fast::hash(&bytes[..8]) != checksum {
        return Err(malformed("wrong checksum of a frame's prelude"));
    }
    match total as usize {
        ..FRAME_BYTES_MIN => Err(malformed("impossible frame length")),
        FRAME_BYTES_MIN..=FRAME_BYTES_MAX => Ok(Some(total as usize)),
        _ => Err(Failure::new(FailureKind::TooLarge, "frame too long")),
    }
}

fn read_frame(frame: &[u8], payload: &mut impl FnMut(&[u8]) -> Result<(), Failure>) -> Result<(), Failure> {
    let end = frame.len() - 4;
    if u32_at(frame, end) != Some(crc32fast::hash(&frame[..end])) {
        return Err(malformed("wrong checksum of a frame"));
    }
    let headers_bytes = u32_at(frame, 4).unwrap_or(u32::MAX) as usize;
    let (headers, body) = frame[PRELUDE_BYTES..end]
        .split_at_checked(headers_bytes)
        .ok_or_else(|| malformed("headers longer than their frame"))?;
    let headers = read_headers(headers).ok_or_else(|| malformed("unreadable frame headers"))?;
    if matches!(headers.message_type, "exception" | "error") {
        let message = [headers.error.as_bytes(), b": ", body].concat();
        return Err(Failure::from_bytes(FailureKind::ErrorEvent, &message));
    }
    match headers.event_type {
        "PayloadPart" => payload(body),
        _ => Ok(()),
    }
}

fn read_headers(mut bytes: &[u8]) -> Option<Headers<'_>> {
    let mut headers = Headers::default();
    while let Some((&name_bytes, rest)) = bytes.split_first() {
        let (name, rest) = rest.split_at_checked(name_bytes.into())?;
        let (&value_type, rest) = rest.split_first()?;
        let (value_bytes, rest) = match value_type {
            0 | 1 => (0, rest),
            2 => (1, rest),
            3 => (2, rest),
            4 => (4, rest),
            5 | 8 => (8, rest),
            6 | 7 => {
                let (length, rest) = rest.split_first_chunk::<2>()?;
                (u16::from_be_bytes(*length).into(), rest)
            }
            9 => (16, rest),
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(value_bytes)?;
        bytes = rest;
        if value_type != 7 {
            continue;
        }
        let value = str::from_utf8(value).ok()?;
        match name {
            b":message-type" => headers.message_type = value,
            b":event-type" => headers.event_type = value,
            b":exception-type" | b":error-code" => headers.error = value,
            _ => {}
        }
    }
    Some(headers)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(headers: &[(&str, &str)], payload: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        for (name, value) in headers {
            head.push(name.len() as u8);
            head.extend_from_slice(name.as_bytes());
            head.push(7);
            head.extend_from_slice(&(value.len() as u16).to_be_bytes());
            head.extend_from_slice(value.as_bytes());
        }
        raw_frame(&head, payload)
    }

    fn raw_frame(head: &[u8], payload: &[u8]) -> Vec<u8> {
        let total = (FRAME_BYTES_MIN + head.len() + payload.len()) as u32;
        let mut out = total.to_be_bytes().to_vec();
        out.extend_from_slice(&(head.len() as u32).to_be_bytes());
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out.extend_from_slice(head);
        out.extend_from_slice(payload);
        out.extend_from_slice(&crc32fast::hash(&out).to_be_bytes());
        out
    }

    fn part(payload: &[u8]) -> Vec<u8> {
        let headers =
            [(":message-type", "event"), (":event-type", "PayloadPart"), (":content-type", "application/octet-stream")];
        frame(&headers, payload)
    }

    fn read(bytes: &[u8], piece_bytes: usize) -> Result<Vec<u8>, Failure> {
        let (mut reader, mut out) = (FrameReader::default(), Vec::new());
        for piece in bytes.chunks(piece_bytes.max(1)) {
            reader.push(piece, |payload| {
                out.extend_from_slice(payload);
                Ok(())
            })?;
        }
        Ok(out)
    }

    #[test]
    fn an_exception_frame_is_an_error_with_its_name_and_text() {
        let headers = [(":message-type", "exception"), (":exception-type", "ModelStreamError")];
        let stream = [part(b"a"), frame(&headers, br#"{"Message":"gone"}"#)].concat();
        let failure = read(&stream, 7).unwrap_err();
        assert_eq!(failure.kind, FailureKind::ErrorEvent);
        assert_eq!(failure.message, r#"ModelStreamError: {"Message":"gone"}"#);
    }

    #[test]
    fn unknown_events_and_headers_of_every_type_are_skipped() {
        let mut head = Vec::new();
        for (value_type, value) in [
            (0, vec![]),
            (1, vec![]),
            (2, vec![1]),
            (3, vec![1; 2]),
            (4, vec![1; 4]),
            (5, vec![1; 8]),
            (6, vec![0, 3, 1, 2, 3]),
            (8, vec![1; 8]),
            (9, vec![1; 16]),
        ] {
            head.extend_from_slice(&[1, b'h', value_type]);
            head.extend_from_slice(&value);
        }
        let stream = [raw_frame(&head, b"skipped"), part(b"kept")].concat();
        assert_eq!(read(&stream, 1_000).unwrap(), b"kept");
    }

    #[test]
    fn impossible_lengths_are_refused_at_the_prelude() {
        for (total, kind) in [(15_u32, FailureKind::Malformed), (u32::MAX, FailureKind::TooLarge)] {
            let mut prelude = total.to_be_bytes().to_vec();
            prelude.extend_from_slice(&[0; 4]);
            prelude.extend_from_slice(&crc32fast::hash(&prelude).to_be_bytes());
            assert_eq!(read(&prelude, 64).unwrap_err().kind, kind);
        }
        let mut long_headers = part(b"x");
        long_headers[4..8].copy_from_slice(&900_u32.to_be_bytes());
        let prelude = crc32fast::hash(&long_headers[..8]).to_be_bytes();
        long_headers[8..12].copy_from_slice(&prelude);
        let end = long_headers.len() - 4;
        let checksum = crc32fast::hash(&long_headers[..end]).to_be_bytes();
        long_headers[end..].copy_from_slice(&checksum);
        let failure = read(&long_headers, 64).unwrap_err();
        assert_eq!(failure.message, "headers longer than their frame");
    }

    proptest! {
        #[test]
        fn payloads_come_out_in_order_however_the_stream_is_cut(
            payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 0..6),
            piece_bytes in 1_usize..80,
        ) {
            let stream: Vec<u8> = payloads.iter().flat_map(|p| part(p)).collect();
            prop_assert_eq!(read(&stream, piece_bytes).unwrap(), payloads.concat());
        }

        #[test]
        fn one_flipped_bit_never_goes_unnoticed(byte in 0_usize..90, bit in 0_u8..8) {
            let mut stream = part(b"some payload");
            let byte = byte % stream.len();
            stream[byte] ^= 1 << bit;
            prop_assert_eq!(read(&stream, 200).unwrap_err().kind, FailureKind::Malformed);
        }

        #[test]
        fn bytes_of_any_kind_are_read_without_panic(
            head in prop::collection::vec(any::<u8>(), 0..40),
            payload in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let _ = read(&head, 3);
            let _ = read(&raw_frame(&head, &payload), 5);
        }
    }
}
