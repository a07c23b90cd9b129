//! Changes to a request's body that leave every other byte as it was.
//!
//! A few features change a body: a model alias, a stream flag, asking for the usage. Reading a body into a document and
//! writing it again would drop what a document does not keep (order, repeated members, the spelling of numbers) and
//! cost more than routing does. So a [`Plan`] only says which bytes to replace by which; what it leaves is passed on in
//! the slices it came in.
//!
//! Rules:
//! - An edit is about one member of the top level. Engines differ in which of repeated members they take, so all of
//!   them are changed. Two edits must not name the same member.
//! - A member that is not there is added as the first, since that place is known whatever follows.
//! - The values put in are the caller's, and must be JSON; [`json_string`] makes one of a string.
//! - Only what is needed is checked: a body that is malformed inside a member that is left alone stays so.

mod finder;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;

use bytes::Bytes;

use crate::json::{self, Lexer};
use finder::Finder;

/// Occurrences of edited members in one body. Sensible ones have each once, and a plan costs memory for every one.
pub const OCCURRENCES_MAX: usize = 64;

/// One change. `value` is JSON, and names are shorter than [`NAME_BYTES_MAX`](crate::json::NAME_BYTES_MAX).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edit<'a> {
    /// Replaces the value of a member, if there is one.
    Replace {
        /// The member.
        name: &'a str,
        /// Its new value.
        value: &'a [u8],
    },
    /// Replaces the value of a member, or adds it.
    Set {
        /// The member.
        name: &'a str,
        /// Its value.
        value: &'a [u8],
    },
    /// Does the same inside the object that a member holds; a member that holds no object is made one.
    SetIn {
        /// The member that holds an object.
        object: &'a str,
        /// The member of that object.
        name: &'a str,
        /// Its value.
        value: &'a [u8],
    },
}

impl Edit<'_> {
    /// The member of the top level.
    fn member(&self) -> &str {
        match self {
            Self::Replace { name, .. } | Self::Set { name, .. } | Self::SetIn { object: name, .. } => name,
        }
    }

    /// What the whole member's value becomes.
    fn value(&self) -> Vec<u8> {
        match self {
            Self::Replace { value, .. } | Self::Set { value, .. } => value.to_vec(),
            Self::SetIn { name, value, .. } => [b"{", &member_text(name, value)[..], b"}"].concat(),
        }
    }
}

fn member_text(name: &str, value: &[u8]) -> Vec<u8> {
    [&json_string(name)[..], b":", value].concat()
}

/// A string as JSON, quotes included.
#[must_use]
pub fn json_string(text: &str) -> Vec<u8> {
    // Strings cannot fail to serialise.
    serde_json::to_vec(text).unwrap_or_default()
}

/// Bytes of the body that others take the place of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Splice {
    /// Offsets in the body; empty where something is put in.
    pub range: Range<u64>,
    /// What comes there.
    pub with: Bytes,
}

/// What to replace in one body, in ascending order and without overlap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    splices: Vec<Splice>,
}

/// Why a body cannot be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewriteError {
    /// It cannot be read.
    Json(json::Error),
    /// It is JSON, but not an object.
    NotAnObject,
    /// The members to change occur more often than [`OCCURRENCES_MAX`].
    TooManyOccurrences,
}

impl fmt::Display for RewriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "body cannot be changed: {error}"),
            Self::NotAnObject => write!(f, "body cannot be changed: it is json, but not an object"),
            Self::TooManyOccurrences => {
                write!(
                    f,
                    "body cannot be changed: the same members occur more than {OCCURRENCES_MAX} times, send each once"
                )
            }
        }
    }
}

impl std::error::Error for RewriteError {}

impl Plan {
    /// Finds where the edits apply in a complete body, given in slices cut anywhere.
    ///
    /// # Errors
    /// The body cannot be changed; see [`RewriteError`].
    pub fn new<'b>(body: impl IntoIterator<Item = &'b [u8]>, edits: &[Edit<'_>]) -> Result<Self, RewriteError> {
        debug_assert!(
            edits.iter().enumerate().all(|(i, edit)| edits[..i].iter().all(|other| other.member() != edit.member())),
            "two edits of one member"
        );
        let mut finder = Finder::new(edits);
        let mut lexer = Lexer::new();
        for slice in body {
            lexer.feed(slice, &mut finder).map_err(RewriteError::Json)?;
            if finder.splices.len() > OCCURRENCES_MAX {
                return Err(RewriteError::TooManyOccurrences);
            }
        }
        lexer.finish(&mut finder).map_err(RewriteError::Json)?;
        finder.into_plan()
    }

    /// What is replaced, in ascending order.
    #[must_use]
    pub fn splices(&self) -> &[Splice] {
        &self.splices
    }

    /// Whether the body stays as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.splices.is_empty()
    }

    /// The bytes of the changed body, out of those of the body that was planned for.
    #[must_use]
    pub fn body_bytes(&self, body_bytes: u64) -> u64 {
        let change = |splice: &Splice| (splice.with.len() as u64, splice.range.end - splice.range.start);
        let (added, removed) = self.splices.iter().map(change).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
        body_bytes + added - removed
    }

    /// The changed body. What is left of the given slices, which are those that were planned for, is shared with them.
    #[must_use]
    pub fn apply(&self, body: &[Bytes]) -> Vec<Bytes> {
        let mut out = Vec::with_capacity(body.len() + 2 * self.splices.len());
        let mut splices = self.splices.iter().peekable();
        // Offset of the slice, and up to where the body has been dealt with.
        let (mut offset, mut done) = (0, 0);
        for slice in body {
            let end = offset + slice.len() as u64;
            while let Some(splice) = splices.next_if(|splice| splice.range.start < end) {
                keep(slice, offset, done..splice.range.start, &mut out);
                out.push(splice.with.clone());
                done = splice.range.end;
            }
            keep(slice, offset, done..end, &mut out);
            (offset, done) = (end, done.max(end));
        }
        out
    }
}

/// Takes over the bytes at `range` of the body, as far as they lie in the slice at `offset`.
fn keep(slice: &Bytes, offset: u64, range: Range<u64>, out: &mut Vec<Bytes>) {
    let within = |at: u64| usize::try_from(at.saturating_sub(offset)).unwrap_or(usize::MAX).min(slice.len());
    let (start, end) = (within(range.start), within(range.end));
    if start < end {
        out.push(slice.slice(start..end));
    }
}
