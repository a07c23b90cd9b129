//! Strings that are read: escapes, surrogate pairs, control characters and UTF-8, whatever the cutting.
//!
//! There are two ways through a string. [`StringReader::next`] takes one run or one escape at a time. [`StringReader::gather`]
//! is for text: it puts short runs and what stands between them together, and hands long ones on as they stand. What a run
//! is depends on the [`Form`] that is wanted.

use kvroute_core::written;
use memchr::memchr2;
use simdutf8::compat::from_utf8;

use super::ErrorKind;
use super::gathered::Gathered;
use super::lexer::Fault;

/// A run is looked for at most this far ahead, so that a visitor that has enough stops a long string early.
const RUN_BYTES_MAX: usize = 8 * 1024;

/// A run without escapes of at least this size is handed on without copying.
const DIRECT_BYTES_MIN: usize = 256;

/// How a text is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Un-escaped.
    Plain,
    /// As JSON writes it at its shortest.
    Written,
}

impl Form {
    /// The beginning of `window` that stands as it should, up to something else or the closing quote.
    fn run(self, window: &[u8]) -> &[u8] {
        match self {
            Self::Plain => memchr2(b'"', b'\\', window).map_or(window, |end| &window[..end]),
            Self::Written => &window[..written::run(window)],
        }
    }

    fn push(self, piece: &Piece<'_>, out: &mut Gathered) {
        match piece {
            Piece::Raw(run) => out.extend(run),
            Piece::Char(c) if self == Self::Written => written::write(*c, |bytes| out.extend(bytes)),
            Piece::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
            Piece::Nothing | Piece::End => {}
        }
    }
}

/// Why [`StringReader::gather`] stopped.
#[derive(Debug)]
pub(super) enum Stop<'a> {
    /// A run that is long enough to be handed on as it stands, after what was gathered.
    Run(&'a [u8]),
    /// Enough was gathered to be handed on.
    Enough,
    /// The chunk is over.
    ChunkEnd,
    /// The closing quote.
    End,
}

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
                if let Some(byte) = chunk.get(at + 1).copied().and_then(simple_escape) {
                    return Ok((Piece::Char(char::from(byte)), at + 2));
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

    /// Puts into `out`, in `form`, what follows from `chunk[at]`, until there is enough, or something else to do; gives
    /// the position after what was taken.
    pub(super) fn gather<'a>(
        &mut self,
        chunk: &'a [u8],
        mut at: usize,
        form: Form,
        out: &mut Gathered,
    ) -> Result<(Stop<'a>, usize), Fault> {
        while at < chunk.len() {
            if !matches!(self.escape, Escape::None) {
                let piece = self.escaped(chunk[at]).ok_or((ErrorKind::Syntax, at))?;
                form.push(&piece, out);
                at += 1;
                continue;
            }
            if out.is_enough() {
                return Ok((Stop::Enough, at));
            }
            let run = form.run(&chunk[at..chunk.len().min(at + RUN_BYTES_MAX)]);
            if !run.is_empty() && !self.accepts(run) {
                return Err((ErrorKind::Syntax, at));
            }
            at += run.len();
            if run.len() >= DIRECT_BYTES_MIN {
                return Ok((Stop::Run(run), at));
            }
            out.extend(run);
            match chunk.get(at) {
                Some(b'"' | b'\\') if !self.utf8.is_whole() => return Err((ErrorKind::Syntax, at)),
                Some(b'"') => return Ok((Stop::End, at + 1)),
                Some(b'\\') => at = self.escape_in(chunk, at, form, out),
                _ => {}
            }
        }
        Ok((Stop::ChunkEnd, at))
    }

    /// Takes the escape whose backslash is `chunk[at]` if all of it is here, else only the backslash; gives the
    /// position after what was taken.
    fn escape_in(&mut self, chunk: &[u8], at: usize, form: Form, out: &mut Gathered) -> usize {
        if let Some(byte) = chunk.get(at + 1).copied().and_then(simple_escape) {
            form.push(&Piece::Char(char::from(byte)), out);
            return at + 2;
        }
        if let Some(&[b'u', a, b, c, d]) = chunk.get(at + 1..at + 6)
            && let Some(c) = hex_char([a, b, c, d])
        {
            form.push(&Piece::Char(c), out);
            return at + 6;
        }
        self.escape = Escape::Backslash;
        at + 1
    }

    /// No character is cut at this point.
    pub(super) fn is_whole(&self) -> bool {
        self.utf8.is_whole()
    }

    fn accepts(&mut self, run: &[u8]) -> bool {
        // Nearly every run is plain ASCII.
        let (lowest, all) = extremes(run);
        lowest >= 0x20 && (all < 0x80 && self.utf8.is_whole() || self.utf8.push(run))
    }

    /// Takes a byte inside an escape; `None` when it cannot stand there.
    fn escaped(&mut self, byte: u8) -> Option<Piece<'static>> {
        match self.escape {
            Escape::None => return None,
            Escape::Backslash if byte == b'u' => self.escape = Escape::Hex { digits: 0, value: 0, high: None },
            Escape::Backslash => {
                self.escape = Escape::None;
                return simple_escape(byte).map(|byte| Piece::Char(char::from(byte)));
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

/// The character that an escape of two bytes stands for.
fn simple_escape(byte: u8) -> Option<u8> {
    Some(match byte {
        b'n' => b'\n',
        b'"' | b'\\' | b'/' => byte,
        b't' => b'\t',
        b'r' => b'\r',
        b'b' => 0x8,
        b'f' => 0xC,
        _ => return None,
    })
}

/// The character of four hex digits, unless they are half of a surrogate pair or no digits.
fn hex_char(digits: [u8; 4]) -> Option<char> {
    let value = digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))?;
    char::from_u32(value)
}

/// The lowest byte, and all bits that are set in some byte. One pass without early exit, which the compiler vectorises.
fn extremes(bytes: &[u8]) -> (u8, u8) {
    bytes.iter().fold((u8::MAX, 0), |(low, all), &byte| (byte.min(low), byte | all))
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
            match from_utf8(&self.begun[..self.len]) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return false,
                // At four bytes a character is complete or wrong, so `begun` never overflows.
                Err(_) => {}
            }
        }
        match from_utf8(bytes) {
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
