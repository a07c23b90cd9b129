//! What stays in memory after many prompts of which no two are alike.

use std::fs;

use anyhow::{Context, Result};
use kvroute_core::prompt::PromptHasher;

use super::fleet;

const REPLICAS: usize = 4;
/// Three blocks of the prefix chain.
const PROMPT_BYTES: usize = 1536;

/// Resident bytes of this process after each of so many requests, which must ascend.
pub(crate) fn resident_bytes(counts: &[u64]) -> Result<Vec<u64>> {
    let (endpoint, settings) = (fleet::endpoint(REPLICAS), fleet::settings());
    let mut text = vec![b'x'; PROMPT_BYTES];
    let mut sizes = Vec::with_capacity(counts.len());
    let mut done = 0;
    for &count in counts {
        for request in done..count {
            text[..8].copy_from_slice(&request.to_le_bytes());
            let mut hasher = PromptHasher::new(settings.clone());
            hasher.segment(b"user");
            hasher.text(&text);
            let facts = fleet::facts(Some("m".to_owned()), hasher.finish(), &settings);
            drop(fleet::choose(&endpoint, &facts, request)?);
        }
        done = count;
        sizes.push(resident_bytes_now()?);
    }
    Ok(sizes)
}

fn resident_bytes_now() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").context("this system does not tell what a process holds")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in the status")?;
    let kib = line.trim().strip_suffix("kB").context("VmRSS is not in kB")?;
    Ok(kib.trim().parse::<u64>()? << 10)
}
