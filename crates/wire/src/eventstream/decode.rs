//! Reads frames out of bytes that arrive in any cut. Used where kvroute is the client.

use std::fmt;

use bytes::{Buf, Bytes, BytesMut};

use super::{CRC_BYTES, HEADERS_BYTES_MAX, LENGTHS_BYTES, PAYLOAD_BYTES_MAX, PRELUDE_BYTES, STRING_TYPE};

/// One frame whose checksums are right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The string headers in their order. Headers of other types are checked and left out.
    pub headers: Vec<(String, String)>,
    /// The payload.
    pub payload: Bytes,
}

impl Frame {
    /// The value of the first string header of that name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &value[..])
    }
}

/// Why bytes are no event stream. Nothing after it can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodeError {
    /// A length in the prelude is impossible, or over the limit.
    Length {
        /// Of the whole frame, as given.
        total_bytes: u32,
        /// Of the headers, as given.
        headers_bytes: u32,
    },
    /// The checksum of the prelude differs.
    PreludeChecksum,
    /// The checksum of the frame differs.
    FrameChecksum,
    /// The headers cannot be read.
    Headers {
        /// Bytes of headers before the one that cannot.
        offset: usize,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { total_bytes, headers_bytes } => write!(
                f,
                "event stream frame claims {total_bytes} bytes with {headers_bytes} bytes of headers; allowed are \
                 {PAYLOAD_BYTES_MAX} of payload and {HEADERS_BYTES_MAX} of headers: check that the answer is an event stream"
            ),
            Self::PreludeChecksum => {
                f.write_str("event stream prelude has a wrong checksum: check that the answer is an event stream")
            }
            Self::FrameChecksum => {
                f.write_str("event stream frame has a wrong checksum: its bytes were changed on the way")
            }
            Self::Headers { offset } => write!(
                f,
                "event stream header at byte {offset} of the headers cannot be read: check the sender's encoder"
            ),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Decodes one stream. At most one frame is kept, and its size is checked before its bytes are waited for.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
    failed: Option<DecodeError>,
}

impl Decoder {
    /// A decoder at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes and appends the frames they complete to `frames`.
    ///
    /// # Errors
    /// The bytes are no event stream; frames before the fault have been appended. The error stays.
    pub fn feed(&mut self, bytes: &[u8], frames: &mut Vec<Frame>) -> Result<(), DecodeError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        self.buffer.extend_from_slice(bytes);
        loop {
            match self.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.buffer = BytesMut::new();
                    self.failed = Some(error.clone());
                    return Err(error);
                }
            }
        }
    }

    /// The stream may end here: no frame is incomplete.
    #[must_use]
    pub fn is_between_frames(&self) -> bool {
        self.buffer.is_empty() && self.failed.is_none()
    }

    fn next_frame(&mut self) -> Result<Option<Frame>, DecodeError> {
        let Some(mut prelude) = self.buffer.get(..PRELUDE_BYTES) else { return Ok(None) };
        let crc = crc32fast::hash(&prelude[..LENGTHS_BYTES]);
        let (total_bytes, headers_bytes) = (prelude.get_u32(), prelude.get_u32());
        if prelude.get_u32() != crc {
            return Err(DecodeError::PreludeChecksum);
        }
        let (total, headers) = (total_bytes as usize, headers_bytes as usize);
        let payload = total.checked_sub(PRELUDE_BYTES + CRC_BYTES).and_then(|rest| rest.checked_sub(headers));
        if headers > HEADERS_BYTES_MAX || payload.is_none_or(|payload| payload > PAYLOAD_BYTES_MAX) {
            return Err(DecodeError::Length { total_bytes, headers_bytes });
        }
        if self.buffer.len() < total {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(total).freeze();
        let mut crc = frame.split_off(total - CRC_BYTES);
        if crc.get_u32() != crc32fast::hash(&frame) {
            return Err(DecodeError::FrameChecksum);
        }
        let payload = frame.split_off(PRELUDE_BYTES + headers);
        Ok(Some(Frame { headers: read_headers(&frame[PRELUDE_BYTES..])?, payload }))
    }
}

