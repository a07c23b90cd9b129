//! What stands where in 64 bytes, as bits: text with an escape every few dozen bytes is looked at by blocks, since a search
//! that begins anew after each escape costs more than the bytes.

use wide::u8x64;

/// Bytes that are looked at together.
pub const BLOCK_BYTES: usize = 64;

/// 64 bytes.
#[derive(Debug, Clone, Copy)]
pub struct Block(u8x64);

impl Block {
    /// The block at `chunk[at]`, if all of it is there.
    pub fn at(chunk: &[u8], at: usize) -> Option<Self> {
        let bytes: [u8; BLOCK_BYTES] = chunk.get(at..at + BLOCK_BYTES)?.try_into().ok()?;
        Some(Self(u8x64::new(bytes)))
    }

    /// Where `byte` is: one bit a byte, the first byte lowest.
    pub fn bits_of(self, byte: u8) -> u64 {
        self.0.simd_eq(u8x64::splat(byte)).to_bitmask()
    }

    /// Where a character begins, in UTF-8.
    pub fn char_starts(self) -> u64 {
        let continues = (self.0 & u8x64::splat(0xC0)).simd_eq(u8x64::splat(0x80));
        !continues.to_bitmask()
    }

    /// Where one of `bytes` is.
    pub fn bits_of_any<const N: usize>(self, bytes: [u8; N]) -> u64 {
        let found = bytes.into_iter().map(|byte| self.0.simd_eq(u8x64::splat(byte)));
        found.fold(u8x64::splat(0), |all, one| all | one).to_bitmask()
    }
}

/// Which bytes are escaped, block after block.
#[derive(Debug, Clone, Copy)]
pub struct Escapes {
    /// One if the next block's first byte is escaped, else zero.
    carried: u64,
}

impl Escapes {
    /// Before the first block, whose first byte may be `escaped`.
    pub fn begin(escaped: bool) -> Self {
        Self { carried: u64::from(escaped) }
    }

    /// The bytes of the next block that are escaped, by the backslashes in it.
    pub fn escaped_by(&mut self, backslashes: u64) -> u64 {
        let after_backslash = backslashes << 1 | self.carried;
        if backslashes & after_backslash == 0 {
            // The usual case: none escapes another.
            self.carried = backslashes >> 63;
            return after_backslash;
        }
        self.escaped_by_runs(backslashes)
    }

    /// Of a run of backslashes every second one escapes what follows it, beginning with the first. A run that begins at
    /// an odd place is told from one at an even place by adding: the carry goes through the run, and comes out after it.
    fn escaped_by_runs(&mut self, backslashes: u64) -> u64 {
        const EVEN: u64 = 0x5555_5555_5555_5555;
        let backslashes = backslashes & !self.carried;
        let after_backslash = backslashes << 1 | self.carried;
        let odd_starts = backslashes & !EVEN & !after_backslash;
        let (sum, is_carried) = odd_starts.overflowing_add(backslashes);
        self.carried = u64::from(is_carried);
        (EVEN ^ (sum << 1)) & after_backslash
    }

    /// Whether the byte after the last block is escaped.
    pub fn reaches_on(self) -> bool {
        self.carried != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_block_says_where_bytes_are(bytes in prop::collection::vec(prop::sample::select(b"[_\\n\x7F\x80\xBF\xC0\xFF".to_vec()), 0..200), at in 0usize..140) {
            let all_of = |is: fn(u8) -> bool| {
                let bytes = bytes.get(at..at + BLOCK_BYTES)?.iter().enumerate();
                Some(bytes.fold(0u64, |bits, (i, &byte)| bits | u64::from(is(byte)) << i))
            };
            let block = Block::at(&bytes, at);
            prop_assert_eq!(block.map(|block| block.bits_of(b'\\')), all_of(|byte| byte == b'\\'));
            prop_assert_eq!(block.map(Block::char_starts), all_of(|byte| byte & 0xC0 != 0x80));
            prop_assert_eq!(block.map(|block| block.bits_of_any(*b"[_")), all_of(|byte| matches!(byte, b'[' | b'_')));
        }

        #[test]
        fn every_second_backslash_of_a_run_escapes_what_follows_it(
            bytes in prop::collection::vec(prop::sample::select(b"\\\\\\a".to_vec()), 0..400), begins_escaped in any::<bool>(),
        ) {
            let (mut escapes, mut escaped) = (Escapes::begin(begins_escaped), begins_escaped);
            for block in bytes.as_chunks::<BLOCK_BYTES>().0 {
                let mut expected = 0;
                for (i, &byte) in block.iter().enumerate() {
                    expected |= u64::from(escaped) << i;
                    escaped = !escaped && byte == b'\\';
                }
                let backslashes = Block::at(block, 0).expect("a block").bits_of(b'\\');
                prop_assert_eq!(escapes.escaped_by(backslashes), expected);
                prop_assert_eq!(escapes.reaches_on(), escaped);
            }
        }
    }
}
