//! How the body of a request or an answer ends, and what is left of it.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;

use super::Malformed;
use super::chunks::Chunks;

/// See the module.
#[derive(Debug)]
pub enum Framing {
    /// This many bytes are left, at least one.
    Known(u64),
    /// It ends with its last chunk.
    Chunked(Chunks),
    /// It ends with the connection, of which the caller must tell.
    Connection,
    /// It has ended.
    Done,
}

/// A part of a body.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// Bytes, never none.
    Data(Bytes),
    /// Trailers, never none. The body is over.
    Trailers(HeaderMap),
}

impl Framing {
    /// A body of this length.
    #[must_use]
    pub fn of_length(bytes: u64) -> Self {
        if bytes == 0 { Self::Done } else { Self::Known(bytes) }
    }

    /// A body in chunks.
    #[must_use]
    pub fn chunked() -> Self {
        Self::Chunked(Chunks::default())
    }

    /// Whether the body is over.
    #[must_use]
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Takes the next part from the front of `read`. `None` where more must be read for it, or the body is over.
    ///
    /// # Errors
    /// The chunks are none.
    pub fn next(&mut self, read: &mut BytesMut) -> Result<Option<Part>, Malformed> {
        match self {
            Self::Done => Ok(None),
            Self::Chunked(chunks) => {
                let part = chunks.next(read)?;
                if chunks.is_end() {
                    *self = Self::Done;
                }
                Ok(part)
            }
            Self::Known(_) | Self::Connection if read.is_empty() => Ok(None),
            Self::Connection => Ok(Some(Part::Data(read.split().freeze()))),
            Self::Known(left) => {
                let taken = read.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *self = Self::of_length(*left - taken as u64);
                Ok(Some(Part::Data(read.split_to(taken).freeze())))
            }
        }
    }
}
