//! HTTP/1.1 as it is spoken to a replica and by a client: heads are written and parsed, bodies are read out of a buffer.
//!
//! The rules are RFC 9112's. Nothing is copied: header values and the pieces of a body are parts of the buffer that they
//! were read into.
//!
//! - Answers ([`AnswerHead`]): interim ones (1xx) are passed over, but for 101; chunks override a length, which is then
//!   dropped; two different lengths and chunks in HTTP/1.0 are refused.
//! - Requests ([`RequestReader`]): whatever another server might frame in another way is refused, since what one takes
//!   for a body the other may take for a request.
//! - Bodies ([`Framing`]): lines of the framing that end in a bare line feed are refused; extensions of chunks mean nothing.

mod answer;
mod chunks;
mod fields;
mod framing;
mod head;
mod request;
#[cfg(test)]
mod tests;

use std::fmt;

pub use self::answer::{AnswerBody, Connection, write_answer, write_chunk_size};
pub use self::framing::{Framing, Part};
pub use self::head::{AnswerHead, write_request};
pub use self::request::{BadRequest, HEADERS_MAX, RequestHead, RequestReader};

/// Largest head of an answer, and largest trailer section, bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// An answer, or a body, breaks a rule; says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}
