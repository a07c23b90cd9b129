//! What the end of a step brings to one request.

use super::pool::{Named, Pool, ROOT};
use super::scheduler::Totals;
use super::sequence::Sequence;
use super::{Event, Micros};

/// Names the blocks that the step filled. What others computed meanwhile is shared instead.
pub(super) fn store(pool: &mut Pool, sequence: &mut Sequence, full_blocks: u32, at: Micros) -> Option<Event> {
    let first = sequence.named_blocks;
    let mut first_block = first;
    let mut hashes = Vec::with_capacity((full_blocks - first) as usize);
    for index in first..full_blocks {
        let before = index.checked_sub(1).map_or(ROOT, |before| sequence.blocks[before as usize]);
        let hash = sequence.block_hash(index);
        match pool.name(sequence.blocks[index as usize], before, hash) {
            Named::New => hashes.push(hash),
            Named::Merged(holder) => {
                sequence.blocks[index as usize] = holder;
                // Hashes are chained, so what is shared comes before what is new.
                first_block = index + 1;
            }
        }
    }
    sequence.named_blocks = full_blocks;
    let parent = first_block.checked_sub(1).map(|index| sequence.block_hash(index));
    (!hashes.is_empty()).then_some(Event::Stored { at, id: sequence.id, parent, hashes, first_block })
}

/// Repeats the blocks that the request found cached, if it asked for that.
pub(super) fn tell_found(sequence: &mut Sequence, at: Micros) -> Option<Event> {
    let found = std::mem::take(&mut sequence.untold_blocks);
    let hashes: Vec<u64> = (0..found).map(|index| sequence.block_hash(index)).collect();
    (found > 0).then_some(Event::Stored { at, id: sequence.id, parent: None, hashes, first_block: 0 })
}

/// The next token of a request whose tokens are all computed. Called once for one that wants none.
pub(super) fn generate(sequence: &mut Sequence, totals: &mut Totals, at: Micros) -> Option<Event> {
    let id = sequence.id;
    if !sequence.wants_output() {
        totals.prompt_tokens += u64::from(sequence.prompt_tokens);
        return None;
    }
    sequence.generated_tokens += 1;
    totals.generated_tokens += 1;
    if sequence.generated_tokens > 1 {
        return Some(Event::Token { id, at });
    }
    totals.prompt_tokens += u64::from(sequence.prompt_tokens);
    Some(Event::FirstToken { id, at })
}
