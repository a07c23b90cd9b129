//! Strings that are read: escapes, surrogate pairs, control characters and UTF-8, whatever the cutting.

use memchr::memchr2;

use super::ErrorKind;
use super::lexer::Fault;

/// A run is looked for at most this far ahead, so that a visitor that has enough stops a long string early.
const RUN_BYTES_MAX: usize = 8 * 1024;

/// The next part of a string.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Bytes that stand for themselves, never empty.
    Raw(&'a [u8]),
    /// What an escape stands for.
    Char(char),
    /// An escape is not complete yet.
    Nothing,
    /// The closing quote.
    End,
}

/// How much of an escape has been seen. `high` is the first half of a surrogate pair.
#[derive(Debug, Clone, Copy)]
enum Escape {
    None,
    Backslash,
    Hex {
        digits: u8,
        value: u16,
        high: Option<u16>,
    },
    /// The first half of a pair is complete; `\` must follow.
    LowBackslash {
        high: u16,
    },
    /// Then `u`.
    LowU {
        high: u16,
    },
}

/// Reads one string after the other, from after the opening quote.
#[derive(Debug)]
pub(super) struct StringReader {
    escape: Escape,
    utf8: Utf8,
}

impl Default for StringReader {
    fn default() -> Self {
        Self { escape: Escape::None, utf8: Utf8::default() }
    }
}

impl StringReader {
    /// The piece that begins at `chunk[at]`, which must exist, and the position after it.
    pub(super) fn next<'a>(&mut self, chunk: &'a [u8], at: usize) -> Result<(Piece<'a>, usize), Fault> {
        let byte = chunk[at];
        if !matches!(self.escape, Escape::None) {
            let piece = self.escaped(byte).ok_or((ErrorKind::Syntax, at))?;
            return Ok((piece, at + 1));
        }
        match byte {
            b'"' | b'\\' if !self.utf8.is_whole() => Err((ErrorKind::Syntax, at)),
            b'"' => Ok((Piece::End, at + 1)),
            b'\\' => {
                if let Some(c) = chunk.get(at + 1).copied().and_then(simple_escape) {
                    return Ok((Piece::Char(c), at + 2));
                }
                self.escape = Escape::Backslash;
                Ok((Piece::Nothing, at + 1))
            }
            _ => {
                let window = &chunk[at..chunk.len().min(at + RUN_BYTES_MAX)];
                let run = memchr2(b'"', b'\\', window).map_or(window, |end| &window[..end]);
                if self.accepts(run) { Ok((Piece::Raw(run), at + run.len())) } else { Err((ErrorKind::Syntax, at)) }
            }
        }
    }

    /// No character is cut at this point.
    pub(super) fn is_whole(&self) -> bool {
        self.utf8.is_whole()
    }

    fn accepts(&mut self, run: &[u8]) -> bool {
        // One pass without early exit, which the compiler vectorises; nearly every run is plain ASCII.
        let (lowest, all) = run.iter().fold((u8::MAX, 0), |(low, all), &byte| (byte.min(low), byte | all));
        lowest >= 0x20 && (all < 0x80 && self.utf8.is_whole() || self.utf8.push(run))
    }

    /// Takes a byte inside an escape; `None` when it cannot stand there.
    fn escaped(&mut self, byte: u8) -> Option<Piece<'static>> {
        match self.escape {
            Escape::None => return None,
            Escape::Backslash if byte == b'u' => self.escape = Escape::Hex { digits: 0, value: 0, high: None },
            Escape::Backslash => {
                self.escape = Escape::None;
                return simple_escape(byte).map(Piece::Char);
            }
            Escape::Hex { digits, value, high } => {
                let digit = char::from(byte).to_digit(16)?;
                let value = value << 4 | u16::try_from(digit).ok()?;
                if digits == 3 {
                    return self.hex_done(value, high);
                }
                self.escape = Escape::Hex { digits: digits + 1, value, high };
            }
            Escape::LowBackslash { high } if byte == b'\\' => self.escape = Escape::LowU { high },
            Escape::LowU { high } if byte == b'u' => {
                self.escape = Escape::Hex { digits: 0, value: 0, high: Some(high) };
            }
            Escape::LowBackslash { .. } | Escape::LowU { .. } => return None,
        }
        Some(Piece::Nothing)
    }

    fn hex_done(&mut self, value: u16, high: Option<u16>) -> Option<Piece<'static>> {
        if high.is_none() && (0xD800..0xDC00).contains(&value) {
            self.escape = Escape::LowBackslash { high: value };
            return Some(Piece::Nothing);
        }
        self.escape = Escape::None;
        // After a first half only a second half decodes, so there is never more than one character.
        let mut decoded = char::decode_utf16(high.into_iter().chain([value]));
        decoded.next()?.ok().map(Piece::Char)
    }
}

fn simple_escape(byte: u8) -> Option<char> {
    Some(match byte {
        b'n' => '\n',
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        _ => return None,
    })
}

/// Checks UTF-8 that is cut anywhere: holds the beginning of at most one character.
#[derive(Debug, Default)]
struct Utf8 {
    begun: [u8; 4],
    len: usize,
}

impl Utf8 {
    fn is_whole(&self) -> bool {
        self.len == 0
    }

    fn push(&mut self, mut bytes: &[u8]) -> bool {
        while self.len > 0 {
            let Some((&first, rest)) = bytes.split_first() else { return true };
            self.begun[self.len] = first;
            self.len += 1;
            bytes = rest;
            match std::str::from_utf8(&self.begun[..self.len]) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return false,
                // At four bytes a character is complete or wrong, so `begun` never overflows.
                Err(_) => {}
            }
        }
        match std::str::from_utf8(bytes) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                let begun = &bytes[error.valid_up_to()..];
                self.begun[..begun.len()].copy_from_slice(begun);
                self.len = begun.len();
                true
            }
        }
    }
}
