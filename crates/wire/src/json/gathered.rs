//! Text that is put together from the runs between escapes.

use super::block::BLOCK_BYTES;

/// About this much is gathered before it is handed on, so that a visitor is not called once per escape.
const ENOUGH_BYTES: usize = 1024;

/// Room for one block more than is enough, and the longest escape after it.
const ROOM_BYTES: usize = ENOUGH_BYTES + 2 * BLOCK_BYTES;

/// See the module. Its room is made with the first byte, and kept.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    bytes: Vec<u8>,
    len: usize,
}

impl Gathered {
    /// What there is.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it is to be handed on before more comes.
    pub(super) fn is_enough(&self) -> bool {
        self.len >= ENOUGH_BYTES
    }

    pub(super) fn clear(&mut self) {
        self.len = 0;
    }

    /// Adds the first `run` bytes of a block. All of the block is copied: a fixed size costs a few instructions, a size that
    /// is not known many.
    pub(super) fn push_block(&mut self, block: &[u8; BLOCK_BYTES], run: usize) {
        self.make_room();
        let end = self.len + BLOCK_BYTES;
        self.bytes[self.len..end].copy_from_slice(block);
        self.len += run;
    }

    pub(super) fn push(&mut self, byte: u8) {
        self.make_room();
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    pub(super) fn extend(&mut self, run: &[u8]) {
        self.make_room();
        let end = self.len + run.len();
        if end + BLOCK_BYTES > self.bytes.len() {
            self.bytes.resize(end + BLOCK_BYTES, 0);
        }
        self.bytes[self.len..end].copy_from_slice(run);
        self.len = end;
    }

    fn make_room(&mut self) {
        if self.len + BLOCK_BYTES > self.bytes.len() {
            self.bytes.resize(ROOM_BYTES.max(self.len + BLOCK_BYTES), 0);
        }
    }
}
