//! The head of a request, as a server reads it.
//!
//! Syntax is httparse's: no folded lines, no space before a colon, no bare carriage return, no control characters. What
//! frames a body is stricter than the standard asks: a length beside chunks is refused, not overridden (RFC 9112, 6.1
//! allows both), and so is every coding but `chunked`, which nobody would decode. A head that comes in many pieces costs
//! no more than about three times one that comes whole.

use std::fmt;
use std::mem::MaybeUninit;

use bytes::{Buf, BytesMut};
use http::header::{self, HeaderMap};
use http::{Method, Request, StatusCode, Uri, Version};
use memchr::memchr_iter;
use smallvec::SmallVec;

use super::fields::{self, Places, Special};
use super::{Framing, Malformed};

/// Most headers of a request.
pub const HEADERS_MAX: usize = 100;
/// Longest request target, bytes: what [`Uri`] can hold.
const TARGET_BYTES_MAX: usize = u16::MAX as usize - 1;

/// The head of a request.
#[derive(Debug)]
pub struct RequestHead {
    /// Method, target, version (1.1 or 1.0) and headers.
    pub request: Request<()>,
    /// How its body ends; never with the connection.
    pub framing: Framing,
    /// Whether the client means to send another one, once it was answered.
    pub keeps_alive: bool,
    /// Whether the client waits to be told that its body is wanted.
    pub expects_continue: bool,
}

/// Why a request is not taken. Nothing that follows it on its connection can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadRequest {
    /// 400, 414, 431, 501 or 505.
    pub status: StatusCode,
    /// Which rule it breaks.
    pub message: &'static str,
}

/// Reads the heads of one connection, one after the other.
#[derive(Debug)]
pub struct RequestReader {
    head_bytes_max: usize,
    /// How many bytes of this head there were when it was parsed in vain.
    tried_bytes: usize,
    /// How far its end was looked for.
    searched_bytes: usize,
    /// Where its headers lie; kept for its memory.
    places: Places,
}

/// A head before its bytes are split off.
struct Parsed {
    length: usize,
    method: Method,
    target: std::ops::Range<usize>,
    version: Version,
}

const fn bad(message: &'static str) -> BadRequest {
    BadRequest { status: StatusCode::BAD_REQUEST, message }
}

impl RequestReader {
    /// A reader of heads of at most `head_bytes_max` bytes.
    #[must_use]
    pub fn new(head_bytes_max: usize) -> Self {
        Self { head_bytes_max, tried_bytes: 0, searched_bytes: 0, places: Places::new() }
    }

    /// Takes a complete head from the front of `read`, if one is there, and empty lines before it. `spare` is a map whose
    /// memory may be used; it is taken with a head.
    ///
    /// # Errors
    /// It is no head of a request, or one that cannot be served.
    pub fn next(&mut self, read: &mut BytesMut, spare: &mut HeaderMap) -> Result<Option<RequestHead>, BadRequest> {
        if drop_empty_lines(read) {
            (self.tried_bytes, self.searched_bytes) = (0, 0);
        }
        if !self.is_worth_trying(read) {
            return Ok(None);
        }
        let Some(parsed) = self.parse(read)? else {
            self.tried_bytes = read.len();
            return if read.len() < self.head_bytes_max { Ok(None) } else { Err(too_large(read)) };
        };
        (self.tried_bytes, self.searched_bytes) = (0, 0);
        let bytes = read.split_to(parsed.length).freeze();
        let target = bytes.slice(parsed.target);
        let uri = Uri::from_maybe_shared(target).map_err(|_| bad("the request target is none"))?;
        spare.clear();
        let special = fields::read(&bytes, &self.places, spare).ok_or(bad("a header is none"))?;
        let mut request = Request::new(());
        *request.method_mut() = parsed.method;
        *request.uri_mut() = uri;
        *request.version_mut() = parsed.version;
        *request.headers_mut() = std::mem::take(spare);
        RequestHead::of(request, special).map(Some)
    }

    /// Whether parsing may bring more than it did last time: the end has come, or there is twice as much, in which
    /// something may be wrong.
    fn is_worth_trying(&mut self, read: &[u8]) -> bool {
        if self.tried_bytes == 0 {
            return !read.is_empty();
        }
        let from = self.searched_bytes.saturating_sub(2);
        let ends = |at: usize| read[at + 1..].starts_with(b"\n") || read[at + 1..].starts_with(b"\r\n");
        let has_end = memchr_iter(b'\n', &read[from..]).any(|at| ends(from + at));
        self.searched_bytes = read.len();
        has_end || read.len() >= self.tried_bytes.saturating_mul(2).min(self.head_bytes_max)
    }

