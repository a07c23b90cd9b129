//! Decodes chunked framing (RFC 9112, 7.1), whatever the cutting.

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use memchr::memchr;

use super::framing::Part;
use super::{HEAD_BYTES_MAX, Malformed};

/// Largest line of a chunk's size, its extensions included.
const LINE_BYTES_MAX: usize = 4 << 10;
/// Most trailers.
const TRAILERS_MAX: usize = 64;

/// Where in the framing the next byte is.
#[derive(Debug, Default)]
pub enum Chunks {
    /// A size.
    #[default]
    Size,
    /// This many bytes of data.
    Data(u64),
    /// The line break after data.
    DataEnd,
    /// What follows the last chunk.
    Trailers,
    /// Nothing.
    End,
}

impl Chunks {
    /// Whether the last chunk and what follows it have been taken.
    pub(super) fn is_end(&self) -> bool {
        matches!(self, Self::End)
    }

    /// Takes the next part from the front of `read`, if it is there.
    pub(super) fn next(&mut self, read: &mut BytesMut) -> Result<Option<Part>, Malformed> {
        loop {
            match self {
                Self::Size => {
                    let Some(line) = line(read, LINE_BYTES_MAX)? else { return Ok(None) };
                    *self = match size(&line)? {
                        0 => Self::Trailers,
                        size => Self::Data(size),
                    };
                }
                Self::Data(left) => {
                    if read.is_empty() {
                        return Ok(None);
                    }
                    let taken = read.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    if *left == 0 {
                        *self = Self::DataEnd;
                    }
                    return Ok(Some(Part::Data(read.split_to(taken).freeze())));
                }
                Self::DataEnd => {
                    if read.len() < 2 {
                        return Ok(None);
                    }
                    if !read.starts_with(b"\r\n") {
                        return Err(Malformed("a chunk is longer than it says"));
                    }
                    read.advance(2);
                    *self = Self::Size;
                }
                Self::Trailers => {
                    let Some(trailers) = trailers(read)? else { return Ok(None) };
                    *self = Self::End;
                    return Ok((!trailers.is_empty()).then_some(Part::Trailers(trailers)));
                }
                Self::End => return Ok(None),
            }
        }
    }
}

/// Takes a line without its end, if it is complete.
fn line(read: &mut BytesMut, bytes_max: usize) -> Result<Option<Bytes>, Malformed> {
    let Some(end) = memchr(b'\n', &read[..read.len().min(bytes_max)]) else {
        let is_too_long = read.len() >= bytes_max;
        return if is_too_long { Err(Malformed("a line of the framing is too long")) } else { Ok(None) };
    };
    let mut line = read.split_to(end + 1).freeze();
    if !line.ends_with(b"\r\n") {
        return Err(Malformed("a line of the framing ends wrongly"));
    }
    line.truncate(end - 1);
    Ok(Some(line))
}

/// The size that a line says. What stands after it means nothing to us.
fn size(line: &[u8]) -> Result<u64, Malformed> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii_end();
    let value = |size: u64, &digit: &u8| {
        let digit = char::from(digit).to_digit(16)?;
        (size >> 60 == 0).then_some(size << 4 | u64::from(digit))
    };
    let size = if digits.is_empty() { None } else { digits.iter().try_fold(0, value) };
    size.ok_or(Malformed("a chunk has no valid size"))
}

/// Takes the trailers and the empty line after them, if they are complete.
fn trailers(read: &mut BytesMut) -> Result<Option<HeaderMap>, Malformed> {
    // Looked for first: to parse anew with every byte that comes would take time in the square of them.
    let is_complete = read.starts_with(b"\r\n") || memchr::memmem::find(read, b"\r\n\r\n").is_some();
    if !is_complete && read.len() < HEAD_BYTES_MAX {
        return Ok(None);
    }
    let mut storage = [httparse::EMPTY_HEADER; TRAILERS_MAX];
    let (length, trailers) = match httparse::parse_headers(read, &mut storage) {
        Ok(httparse::Status::Complete((length, parsed))) if length <= HEAD_BYTES_MAX => {
            let pairs = parsed.iter().map(|trailer| {
                let name = HeaderName::from_bytes(trailer.name.as_bytes()).ok()?;
                Some((name, HeaderValue::from_bytes(trailer.value).ok()?))
            });
            (length, pairs.collect::<Option<Vec<_>>>())
        }
        Ok(httparse::Status::Partial) if read.len() < HEAD_BYTES_MAX => return Ok(None),
        _ => return Err(Malformed("there are trailers that are none")),
    };
    let trailers = trailers.ok_or(Malformed("there are trailers that are none"))?;
    read.advance(length);
    let mut map = HeaderMap::with_capacity(trailers.len());
    trailers.into_iter().for_each(|(name, value)| {
        map.append(name, value);
    });
    Ok(Some(map))
}
