//! How much could be reused: with a cache that never forgets, and with an LRU cache of every size.
//!
//! One pass gives the whole curve. An engine touches all blocks of a prompt together, the last block first, so a
//! beginning is at least as recent as what follows it, and what an LRU cache of *n* blocks holds is the *n* most recently
//! touched ones: a block is a hit in every cache that is larger than the number of blocks touched since (its *reuse
//! distance*). A Fenwick tree over the times of last use counts these in O(log n).

use super::corpus::{Corpus, ROOT};

/// Reused units by reuse distance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distances {
    /// Entry *d*: units that a cache of more than *d* blocks reuses and one of *d* does not.
    units: Vec<u64>,
    total: u64,
}

impl Distances {
    /// One cache in front of all requests.
    pub fn of(corpus: &Corpus) -> Self {
        let mut units = vec![0; corpus.nodes.len()];
        let mut recency = Recency::new(corpus.nodes.len(), corpus.names_total());
        for index in 0..corpus.requests.len() {
            let names = corpus.names(index);
            for (line, &name) in names.iter().enumerate() {
                // What a prompt's own beginning is not found of, nothing after it is.
                let Some(distance) = recency.distance(name) else { break };
                units[distance] += corpus.units_of(index, line + 1) - corpus.units_of(index, line);
            }
            names.iter().rev().for_each(|&name| recency.touch(name));
        }
        Self { units, total: corpus.units_total() }
    }

    /// Part of all prompt units that an LRU cache of so many blocks reuses, 0..1.
    pub fn hit_ratio(&self, blocks: usize) -> f64 {
        ratio(self.units.iter().take(blocks).sum(), self.total)
    }

    /// The same for a cache that never forgets.
    pub fn hit_ratio_infinite(&self) -> f64 {
        self.hit_ratio(usize::MAX)
    }

    /// The curve at sizes that grow by about a fifth from `from` blocks on until nothing is gained any more:
    /// blocks and hit ratio.
    pub fn curve(&self, from: usize) -> Vec<(usize, f64)> {
        let mut points = Vec::new();
        let (mut reused, mut counted, mut size) = (0, 0, from.max(1));
        loop {
            let upto = size.min(self.units.len());
            reused += self.units[counted..upto].iter().sum::<u64>();
            counted = upto;
            points.push((size, ratio(reused, self.total)));
            if counted == self.units.len() {
                return points;
            }
            size = (size + size / 5).max(size + 1);
        }
    }
}

/// `part` of `whole`, 0 where there is nothing.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Times of last use, in a tree that counts those after a given one.
struct Recency {
    last_use: Vec<u32>,
    tree: Vec<u32>,
    now: u32,
    live: u32,
}

impl Recency {
    fn new(names: usize, touches: usize) -> Self {
        Self { last_use: vec![ROOT; names], tree: vec![0; touches + 1], now: 0, live: 0 }
    }

    /// Names touched since `name` was; `None` if it never was.
    fn distance(&self, name: u32) -> Option<usize> {
        let at = self.last_use[name as usize];
        (at != ROOT).then(|| (self.live - self.up_to(at)) as usize)
    }

    fn touch(&mut self, name: u32) {
        let before = self.last_use[name as usize];
        if before == ROOT {
            self.live += 1;
        } else {
            self.add(before, u32::MAX);
        }
        self.add(self.now, 1);
        self.last_use[name as usize] = self.now;
        self.now += 1;
    }

    /// Adds to the count at a time; `u32::MAX` takes one away, by wrapping.
    fn add(&mut self, time: u32, by: u32) {
        let mut at = time as usize + 1;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(by);
            at += at & at.wrapping_neg();
        }
    }

    /// Names whose last use is at `time` or before.
    fn up_to(&self, time: u32) -> u32 {
        let (mut at, mut sum) = (time as usize + 1, 0u32);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }
}

/// What an engine that caches only whole KV blocks loses of what repeats.
#[derive(Debug, Clone, Copy, Default, PartialEq, serde::Serialize)]
pub struct Rounding {
    /// Part of all prompt tokens that repeats, in a cache that never forgets, 0..1.
    pub repeated_ratio: f64,
    /// The same in whole KV blocks.
    pub cached_ratio: f64,
    /// Part of the requests that share a beginning with an earlier one, all of it shorter than a KV block.
    pub too_short_ratio: f64,
}

