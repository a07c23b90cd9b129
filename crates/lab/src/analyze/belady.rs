//! What a cache could reuse that knew the future: the bound on every eviction order, for a cache of given size.
//!
//! Belady's rule drops the block whose next use is furthest. It is the best for each block by itself, and therefore for
//! beginnings too: whatever uses a block uses all before it, so a block's next use is never later than that of a block
//! after it. A block that is never used again is not kept at all.

use std::collections::BinaryHeap;

use super::corpus::Corpus;
use super::reuse::ratio;

/// Of a name: when it is used next.
const NEVER: u32 = u32::MAX;

/// Part of all prompt units that is reused with a cache of so many blocks, 0..1.
pub fn hit_ratio(corpus: &Corpus, blocks: usize) -> f64 {
    let next_uses = next_uses(corpus);
    // By name: the next use for which it is kept; `NEVER` where it is not held.
    let mut held = vec![NEVER; corpus.nodes.len()];
    let mut count = 0usize;
    // Furthest next use on top; of one next use the deepest first.
    let mut furthest: BinaryHeap<(u32, u32, u32)> = BinaryHeap::new();
    let mut reused = 0;
    let mut uses = next_uses.iter();
    for index in 0..corpus.requests.len() {
        let names = corpus.names(index);
        let matched = names.iter().take_while(|&&name| held[name as usize] != NEVER).count();
        reused += corpus.units_of(index, matched);
        for (line, (&name, &next)) in names.iter().zip(uses.by_ref()).enumerate() {
            let slot = &mut held[name as usize];
            count -= usize::from(*slot != NEVER);
            *slot = next;
            if next != NEVER {
                count += 1;
                furthest.push((next, line as u32, name));
            }
        }
        while count > blocks {
            let Some((next, _, name)) = furthest.pop() else { break };
            // An entry of an earlier use stands for nothing any more.
            if held[name as usize] == next {
                held[name as usize] = NEVER;
                count -= 1;
            }
        }
    }
    ratio(reused, corpus.units_total())
}

/// For every name of every request in order, the number of the next request that has it.
fn next_uses(corpus: &Corpus) -> Vec<u32> {
    let mut next = vec![NEVER; corpus.nodes.len()];
    let mut uses = vec![NEVER; corpus.names_total()];
    let mut at = uses.len();
    for index in (0..corpus.requests.len()).rev() {
        for &name in corpus.names(index).iter().rev() {
            at -= 1;
            uses[at] = std::mem::replace(&mut next[name as usize], index as u32);
        }
    }
    uses
}

#[cfg(test)]
mod tests {
    use super::super::corpus::{Builder, Limits};
    use super::super::reuse::Distances;
    use super::super::sample::blocks;
    use super::*;
    use proptest::prelude::*;

    fn corpus(prompts: &[Vec<u64>]) -> Corpus {
        let mut builder = Builder::new(Limits::default());
        for ids in prompts {
            builder.push(&blocks(ids, ids.len() as u32 * 512)).unwrap();
        }
        builder.finish(0.25)
    }

    /// The most that any choice of what to keep reuses, by trying all of them.
    fn best(corpus: &Corpus, index: usize, held: &[u32], capacity: usize) -> u64 {
        if index == corpus.requests.len() {
            return 0;
        }
        let names = corpus.names(index);
        let matched = names.iter().take_while(|name| held.contains(name)).count();
        let mut pool: Vec<u32> = held.iter().chain(names).copied().collect();
        pool.sort_unstable();
        pool.dedup();
        let subsets = (0u32..1 << pool.len()).filter(|set| set.count_ones() as usize <= capacity);
        let kept = |set: u32| -> Vec<u32> { (0..pool.len()).filter(|i| set >> i & 1 == 1).map(|i| pool[i]).collect() };
        corpus.units_of(index, matched)
            + subsets.map(|set| best(corpus, index + 1, &kept(set), capacity)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn no_choice_of_what_to_keep_reuses_more(
            prompts in prop::collection::vec(prop::collection::vec(0u64..2, 1..3), 1..5),
            capacity in 0usize..4,
        ) {
            let corpus = corpus(&prompts);
            let expected = best(&corpus, 0, &[], capacity) as f64 / corpus.units_total() as f64;
            prop_assert!((hit_ratio(&corpus, capacity) - expected).abs() < 1e-12);
        }

        #[test]
        fn it_lies_between_lru_and_a_cache_that_never_forgets(
            prompts in prop::collection::vec(prop::collection::vec(0u64..3, 1..6), 1..40),
            capacity in 0usize..40,
        ) {
            let corpus = corpus(&prompts);
            let distances = Distances::of(&corpus);
            let belady = hit_ratio(&corpus, capacity);
            prop_assert!(distances.hit_ratio(capacity) <= belady + 1e-12);
            prop_assert!(belady <= distances.hit_ratio_infinite() + 1e-12);
        }
    }
}
