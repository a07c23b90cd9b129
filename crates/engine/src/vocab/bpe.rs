//! Byte-pair encoding of one piece of text.
//!
//! Of all neighbours that the vocabulary can merge, the pair of lowest rank is merged, the leftmost
//! first among equals, until none is left. A heap of candidates and a linked list of symbols make
//! that n log n, also on a megabyte without a space.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

use super::KeyHasher;

/// The vocabulary's merges.
#[derive(Default)]
pub(super) struct Merges {
    /// Pair of tokens -> rank.
    ranks: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    /// Rank -> what the pair becomes.
    merged: Vec<u32>,
}

/// Buffers that are kept between pieces.
#[derive(Default)]
pub(super) struct Workspace {
    symbols: Vec<Symbol>,
    /// Rank above, place of the left symbol below: one word, lowest first.
    candidates: BinaryHeap<Reverse<u64>>,
}

/// A token of the piece so far; `id` is [`GONE`] when it was merged into the one before it.
struct Symbol {
    id: u32,
    previous: u32,
    next: u32,
}

const GONE: u32 = u32::MAX;
const NONE: u32 = u32::MAX;

/// Beyond this the buffers are given back after a piece, so that one strange prompt does not hold
/// memory for ever.
const KEPT_SYMBOLS_MAX: usize = 64 * 1024;

impl Merges {
    /// Adds the merge of the next rank.
    pub(super) fn push(&mut self, left: u32, right: u32, merged: u32) {
        self.ranks.insert(word(left, right), self.merged.len() as u32);
        self.merged.push(merged);
    }

    /// Appends the piece's tokens. A piece is shorter than 4 GiB.
    pub(super) fn encode(&self, piece: &[u8], byte_ids: &[u32; 256], workspace: &mut Workspace, ids: &mut Vec<u32>) {
        let Workspace { symbols, candidates } = workspace;
        symbols.clear();
        let last = piece.len().saturating_sub(1);
        symbols.extend(piece.iter().enumerate().map(|(at, &byte)| Symbol {
            id: byte_ids[usize::from(byte)],
            previous: if at == 0 { NONE } else { at as u32 - 1 },
            next: if at == last { NONE } else { at as u32 + 1 },
        }));
        // All at once: the heap is then built in linear time.
        let mut first = std::mem::take(candidates).into_vec();
        first.extend((0..last as u32).filter_map(|left| self.candidate(symbols, left)));
        *candidates = BinaryHeap::from(first);
        while let Some(Reverse(candidate)) = candidates.pop() {
            let (rank, left) = ((candidate >> 32) as usize, candidate as u32);
            if !self.still_merges_to(symbols, left, self.merged[rank]) {
                continue;
            }
            join(symbols, left, self.merged[rank]);
            for changed in [symbols[left as usize].previous, left] {
                if let Some(candidate) = self.candidate(symbols, changed) {
                    candidates.push(candidate);
                }
            }
        }
        ids.extend(symbols.iter().map(|symbol| symbol.id).filter(|&id| id != GONE));
        if symbols.capacity() > KEPT_SYMBOLS_MAX {
            *workspace = Workspace::default();
        }
    }

    /// Rank of a pair of tokens that can be merged, and what they become.
    pub(super) fn merge(&self, left: u32, right: u32) -> Option<(u32, u32)> {
        let rank = *self.ranks.get(&word(left, right))?;
        Some((rank, self.merged[rank as usize]))
    }

    /// The same for a symbol and the one after it.
    fn merge_at(&self, symbols: &[Symbol], left: u32) -> Option<(u32, u32)> {
        let symbol = symbols.get(left as usize)?;
        let right = symbols.get(symbol.next as usize)?;
        self.merge(symbol.id, right.id)
    }

    fn candidate(&self, symbols: &[Symbol], left: u32) -> Option<Reverse<u64>> {
        self.merge_at(symbols, left).map(|(rank, _)| Reverse(word(rank, left)))
    }

    /// A candidate is stale when a merge beside it changed either half. Compares the outcome, not the
    /// rank, as `tokenizers` does.
    fn still_merges_to(&self, symbols: &[Symbol], left: u32, merged: u32) -> bool {
        symbols[left as usize].id != GONE && self.merge_at(symbols, left).is_some_and(|(_, id)| id == merged)
    }
}

fn word(above: u32, below: u32) -> u64 {
    u64::from(above) << 32 | u64::from(below)
}

/// Makes `left` the merged token and takes the symbol after it out of the list.
fn join(symbols: &mut [Symbol], left: u32, merged: u32) {
    let right = symbols[left as usize].next as usize;
    let after = symbols[right].next;
    symbols[right].id = GONE;
    symbols[left as usize].id = merged;
    symbols[left as usize].next = after;
    if after != NONE {
        symbols[after as usize].previous = left;
    }
}