fn read_headers(block: &[u8]) -> Result<Vec<(String, String)>, DecodeError> {
    let mut headers = Vec::new();
    let mut rest = block;
    while !rest.is_empty() {
        let offset = block.len() - rest.len();
        let (header, after) = read_header(rest).ok_or(DecodeError::Headers { offset })?;
        headers.extend(header);
        rest = after;
    }
    Ok(headers)
}

/// A string header, or nothing for one of another type; and the bytes after it. `None` when it is malformed.
type ReadHeader<'a> = (Option<(String, String)>, &'a [u8]);

fn read_header(bytes: &[u8]) -> Option<ReadHeader<'_>> {
    let (&name_bytes, rest) = bytes.split_first()?;
    let (name, rest) = rest.split_at_checked(usize::from(name_bytes))?;
    let (&value_type, rest) = rest.split_first()?;
    let (value_bytes, rest) = match value_type {
        // true, false
        0 | 1 => (0, rest),
        // byte, short, integer, long or timestamp, uuid
        2 => (1, rest),
        3 => (2, rest),
        4 => (4, rest),
        5 | 8 => (8, rest),
        9 => (16, rest),
        // bytes and string, which carry their length
        6 | STRING_TYPE => {
            let (length, rest) = rest.split_first_chunk::<2>()?;
            (usize::from(u16::from_be_bytes(*length)), rest)
        }
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(value_bytes)?;
    let text = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
    let name = text(name).filter(|name| !name.is_empty())?;
    let header = if value_type == STRING_TYPE { Some((name, text(value)?)) } else { None };
    Some((header, rest))
}

#[cfg(test)]
mod tests {
    use aws_smithy_eventstream::frame::{read_message_from, write_message_to};
    use aws_smithy_types::DateTime;
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    use proptest::prelude::*;

    use super::super::{HEADER_VALUE_BYTES_MAX, write_error, write_exception, write_payload};
    use super::*;
    use crate::testing::{any_sizes, any_text, chunks};

    fn decode(bytes: &[u8], sizes: &[usize]) -> Result<Vec<Frame>, DecodeError> {
        let (mut decoder, mut frames) = (Decoder::new(), vec![]);
        for chunk in chunks(bytes, sizes) {
            decoder.feed(chunk, &mut frames)?;
        }
        assert!(decoder.is_between_frames(), "half a frame is left");
        Ok(frames)
    }

    /// What AWS's own decoder makes of our bytes, as a frame.
    fn decode_by_aws(mut bytes: &[u8]) -> Vec<Frame> {
        let mut frames = vec![];
        while !bytes.is_empty() {
            let message = read_message_from(&mut bytes).unwrap();
            let text = |header: &Header| header.value().as_string().unwrap().as_str().to_owned();
            let headers = message.headers().iter().map(|h| (h.name().as_str().to_owned(), text(h))).collect();
            frames.push(Frame { headers, payload: message.payload().clone() });
        }
        frames
    }

