//! Strings that are read: escapes, surrogate pairs, control characters and UTF-8, whatever the cutting.
//!
//! There are two ways through a string. [`StringReader::next`] takes one run or one escape at a time and is right
//! wherever the cut is. [`StringReader::gather`] is the fast one for text: it un-escapes what lies in one chunk into a
//! buffer. Plain ASCII with escapes, which most prompts are, goes by blocks of 64 bytes; of other text, whole windows of
//! raw bytes are checked in place of every run between two escapes. Where a chunk ends inside an escape or a character,
//! it falls back to the first.

use memchr::memchr2;
use simdutf8::compat::from_utf8;

use super::ErrorKind;
use super::block::{BLOCK_BYTES, Block};
use super::gathered::Gathered;
use super::lexer::Fault;

/// A run is looked for at most this far ahead, so that a visitor that has enough stops a long string early.
const RUN_BYTES_MAX: usize = 8 * 1024;

/// Raw bytes that are checked at once where escapes are dense.
const WINDOW_BYTES: usize = 1024;

/// A run without escapes of at least this size is handed on without copying.
const DIRECT_BYTES_MIN: usize = 256;

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

    /// Un-escapes into `out` what follows from `chunk[at]`, until there is enough, or something else to do; gives the
    /// position after what was taken.
    pub(super) fn gather<'a>(
        &mut self,
        chunk: &'a [u8],
        mut at: usize,
        out: &mut Gathered,
    ) -> Result<(Stop<'a>, usize), Fault> {
        // Up to `checked` the chunk needs no further check; up to `window_end` no further window is tried.
        let (mut checked, mut window_end) = (at, at);
        while at < chunk.len() {
            if !matches!(self.escape, Escape::None) {
                let piece = self.escaped(chunk[at]).ok_or((ErrorKind::Syntax, at))?;
                push_piece(&piece, out);
                at += 1;
                continue;
            }
            if out.is_enough() {
                return Ok((Stop::Enough, at));
            }
            if self.utf8.is_whole() {
                let (end, is_over) = blocks(chunk, at, out);
                if is_over {
                    return Ok((Stop::End, end));
                }
                if end > at {
                    at = end;
                    continue;
                }
            }
            let window = &chunk[at..chunk.len().min(at + RUN_BYTES_MAX)];
            let run = memchr2(b'"', b'\\', window).map_or(window, |end| &window[..end]);
            if at + run.len() > checked && !run.is_empty() && !self.accepts(run) {
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
                Some(b'\\') => at = self.escape_in(chunk, at, out),
                _ => continue,
            }
            if at >= window_end {
                (checked, window_end) = checked_window(chunk, at);
            }
        }
        Ok((Stop::ChunkEnd, at))
    }

    /// Takes the escape whose backslash is `chunk[at]` if all of it is here, else only the backslash; gives the
    /// position after what was taken.
    fn escape_in(&mut self, chunk: &[u8], at: usize, out: &mut Gathered) -> usize {
        if let Some(byte) = chunk.get(at + 1).copied().and_then(simple_escape) {
            out.push(byte);
            return at + 2;
        }
        if let Some(&[b'u', a, b, c, d]) = chunk.get(at + 1..at + 6)
            && let Some(c) = hex_char([a, b, c, d])
        {
            push_piece(&Piece::Char(c), out);
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

/// Gathers from `chunk[at]` on by blocks, as long as they are plain ASCII with escapes of two bytes; gives the position
/// after what was taken, and whether that was the closing quote. Takes nothing where a long run begins, which need not be
/// copied at all.
fn blocks(chunk: &[u8], mut at: usize, out: &mut Gathered) -> (usize, bool) {
    // The bytes of two blocks are there, so that a block can be copied from any place in the first.
    while let Some(room) = chunk.get(at..at + 2 * BLOCK_BYTES)
        && !out.is_enough()
        && let Some(Block { mut stops, unusual }) = Block::at(chunk, at)
        && unusual == 0
        && (stops != 0 || Block::at(chunk, at + BLOCK_BYTES).is_some_and(|next| next.stops != 0))
    {
        let mut from = 0;
        loop {
            let stop = stops.trailing_zeros() as usize;
            if let Some(block) = room[from..].first_chunk() {
                out.push_block(block, stop - from);
            }
            if stop == BLOCK_BYTES {
                from = BLOCK_BYTES;
                break;
            }
            if room[stop] == b'"' {
                return (at + stop + 1, true);
            }
            let Some(byte) = simple_escape(room[stop + 1]) else {
                // A longer one, or none.
                return (at + stop, false);
            };
            out.push(byte);
            from = stop + 2;
            if from >= BLOCK_BYTES {
                break;
            }
            stops &= u64::MAX << from;
        }
        at += from;
    }
    (at, false)
}

/// The character that an escape of two bytes stands for.
fn simple_escape(byte: u8) -> Option<u8> {
    /// By the escape's second byte; zero where there is none. A jump would be guessed wrong in most texts.
    const TABLE: [u8; 256] = {
        let mut table = [0; 256];
        table[b'n' as usize] = b'\n';
        table[b'"' as usize] = b'"';
        table[b'\\' as usize] = b'\\';
        table[b'/' as usize] = b'/';
        table[b't' as usize] = b'\t';
        table[b'r' as usize] = b'\r';
        table[b'b' as usize] = 0x8;
        table[b'f' as usize] = 0xC;
        table
    };
    Some(TABLE[usize::from(byte)]).filter(|&byte| byte != 0)
}

/// The character of four hex digits, unless they are half of a surrogate pair or no digits.
fn hex_char(digits: [u8; 4]) -> Option<char> {
    let value = digits.iter().try_fold(0, |value, &digit| Some(value << 4 | char::from(digit).to_digit(16)?))?;
    char::from_u32(value)
}

fn push_piece(piece: &Piece<'_>, out: &mut Gathered) {
    match piece {
        Piece::Raw(run) => out.extend(run),
        Piece::Char(c) => out.extend(c.encode_utf8(&mut [0; 4]).as_bytes()),
        Piece::Nothing | Piece::End => {}
    }
}

/// How far from `at`, where a character begins, the chunk's bytes could stand in a string, escapes or not, and how far
/// this was looked for.
///
/// The window may reach beyond the string into bytes that cannot stand in one. Then nothing is said, and every run is
/// checked by itself.
fn checked_window(chunk: &[u8], at: usize) -> (usize, usize) {
    let window = &chunk[at..chunk.len().min(at + WINDOW_BYTES)];
    let window_end = at + window.len();
    let (lowest, all) = extremes(window);
    let valid = match lowest {
        ..0x20 => 0,
        _ if all < 0x80 => window.len(),
        _ => match from_utf8(window) {
            Ok(_) => window.len(),
            Err(error) if error.error_len().is_some() => 0,
            Err(error) => error.valid_up_to(),
        },
    };
    (at + valid, window_end)
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
