//! Prompts to names of blocks that tell nothing but which prompts begin alike.
//!
//! A name is the keyed hash (SipHash-2-4, 64 bits) of a block and all before it. Without the key nobody can test whether
//! a text they guess was in a prompt; with the same key, two traces can be compared. Text is cut every
//! `4 x block_tokens` bytes of its messages, roles and boundaries included, so a token is taken to have four bytes; token
//! ids are cut every `block_tokens`. Lengths, times and what was observed stay.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use siphasher::sip::SipHasher24;

use super::canonical::canonical_text;
use super::{Blocks, Content, Observed, Record};
use crate::InvalidOption;

/// Bytes of text that stand for a token.
const BYTES_PER_TOKEN: usize = 4;

/// A secret that names are made with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key([u8; 16]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// A key of these bytes, which should be random.
    pub fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The key that is written as 32 hexadecimal digits.
    ///
    /// # Errors
    /// It is not.
    pub fn parse(text: &str) -> Result<Self, InvalidOption> {
        let text = text.trim();
        let is_written_so = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = is_written_so.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        let number = number.ok_or_else(|| InvalidOption::new("key", "a key is written as 32 hexadecimal digits"))?;
        Ok(Self(number.to_be_bytes()))
    }

    /// As it is written.
    pub fn digits(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    fn hash(&self, before: u64, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(&before.to_le_bytes());
        hasher.write(bytes);
        hasher.finish()
    }
}

/// Takes out of records what they say.
#[derive(Debug, Clone)]
pub struct Anonymizer {
    key: Key,
    block_tokens: usize,
    keeps_models: bool,
}

impl Anonymizer {
    /// Names blocks of `block_tokens` tokens with `key`. Names of models stay as they are if `keeps_models`.
    ///
    /// # Errors
    /// A block has 1 to 65536 tokens.
    pub fn new(key: Key, block_tokens: u32, keeps_models: bool) -> Result<Self, InvalidOption> {
        InvalidOption::unless_within("block_tokens", block_tokens.into(), 1..=65_536)?;
        Ok(Self { key, block_tokens: block_tokens as usize, keeps_models })
    }

    /// The record without anything that it says.
    pub fn anonymize(&self, record: &Record) -> Record {
        let (content, input_tokens) = self.content(record);
        Record {
            id: record.id.as_deref().map(|id| self.name(id)),
            session: record.session.as_deref().map(|session| self.name(session)),
            model: record.model.as_deref().map(|model| if self.keeps_models { model.into() } else { self.name(model) }),
            tenant: record.tenant.as_deref().map(|tenant| self.name(tenant)),
            content,
            input_tokens,
            body: None,
            observed: Observed {
                replica: record.observed.replica.as_deref().map(|replica| self.name(replica)),
                ..record.observed
            },
            ..*record
        }
    }

    fn content(&self, record: &Record) -> (Content, Option<u32>) {
        let tokens = self.block_tokens as u32;
        match &record.content {
            Content::Unknown => (Content::Unknown, record.input_tokens),
            Content::Blocks(blocks) => {
                let ids = self.chain(blocks.ids.iter().map(|id| id.to_le_bytes()));
                (Content::Blocks(Blocks { ids, tokens: blocks.tokens }), record.input_tokens)
            }
            Content::TokenIds(ids) => {
                let bytes: Vec<_> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
                let names = self.chain(bytes.chunks(size_of::<u32>() * self.block_tokens));
                (Content::Blocks(Blocks { ids: names, tokens }), u32::try_from(ids.len()).ok())
            }
            Content::Text(segments) => {
                let text = canonical_text(segments);
                let names = self.chain(text.chunks(BYTES_PER_TOKEN * self.block_tokens));
                // The number of names must fit, so it is the length that the blocks have, and not the engine's.
                let length = u32::try_from(text.len().div_ceil(BYTES_PER_TOKEN)).ok();
                (Content::Blocks(Blocks { ids: names, tokens }), length)
            }
        }
    }

    fn chain<B: AsRef<[u8]>>(&self, blocks: impl Iterator<Item = B>) -> Arc<[u64]> {
        let mut before = 0;
        let names = blocks.map(|block| {
            before = self.key.hash(before, block.as_ref());
            before
        });
        names.collect()
    }

    fn name(&self, name: &str) -> Arc<str> {
        format!("{:016x}", self.key.hash(1, name.as_bytes())).into()
    }
}
