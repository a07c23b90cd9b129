//! Why a document is refused.

use std::fmt;

use super::DEPTH_MAX;

/// Why a document was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// Not JSON at this byte.
    Syntax,
    /// More than [`DEPTH_MAX`] containers inside each other.
    TooDeep,
    /// The bytes ended before the document did.
    Truncated,
    /// Nothing but white space.
    Empty,
}

/// Why and where a document was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Error {
    /// Why.
    pub kind: ErrorKind,
    /// Bytes before the one that could not be accepted. Bad UTF-8 is noticed at the end of its run, so there the
    /// offset is that of the run's beginning.
    pub offset: u64,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = self.offset;
        match self.kind {
            ErrorKind::Syntax => write!(f, "not json at byte {offset}: check the syntax there"),
            ErrorKind::TooDeep => {
                write!(f, "more than {DEPTH_MAX} nested containers at byte {offset}: flatten the document")
            }
            ErrorKind::Truncated => write!(f, "json ends early, after {offset} bytes: send the whole document"),
            ErrorKind::Empty => write!(f, "no json: the {offset} bytes given hold only white space"),
        }
    }
}

impl std::error::Error for Error {}
