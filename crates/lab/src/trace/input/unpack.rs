//! Plain bytes out of compressed ones.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
const MAGIC_BYTES_MAX: usize = 6;

/// What xz may take, KiB: a preset of 9 needs 65 MiB.
const XZ_MEMORY_KIB_MAX: u32 = 128 << 10;
/// The window of `zstd --ultra -22`, bytes.
const ZSTD_WINDOW_BYTES_MAX: u64 = 128 << 20;

/// Takes the first bytes of `read`, at most `bytes_max` and fewer only at its end, and gives the whole of it back.
pub(super) fn peek(mut read: Box<dyn Read + Send>, bytes_max: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut first = Vec::with_capacity(bytes_max);
    read.by_ref().take(bytes_max as u64).read_to_end(&mut first)?;
    Ok((first.clone(), Box::new(Cursor::new(first).chain(read))))
}

/// The plain bytes of what may be compressed.
pub(super) fn unpack(read: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let (first, read) = peek(read, MAGIC_BYTES_MAX)?;
    Ok(if first.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(read))
    } else if first.starts_with(ZSTD) {
        Box::new(Zstd::new(read))
    } else if first.starts_with(XZ) {
        Box::new(XzReader::new_mem_limit(read, true, XZ_MEMORY_KIB_MAX))
    } else {
        read
    })
}

/// The frames of a zstd file, one after the other.
struct Zstd {
    packed: Peeked,
    frame: FrameDecoder,
    /// Bytes of the frame may still come.
    is_within: bool,
}

impl Zstd {
    fn new(packed: Box<dyn Read + Send>) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(ZSTD_WINDOW_BYTES_MAX);
        Self { packed: Peeked { read: packed, byte: None }, frame, is_within: false }
    }

    /// Begins the next frame; `false` at the end of the file.
    fn begin(&mut self) -> io::Result<bool> {
        while self.packed.has_more()? {
            match self.frame.init(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    io::copy(&mut self.packed.by_ref().take(u64::from(length)), &mut io::sink())?;
                }
                Err(error) => return Err(damaged(&error)),
            }
        }
        Ok(false)
    }
}

impl Read for Zstd {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within && !self.begin()? {
                return Ok(0);
            }
            self.is_within = true;
            let given = self.frame.read(out)?;
            if given > 0 {
                return Ok(given);
            }
            if self.frame.is_finished() {
                let told = self.frame.get_checksum_from_data();
                if told.is_some() && told != self.frame.get_calculated_checksum() {
                    return Err(damaged(&"the checksum is another one"));
                }
                self.is_within = false;
            } else {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.packed, one).map_err(|error| damaged(&error))?;
            }
        }
    }
}

fn damaged(why: &dyn std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the zstd data is damaged: {why}"))
}

/// A reader that can be asked whether there is more.
struct Peeked {
    read: Box<dyn Read + Send>,
    byte: Option<u8>,
}

impl Peeked {
    fn has_more(&mut self) -> io::Result<bool> {
        if self.byte.is_none() {
            let mut byte = [0];
            self.byte = (self.read.read(&mut byte)? == 1).then_some(byte[0]);
        }
        Ok(self.byte.is_some())
    }
}

impl Read for Peeked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match (self.byte, out.first_mut()) {
            (Some(byte), Some(first)) => {
                *first = byte;
                self.byte = None;
                Ok(1)
            }
            _ => self.read.read(out),
        }
    }
}
