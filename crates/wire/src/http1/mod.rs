//! HTTP/1.1 as a client speaks it to a replica: the head of a request is written, answers are read out of a buffer.
//!
//! The rules are RFC 9112's. Nothing is copied: an answer's header values and the pieces of its body are parts of the
//! buffer that they were read into. The edges: interim answers (1xx) are passed over, but for 101; chunks override a
//! length, which is then dropped; two different lengths, chunks in HTTP/1.0 and lines that end in a bare line feed where
//! the framing depends on them are refused; extensions of chunks mean nothing.

mod chunks;
mod framing;
mod head;

use std::fmt;

pub use self::framing::{Framing, Part};
pub use self::head::{AnswerHead, write_request};

/// Largest head of an answer, and largest trailer section, bytes.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// An answer breaks a rule; says which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Malformed {}
