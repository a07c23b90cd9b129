//! gzip and deflate.

use zlib_rs::{Inflate, InflateFlush, Status};

use super::{CodingError, Decode, MEMBERS_MAX};

/// The window of the format, and what is added to have the gzip format read, as in zlib.
const WINDOW_BITS: u8 = 15;
const GZIP: u8 = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Format {
    Gzip,
    Deflate,
}

/// A body in either format.
pub(super) struct Inflating {
    format: Format,
    /// The member being read; none between two, and before the first byte.
    member: Option<Inflate>,
    members: u32,
}

impl Inflating {
    pub(super) fn gzip() -> Self {
        Self { format: Format::Gzip, member: None, members: 0 }
    }

    pub(super) fn deflate() -> Self {
        Self { format: Format::Deflate, member: None, members: 0 }
    }

    fn begin(&mut self, first: u8) -> Result<(), CodingError> {
        self.members += 1;
        let member = match self.format {
            Format::Gzip if self.members > MEMBERS_MAX => return Err(CodingError::TooManyMembers),
            Format::Gzip => Inflate::new(true, GZIP + WINDOW_BITS),
            Format::Deflate if self.members > 1 => return Err(CodingError::Damaged),
            // The method in the low bits and a window of at most 32 KiB in the others. Without the wrapper these bits
            // would be a stored block with padding that is not zero, which no encoder writes.
            Format::Deflate => Inflate::new(first & 0x0f == 8 && first >> 4 <= 7, WINDOW_BITS),
        };
        self.member = Some(member);
        Ok(())
    }
}

impl Decode for Inflating {
    fn next(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, CodingError> {
        loop {
            if self.member.is_none() {
                let Some(&first) = input.first() else { return Ok(0) };
                self.begin(first)?;
            }
            let Some(member) = &mut self.member else { return Ok(0) };
            let before = (member.total_in(), member.total_out());
            let status = member.decompress(input, out, InflateFlush::NoFlush).map_err(|_| CodingError::Damaged)?;
            let taken = (member.total_in() - before.0) as usize;
            let given = (member.total_out() - before.1) as usize;
            *input = &input[taken..];
            if status == Status::StreamEnd {
                self.member = None;
            }
            // Without progress it waits for more.
            if given > 0 || (taken == 0 && self.member.is_some()) {
                return Ok(given);
            }
        }
    }

    fn is_complete(&self) -> bool {
        self.members > 0 && self.member.is_none()
    }
}
