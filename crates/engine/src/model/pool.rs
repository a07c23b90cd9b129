//! KV memory: blocks, who refers to them, and which prefixes they hold.
//!
//! A block is *used* while a request refers to it, else *free*. A *named* block holds the KV of a
//! chain of tokens and stays findable while it is free, until its room is taken. So "free" is both the
//! reserve and the cache.
//!
//! In which order free blocks are taken is for [`eviction`](super::eviction) to say; a parent is never
//! taken before its children. That makes the named blocks a tree, in which a block is found from its parent and its hash. Most
//! blocks have one child, which they know by its index; only the others are in a map. Blocks of a chain
//! are taken together and lie side by side, so that following a prefix, storing one and evicting one
//! walk through memory in order. One map of all hashes costs a cache miss a block each time: the replay
//! of a fleet under eviction took four times as long with it.

use std::collections::HashMap;

use super::eviction::{Kind, NONE, Queue};
use super::hash::FixedState;

/// Index of a block.
pub(super) type BlockId = u32;

/// The parent of first blocks.
pub(super) const ROOT: BlockId = BlockId::MAX;

/// All the blocks of one engine.
pub(super) struct Pool {
    blocks_max: u32,
    /// Blocks taken at least once. The others are made when they are needed, before any is evicted.
    blocks: Vec<Block>,
    /// A first block, as a block's own `child`.
    root_child: BlockId,
    /// Named blocks that are not their parent's `child`, by parent and hash.
    siblings: HashMap<(BlockId, u64), BlockId, FixedState>,
    free: Queue,
    evicted: Vec<u64>,
    freed_total: u64,
}

pub(super) struct Block {
    pub(super) hash: u64,
    /// The block before it in the chain.
    pub(super) parent: BlockId,
    /// One of the blocks after it.
    child: BlockId,
    pub(super) refs: u32,
    /// Neighbours in the free queue, if that is [`Queue::Lru`]; without meaning while the block is used.
    pub(super) prev: BlockId,
    pub(super) next: BlockId,
    /// Whether `hash` and `parent` mean something.
    pub(super) named: bool,
}

/// What became of a computed block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    /// It is the one that holds the chain now.
    New,
    /// That other block holds the chain already, and the caller now refers to it instead.
    Merged(BlockId),
}

impl Pool {
    /// An empty pool of `blocks_max` blocks, which `free` evicts.
    pub(super) fn new(blocks_max: u32, free: Queue) -> Self {
        Self {
            blocks_max,
            blocks: Vec::new(),
            root_child: NONE,
            siblings: HashMap::default(),
            free,
            evicted: Vec::new(),
            freed_total: 0,
        }
    }

    /// Blocks that can be taken.
    pub(super) fn free(&self) -> u32 {
        self.blocks_max - self.blocks.len() as u32 + self.free.len()
    }

    /// Blocks that requests refer to.
    pub(super) fn used(&self) -> u32 {
        self.blocks.len() as u32 - self.free.len()
    }

    /// Size of the pool.
    pub(super) fn blocks_max(&self) -> u32 {
        self.blocks_max
    }

    /// How many times a block became free. While it stands still there is no more room than before.
    pub(super) fn freed_total(&self) -> u64 {
        self.freed_total
    }

    /// The block with this hash after the block `parent`.
    pub(super) fn find(&self, parent: BlockId, hash: u64) -> Option<BlockId> {
        let child = self.child(parent);
        if child != NONE && self.blocks[child as usize].hash == hash {
            return Some(child);
        }
        self.siblings.get(&(parent, hash)).copied()
    }

    /// Whether no request refers to the block.
    pub(super) fn is_free(&self, id: BlockId) -> bool {
        self.blocks[id as usize].refs == 0
    }

    /// A request starts for the first time: its number, and the hashes of its prompt's full blocks.
    pub(super) fn meet(&mut self, id: u64, prompt: &[u64]) -> Kind {
        self.free.meet(id, prompt)
    }

    /// One more request refers to a block that [`find`](Self::find) gave.
    #[inline]
    pub(super) fn reuse(&mut self, id: BlockId) {
        if self.is_free(id) {
            self.free.remove(&mut self.blocks, id);
        }
        self.blocks[id as usize].refs += 1;
    }

    /// Takes `count` blocks, evicting what they hold, and appends them to `table`. There must be as
    /// many free.
    pub(super) fn take(&mut self, count: u32, table: &mut Vec<BlockId>) {
        debug_assert!(count <= self.free());
        table.extend((0..count).map(|_| self.take_one()));
    }

