//! brotli.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{CodingError, Decode};

/// A brotli body. Windows beyond the format's 16 MiB, an extension of it, are refused.
pub(super) struct Brotli {
    state: Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>,
    is_complete: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self { state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())), is_complete: false }
    }
}

impl Decode for Brotli {
    fn next(&mut self, input: &mut &[u8], out: &mut [u8]) -> Result<usize, CodingError> {
        if self.is_complete {
            return if input.is_empty() { Ok(0) } else { Err(CodingError::Damaged) };
        }
        let (mut in_left, mut taken) = (input.len(), 0);
        let (mut out_left, mut given, mut total) = (out.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut in_left,
            &mut taken,
            input,
            &mut out_left,
            &mut given,
            out,
            &mut total,
            &mut self.state,
        );
        *input = &input[taken..];
        match result {
            BrotliResult::ResultFailure => return Err(CodingError::Damaged),
            BrotliResult::ResultSuccess => self.is_complete = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        // What follows the end would else wait for a call that does not come.
        if given == 0 && self.is_complete && !input.is_empty() { Err(CodingError::Damaged) } else { Ok(given) }
    }

    fn is_complete(&self) -> bool {
        self.is_complete
    }
}
