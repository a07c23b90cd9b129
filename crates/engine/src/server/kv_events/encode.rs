//! A batch of KV events in msgpack, in the map form of vLLM 0.30 and later.
//!
//! `[timestamp, [event, ...], data_parallel_rank]`; an event is a map that begins with its `type`.
//! Fields that may be left out are left out when they are null; the others are always there.

use std::ops::Range;

use rmp::encode::{ValueWriteError, write_array_len, write_f64, write_map_len, write_nil, write_str, write_uint};

use super::super::sequence::Sequence;

/// Events of one step, encoded one after the other.
#[derive(Default)]
pub(super) struct Batch {
    events: Vec<u8>,
    count: u32,
}

/// Blocks of one request that became cached.
pub(super) struct Stored<'a> {
    pub(super) hashes: &'a [u64],
    pub(super) parent: Option<u64>,
    /// Places of the blocks' tokens in the sequence.
    pub(super) tokens: Range<usize>,
    pub(super) sequence: &'a Sequence,
    pub(super) block_tokens: u32,
}

/// An error is one of the writer, and writing to memory has none.
type Written = Result<(), ValueWriteError>;

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn stored(&mut self, stored: &Stored<'_>) {
        let written = put_stored(&mut self.events, stored);
        self.count += u32::from(written.is_ok());
    }

    pub(super) fn removed(&mut self, hashes: &[u64]) {
        let written = put_removed(&mut self.events, hashes);
        self.count += u32::from(written.is_ok());
    }

    pub(super) fn cleared(&mut self) {
        let written = put_cleared(&mut self.events);
        self.count += u32::from(written.is_ok());
    }

    /// The payload of the batch, which is empty again afterwards.
    pub(super) fn finish(&mut self, unix_seconds: f64) -> Vec<u8> {
        let mut payload = Vec::with_capacity(self.events.len() + 16);
        let _ = put_head(&mut payload, unix_seconds, self.count);
        payload.append(&mut self.events);
        self.count = 0;
        // The data parallel rank.
        let _ = write_uint(&mut payload, 0);
        payload
    }
}

fn put_head(out: &mut Vec<u8>, unix_seconds: f64, count: u32) -> Written {
    write_array_len(out, 3)?;
    write_f64(out, unix_seconds)?;
    write_array_len(out, count)?;
    Ok(())
}

fn put_stored(out: &mut Vec<u8>, stored: &Stored<'_>) -> Written {
    let session_id = stored.sequence.session_id();
    write_map_len(out, 11 + u32::from(session_id.is_some()))?;
    put_text(out, "type", "BlockStored")?;
    write_str(out, "block_hashes")?;
    put_uints(out, stored.hashes.iter().copied())?;
    write_str(out, "parent_block_hash")?;
    match stored.parent {
        Some(hash) => write_uint(out, hash).map(drop)?,
        None => put_nil(out)?,
    }
    write_str(out, "token_ids")?;
    put_uints(out, stored.tokens.clone().map(|index| stored.sequence.token(index).into()))?;
    write_str(out, "block_size")?;
    write_uint(out, stored.block_tokens.into())?;
    let adapter = stored.sequence.adapter();
    write_str(out, "lora_id")?;
    match adapter {
        Some(adapter) => write_uint(out, adapter.id.into()).map(drop)?,
        None => put_nil(out)?,
    }
    put_text(out, "medium", "GPU")?;
    write_str(out, "lora_name")?;
    match adapter {
        Some(adapter) => write_str(out, &adapter.name)?,
        None => put_nil(out)?,
    }
    write_str(out, "extra_keys")?;
    put_extra_keys(out, stored)?;
    write_str(out, "group_idx")?;
    write_uint(out, 0)?;
    put_text(out, "kv_cache_spec_kind", "full_attention")?;
    match session_id {
        Some(session_id) => put_text(out, "session_id", session_id),
        None => Ok(()),
    }
}

/// What makes a block's hash besides its tokens: one entry a block. The adapter's name with each, the
/// salt with the first of the sequence.
fn put_extra_keys(out: &mut Vec<u8>, stored: &Stored<'_>) -> Written {
    write_array_len(out, stored.hashes.len() as u32)?;
    for block in 0..stored.hashes.len() {
        let adapter = stored.sequence.adapter().map(|adapter| &*adapter.name);
        let first = block == 0 && stored.tokens.start == 0;
        let salt = if first { stored.sequence.salt() } else { None };
        let keys = adapter.iter().chain(&salt);
        match keys.clone().count() {
            0 => put_nil(out)?,
            count => {
                write_array_len(out, count as u32)?;
                for key in keys {
                    write_str(out, key)?;
                }
            }
        }
    }
    Ok(())
}

fn put_removed(out: &mut Vec<u8>, hashes: &[u64]) -> Written {
    write_map_len(out, 4)?;
    put_text(out, "type", "BlockRemoved")?;
    write_str(out, "block_hashes")?;
    put_uints(out, hashes.iter().copied())?;
    put_text(out, "medium", "GPU")?;
    write_str(out, "group_idx")?;
    write_uint(out, 0)?;
    Ok(())
}

fn put_cleared(out: &mut Vec<u8>) -> Written {
    write_map_len(out, 1)?;
    put_text(out, "type", "AllBlocksCleared")
}

fn put_text(out: &mut Vec<u8>, key: &str, text: &str) -> Written {
    write_str(out, key)?;
    write_str(out, text)
}

fn put_uints(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>) -> Written {
    write_array_len(out, values.len() as u32)?;
    for value in values {
        write_uint(out, value)?;
    }
    Ok(())
}

fn put_nil(out: &mut Vec<u8>) -> Written {
    write_nil(out).map_err(ValueWriteError::InvalidMarkerWrite)
}
