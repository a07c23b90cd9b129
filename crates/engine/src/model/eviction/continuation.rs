//! Keep longest what is likely to be gone on with.
//!
//! Rule: a block that a request gives up ranks as if that happened `P` times the size of memory later,
//! where `P` is the estimate that the request's prompt goes on. With `P` = 0 for all it is LRU; a prompt
//! that surely goes on outlives one that surely does not by as much as memory takes to be used once over.
//! A block that several requests used has the highest of their ranks.
//!
//! What is known is what an engine sees: the blocks of the prompts that it starts. A prompt *goes on* if
//! a later one begins with all of its full blocks: the next turn of a conversation, or the same prompt
//! again. `P` is the share of earlier prompts of the same kind that went on, counted with one success and
//! one failure more than there were, so that an unknown kind has 0.5. The kind is the number of prompts
//! that it continues itself (0 to 7) and its length (in powers of two of blocks). Old counts fade:
//! both are halved at 1,024 prompts.
//!
//! After Learned Prefix Caching (Yang, Li, Li, Lloyd, NeurIPS 2025), which evicts by last access and the
//! predicted chance that the conversation goes on, the prediction made by a small model from the text.
//! The engine model sees no text, so this knows less than that could.

use std::collections::{HashMap, VecDeque};

use super::super::hash::FixedState;
use super::Kind;

/// Prompts whose ends are remembered.
const ENDS_MAX: usize = 16_384;
/// Prompts of a kind at which counts are halved.
const SEEN_MAX: u32 = 1_024;
/// Prompts that one continues, at most.
const TURNS_MAX: u32 = 7;
/// Powers of two of the length in blocks.
const LENGTHS: u32 = 32;

/// See the module.
pub(in super::super) struct Continuation {
    blocks_max: u32,
    /// Recent prompts that have not gone on, by the hash of their last full block: their number, and kind.
    ends: HashMap<u64, (u64, Kind), FixedState>,
    /// The hashes of recent prompts' ends, oldest first.
    recent: VecDeque<u64>,
    /// Prompts so far.
    met: u64,
    counts: Vec<Counts>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    seen: u32,
    went_on: u32,
}

impl Continuation {
    pub(super) fn new(blocks_max: u32) -> Self {
        let counts = vec![Counts::default(); ((TURNS_MAX + 1) * LENGTHS) as usize];
        Self { blocks_max, ends: HashMap::default(), recent: VecDeque::new(), met: 0, counts }
    }

    /// A prompt starts. The longest one that it goes on with is counted, once for every end.
    pub(super) fn meet(&mut self, prompt: &[u64]) -> Kind {
        let before = prompt.iter().rev().find_map(|hash| self.ends.remove(hash)).map(|(_, kind)| kind);
        if let Some(kind) = before {
            let counts = &mut self.counts[kind.0 as usize];
            // Counts may have been halved since it was seen.
            counts.went_on = (counts.went_on + 1).min(counts.seen);
        }
        let Some(&end) = prompt.last() else { return Kind::default() };
        let turn = before.map_or(0, |kind| (kind.0 / LENGTHS + 1).min(TURNS_MAX));
        let kind = Kind(turn * LENGTHS + (prompt.len() as u32).ilog2());
        self.remember(end, kind);
        kind
    }

    fn remember(&mut self, end: u64, kind: Kind) {
        let counts = &mut self.counts[kind.0 as usize];
        if counts.seen >= SEEN_MAX {
            *counts = Counts { seen: counts.seen / 2, went_on: counts.went_on / 2 };
        }
        counts.seen += 1;
        self.ends.insert(end, (self.met, kind));
        self.recent.push_back(end);
        self.met += 1;
        if self.recent.len() > ENDS_MAX
            && let Some(oldest) = self.recent.pop_front()
            && self.ends.get(&oldest).is_some_and(|(number, _)| *number < self.met - ENDS_MAX as u64)
        {
            self.ends.remove(&oldest);
        }
    }

    /// The rank of what a prompt of this kind gives up as the `turn`-th block.
    pub(super) fn rank(&self, turn: u64, kind: Kind) -> u64 {
        let Counts { seen, went_on } = self.counts[kind.0 as usize];
        turn + u64::from(self.blocks_max) * u64::from(went_on + 1) / u64::from(seen + 2)
    }
}