    fn parse(&mut self, read: &[u8]) -> Result<Option<Parsed>, BadRequest> {
        let mut storage = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let mut parsed = httparse::Request::new(&mut []);
        let length = match parsed.parse_with_uninit_headers(read, &mut storage) {
            Ok(httparse::Status::Complete(length)) if length <= self.head_bytes_max => length,
            Ok(httparse::Status::Complete(_)) => return Err(too_large(&read[..self.head_bytes_max])),
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(BadRequest {
                    status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                    message: "there are too many headers",
                });
            }
            Err(httparse::Error::Version) if names_another_version(read) => {
                return Err(BadRequest {
                    status: StatusCode::HTTP_VERSION_NOT_SUPPORTED,
                    message: "this version of HTTP is not spoken here",
                });
            }
            Err(_) => return Err(bad("the request is not HTTP/1.1")),
        };
        let (method, target) = (parsed.method.unwrap_or_default(), parsed.path.unwrap_or_default());
        if target.len() > TARGET_BYTES_MAX {
            return Err(BadRequest { status: StatusCode::URI_TOO_LONG, message: "the request target is too long" });
        }
        fields::places(read, parsed.headers, &mut self.places);
        Ok(Some(Parsed {
            length,
            method: Method::from_bytes(method.as_bytes()).map_err(|_| bad("the method is none"))?,
            target: fields::place(read, target.as_bytes()),
            version: if parsed.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 },
        }))
    }
}

impl RequestHead {
    fn of(request: Request<()>, special: Special) -> Result<Self, BadRequest> {
        let (headers, is_1_1) = (request.headers(), request.version() == Version::HTTP_11);
        let mut hosts = headers.get_all(header::HOST).into_iter();
        if (hosts.next().is_none() && is_1_1) || hosts.next().is_some() {
            return Err(bad("there must be one host"));
        }
        let framing = framing(headers, special, is_1_1)?;
        let says = |word| special.has(&header::CONNECTION) && fields::connection_says(headers, word);
        let keeps_alive = !says(b"close") && (is_1_1 || says(b"keep-alive"));
        let expects = |value: &header::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
        let expects_continue = special.has(&header::EXPECT)
            && is_1_1
            && !framing.is_done()
            && headers.get(header::EXPECT).is_some_and(expects);
        Ok(Self { request, framing, keeps_alive, expects_continue })
    }
}

/// How the body ends (RFC 9112, 6.3), where there is no doubt about it.
fn framing(headers: &HeaderMap, special: Special, is_1_1: bool) -> Result<Framing, BadRequest> {
    let length = match special.has(&header::CONTENT_LENGTH) {
        true => fields::content_length(headers).map_err(|Malformed(message)| bad(message))?,
        false => None,
    };
    if !special.has(&header::TRANSFER_ENCODING) {
        return Ok(length.map_or(Framing::Done, Framing::of_length));
    }
    if length.is_some() {
        return Err(bad("there are both a length and a transfer coding"));
    }
    if !is_1_1 {
        return Err(bad("there is a transfer coding in HTTP/1.0"));
    }
    let mut words: SmallVec<[&[u8]; 4]> = fields::words(headers, &header::TRANSFER_ENCODING).collect();
    let is_chunked = |word: &[u8]| word.eq_ignore_ascii_case(b"chunked");
    match (words.pop().is_some_and(is_chunked), &words[..]) {
        (true, []) => Ok(Framing::chunked()),
        (true, before) if !before.iter().any(|word| word.is_empty() || is_chunked(word)) => {
            Err(BadRequest { status: StatusCode::NOT_IMPLEMENTED, message: "no transfer coding but chunked is known" })
        }
        _ => Err(bad("the transfer coding does not end with one chunked")),
    }
}

/// Which part of it was too large.
fn too_large(read: &[u8]) -> BadRequest {
    match read.contains(&b'\n') {
        true => BadRequest {
            status: StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            message: "the head is larger than limits.header_bytes_max",
        },
        false => BadRequest { status: StatusCode::URI_TOO_LONG, message: "the request target is too long" },
    }
}

/// Whether the first line ends with a version that is not one of ours.
fn names_another_version(read: &[u8]) -> bool {
    let line = read.split(|&byte| byte == b'\n').next().unwrap_or_default().trim_ascii_end();
    let version = line.rsplit(|&byte| byte == b' ').next().and_then(|last| last.strip_prefix(b"HTTP/"));
    let is_ours = matches!(version, Some(b"1.0" | b"1.1"));
    !is_ours && matches!(version, Some([major, b'.', minor]) if major.is_ascii_digit() && minor.is_ascii_digit())
}

/// Some clients send a line break after a body (RFC 9112, 2.2). Says whether there was one.
fn drop_empty_lines(read: &mut BytesMut) -> bool {
    let bytes_before = read.len();
    loop {
        match &read[..] {
            [b'\r', b'\n', ..] => read.advance(2),
            [b'\n', ..] => read.advance(1),
            _ => return read.len() < bytes_before,
        }
    }
}

impl fmt::Display for BadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

impl std::error::Error for BadRequest {}
