//! Names of blocks to other names that mean the same.

use std::collections::HashMap;
use std::sync::Arc;

use xxhash_rust::xxh3;

use super::{Blocks, Content, Record};
use crate::InvalidOption;

/// Names that are remembered: about 4 GiB. Beyond, new ones stay as they are.
const NAMES_MAX: usize = 100_000_000;

/// Gives blocks small numbers in the order in which they occur, as Mooncake's traces have them.
#[derive(Debug, Default)]
pub struct SmallNames {
    names: HashMap<u64, u64>,
}

impl SmallNames {
    /// The record with small names.
    pub fn rename(&mut self, mut record: Record) -> Record {
        if let Content::Blocks(blocks) = &mut record.content {
            let small = blocks.ids.iter().map(|&id| {
                let next = self.names.len();
                if next < NAMES_MAX {
                    return *self.names.entry(id).or_insert(next as u64);
                }
                self.names.get(&id).copied().unwrap_or(id)
            });
            blocks.ids = small.collect();
        }
        record
    }
}

/// Makes blocks of `tokens` out of smaller ones: a name stands for a group and all before it. The last group may be a part
/// of a block.
///
/// # Errors
/// `tokens` is no multiple of the size that the record's blocks have.
pub fn regroup(mut record: Record, tokens: u32) -> Result<Record, InvalidOption> {
    let Content::Blocks(blocks) = &record.content else { return Ok(record) };
    if blocks.tokens == 0 || !tokens.is_multiple_of(blocks.tokens) || tokens == 0 {
        let problem = format!("{tokens} is no multiple of the trace's {} tokens a block", blocks.tokens);
        return Err(InvalidOption::new("to_block_tokens", problem));
    }
    let group = (tokens / blocks.tokens) as usize;
    if group > 1 {
        let mut chain = 0;
        let names: Arc<[u64]> = blocks
            .ids
            .chunks(group)
            .map(|ids| {
                let bytes: Vec<_> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                chain = xxh3::xxh3_64_with_seed(&bytes, chain);
                chain
            })
            .collect();
        record.content = Content::Blocks(Blocks { ids: names, tokens });
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(ids: &[u64]) -> Record {
        Record { content: Content::Blocks(Blocks { ids: ids.into(), tokens: 64 }), ..Record::default() }
    }

    fn ids(record: &Record) -> Vec<u64> {
        match &record.content {
            Content::Blocks(blocks) => blocks.ids.to_vec(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn small_names_are_equal_where_the_names_were() {
        let mut small = SmallNames::default();
        assert_eq!(ids(&small.rename(record(&[900, u64::MAX, 900]))), [0, 1, 0]);
        assert_eq!(ids(&small.rename(record(&[u64::MAX, 7]))), [1, 2]);
    }

    #[test]
    fn a_group_stands_for_its_blocks_and_all_before_it() {
        let grouped = |blocks: &[u64]| ids(&regroup(record(blocks), 128).unwrap());
        let (long, short, other) = (grouped(&[1, 2, 3, 4, 5]), grouped(&[1, 2, 3, 4]), grouped(&[9, 2, 3, 4]));
        assert_eq!((long.len(), short.len()), (3, 2));
        assert_eq!(long[..2], short[..]);
        assert_ne!(short[1], other[1]);
        assert_eq!(regroup(record(&[1]), 64).unwrap(), record(&[1]));
        for tokens in [0, 32, 100] {
            assert!(regroup(record(&[1]), tokens).is_err(), "{tokens}");
        }
    }
}