    #[inline]
    fn take_one(&mut self) -> BlockId {
        if (self.blocks.len() as u32) < self.blocks_max {
            self.blocks.push(Block { refs: 1, ..Block::UNUSED });
            return self.blocks.len() as u32 - 1;
        }
        let id = self.free.take(&mut self.blocks);
        let block = &mut self.blocks[id as usize];
        block.refs = 1;
        if block.named {
            self.evict(id);
        }
        id
    }

    /// A block of the caller's, taken and not named yet, has been computed and holds the chain of the
    /// caller's block `parent` and then this hash.
    pub(super) fn name(&mut self, id: BlockId, parent: BlockId, hash: u64) -> Named {
        if let Some(holder) = self.find(parent, hash) {
            self.reuse(holder);
            self.free_block(id, Kind::default());
            return Named::Merged(holder);
        }
        if self.child(parent) == NONE {
            *self.child_mut(parent) = id;
        } else {
            self.siblings.insert((parent, hash), id);
        }
        let block = &mut self.blocks[id as usize];
        (block.hash, block.parent, block.named) = (hash, parent, true);
        Named::New
    }

    /// A request that [`meet`](Self::meet) gave this kind gives up its blocks, which are in the order of
    /// its sequence.
    pub(super) fn release(&mut self, table: &mut Vec<BlockId>, kind: Kind) {
        for &id in table.iter().rev() {
            self.free_block(id, kind);
        }
        table.clear();
    }

    /// The hashes that lost their blocks since the last call, in that order.
    pub(super) fn drain_evicted(&mut self) -> impl Iterator<Item = u64> {
        self.evicted.drain(..)
    }

    /// Forgets everything, if no block is used. Returns whether it did.
    pub(super) fn clear(&mut self) -> bool {
        let unused = self.used() == 0;
        if unused {
            self.blocks.clear();
            self.siblings.clear();
            self.evicted.clear();
            self.root_child = NONE;
            self.free.clear();
            self.freed_total += 1;
        }
        unused
    }

    /// Takes the name off a block without children.
    #[inline]
    fn evict(&mut self, id: BlockId) {
        let block = &mut self.blocks[id as usize];
        debug_assert_eq!(block.child, NONE, "a parent goes before its child");
        block.named = false;
        let (parent, hash) = (block.parent, block.hash);
        if self.child(parent) == id {
            *self.child_mut(parent) = NONE;
        } else {
            self.siblings.remove(&(parent, hash));
        }
        self.evicted.push(hash);
    }

    fn child(&self, parent: BlockId) -> BlockId {
        if parent == ROOT { self.root_child } else { self.blocks[parent as usize].child }
    }

    fn child_mut(&mut self, parent: BlockId) -> &mut BlockId {
        if parent == ROOT { &mut self.root_child } else { &mut self.blocks[parent as usize].child }
    }

    #[inline]
    fn free_block(&mut self, id: BlockId, kind: Kind) {
        let block = &mut self.blocks[id as usize];
        block.refs -= 1;
        let is_free = block.refs == 0;
        self.freed_total += u64::from(is_free);
        self.free.given_up(&mut self.blocks, id, is_free, kind);
    }

    /// Panics unless every block is accounted for once: `tables` are the blocks of all requests.
    pub(super) fn check_invariants<'a>(&self, tables: impl Iterator<Item = &'a [BlockId]>) {
        assert!(self.blocks.len() <= self.blocks_max as usize, "more blocks than memory");
        let mut refs = vec![0u32; self.blocks.len()];
        for &id in tables.flatten() {
            refs[id as usize] += 1;
        }
        for (id, block) in self.blocks.iter().enumerate() {
            assert_eq!(block.refs, refs[id], "block {id} has a reference that no request holds");
        }
        self.check_names();
        self.free.check_invariants(&self.blocks);
    }

    fn check_names(&self) {
        let named = |id: BlockId| id == ROOT || self.blocks[id as usize].named;
        let mut children = usize::from(self.root_child != NONE);
        let mut names = 0;
        for (id, block) in self.blocks.iter().enumerate() {
            children += usize::from(block.child != NONE);
            if block.named {
                names += 1;
                let found = self.find(block.parent, block.hash);
                assert_eq!(found, Some(id as BlockId), "block {id} cannot be found");
                assert!(named(block.parent), "block {id} has lost its parent");
            } else {
                assert_eq!(block.child, NONE, "block {id} has a child and no name");
            }
        }
        assert_eq!(names, children + self.siblings.len(), "a name leads to a block without it");
    }
}

impl Block {
    const UNUSED: Self = Self { hash: 0, parent: ROOT, child: NONE, refs: 0, prev: NONE, next: NONE, named: false };
}
