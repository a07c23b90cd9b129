//! What a reader of documents must answer, and what it is told.

use std::ops::ControlFlow;

/// What a value turned out to be, known from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `"`
    String,
    /// A digit or `-`.
    Number,
    /// The beginning of `true`, `false` or `null`.
    Literal,
}

/// A complete scalar that is not a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// Digits only, within `u64`.
    Unsigned(u64),
    /// Any other number: negative, fractional, with an exponent, or too large.
    OtherNumber,
}

/// What the visitor wants done with the value that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// Strings and scalars are reported, containers are descended into.
    Read,
    /// The same, but a string is reported as JSON writes it at its shortest: with `"`, `\`, and control characters
    /// escaped, by one letter where there is one, and everything else as itself. Most clients write so, and what they wrote
    /// is handed on as it came.
    ReadWritten,
    /// The value is passed over without any call.
    Skip,
    /// The value and everything after it in the container around it is passed over; [`Visitor::close`] follows. For
    /// the outermost value the same as [`Want::Skip`].
    Leave,
}

/// Receives what is in a document, in its order.
pub trait Visitor {
    /// The name of the member whose value comes next, un-escaped, at most [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) bytes.
    fn name(&mut self, name: &[u8]);

    /// A value begins: the member just named, the next element, or the document itself.
    fn value(&mut self, kind: Kind) -> Want;

    /// The offset of the first byte of the value of which [`Visitor::value`] is told next. Ignored unless implemented.
    fn value_begins(&mut self, offset: u64) {
        let _ = offset;
    }

    /// The offset after the last byte of a value, whether it was read or passed over; its last call, if it has one,
    /// follows. Not told of what is inside a value that is passed over. Ignored unless implemented.
    fn value_ends(&mut self, offset: u64) {
        let _ = offset;
    }

    /// A piece of the string being read, un-escaped unless [`Want::ReadWritten`] was asked for, never empty. A piece may
    /// end anywhere, also inside a character, but not inside an escape.
    /// `Break` passes over the rest of this string; [`Visitor::text_end`] still follows.
    fn text(&mut self, piece: &[u8]) -> ControlFlow<()>;

    /// The string being read has ended.
    fn text_end(&mut self);

    /// The scalar being read.
    fn scalar(&mut self, scalar: Scalar);

    /// The container descended into has ended.
    fn close(&mut self);
}
