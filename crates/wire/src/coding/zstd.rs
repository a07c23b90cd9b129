//! zstd. The decoder wants whole blocks, which are at most 128 KiB, so what comes is collected up to one.
//!
//! Frames are as in RFC 8878: a header, blocks, and maybe a checksum. Skippable frames are passed over.

use std::io::Read;

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{CodingError, Decode, MEMBERS_MAX};

/// What RFC 9659 allows for a content coding.
const WINDOW_BYTES_MAX: u64 = 8 << 20;
const BLOCK_BYTES_MAX: usize = 128 << 10;
const BLOCK_HEADER_BYTES: usize = 3;
const CHECKSUM_BYTES: usize = 4;
/// Magic number and length.
const SKIPPABLE_HEADER_BYTES: usize = 8;
/// Magic number and what tells the rest.
const FRAME_HEADER_BYTES_MIN: usize = 5;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// A frame, or the end of the body.
    Frame,
    /// A block of a frame.
    Block,
    /// So many bytes that mean nothing.
    Skip(u32),
}

/// A zstd body.
pub(super) struct Zstd {
    frame: FrameDecoder,
    stage: Stage,
    /// The beginning of what comes next.
    pending: Vec<u8>,
    has_checksum: bool,
    frames: u32,
}

impl Zstd {
    pub(super) fn new() -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(WINDOW_BYTES_MAX);
        Self { frame, stage: Stage::Frame, pending: Vec::new(), has_checksum: false, frames: 0 }
    }

    /// How long what comes next is, as far as its beginning tells.
    fn wanted(&self) -> Result<usize, CodingError> {
        let pending = &self.pending[..];
        match (self.stage, pending) {
            (Stage::Frame, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]) => Ok(SKIPPABLE_HEADER_BYTES),
            (Stage::Frame, &[0x28, 0xb5, 0x2f, 0xfd, descriptor, ..]) => Ok(frame_header_bytes(descriptor)),
            (Stage::Frame, [_, _, _, _, _, ..]) => Err(CodingError::Damaged),
            (Stage::Frame, _) => Ok(FRAME_HEADER_BYTES_MIN),
            (Stage::Block, &[first, second, third, ..]) => {
                let header = u32::from_le_bytes([first, second, third, 0]);
                let (is_last, is_repeated, size) = (header & 1 == 1, header >> 1 & 3 == 1, header as usize >> 3);
                if size > BLOCK_BYTES_MAX {
                    return Err(CodingError::Damaged);
                }
                let content = if is_repeated { 1 } else { size };
                let checksum = if is_last && self.has_checksum { CHECKSUM_BYTES } else { 0 };
                Ok(BLOCK_HEADER_BYTES + content + checksum)
            }
            (Stage::Block, _) => Ok(BLOCK_HEADER_BYTES),
            (Stage::Skip(_), _) => Ok(0),
        }
    }

    /// Reads what has been collected.
    fn act(&mut self) -> Result<(), CodingError> {
        match (self.stage, &self.pending[..]) {
            (Stage::Frame, &[_, 0x2a, _, _, a, b, c, d]) => self.stage = Stage::Skip(u32::from_le_bytes([a, b, c, d])),
            (Stage::Frame, header) => {
                const CHECKSUM_FLAG: u8 = 4;
                self.has_checksum = header[4] & CHECKSUM_FLAG != 0;
                self.frame.reset(header).map_err(|_| CodingError::Damaged)?;
                self.stage = Stage::Block;
            }
            (Stage::Block, block) => {
                let strategy = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(block, strategy).map_err(|_| CodingError::Damaged)?;
            }
            (Stage::Skip(_), _) => {}
        }
        self.pending.clear();
        Ok(())
    }

    /// All of the frame has been given: it must be what its checksum says.
    fn end_frame(&mut self) -> Result<(), CodingError> {
        let told = self.frame.get_checksum_from_data();
        if told.is_some() && told != self.frame.get_calculated_checksum() {
            return Err(CodingError::Damaged);
        }
        self.end_member()
    }

    fn end_member(&mut self) -> Result<(), CodingError> {
        self.stage = Stage::Frame;
        self.frames += 1;
        if self.frames > MEMBERS_MAX { Err(CodingError::TooManyMembers) } else { Ok(()) }
    }
}

/// The length of the header of a frame with this descriptor, magic number included.
fn frame_header_bytes(descriptor: u8) -> usize {
    let is_single_segment = descriptor >> 5 & 1 == 1;
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(is_single_segment),
        flag => 1 << flag,
    };
    FRAME_HEADER_BYTES_MIN + usize::from(!is_single_segment) + dictionary + content_size
}

impl Decode for Zstd {
    fn next(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, CodingError> {
        loop {
            if self.stage == Stage::Block {
                let given = self.frame.read(out).map_err(|_| CodingError::Damaged)?;
                if given > 0 {
                    return Ok(given);
                }
                if self.frame.is_finished() {
                    self.end_frame()?;
                }
            }
            if let Stage::Skip(bytes) = self.stage {
                let skipped = input.len().min(bytes as usize);
                *input = &input[skipped..];
                self.stage = Stage::Skip(bytes - skipped as u32);
                if skipped < bytes as usize {
                    return Ok(0);
                }
                self.end_member()?;
            }
            let wanted = self.wanted()?;
            let missing = wanted - self.pending.len();
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.pending.extend_from_slice(taken);
            *input = rest;
            if self.pending.len() < wanted {
                return Ok(0);
            }
            if self.wanted()? == wanted {
                self.act()?;
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.stage == Stage::Frame && self.pending.is_empty() && self.frames > 0
    }
}
