//! What stands where in 64 bytes, as bits: text with an escape every few dozen bytes is read by blocks, since a search
//! that begins anew after each escape costs more than the bytes.

use wide::u8x16;

/// Bytes that are looked at together.
pub(super) const BLOCK_BYTES: usize = 64;

const LANES: usize = 16;

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
        let bytes: &[u8; BLOCK_BYTES] = chunk.get(at..at + BLOCK_BYTES)?.try_into().ok()?;
        let (mut stops, mut unusual) = (0, 0);
        for (i, lanes) in bytes.as_chunks::<LANES>().0.iter().enumerate() {
            let lanes = u8x16::new(*lanes);
            let stop = lanes.simd_eq(u8x16::splat(b'"')) | lanes.simd_eq(u8x16::splat(b'\\'));
            let control = lanes.min(u8x16::splat(0x1F)).simd_eq(lanes);
            let shift = i * LANES;
            stops |= u64::from(stop.to_bitmask()) << shift;
            // The highest bit of a byte is its lane's bit as it is.
            unusual |= u64::from((control | lanes).to_bitmask()) << shift;
        }
        Some(Self { stops, unusual })
    }
}

/// The quotes and the backslashes in the block at `chunk[at]`, if all of it is there.
pub(super) fn quotes(chunk: &[u8], at: usize) -> Option<(u64, u64)> {
    let bytes: &[u8; BLOCK_BYTES] = chunk.get(at..at + BLOCK_BYTES)?.try_into().ok()?;
    let lanes = bytes.as_chunks::<LANES>().0.iter().enumerate();
    Some(lanes.fold((0, 0), |(quotes, backslashes), (i, lanes)| {
        let (lanes, shift) = (u8x16::new(*lanes), i * LANES);
        let bits = |byte| u64::from(lanes.simd_eq(u8x16::splat(byte)).to_bitmask()) << shift;
        (quotes | bits(b'"'), backslashes | bits(b'\\'))
    }))
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
