//! Text to tokens and back, with a small vocabulary of our own.
//!
//! The simulated engine must count tokens, publish token ids and answer with text as a real one
//! does, or a router that reads its events would be tested on something easier than reality. The
//! vocabulary is byte-level BPE in the format that models ship (`tokenizer.json`), made by
//! `tools/make_vocab.py`; whatever reads a model's vocabulary reads this one.
//!
//! # Rules
//!
//! - Any bytes can be encoded, and decoding gives the same bytes back.
//! - Encoding is exactly that of Hugging Face `tokenizers` on the same file: special tokens are found
//!   first, anywhere in the text; what lies between them is cut around every newline and before every
//!   space; the pieces are merged by rank. No regular expression.
//! - The time is linear in the text, n log n in one piece. What is remembered
//!   between texts is bounded.

mod bpe;
mod byte_level;
mod cache;
mod chat;
mod file;
#[cfg(test)]
mod tests;

pub use chat::{Content, Message, render};
pub use file::VocabError;

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::LazyLock;

use xxhash_rust::xxh3::xxh3_64;

use bpe::{Merges, Workspace};
use cache::PieceCache;

/// The vocabulary as a file, in the Hugging Face `tokenizers` format.
pub const TOKENIZER_JSON: &str = include_str!("tokenizer.json");

/// Special tokens and chat template, as models ship them.
pub const TOKENIZER_CONFIG_JSON: &str = include_str!("tokenizer_config.json");

/// A byte-level BPE vocabulary.
pub struct Vocab {
    /// All tokens' bytes end to end.
    bytes: Vec<u8>,
    /// Token `id` is `bytes[ends[id - 1]..ends[id]]`.
    ends: Vec<u32>,
    byte_ids: [u32; 256],
    merges: Merges,
    /// Hash of the bytes of every token that encodes to itself -> the token. Most pieces of ordinary
    /// text are one token and need no merging.
    whole: HashMap<u64, u32, BuildHasherDefault<KeyHasher>>,
    /// Matched before anything else. None is the beginning of another.
    specials: Vec<(Box<[u8]>, u32)>,
    words: Vec<u32>,
    token_bytes_max: usize,
}

/// Hashes a key whose bits are well mixed already.
#[derive(Default)]
pub(super) struct KeyHasher(u64);

struct Scratch {
    cache: PieceCache,
    workspace: Workspace,
}

thread_local! {
    /// A cache a thread rather than one behind a lock: seven engines share a process.
    static SCRATCH: RefCell<Scratch> =
        RefCell::new(Scratch { cache: PieceCache::new(), workspace: Workspace::default() });
}

impl Vocab {
    /// The embedded vocabulary, read at first use (some milliseconds).
    ///
    /// # Panics
    /// Never: that the embedded file can be read is a test.
    #[must_use]
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Vocab> =
            LazyLock::new(|| Vocab::parse(TOKENIZER_JSON).expect("the embedded vocabulary is well formed"));
        &SHARED
    }

    /// Number of tokens; ids are below it.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Length of the longest token in bytes, so that text has at least its length divided by this
    /// many tokens.
    #[must_use]
    pub fn token_bytes_max(&self) -> usize {
        self.token_bytes_max
    }

    /// The bytes of a token; a special token's are its name.
    #[must_use]
    pub fn token_bytes(&self, id: u32) -> Option<&[u8]> {
        let end = *self.ends.get(id as usize)? as usize;
        let start = match id {
            0 => 0,
            _ => self.ends[id as usize - 1] as usize,
        };
        Some(&self.bytes[start..end])
    }

    /// The id of a special token by its name, such as `<|im_end|>`.
    #[must_use]
    pub fn special(&self, name: &str) -> Option<u32> {
        self.specials.iter().find(|(text, _)| **text == *name.as_bytes()).map(|&(_, id)| id)
    }

    /// Tokens that are a lower-case word of three letters or more with the space before it, in order
    /// of id. Text made of them encodes to the same tokens again.
    #[must_use]
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// The text's tokens. Special tokens in the text become themselves, as an engine does it.
    #[must_use]
    pub fn encode(&self, text: impl AsRef<[u8]>) -> Vec<u32> {
        let text = text.as_ref();
        // Four bytes a token, and a little more so that ordinary text never reallocates.
        let mut ids = Vec::with_capacity(text.len() / 3 + 4);
        SCRATCH.with_borrow_mut(|scratch| {
            let mut rest = text;
            while let Some((start, length, id)) = self.next_special(rest) {
                self.encode_plain(&rest[..start], scratch, &mut ids);
                ids.push(id);
                rest = &rest[start + length..];
            }
            self.encode_plain(rest, scratch, &mut ids);
        });
        ids
    }

    /// The tokens' bytes end to end; ids outside the vocabulary stand for nothing.
    #[must_use]
    pub fn decode(&self, ids: &[u32]) -> Vec<u8> {
        ids.iter().filter_map(|&id| self.token_bytes(id)).flatten().copied().collect()
    }

    /// Start, length and id of the first special token.
    fn next_special(&self, text: &[u8]) -> Option<(usize, usize, u32)> {
        let mut from = 0;
        while let Some(at) = text[from..].iter().position(|&byte| byte == b'<') {
            let start = from + at;
            let found = self.specials.iter().find(|(name, _)| text[start..].starts_with(name));
            if let Some((name, id)) = found {
                return Some((start, name.len(), *id));
            }
            from = start + 1;
        }
        None
    }

    /// Encodes text without special tokens: cuts it into pieces.
    fn encode_plain(&self, text: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        let mut start = 0;
        for (at, &byte) in text.iter().enumerate() {
            match byte {
                b' ' => {
                    self.encode_piece(&text[start..at], scratch, ids);
                    start = at;
                }
                b'\n' => {
                    self.encode_piece(&text[start..at], scratch, ids);
                    ids.push(self.byte_ids[usize::from(b'\n')]);
                    start = at + 1;
                }
                _ => {}
            }
        }
        self.encode_piece(&text[start..], scratch, ids);
    }

    fn encode_piece(&self, piece: &[u8], scratch: &mut Scratch, ids: &mut Vec<u32>) {
        if piece.is_empty() {
            return;
        }
        let hash = xxh3_64(piece);
        if let Some(&id) = self.whole.get(&hash)
            && self.token_bytes(id) == Some(piece)
        {
            ids.push(id);
            return;
        }
        if let Some(cached) = scratch.cache.get(hash, piece) {
            ids.extend_from_slice(cached);
            return;
        }
        let first = ids.len();
        self.merges.encode(piece, &self.byte_ids, &mut scratch.workspace, ids);
        scratch.cache.put(hash, piece, &ids[first..]);
    }
}

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, key: u64) {
        // A pair of ids keeps its entropy in two runs of low bits; the table wants it everywhere.
        let spread = key.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = spread ^ (spread >> 32);
    }

    fn write(&mut self, bytes: &[u8]) {
        self.write_u64(xxh3_64(bytes));
    }
}