/// Rounds what every request shares with earlier ones down to whole KV blocks of `block_tokens`.
pub fn rounding(corpus: &Corpus, block_tokens: u32) -> Rounding {
    let mut seen = vec![false; corpus.nodes.len()];
    let (mut repeated, mut cached, mut too_short) = (0u64, 0u64, 0u64);
    let block = u64::from(block_tokens.max(1));
    for index in 0..corpus.requests.len() {
        let names = corpus.names(index);
        let matched = names.iter().take_while(|&&name| seen[name as usize]).count();
        names.iter().for_each(|&name| seen[name as usize] = true);
        let tokens = corpus.grid.tokens(corpus.units_of(index, matched));
        let whole = tokens / block * block;
        repeated += tokens;
        cached += whole;
        too_short += u64::from(tokens > 0 && whole == 0);
    }
    let total = corpus.grid.tokens(corpus.units_total());
    Rounding {
        repeated_ratio: ratio(repeated, total),
        cached_ratio: ratio(cached, total),
        too_short_ratio: ratio(too_short, corpus.requests.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::sample::{blocks, text};
    use super::*;
    use proptest::prelude::*;

    fn corpus(prompts: &[Vec<u64>]) -> Corpus {
        let mut builder = Builder::new(Limits::default());
        for ids in prompts {
            builder.push(&blocks(ids, ids.len() as u32 * 512)).unwrap();
        }
        builder.finish(0.25)
    }

    /// Hit units of an LRU cache as a list, newest first.
    fn naive_lru(corpus: &Corpus, capacity: usize) -> u64 {
        let mut held: Vec<u32> = Vec::new();
        let mut hits = 0;
        for index in 0..corpus.requests.len() {
            let names = corpus.names(index);
            let matched = names.iter().take_while(|name| held.contains(name)).count();
            hits += corpus.units_of(index, matched);
            for name in names.iter().rev() {
                held.retain(|other| other != name);
                held.insert(0, *name);
            }
            held.truncate(capacity);
        }
        hits
    }

    proptest! {
        #[test]
        fn one_pass_gives_what_an_lru_of_any_size_reuses(
            prompts in prop::collection::vec(prop::collection::vec(0u64..3, 1..6), 1..40),
            capacity in 0usize..40,
        ) {
            let corpus = corpus(&prompts);
            let ratio = Distances::of(&corpus).hit_ratio(capacity);
            let expected = naive_lru(&corpus, capacity) as f64 / corpus.units_total() as f64;
            prop_assert!((ratio - expected).abs() < 1e-12, "{} {}", ratio, expected);
        }
    }

    #[test]
    fn the_curve_ends_where_nothing_is_gained_any_more() {
        let corpus = corpus(&vec![vec![1, 2, 3]; 4]);
        let distances = Distances::of(&corpus);
        let curve = distances.curve(1);
        assert!((curve[0].1 - 0.25).abs() < 1e-12, "the first block is touched last");
        assert_eq!(*curve.last().unwrap(), (3, distances.hit_ratio_infinite()));
        assert!((distances.hit_ratio_infinite() - 0.75).abs() < 1e-12);
        assert_eq!(Distances::of(&self::corpus(&[])).hit_ratio_infinite(), 0.0);
    }

    #[test]
    fn what_is_shared_but_shorter_than_a_kv_block_is_told_apart() {
        let mut builder = Builder::new(Limits::default());
        for tail in ["a", "b", "c", "d"] {
            builder.push(&text(&format!("{}{}", "s".repeat(960), tail.repeat(900)))).unwrap();
        }
        let corpus = builder.finish(0.25);
        let fine = rounding(&corpus, 16);
        assert!(fine.cached_ratio > 0.35 && fine.too_short_ratio == 0.0, "{fine:?}");
        let coarse = rounding(&corpus, 784);
        assert_eq!((coarse.cached_ratio, coarse.too_short_ratio), (0.0, 0.75));
        assert_eq!(coarse.repeated_ratio, fine.repeated_ratio);
    }
}
