//! Counts the characters of a text that comes in pieces, cut anywhere.

use super::block::{BLOCK_BYTES, Block, Escapes};

/// See the module. An escape is one character.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chars(Inside);

/// What the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    /// An escape, after its backslash.
    Escape,
    /// An escape, of which so many hex digits are to come.
    Digits(u8),
}

impl Chars {
    /// How many characters start in `piece`, at most `chars_max`, and where the first one beyond them does, or the end of
    /// the piece. That is where it *starts*, since the bytes of the one before may go on in the next piece.
    pub fn advance(&mut self, piece: &[u8], chars_max: u32) -> (u32, usize) {
        let (mut chars, mut at) = (0, 0);
        while at < piece.len() {
            if let Some(starts) = self.block(piece, at) {
                let here = starts.count_ones();
                if chars + here > chars_max {
                    // The state is that of a block's end, and of no use: a character starts here.
                    self.0 = Inside::Nothing;
                    return (chars_max, at + nth_bit(starts, chars_max - chars));
                }
                chars += here;
                at += BLOCK_BYTES;
                continue;
            }
            // A block with an escape of hex digits, or less than one.
            for &byte in &piece[at..piece.len().min(at + BLOCK_BYTES)] {
                let before = *self;
                if self.starts_char(byte) {
                    if chars == chars_max {
                        *self = before;
                        return (chars, at);
                    }
                    chars += 1;
                }
                at += 1;
            }
        }
        (chars, at)
    }

    /// Where characters start in the block at `piece[at]`, if all of it is there and it holds no hex digits of escapes.
    fn block(&mut self, piece: &[u8], at: usize) -> Option<u64> {
        let mut escapes = match self.0 {
            Inside::Digits(_) => return None,
            inside => Escapes::begin(inside == Inside::Escape),
        };
        let block = Block::at(piece, at)?;
        let escaped = escapes.escaped_by(block.bits_of(b'\\'));
        if escaped & block.bits_of(b'u') != 0 {
            return None;
        }
        self.0 = if escapes.reaches_on() { Inside::Escape } else { Inside::Nothing };
        Some(block.char_starts() & !escaped)
    }

    /// Takes a byte.
    fn starts_char(&mut self, byte: u8) -> bool {
        let (starts, inside) = match (self.0, byte) {
            (Inside::Nothing, b'\\') => (true, Inside::Escape),
            (Inside::Nothing, _) => (byte & 0xC0 != 0x80, Inside::Nothing),
            (Inside::Escape, b'u') => (false, Inside::Digits(4)),
            (Inside::Escape, _) | (Inside::Digits(..2), _) => (false, Inside::Nothing),
            (Inside::Digits(left), _) => (false, Inside::Digits(left - 1)),
        };
        self.0 = inside;
        starts
    }
}

/// The position of the set bit before which `n` others are set.
fn nth_bit(mut bits: u64, n: u32) -> usize {
    for _ in 0..n {
        bits &= bits - 1;
    }
    bits.trailing_zeros() as usize
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn characters_are_counted_as_one_would_and_cuts_make_no_difference(
            chars in prop::collection::vec(
                prop::sample::select(vec!["a", "\u{df}", "\u{20ac}", "\u{1d11e}", "\\n", "\\\\", "\\\"", "\\u001f", "a plain run of thirty letters "]), 0..90,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            chars_max in 0u32..900,
        ) {
            let text = chars.concat();
            let starts: Vec<usize> = chars.iter().scan(0, |at, part| {
                let begin = *at;
                *at += part.len();
                let len = if part.len() == 30 { 30 } else { 1 };
                Some((begin..).take(len).collect::<Vec<_>>())
            }).flatten().collect();
            let expected_end = starts.get(chars_max as usize).copied().unwrap_or(text.len());
            let expected = (starts.len().min(chars_max as usize) as u32, expected_end);
            prop_assert_eq!(Chars::default().advance(text.as_bytes(), chars_max), expected);

            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let (mut counter, mut counted, mut end) = (Chars::default(), 0, 0);
            for pair in cuts.windows(2) {
                let piece = &text.as_bytes()[pair[0]..pair[1]];
                let (chars, at) = counter.advance(piece, chars_max - counted);
                counted += chars;
                end = pair[0] + at;
                if at < piece.len() {
                    break;
                }
            }
            prop_assert_eq!((counted, end), expected);
        }
    }
}
