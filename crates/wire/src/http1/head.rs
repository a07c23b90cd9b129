//! Heads as a client needs them: that of a request is written, that of an answer parsed.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Response, StatusCode, Version};

use super::fields::{self, Places, push_decimal};
use super::{Framing, HEAD_BYTES_MAX, Malformed};

/// Most headers of an answer.
const HEADERS_MAX: usize = 128;

/// The head of an answer.
#[derive(Debug)]
pub struct AnswerHead {
    /// Status and headers.
    pub response: Response<()>,
    /// How its body ends.
    pub framing: Framing,
    /// Whether the replica lets the connection be used again, once all of the answer was read.
    pub keeps_alive: bool,
}

/// Writes the head of a request whose body has `body_bytes`. The path is below a base path, which may be empty; `headers`
/// says nothing of the connection, of framing or of the host. Nothing is checked: all of it must have been.
pub fn write_request<'a>(
    method: &Method,
    (base, path): (&str, &str),
    host: &HeaderValue,
    headers: impl Iterator<Item = (&'a HeaderName, &'a HeaderValue)>,
    body_bytes: u64,
) -> Bytes {
    let mut head = Vec::with_capacity(512);
    for part in [method.as_str(), " ", base, path, " HTTP/1.1\r\nhost: "] {
        head.extend_from_slice(part.as_bytes());
    }
    head.extend_from_slice(host.as_bytes());
    for (name, value) in headers {
        head.extend_from_slice(b"\r\n");
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
    }
    // A method that means to send something says how much even where it is nothing (RFC 9110, 8.6).
    if body_bytes > 0 || [Method::POST, Method::PUT, Method::PATCH].contains(method) {
        head.extend_from_slice(b"\r\ncontent-length: ");
        push_decimal(&mut head, body_bytes);
    }
    head.put_slice(b"\r\n\r\n");
    head.into()
}

impl AnswerHead {
    /// Takes a complete head from the front of `read`, if one is there. `is_head` says that the request's method was HEAD,
    /// whose answers have no body.
    ///
    /// # Errors
    /// It is no head of an answer, or a larger one than [`HEAD_BYTES_MAX`].
    pub fn parse(read: &mut BytesMut, is_head: bool) -> Result<Option<Self>, Malformed> {
        loop {
            if read.is_empty() {
                return Ok(None);
            }
            let mut storage = [httparse::EMPTY_HEADER; HEADERS_MAX];
            let mut parsed = httparse::Response::new(&mut storage);
            let length = match parsed.parse(read) {
                Ok(httparse::Status::Complete(length)) if length <= HEAD_BYTES_MAX => length,
                Ok(httparse::Status::Partial) if read.len() < HEAD_BYTES_MAX => return Ok(None),
                Ok(_) | Err(httparse::Error::TooManyHeaders) => {
                    return Err(Malformed("the head of the answer is too large"));
                }
                Err(_) => return Err(Malformed("the answer is not HTTP/1.1")),
            };
            let status = parsed.code.and_then(|code| StatusCode::from_u16(code).ok());
            let status = status.ok_or(Malformed("the answer has no valid status"))?;
            if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                read.advance(length);
                continue;
            }
            let is_1_1 = parsed.version == Some(1);
            let mut places = Places::new();
            fields::places(read, parsed.headers, &mut places);
            let (bytes, mut headers) = (read.split_to(length).freeze(), HeaderMap::new());
            if fields::read(&bytes, &places, &mut headers).is_none() {
                return Err(Malformed("the answer has a header that is none"));
            }
            return Self::of(status, headers, is_1_1, is_head).map(Some);
        }
    }

    fn of(status: StatusCode, mut headers: HeaderMap, is_1_1: bool, is_head: bool) -> Result<Self, Malformed> {
        let framing = framing(status, &headers, is_head)?;
        if matches!(framing, Framing::Chunked(_)) {
            // RFC 9112, 6.3: the coding overrides a length, which may have been put there to deceive.
            headers.remove(header::CONTENT_LENGTH);
            if !is_1_1 {
                return Err(Malformed("the answer has chunks in HTTP/1.0"));
            }
        }
        // What has no body and frames one all the same may yet send it, in front of the next answer.
        let frames_nothing = status == StatusCode::NO_CONTENT
            && (headers.contains_key(header::TRANSFER_ENCODING) || headers.contains_key(header::CONTENT_LENGTH));
        let is_reusable = !matches!(framing, Framing::Connection) && !frames_nothing;
        let keeps_alive = is_reusable
            && if is_1_1 {
                !fields::connection_says(&headers, b"close")
            } else {
                fields::connection_says(&headers, b"keep-alive")
            };
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        *response.version_mut() = Version::HTTP_11;
        Ok(Self { response, framing, keeps_alive })
    }
}

/// How the body ends: RFC 9112, 6.3.
fn framing(status: StatusCode, headers: &HeaderMap, is_head: bool) -> Result<Framing, Malformed> {
    if is_head || status.is_informational() || [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED].contains(&status) {
        return Ok(Framing::Done);
    }
    if let Some(coding) = headers.get_all(header::TRANSFER_ENCODING).iter().next_back() {
        let last = coding.as_bytes().rsplit(|&byte| byte == b',').next().unwrap_or_default();
        let is_chunked = last.trim_ascii().eq_ignore_ascii_case(b"chunked");
        return Ok(if is_chunked { Framing::chunked() } else { Framing::Connection });
    }
    Ok(fields::content_length(headers)?.map_or(Framing::Connection, Framing::of_length))
}
