//! Plain bytes out of a compressed body, while it arrives.
//!
//! It exists so that a body with a `content-encoding` can be read for its prompt. The decoders are others' (zlib-rs,
//! brotli-decompressor, ruzstd); here is what they have in common: they are asked for the next piece, and each piece and
//! all of them together are limited.
//!
//! Edge cases:
//! - `deflate` is the zlib format, but some clients send it without that wrapper: the first byte tells.
//! - A body may be several gzip members or zstd frames, which are joined, up to [`MEMBERS_MAX`]: each costs time
//!   whatever is in it.
//! - Bytes after the end are damage, and so is a checksum that is not the content's. brotli has none.
//!
//! Memory: an output buffer and the window, which is 32 KiB (gzip, deflate) or at most 16 MiB (brotli) and 8 MiB (zstd,
//! the limit that RFC 9659 sets for this use).

mod brotli;
mod inflate;
#[cfg(test)]
mod tests;
mod zstd;

use std::fmt;

use self::brotli::Brotli;
use self::inflate::Inflating;
use self::zstd::Zstd;

/// Largest piece that is given at once, bytes: so much work is done before others may have their turn.
pub const PIECE_BYTES_MAX: usize = 32 * 1024;

/// Most gzip members or zstd frames of one body.
pub const MEMBERS_MAX: u32 = 1_024;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`, also called `x-gzip`.
    Gzip,
    /// `deflate`: the zlib format, or what is inside it.
    Deflate,
    /// `br`.
    Brotli,
    /// `zstd`.
    Zstd,
}

impl Coding {
    /// Every coding, in the order in which they are documented.
    pub const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

    /// The coding of a token of `content-encoding`, whatever its case.
    #[must_use]
    pub fn of(token: &[u8]) -> Option<Self> {
        let is = |name: &str| token.eq_ignore_ascii_case(name.as_bytes());
        if is("x-gzip") {
            return Some(Self::Gzip);
        }
        Self::ALL.into_iter().find(|coding| is(coding.as_str()))
    }

    /// What a decoder takes at most, bytes: nearly all of it is the window.
    #[must_use]
    pub fn memory_bytes_max(self) -> usize {
        match self {
            Self::Gzip | Self::Deflate => 128 << 10,
            // The buffer of a window of 8 MiB is a power of two that has room for a block more.
            Self::Brotli | Self::Zstd => 17 << 20,
        }
    }

    /// Its name in `content-encoding`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// Why there are no more plain bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodingError {
    /// The bytes are not of this coding, not those that were sent, or made for a larger window than the module's.
    Damaged,
    /// The body ended early.
    Truncated,
    /// There is more than the limit given to [`Decoder::new`].
    TooLarge,
    /// It is more than [`MEMBERS_MAX`] bodies in one.
    TooManyMembers,
}

impl fmt::Display for CodingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged => write!(f, "the compressed data is damaged"),
            Self::Truncated => write!(f, "the compressed data ends early"),
            Self::TooLarge => write!(f, "the data is too large once decompressed"),
            Self::TooManyMembers => write!(f, "the compressed data has more than {MEMBERS_MAX} members"),
        }
    }
}

impl std::error::Error for CodingError {}

/// What the decoders have in common.
trait Decode {
    /// Takes from `input` and writes to `out`; gives how much it wrote: nothing only where all of `input` was taken and
    /// more is needed, or the body is complete.
    fn next(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, CodingError>;

    /// Whether the bytes so far are a whole body.
    fn is_complete(&self) -> bool;
}

/// Decompresses one body.
pub struct Decoder {
    decode: Box<dyn Decode + Send>,
    out: Box<[u8]>,
    bytes_left: u64,
}

impl fmt::Debug for Decoder {
    /// Not the bytes: they are prompt text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder").field("bytes_left", &self.bytes_left).finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder at the beginning of a body that is to give at most `plain_bytes_max` bytes.
    #[must_use]
    pub fn new(coding: Coding, plain_bytes_max: u64) -> Self {
        let decode: Box<dyn Decode + Send> = match coding {
            Coding::Gzip => Box::new(Inflating::gzip()),
            Coding::Deflate => Box::new(Inflating::deflate()),
            Coding::Brotli => Box::new(Brotli::new()),
            Coding::Zstd => Box::new(Zstd::new()),
        };
        Self { decode, out: vec![0; PIECE_BYTES_MAX].into(), bytes_left: plain_bytes_max }
    }

    /// The next plain bytes; takes what they need from the beginning of `input`, which is cut anywhere. Empty once all
    /// of `input` was taken and gives no more.
    ///
    /// # Errors
    /// See [`CodingError`]. Nothing is to be asked after one.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<&[u8], CodingError> {
        let given = self.decode.next(input, &mut self.out)?;
        self.bytes_left = self.bytes_left.checked_sub(given as u64).ok_or(CodingError::TooLarge)?;
        Ok(&self.out[..given])
    }

    /// To be asked when no more input comes.
    ///
    /// # Errors
    /// The body is not complete.
    pub fn finish(&self) -> Result<(), CodingError> {
        if self.decode.is_complete() { Ok(()) } else { Err(CodingError::Truncated) }
    }
}
