//! The head of an answer, as a server writes it, and the framing of its body.

use http::header::{self, HeaderMap, HeaderName};
use http::{StatusCode, Version};

use super::fields::push_decimal;

/// How the body of an answer is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerBody {
    /// There is none, whatever length the headers say: to a HEAD, 204 or 304.
    Absent,
    /// It has this many bytes.
    Length(u64),
    /// It comes in chunks.
    Chunked,
    /// It ends with the connection, for clients that know no chunks.
    UntilClose,
}

/// What becomes of the connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connection {
    /// It goes on, as is usual in HTTP/1.1.
    Stays,
    /// It goes on, which must be said to a client of HTTP/1.0.
    StaysInHttp10,
    /// It is closed.
    Closes,
}

impl AnswerBody {
    /// How a body is framed that has `length` bytes, if that is known, in an answer of this status to a client that
    /// speaks `version` and asked for more than the head, or not.
    #[must_use]
    pub fn of(status: StatusCode, length: Option<u64>, is_head: bool, version: Version) -> Self {
        if is_head || status.is_informational() || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status)
        {
            return Self::Absent;
        }
        match length {
            Some(length) => Self::Length(length),
            None if version == Version::HTTP_10 => Self::UntilClose,
            None => Self::Chunked,
        }
    }
}

/// Appends the head of an answer. What the headers say of connection and framing does not count, but for the length of
/// what is [`AnswerBody::Absent`]. `date` is asked for where the headers have none.
pub fn write_answer(
    out: &mut Vec<u8>,
    status: StatusCode,
    headers: &HeaderMap,
    body: AnswerBody,
    connection: Connection,
    date: impl FnOnce() -> [u8; 29],
) {
    out.reserve(256 + 48 * headers.len());
    // The version is ours, whatever the client's: an answer says what its sender speaks (RFC 9110, 2.5).
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or("Status").as_bytes());
    let says_length = body == AnswerBody::Absent && status != StatusCode::NO_CONTENT && !status.is_informational();
    for (name, value) in headers {
        if !is_ours(name) || (says_length && name == header::CONTENT_LENGTH) {
            push_header(out, name.as_str(), value.as_bytes());
        }
    }
    match body {
        AnswerBody::Absent | AnswerBody::UntilClose => {}
        AnswerBody::Chunked => out.extend_from_slice(b"\r\ntransfer-encoding: chunked"),
        AnswerBody::Length(bytes) => {
            out.extend_from_slice(b"\r\ncontent-length: ");
            push_decimal(out, bytes);
        }
    }
    match connection {
        Connection::Stays => {}
        Connection::StaysInHttp10 => out.extend_from_slice(b"\r\nconnection: keep-alive"),
        Connection::Closes => out.extend_from_slice(b"\r\nconnection: close"),
    }
    if !headers.contains_key(header::DATE) {
        push_header(out, "date", &date());
    }
    out.extend_from_slice(b"\r\n\r\n");
}

/// Whether a header says of the connection or the framing what is decided here.
fn is_ours(name: &HeaderName) -> bool {
    [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING].contains(name)
}

fn push_header(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
}

/// Appends the line before the data of a chunk.
pub fn write_chunk_size(out: &mut Vec<u8>, bytes: usize) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    let digits = (usize::BITS - bytes.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(DIGITS[(bytes >> (4 * place)) & 15]);
    }
    out.extend_from_slice(b"\r\n");
}
