//! The files in a tar archive, while it streams by.
//!
//! Only what a trace needs: the contents of plain files and a name for messages, which is the short one where the archive
//! has a long one beside it. Everything else in an archive is passed over.

use std::io::{self, Read};

use super::unpack::peek;

const BLOCK_BYTES: usize = 512;
/// Where a header says what it is.
const MAGIC: std::ops::Range<usize> = 257..262;

/// Whether it is an archive; its bytes come back whole.
pub(super) fn recognise(read: Box<dyn Read + Send>) -> io::Result<(bool, Box<dyn Read + Send>)> {
    let (first, read) = peek(read, BLOCK_BYTES)?;
    Ok((first.get(MAGIC) == Some(b"ustar"), read))
}

/// An archive. As a reader it gives the current file.
pub(super) struct Tar<R> {
    read: R,
    /// Bytes of the file that have not been read.
    left: u64,
    /// Zeros after it.
    padding: u64,
}

impl<R: Read> Tar<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, left: 0, padding: 0 }
    }

    /// Goes to the next plain file; its name, or `None` at the end.
    pub(super) fn advance(&mut self) -> io::Result<Option<String>> {
        loop {
            let rest = self.left + self.padding;
            if io::copy(&mut self.read.by_ref().take(rest), &mut io::sink())? < rest {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (self.left, self.padding) = (0, 0);
            let mut header = [0; BLOCK_BYTES];
            let mut filled = 0;
            while filled < BLOCK_BYTES {
                match self.read.read(&mut header[filled..])? {
                    0 if filled == 0 => return Ok(None),
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    read => filled += read,
                }
            }
            if header.iter().all(|&byte| byte == 0) {
                return Ok(None);
            }
            let size = size(&header).ok_or_else(|| damaged("a header of the tar archive is damaged"))?;
            self.left = size;
            self.padding = size.next_multiple_of(BLOCK_BYTES as u64) - size;
            if matches!(header[156], b'0' | 0) {
                return Ok(Some(name(&header)));
            }
        }
    }
}

impl<R: Read> Read for Tar<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let room = out.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if room == 0 {
            // Not asked of what is below: the xz decoder takes an empty read for the end of its data.
            return Ok(0);
        }
        let read = self.read.read(&mut out[..room])?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= read as u64;
        Ok(read)
    }
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_owned())
}

/// The size that a header tells, if it is sound.
fn size(header: &[u8; BLOCK_BYTES]) -> Option<u64> {
    const SUM: std::ops::Range<usize> = 148..156;
    let sum: u64 =
        header.iter().enumerate().map(|(at, &byte)| u64::from(if SUM.contains(&at) { b' ' } else { byte })).sum();
    if octal(&header[SUM])? != sum {
        return None;
    }
    let field = &header[124..136];
    let size = if field[0] & 0x80 == 0 {
        octal(field)?
    } else {
        // Sizes from 8 GiB on are written in binary.
        u64::from_be_bytes(field[4..].try_into().ok()?)
    };
    (size < 1 << 62).then_some(size)
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    u64::from_str_radix(text.trim_matches(['\0', ' ']), 8).ok()
}

fn name(header: &[u8; BLOCK_BYTES]) -> String {
    let text = |field: &[u8]| {
        let end = field.iter().position(|&byte| byte == 0).unwrap_or(field.len());
        String::from_utf8_lossy(&field[..end]).into_owned()
    };
    let (name, folder) = (text(&header[..100]), text(&header[345..500]));
    if folder.is_empty() { name } else { format!("{folder}/{name}") }
}
