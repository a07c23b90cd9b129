//! What a rule believes that each replica holds.
//!
//! Two ways to know. *Predicted*: an LRU set of blocks a replica, of what was sent there. *Events*: what the engines say
//! that they stored and removed. In both the held part of a prompt is a beginning of it, so how long it is takes a few
//! look-ups.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use kvroute_core::{cache::CacheView, prompt::PrefixChain};

use super::Ask;
use crate::hashing::Mixed;

/// The same hashing in every run.
pub(super) type Hashing = BuildHasherDefault<Mixed>;

/// How a rule knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// From what it sent.
    Predicted,
    /// From what engines say.
    Events,
}

impl View {
    /// Reads a setting.
    pub(super) fn parse(value: &str) -> Result<Self, String> {
        match value {
            "predicted" => Ok(Self::Predicted),
            "events" => Ok(Self::Events),
            _ => Err("neither predicted nor events".to_owned()),
        }
    }
}

/// Blocks by replica.
pub(crate) struct Index {
    view: View,
    blocks_max: usize,
    predicted: Vec<CacheView>,
    held: Vec<HashSet<u64, Hashing>>,
}

impl Index {
    /// An empty index; a predicted one holds so many blocks a replica.
    pub(super) fn new(view: View, blocks_max: usize) -> Self {
        Self { view, blocks_max, predicted: Vec::new(), held: Vec::new() }
    }

    /// Whether engines have to be listened to.
    pub(crate) fn listens(&self) -> bool {
        self.view == View::Events
    }

    /// Leading blocks of the prompt that a replica holds.
    pub(super) fn matched(&self, number: usize, chain: &PrefixChain) -> u32 {
        let matched = match self.view {
            View::Predicted => self.predicted.get(number).map(|view| view.matched_blocks(chain)),
            View::Events => {
                self.held.get(number).map(|held| chain.hashes().partition_point(|hash| held.contains(hash)))
            }
        };
        matched.unwrap_or(0) as u32
    }

    /// The prompt is sent to a replica.
    pub(super) fn sent(&mut self, number: usize, chain: &PrefixChain) {
        if self.view == View::Predicted {
            while self.predicted.len() <= number {
                self.predicted.push(CacheView::of_blocks(self.blocks_max));
            }
            self.predicted[number].insert(chain);
        }
    }

    /// An engine holds more.
    pub(crate) fn stored(&mut self, number: usize, hashes: &[u64]) {
        while self.held.len() <= number {
            self.held.push(HashSet::default());
        }
        self.held[number].extend(hashes);
    }

    /// An engine holds less.
    pub(crate) fn removed(&mut self, number: usize, hash: u64) {
        if let Some(held) = self.held.get_mut(number) {
            held.remove(&hash);
        }
    }

    /// A replica holds nothing.
    pub(crate) fn cleared(&mut self, number: usize) {
        if let Some(view) = self.predicted.get(number) {
            view.clear();
        }
        if let Some(held) = self.held.get_mut(number) {
            held.clear();
        }
    }
}

/// The prompt's blocks as the engine names them, which is how events name them too.
pub(super) fn chain_of(ask: &Ask<'_>) -> PrefixChain {
    PrefixChain::of_hashes(ask.blocks.to_vec(), 1)
}