    fn any_value() -> impl Strategy<Value = HeaderValue> {
        prop_oneof![
            any::<bool>().prop_map(HeaderValue::Bool),
            any::<i8>().prop_map(HeaderValue::Byte),
            any::<i16>().prop_map(HeaderValue::Int16),
            any::<i32>().prop_map(HeaderValue::Int32),
            any::<i64>().prop_map(HeaderValue::Int64),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| HeaderValue::ByteArray(bytes.into())),
            any_text().prop_map(|text| HeaderValue::String(text.into())),
            any::<u32>().prop_map(|secs| HeaderValue::Timestamp(DateTime::from_secs(secs.into()))),
            any::<u128>().prop_map(HeaderValue::Uuid),
        ]
    }

    fn any_message() -> impl Strategy<Value = Message> {
        let headers = prop::collection::vec(("[a-z:-]{1,20}", any_value()), 0..6);
        (headers, prop::collection::vec(any::<u8>(), 0..80)).prop_map(|(headers, payload)| {
            let headers = headers.into_iter().map(|(name, value)| Header::new(name, value)).collect();
            Message::new_from_parts(headers, payload)
        })
    }

    proptest! {
        #[test]
        fn what_aws_writes_is_read(messages in prop::collection::vec(any_message(), 0..5), sizes in any_sizes()) {
            let mut bytes = vec![];
            let mut expected = vec![];
            for message in &messages {
                write_message_to(message, &mut bytes).unwrap();
                let text = |h: &Header| Some((h.name().as_str().to_owned(), h.value().as_string().ok()?.as_str().to_owned()));
                let headers = message.headers().iter().filter_map(text).collect();
                expected.push(Frame { headers, payload: message.payload().clone() });
            }
            prop_assert_eq!(decode(&bytes, &sizes), Ok(expected));
        }

        #[test]
        fn what_is_written_is_read_by_aws_and_by_us(
            parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
            exception in any_text(),
            message in any_text(),
            sizes in any_sizes(),
        ) {
            let mut out = BytesMut::new();
            for part in &parts {
                write_payload(part, &mut out);
            }
            write_exception("ModelStreamError", exception.as_bytes(), &mut out);
            write_error("code", &message, &mut out);
            let frames = decode(&out, &sizes).unwrap();
            prop_assert_eq!(&frames, &decode_by_aws(&out));

            let (events, errors) = frames.split_at(frames.len() - 2);
            // S80: the joined parts are the answer.
            let joined: Vec<u8> = events.iter().flat_map(|frame| frame.payload.to_vec()).collect();
            prop_assert_eq!(joined, parts.concat());
            prop_assert!(events.iter().all(|frame| frame.header(":event-type") == Some("PayloadPart")));
            prop_assert_eq!(errors[0].header(":message-type"), Some("exception"));
            prop_assert_eq!(errors[0].header(":exception-type"), Some("ModelStreamError"));
            prop_assert_eq!(&errors[0].payload[..], exception.as_bytes());
            prop_assert_eq!(errors[1].header(":error-code"), Some("code"));
            prop_assert_eq!(errors[1].header(":error-message"), Some(&message[..]));
        }

        #[test]
        fn damage_is_noticed(at in any::<prop::sample::Index>(), flip in 1u8.., sizes in any_sizes()) {
            let mut out = BytesMut::new();
            write_payload(b"some tokens of an answer", &mut out);
            let at = at.index(out.len());
            out[at] ^= flip;
            let (mut decoder, mut frames) = (Decoder::new(), vec![]);
            let outcome = chunks(&out, &sizes).into_iter().try_for_each(|chunk| decoder.feed(chunk, &mut frames));
            prop_assert!(outcome.is_err());
            prop_assert!(frames.is_empty());
            prop_assert!(decoder.feed(b"", &mut frames).is_err(), "the error stays");
        }

        #[test]
        fn random_headers_never_panic(block in prop::collection::vec(0u8..12, 0..60)) {
            let _ = read_headers(&block);
        }
    }

    #[test]
    fn impossible_lengths_are_refused_before_their_bytes_are_waited_for() {
        let limit = u32::try_from(PAYLOAD_BYTES_MAX).unwrap();
        for (total_bytes, headers_bytes) in
            [(0, 0), (15, 0), (16, 1), (u32::MAX, 0), (limit + 17, 0), (400_000, 131_073), (100, u32::MAX)]
        {
            let mut prelude = [total_bytes.to_be_bytes(), headers_bytes.to_be_bytes()].concat();
            prelude.extend(crc32fast::hash(&prelude).to_be_bytes());
            assert_eq!(decode(&prelude, &[1]), Err(DecodeError::Length { total_bytes, headers_bytes }));
        }
    }

    #[test]
    fn a_message_too_long_for_a_header_is_cut_between_characters() {
        let mut out = BytesMut::new();
        write_error("code", &"é".repeat(HEADER_VALUE_BYTES_MAX), &mut out);
        let frames = decode(&out, &[]).unwrap();
        assert_eq!(frames[0].header(":error-message").unwrap().len(), HEADER_VALUE_BYTES_MAX - 1);
        assert_eq!(frames, decode_by_aws(&out));
    }

    #[test]
    fn a_payload_beyond_the_limit_becomes_several_frames() {
        let payload = vec![7; PAYLOAD_BYTES_MAX + 1];
        let mut out = BytesMut::new();
        write_payload(&payload, &mut out);
        let sizes: Vec<_> = decode(&out, &[]).unwrap().iter().map(|frame| frame.payload.len()).collect();
        assert_eq!(sizes, [PAYLOAD_BYTES_MAX, 1]);
    }
}
