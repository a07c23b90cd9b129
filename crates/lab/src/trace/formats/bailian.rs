//! Qwen's Bailian traces: `chat_id`, `parent_chat_id` (-1 for the first turn), `timestamp` in seconds, lengths, and
//! `hash_ids` of 16 tokens. Each row is a whole prompt. A session is named by its first turn.

use std::collections::HashMap;

use serde::Deserialize;

use crate::trace::blocks::{BlockName, Fit, choose_tokens, scoped};
use crate::trace::detect::Look;
use crate::trace::format::{Given, ReadRow};
use crate::trace::record::{Blocks, Content, Record};
use crate::trace::time::{TimeUnit, Times, Written};
use crate::trace::values::{Tokens, json_fault};

const BLOCK_TOKENS: u32 = 16;

/// Turns whose session is remembered.
const TURNS_MAX: usize = 16 << 20;

pub(super) fn recognises(look: &Look<'_>) -> bool {
    look.has("chat_id") && look.has("parent_chat_id") && look.has("hash_ids")
}

#[derive(Deserialize)]
struct Row {
    chat_id: i64,
    parent_chat_id: i64,
    timestamp: Option<Written>,
    input_length: Tokens,
    output_length: Option<Tokens>,
    hash_ids: Vec<BlockName>,
}

/// Reads such rows.
pub(super) struct Bailian {
    times: Times,
    block_tokens: u32,
    fit: Fit,
    /// The first turn of each turn's session.
    roots: HashMap<i64, i64>,
}

impl Bailian {
    pub(super) fn new(given: &Given, first: &[&[u8]]) -> Self {
        let rows = first.iter().filter_map(|row| serde_json::from_slice::<Row>(row).ok());
        let lengths: Vec<_> = rows.map(|row| (row.input_length.0, row.hash_ids.len())).collect();
        Self {
            times: Times::new(given.time_unit, TimeUnit::Seconds),
            block_tokens: given.block_tokens.unwrap_or_else(|| choose_tokens(&lengths, BLOCK_TOKENS).0),
            fit: Fit::default(),
            roots: HashMap::new(),
        }
    }
}

impl ReadRow for Bailian {
    fn read(&mut self, row: &[u8], out: &mut Vec<Record>) -> Result<(), String> {
        let row: Row = serde_json::from_slice(row).map_err(|error| json_fault(&error))?;
        self.fit.check(row.hash_ids.len(), self.block_tokens, row.input_length.0)?;
        let root = self.roots.get(&row.parent_chat_id).copied().unwrap_or(row.chat_id);
        if self.roots.len() < TURNS_MAX {
            self.roots.insert(row.chat_id, root);
        }
        out.push(Record {
            id: Some(row.chat_id.to_string().into()),
            at_ms: row.timestamp.and_then(|time| self.times.ms(time)),
            session: Some(root.to_string().into()),
            content: Content::Blocks(Blocks { ids: scoped(&row.hash_ids, None), tokens: self.block_tokens }),
            input_tokens: Some(row.input_length.0),
            output_tokens: row.output_length.map(|tokens| tokens.0),
            ..Record::default()
        });
        Ok(())
    }

    fn assumptions(&self) -> Vec<String> {
        let blocks = format!("{} tokens a block (--block-tokens)", self.block_tokens);
        self.times.assumption().into_iter().chain([blocks]).chain(self.fit.sentence()).collect()
    }
}
