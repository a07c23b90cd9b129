//! Which of the blocks that no request refers to loses its room first.
//!
//! Placement and retention must be judged together: a router that keeps conversations together gains
//! nothing where the engine has evicted them, and a better rule in the engine may be worth more than
//! another strategy. [`Eviction::Lru`] is what engines do; [`Eviction::Continuation`] is what one could
//! do with what it knows; [`Eviction::Belady`] is the bound that no rule can pass.
//!
//! Whatever the rule, a block goes before the block that it follows: in every rule a request's use of a
//! block counts for all blocks before it too.

pub(super) mod belady;
mod continuation;
mod lru;
mod ranked;

use std::str::FromStr;
use std::sync::Arc;

use super::pool::{Block, BlockId};
use belady::{Belady, Future};
use continuation::Continuation;
use lru::Lru;
pub(super) use lru::NONE;
use ranked::{Ranked, Rule};

/// The order in which cached blocks lose their room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Eviction {
    /// The least recently freed first, as vLLM does it.
    #[default]
    Lru,
    /// As `Lru`, but blocks of prompts that are likely to go on stay up to once the size of memory
    /// longer. No engine has it; it follows Learned Prefix Caching (NeurIPS 2025), with counts in place
    /// of its learned model.
    Continuation,
    /// The one that is used again last, if at all. Needs to be told the [`Future`]; without it, `Lru`.
    Belady,
}

impl Eviction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lru, Self::Continuation, Self::Belady];

    /// Its name in settings.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Continuation => "continuation",
            Self::Belady => "belady",
        }
    }
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|eviction| eviction.as_str() == name);
        found.ok_or_else(|| format!("no eviction {name:?}: there are {}", Self::ALL.map(Self::as_str).join(", ")))
    }
}

/// What a rule found out about a request when it met it; the same number means nothing to another rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Kind(pub(super) u32);

/// The free blocks, in the order of a rule.
pub(super) enum Queue {
    Lru(Lru),
    Ranked(Box<Ranked>),
}

impl Queue {
    pub(super) fn new(eviction: Eviction, future: Arc<Future>, blocks_max: u32) -> Self {
        let rule = match eviction {
            Eviction::Lru => return Self::Lru(Lru::default()),
            Eviction::Continuation => Rule::Continuation(Continuation::new(blocks_max)),
            Eviction::Belady => Rule::Belady(Belady::new(future)),
        };
        Self::Ranked(Box::new(Ranked::new(rule)))
    }

    /// A request starts for the first time: its number and the blocks of its prompt.
    pub(super) fn meet(&mut self, id: u64, prompt: &[u64]) -> Kind {
        match self {
            Self::Lru(_) => Kind::default(),
            Self::Ranked(ranked) => ranked.meet(id, prompt),
        }
    }

    /// A request of this kind gave up a block: it is free now, or others use it still.
    #[inline]
    pub(super) fn given_up(&mut self, blocks: &mut [Block], id: BlockId, is_free: bool, kind: Kind) {
        match self {
            Self::Lru(lru) if is_free => lru.push(blocks, id),
            Self::Lru(_) => {}
            Self::Ranked(ranked) => ranked.given_up(&blocks[id as usize], id, is_free, kind),
        }
    }

    /// A free block is used again.
    #[inline]
    pub(super) fn remove(&mut self, blocks: &mut [Block], id: BlockId) {
        match self {
            Self::Lru(lru) => lru.remove(blocks, id),
            Self::Ranked(ranked) => ranked.remove(id),
        }
    }

    /// Takes out the free block that goes first. There must be one.
    #[inline]
    pub(super) fn take(&mut self, blocks: &mut [Block]) -> BlockId {
        match self {
            Self::Lru(lru) => lru.take(blocks),
            Self::Ranked(ranked) => ranked.take(blocks),
        }
    }

    /// Free blocks.
    #[inline]
    pub(super) fn len(&self) -> u32 {
        match self {
            Self::Lru(lru) => lru.len(),
            Self::Ranked(ranked) => ranked.len(),
        }
    }

    /// Forgets the blocks. What a rule has learned stays.
    pub(super) fn clear(&mut self) {
        match self {
            Self::Lru(lru) => *lru = Lru::default(),
            Self::Ranked(ranked) => ranked.clear(),
        }
    }

    /// Panics unless it holds the free blocks, each once, and children go before their parents.
    pub(super) fn check_invariants(&self, blocks: &[Block]) {
        match self {
            Self::Lru(lru) => lru.check_invariants(blocks),
            Self::Ranked(ranked) => ranked.check_invariants(blocks),
        }
        let free = blocks.iter().filter(|block| block.refs == 0).count();
        assert_eq!(free, self.len() as usize, "a free block is not in the queue");
    }
}
