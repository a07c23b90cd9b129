//! A prompt -> the hashes of its growing beginnings.
//!
//! Text is cut as `prefix_length` cuts it: characters of message text are counted, roles and boundaries take part but
//! are not counted (see `kvroute_core::prompt`). The names of blocks are chained here, so that a name that a trace uses
//! twice for different beginnings does not pass for reuse.

use kvroute_core::hash;

use super::corpus::Unit;
use crate::trace::{Content, Segment};

/// Characters between two lines of the grid for texts: about 16 tokens of English, an engine's usual KV block.
pub(super) const TEXT_STEP: u32 = 64;
/// Tokens between two lines for prompts of token ids.
const TOKEN_STEP: u32 = 16;

/// Boundaries: bytes that cannot occur in UTF-8, as in the canonical text.
const SEGMENT_START: u8 = 0xff;
const ROLE_END: u8 = 0xfe;

/// The unit and the step of the finest grid for a content.
pub(super) fn grid_of(content: &Content) -> (Unit, u32) {
    match content {
        Content::Text(_) => (Unit::Characters, TEXT_STEP),
        Content::TokenIds(_) => (Unit::Tokens, TOKEN_STEP),
        Content::Blocks(blocks) => (Unit::Tokens, blocks.tokens.max(1)),
        Content::Unknown => (Unit::Tokens, 1),
    }
}

/// Writes the hashes into `chain`, one a line of the grid and one for the rest. Gives the prompt's length in units.
pub(super) fn names(content: &Content, scope: u64, chain: &mut Vec<u64>) -> u32 {
    chain.clear();
    match content {
        Content::Text(segments) => text(segments, scope, chain),
        Content::TokenIds(ids) => {
            let mut state = scope;
            for piece in ids.chunks(TOKEN_STEP as usize) {
                let bytes: Vec<u8> = piece.iter().flat_map(|id| id.to_le_bytes()).collect();
                state = hash::bytes(&bytes, state);
                chain.push(state);
            }
            u32::try_from(ids.len()).unwrap_or(u32::MAX)
        }
        Content::Blocks(blocks) => {
            let mut state = scope;
            for &id in blocks.ids.iter() {
                state = hash::mix(state, id);
                chain.push(state);
            }
            u32::try_from(blocks.ids.len()).unwrap_or(u32::MAX).saturating_mul(blocks.tokens.max(1))
        }
        Content::Unknown => 0,
    }
}

fn text(segments: &[Segment], scope: u64, chain: &mut Vec<u64>) -> u32 {
    let (mut state, mut characters, mut filled) = (scope, 0u32, 0u32);
    let mut piece = Vec::with_capacity(TEXT_STEP as usize * 2);
    for segment in segments {
        piece.push(SEGMENT_START);
        piece.extend_from_slice(segment.role.as_bytes());
        piece.push(ROLE_END);
        let mut rest = segment.text.as_str();
        while !rest.is_empty() {
            let missing = (TEXT_STEP - filled) as usize;
            // A character has a byte at least: where the bytes do not reach, neither do the characters.
            let cut = if rest.len() < missing { None } else { rest.char_indices().nth(missing).map(|(at, _)| at) };
            let (now, later) = rest.split_at(cut.unwrap_or(rest.len()));
            let count = if cut.is_some() { missing } else { now.chars().count() } as u32;
            piece.extend_from_slice(now.as_bytes());
            filled += count;
            characters = characters.saturating_add(count);
            if filled == TEXT_STEP {
                state = hash::bytes(&piece, state);
                chain.push(state);
                piece.clear();
                filled = 0;
            }
            rest = later;
        }
    }
    if filled > 0 || chain.is_empty() && !piece.is_empty() {
        chain.push(hash::bytes(&piece, state));
    }
    characters
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn said(segments: &[(&str, &str)]) -> (u32, Vec<u64>) {
        let segments: Vec<Segment> =
            segments.iter().map(|(role, text)| Segment { role: (*role).into(), text: (*text).into() }).collect();
        let mut chain = vec![1, 2, 3];
        let units = names(&Content::Text(segments), 0, &mut chain);
        (units, chain)
    }

    #[test]
    fn characters_are_counted_and_roles_and_boundaries_only_take_part() {
        let (units, chain) = said(&[("system", &"ż".repeat(64)), ("user", "x")]);
        assert_eq!((units, chain.len()), (65, 2));
        let (_, alone) = said(&[("system", &"ż".repeat(64))]);
        assert_eq!(chain[0], alone[0]);
        assert_ne!(chain[0], said(&[("user", &"ż".repeat(64))]).1[0]);
        assert_ne!(said(&[("u", "ab"), ("u", "c")]).1, said(&[("u", "a"), ("u", "bc")]).1);
        assert_eq!(said(&[]), (0, vec![]));
    }

    proptest! {
        #[test]
        fn two_texts_share_as_many_names_as_whole_steps_of_equal_characters(
            shared in "[a-zß日]{0,300}", a in "[A-M]{1,100}", b in "[N-Z]{1,100}",
        ) {
            let (_, left) = said(&[("user", &format!("{shared}{a}"))]);
            let (_, right) = said(&[("user", &format!("{shared}{b}"))]);
            let common = left.iter().zip(&right).take_while(|(x, y)| x == y).count();
            prop_assert_eq!(common, shared.chars().count() / TEXT_STEP as usize);
        }
    }
}
