//! Free blocks by a rank that a rule gives them: the lowest goes first, among equals the one that has
//! been free longest.
//!
//! A rule must rank a block no lower than those that follow it. What nobody can find, because it is the
//! unfinished end of a sequence, has the rank 0.

use std::collections::BTreeSet;

use super::super::pool::{Block, BlockId, ROOT};
use super::Kind;
use super::belady::Belady;
use super::continuation::Continuation;

/// What gives blocks their ranks.
pub(in super::super) enum Rule {
    Continuation(Continuation),
    Belady(Belady),
}

/// See the module. Kept out of line, so that the way of `Lru`, which is an engine's, stays short.
pub(in super::super) struct Ranked {
    rule: Rule,
    free: BTreeSet<(Place, BlockId)>,
    /// By block; of a used one, what it was last given.
    places: Vec<Place>,
    given_up_total: u64,
}

/// Where a block stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    rank: u64,
    /// [`Ranked::given_up_total`] at that time.
    turn: u64,
}

impl Ranked {
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, free: BTreeSet::new(), places: Vec::new(), given_up_total: 0 }
    }

    pub(super) fn meet(&mut self, id: u64, prompt: &[u64]) -> Kind {
        match &mut self.rule {
            Rule::Continuation(rule) => rule.meet(prompt),
            Rule::Belady(rule) => rule.meet(id),
        }
    }

    #[inline(never)]
    pub(super) fn given_up(&mut self, block: &Block, id: BlockId, is_free: bool, kind: Kind) {
        self.given_up_total += 1;
        if self.places.len() <= id as usize {
            self.places.resize(id as usize + 1, Place::default());
        }
        let turn = self.given_up_total;
        let place = &mut self.places[id as usize];
        let rank = match &self.rule {
            _ if !block.named => 0,
            // Whoever of its users promised the most.
            Rule::Continuation(rule) => place.rank.max(rule.rank(turn, kind)),
            Rule::Belady(rule) => rule.rank(block.hash),
        };
        *place = Place { rank, turn };
        if is_free {
            self.free.insert((*place, id));
        }
    }

    #[inline(never)]
    pub(super) fn remove(&mut self, id: BlockId) {
        self.free.remove(&(self.places[id as usize], id));
    }

    #[inline(never)]
    pub(super) fn take(&mut self, blocks: &[Block]) -> BlockId {
        self.refresh(blocks);
        let first = self.free.pop_first();
        debug_assert!(first.is_some(), "a block is taken where none is free");
        let id = first.map_or(0, |(_, id)| id);
        self.places[id as usize] = Place::default();
        id
    }

    /// Ranks anew what has stayed free beyond the use that its rank was about.
    fn refresh(&mut self, blocks: &[Block]) {
        let Rule::Belady(rule) = &self.rule else { return };
        while let Some(&(place, id)) = self.free.last().filter(|(place, _)| rule.is_past(place.rank)) {
            self.free.pop_last();
            let place = Place { rank: rule.rank(blocks[id as usize].hash), ..place };
            self.places[id as usize] = place;
            self.free.insert((place, id));
        }
    }

    pub(super) fn len(&self) -> u32 {
        self.free.len() as u32
    }

    pub(super) fn clear(&mut self) {
        self.free.clear();
        self.places.clear();
    }

    pub(super) fn check_invariants(&self, blocks: &[Block]) {
        for &(place, id) in &self.free {
            let block = &blocks[id as usize];
            assert_eq!(block.refs, 0, "block {id} is free and used");
            assert_eq!(self.places[id as usize], place, "block {id} stands at two places");
            if block.named && block.parent != ROOT && blocks[block.parent as usize].refs == 0 {
                let parent = self.places[block.parent as usize];
                let is_past = matches!(&self.rule, Rule::Belady(rule) if rule.is_past(parent.rank));
                assert!(is_past || parent > place, "block {id} outlives the one before it");
            }
        }
    }
}
