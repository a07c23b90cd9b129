//! What a prefix length does to the keys, whatever the load: how many there are, how large the largest is, and how much
//! could be reused if every key had a cache of its own without limits.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use kvroute_core::hash;
use serde::Serialize;

use crate::hashing::Mixed;
use crate::replay::job::Jobs;

/// The keys of one prefix length.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KeyShape {
    /// The length.
    pub prefix_length: u32,
    /// Different keys.
    pub keys: u64,
    /// Part of the requests that has the most frequent key, 0..1.
    pub largest_key_ratio: f64,
    /// Part of the prompt tokens that a cache without limits would hold if each key had one of its own, 0..1; `None` where
    /// the trace is too large to tell quickly.
    pub hit_ceiling: Option<f64>,
}

/// Blocks of all prompts that are looked at, at most.
const BLOCKS_MAX: usize = 20_000_000;

/// For each of the lengths.
pub fn key_shapes(jobs: &Jobs, lengths: &[u32]) -> Vec<KeyShape> {
    let blocks: usize = jobs.list.iter().map(|job| job.prompt_blocks(jobs.block_tokens)).sum();
    lengths.iter().map(|length| shape(jobs, *length, blocks <= BLOCKS_MAX)).collect()
}

fn shape(jobs: &Jobs, prefix_length: u32, is_small: bool) -> KeyShape {
    let mut counts: HashMap<u64, u64, BuildHasherDefault<Mixed>> = HashMap::default();
    let mut held: HashSet<u64, BuildHasherDefault<Mixed>> = HashSet::default();
    let (mut hits, mut tokens) = (0u64, 0u64);
    for job in &jobs.list {
        let key = job.key(prefix_length).unwrap_or(0);
        *counts.entry(key).or_default() += 1;
        tokens += u64::from(job.input_tokens);
        if is_small {
            let blocks = &job.blocks[..job.prompt_blocks(jobs.block_tokens)];
            let known = blocks.partition_point(|block| held.contains(&hash::mix(*block, key)));
            held.extend(blocks[known..].iter().map(|block| hash::mix(*block, key)));
            hits += (known as u64 * u64::from(jobs.block_tokens)).min(u64::from(job.input_tokens) - 1);
        }
    }
    let largest = counts.values().max().copied().unwrap_or(0);
    KeyShape {
        prefix_length,
        keys: counts.len() as u64,
        largest_key_ratio: largest as f64 / jobs.list.len().max(1) as f64,
        hit_ceiling: is_small.then(|| hits as f64 / tokens.max(1) as f64),
    }
}
