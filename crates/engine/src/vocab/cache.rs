//! Tokens of pieces seen before.
//!
//! Prompts of one service repeat the same rare words again and again. A direct-mapped table of fixed
//! size: a new piece takes the slot of an old one, so nothing has to be evicted and memory is bounded
//! by `SLOTS` entries of at most `PIECE_BYTES_MAX` bytes.

const SLOTS: usize = 4096;

/// Longer pieces are not words and will not come back.
const PIECE_BYTES_MAX: usize = 64;

/// See the module. The whole piece is kept and compared: a hash alone could be made to collide.
pub(super) struct PieceCache {
    slots: Vec<Option<Entry>>,
}

struct Entry {
    piece: Box<[u8]>,
    ids: Box<[u32]>,
}

impl PieceCache {
    pub(super) fn new() -> Self {
        Self { slots: (0..SLOTS).map(|_| None).collect() }
    }

    pub(super) fn get(&self, hash: u64, piece: &[u8]) -> Option<&[u32]> {
        let entry = self.slots[slot(hash)].as_ref()?;
        (*entry.piece == *piece).then_some(&*entry.ids)
    }

    pub(super) fn put(&mut self, hash: u64, piece: &[u8], ids: &[u32]) {
        if piece.len() <= PIECE_BYTES_MAX {
            self.slots[slot(hash)] = Some(Entry { piece: piece.into(), ids: ids.into() });
        }
    }
}

fn slot(hash: u64) -> usize {
    hash as usize % SLOTS
}
