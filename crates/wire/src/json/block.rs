//! What stands where in 64 bytes, as bits: text with an escape every few dozen bytes is read by blocks, since a search
//! that begins anew after each escape costs more than the bytes.

use wide::u8x64;

/// Bytes that are looked at together.
pub(super) const BLOCK_BYTES: usize = 64;

/// One bit a byte, the first byte lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    /// Quotes and backslashes.
    pub(super) stops: u64,
    /// Control characters, and bytes that are not ASCII.
    pub(super) unusual: u64,
}

impl Block {
    /// The block at `chunk[at]`, if all of it is there.
    pub(super) fn at(chunk: &[u8], at: usize) -> Option<Self> {
        let bytes = bytes_at(chunk, at)?;
        let stops = bytes.simd_eq(u8x64::splat(b'"')) | bytes.simd_eq(u8x64::splat(b'\\'));
        let control = bytes.min(u8x64::splat(0x1F)).simd_eq(bytes);
        // The highest bit of a byte is its lane's bit as it is.
        Some(Self { stops: stops.to_bitmask(), unusual: (control | bytes).to_bitmask() })
    }
}

/// The quotes and the backslashes in the block at `chunk[at]`, if all of it is there.
pub(super) fn quotes(chunk: &[u8], at: usize) -> Option<(u64, u64)> {
    let bytes = bytes_at(chunk, at)?;
    let bits = |byte| bytes.simd_eq(u8x64::splat(byte)).to_bitmask();
    Some((bits(b'"'), bits(b'\\')))
}

fn bytes_at(chunk: &[u8], at: usize) -> Option<u8x64> {
    let bytes: [u8; BLOCK_BYTES] = chunk.get(at..at + BLOCK_BYTES)?.try_into().ok()?;
    Some(u8x64::new(bytes))
}

/// Which bytes are escaped, block after block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Escapes {
    /// One if the next block's first byte is escaped, else zero.
    carried: u64,
}

impl Escapes {
    /// Before the first block, whose first byte may be `escaped`.
    pub(super) fn begin(escaped: bool) -> Self {
        Self { carried: u64::from(escaped) }
    }

    /// The bytes of the next block that are escaped, by the backslashes in it.
    ///
    /// Of a run of backslashes every second one escapes what follows it, beginning with the first. A run that begins at
    /// an odd place is told from one at an even place by adding: the carry goes through the run, and comes out after it.
    pub(super) fn escaped_by(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslashes = backslashes & !self.carried;
        let after_backslash = backslashes << 1 | self.carried;
        let odd_starts = backslashes & !EVEN & !after_backslash;
        let (sum, is_carried) = odd_starts.overflowing_add(backslashes);
        self.carried = u64::from(is_carried);
        (EVEN ^ (sum << 1)) & after_backslash
    }

    /// Whether the byte after the last block is escaped.
    pub(super) fn reaches_on(self) -> bool {
        self.carried != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_says_what_each_byte_is(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..140) {
            let all_of = |is: fn(u8) -> bool| {
                let bytes = bytes.get(at..at + BLOCK_BYTES)?.iter().enumerate();
                Some(bytes.fold(0u64, |bits, (i, &byte)| bits | u64::from(is(byte)) << i))
            };
            let found = Block::at(&bytes, at);
            prop_assert_eq!(found.map(|block| block.stops), all_of(|byte| matches!(byte, b'"' | b'\\')));
            prop_assert_eq!(found.map(|block| block.unusual), all_of(|byte| !(0x20..=0x7F).contains(&byte)));
            prop_assert_eq!(quotes(&bytes, at), all_of(|byte| byte == b'"').zip(all_of(|byte| byte == b'\\')));
        }
    }
}
