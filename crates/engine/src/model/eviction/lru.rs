//! Least recently freed first: a list through the blocks themselves, so that nothing is looked up.
//!
//! Because every request gives up its last block first, and refers to all blocks before one that it
//! refers to, a block's parent is either used or further back in the list.

use super::super::pool::{Block, BlockId};

/// No block: the end of the list.
pub(in super::super) const NONE: BlockId = BlockId::MAX;

/// See the module.
pub(in super::super) struct Lru {
    first: BlockId,
    last: BlockId,
    len: u32,
}

impl Default for Lru {
    fn default() -> Self {
        Self { first: NONE, last: NONE, len: 0 }
    }
}

impl Lru {
    /// Takes out the first. There must be one.
    #[inline]
    pub(super) fn take(&mut self, blocks: &mut [Block]) -> BlockId {
        let id = self.first;
        self.first = blocks[id as usize].next;
        match self.first {
            NONE => self.last = NONE,
            first => blocks[first as usize].prev = NONE,
        }
        self.len -= 1;
        id
    }

    #[inline]
    pub(super) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(super) fn push(&mut self, blocks: &mut [Block], id: BlockId) {
        let block = &mut blocks[id as usize];
        block.prev = self.last;
        block.next = NONE;
        match self.last {
            NONE => self.first = id,
            last => blocks[last as usize].next = id,
        }
        self.last = id;
        self.len += 1;
    }

    #[inline]
    pub(super) fn remove(&mut self, blocks: &mut [Block], id: BlockId) {
        let Block { prev, next, .. } = blocks[id as usize];
        match prev {
            NONE => self.first = next,
            prev => blocks[prev as usize].next = next,
        }
        match next {
            NONE => self.last = prev,
            next => blocks[next as usize].prev = prev,
        }
        self.len -= 1;
    }

    pub(super) fn check_invariants(&self, blocks: &[Block]) {
        let (mut id, mut prev, mut len) = (self.first, NONE, 0);
        while id != NONE {
            let block = &blocks[id as usize];
            assert_eq!(block.refs, 0, "block {id} is free and used");
            assert_eq!(block.prev, prev, "block {id} is linked one way only");
            (prev, id, len) = (id, block.next, len + 1);
            assert!(len <= self.len, "the free queue is longer than counted");
        }
        assert_eq!(prev, self.last, "the free queue ends elsewhere");
        assert_eq!(len, self.len, "the free queue is shorter than counted");
    }
}
