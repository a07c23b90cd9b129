//! A resumable JSON lexer that is pushed bytes and keeps no document.
//!
//! It exists because the request path must find a few members in bodies of any size while they arrive, without a DOM
//! and without waiting for the end. A [`Visitor`] is asked at every value whether it wants it; what it does not want is
//! passed over at the speed of a byte search.
//!
//! Rules:
//! - Bytes may be cut anywhere: inside escapes, surrogate pairs, numbers, UTF-8 characters. The calls a visitor gets
//!   depend on the cutting only in where [`Visitor::text`] pieces end.
//! - What is read is checked as strictly as `serde_json` does for a `Value`: grammar, control characters, UTF-8,
//!   surrogate pairs, nothing but white space after the document, at most [`DEPTH_MAX`] containers inside each other.
//! - The checking is laxer in exactly three places: (1) the bytes of a *skipped string* are only searched for its end;
//!   (2) inside a *skipped container*, and in the rest of one that is left, only strings and matching brackets are
//!   recognised, and beyond [`DEPTH_MAX`] containers only their number; (3) the magnitude of a number is not checked (`1e999` passes).
//! - Time is linear in the bytes fed. Memory is constant: a member name beyond [`NAME_BYTES_MAX`] bytes is cut, text is
//!   handed on in pieces.
//! - After an error the lexer stays failed and makes no further calls.

mod error;
mod gathered;
mod lexer;
mod number;
mod skip;
mod stack;
mod string;
#[cfg(test)]
mod tests;
mod visitor;

pub use error::{Error, ErrorKind};
pub use lexer::Lexer;
pub use visitor::{Kind, Scalar, Visitor, Want};

/// Containers that may be open inside each other; the same as `serde_json` allows.
pub const DEPTH_MAX: u8 = 127;

/// Bytes of a member name that a visitor gets to see. A longer name is cut, so compare only with shorter names.
pub const NAME_BYTES_MAX: usize = 64;
