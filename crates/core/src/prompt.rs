//! Prompt text -> prefix chain and prefix keys, while the text arrives.
//!
//! The **canonical text** of a prompt is its messages in order, each as a boundary, its role, a boundary, its text.
//! Text is as JSON writes it at its shortest ([`crate::written`]), since most bodies hold it so and need no un-escaping
//! then; an escape counts as the one character that it stands for. Boundaries are bytes that cannot occur in UTF-8, so `[a][bc]` differs from `[ab][c]` and `[system: x]` from
//! `[user: x]`, while a longer conversation still begins with its shorter self. The text is hashed in blocks of
//! [`BLOCK_BYTES`], each hash seeded by the one before it: a block counts only if all before it were equal too.
//!
//! One pass serves both consumers: the **chain** (a hash at every block boundary, for longest-prefix matching) and the
//! **keys** (the hash of the first N *characters of text*, which is what SageMaker's `prefix_length` counts; roles
//! and boundaries are in the key but not counted). Since the endpoint, and with it the length, may only be known after
//! the text (its `model` member may come last), a hasher makes the keys of all lengths in use.
//!
//! Memory: one block, plus eight bytes a block of text up to [`Settings::chain_bytes_max`].

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;
use xxhash_rust::xxh3::Xxh3;

use crate::hash;
use crate::written::Chars;

/// Bytes of canonical text in a block of the prefix chain: about 128 tokens of English.
pub const BLOCK_BYTES: usize = 512;

/// Prompt bytes that make one token, where no engine has told the true count: the usual figure for English text.
pub const BYTES_PER_TOKEN: u64 = 4;

const SEGMENT_START: u8 = 0xff;
const ROLE_END: u8 = 0xfe;
const TOKEN_IDS: u8 = 0xfd;
const MEDIA: u8 = 0xfc;
/// Separates keys from chain hashes, so that a key that ends on a block boundary is not the block's hash.
const KEY_SALT: u64 = 0x6b65_795f_6b76_726f;

/// What all hashers of one configuration share.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The fleet's hash seed; gateways that share a fleet share it.
    pub seed: u64,
    /// The prefix lengths in use, in characters, ascending and without duplicates.
    pub prefix_lengths: Arc<[u32]>,
    /// Canonical bytes that go into the chain; text beyond is not looked at.
    pub chain_bytes_max: usize,
}

impl Settings {
    /// Bytes of text after which a hasher is full, whatever characters it has.
    pub fn bytes_max(&self) -> usize {
        const CHAR_BYTES_MAX: usize = 4;
        let longest_key = self.prefix_lengths.last().map_or(0, |&length| length as usize * CHAR_BYTES_MAX);
        longest_key.max(self.chain_bytes_max)
    }
}

/// The hashes of a prompt's growing beginnings, one for each full block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrefixChain {
    hashes: Vec<u64>,
    block_bytes: u64,
}

impl Default for PrefixChain {
    fn default() -> Self {
        Self { hashes: Vec::new(), block_bytes: BLOCK_BYTES as u64 }
    }
}

impl PrefixChain {
    /// A chain whose blocks are known by name only, each the hash of all up to its end, and stand for `block_bytes` of
    /// text: what a recording without text holds.
    pub fn of_hashes(hashes: Vec<u64>, block_bytes: u64) -> Self {
        Self { hashes, block_bytes }
    }

    /// Bytes of text in the first `blocks` blocks.
    pub fn bytes_of(&self, blocks: usize) -> u64 {
        blocks as u64 * self.block_bytes
    }

    /// The chain hashes, shortest beginning first.
    pub fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Moves the chain into the key space of `scope` (model, adapter, cache salt): equal texts in different scopes
    /// share nothing.
    pub fn scope(&mut self, scope: u64) {
        for hash in &mut self.hashes {
            *hash = hash::mix(*hash, scope);
        }
    }
}

/// What a [`PromptHasher`] saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prompt {
    /// Hashes at every block boundary.
    pub chain: PrefixChain,
    /// Bytes of text (roles and boundaries not counted) of which the chain is made, and the started block after it: what
    /// a replica can be known to hold is a part of these.
    pub text_bytes: u64,
    /// Whether the chain is full, so that the text may be longer.
    pub is_cut: bool,
    keys: SmallVec<[(u32, u64); 2]>,
}

impl Prompt {
    /// A prompt of which no text is known but its chain, the bytes of text that it would have, and its keys: the length
    /// and the hash of that much of its beginning.
    pub fn of_chain(chain: PrefixChain, text_bytes: u64, keys: impl IntoIterator<Item = (u32, u64)>) -> Self {
        Self { chain, text_bytes, is_cut: false, keys: keys.into_iter().collect() }
    }

    /// Bytes of its text that whoever holds the first `blocks` blocks of its chain holds.
    pub fn bytes_of(&self, blocks: usize) -> u64 {
        self.chain.bytes_of(blocks).min(self.text_bytes)
    }

    /// The key of the first `prefix_length` characters, or of the whole text where it is shorter. `None` if there was
    /// no text, or the length was not among the settings'.
    pub fn key(&self, prefix_length: u32) -> Option<u64> {
        if self.text_bytes == 0 {
            return None;
        }
        self.keys.iter().find(|(length, _)| *length == prefix_length).map(|&(_, key)| key)
    }
}

/// Hashes the canonical text of one prompt as it arrives, in pieces cut anywhere.
pub struct PromptHasher {
    settings: Settings,
    /// The hash of all full blocks so far.
    state: u64,
    block: [u8; BLOCK_BYTES],
    /// Bytes of `block` that are filled.
    filled: usize,
    chars: u32,
    counter: Chars,
    media: Option<Box<Xxh3>>,
    prompt: Prompt,
}

impl PromptHasher {
    /// A hasher that has seen nothing.
    pub fn new(settings: Settings) -> Self {
        debug_assert!(settings.prefix_lengths.is_sorted_by(|a, b| a < b), "prefix lengths ascend");
        let state = settings.seed;
        Self {
            settings,
            state,
            block: [0; BLOCK_BYTES],
            filled: 0,
            chars: 0,
            counter: Chars::default(),
            media: None,
            prompt: Prompt::default(),
        }
    }

    /// Starts a message. `role` may be empty.
    pub fn segment(&mut self, role: &[u8]) {
        // A key whose length was reached by the text before must not depend on what follows.
        self.cut_keys_at(self.chars);
        self.counter = Chars::default();
        self.push(&[SEGMENT_START]);
        self.push(role);
        self.push(&[ROLE_END]);
    }

    /// More text of the current message, in the form that the module's header names.
    pub fn text(&mut self, mut piece: &[u8]) {
        self.count_text(piece.len());
        while let Some(&length) = self.settings.prefix_lengths.get(self.prompt.keys.len()) {
            let missing = length.saturating_sub(self.chars);
            let (chars, end) = self.counter.advance(piece, missing);
            let (before, after) = piece.split_at(end);
            self.push(before);
            self.chars += chars;
            piece = after;
            if piece.is_empty() {
                return;
            }
            // The next character starts beyond the length.
            self.cut_keys_at(length);
        }
        self.push(piece);
    }

    /// A prompt, or a part of one, given as token ids. Counted as four characters each.
    pub fn token_ids(&mut self, ids: &[u32]) {
        for &id in ids {
            self.cut_keys_at(self.chars);
            self.push(&[TOKEN_IDS]);
            self.push(&id.to_le_bytes());
            self.chars = self.chars.saturating_add(BYTES_PER_TOKEN as u32);
            self.count_text(BYTES_PER_TOKEN as usize);
        }
    }

    /// More of an image or another medium: it takes part by a digest, since engines cache by its content, but it is no
    /// text. [`PromptHasher::end_media`] ends it.
    pub fn media(&mut self, piece: &[u8]) {
        let seed = self.settings.seed;
        self.media.get_or_insert_with(|| Box::new(Xxh3::with_seed(seed))).update(piece);
    }

    /// The medium is complete.
    pub fn end_media(&mut self) {
        let digest = self.media.take().map_or(0, |media| media.digest());
        self.cut_keys_at(self.chars);
        self.push(&[MEDIA]);
        self.push(&digest.to_le_bytes());
    }

    /// Whether more text would change nothing.
    pub fn is_full(&self) -> bool {
        self.prompt.keys.len() == self.settings.prefix_lengths.len() && self.chain_is_full()
    }

    /// What was seen. Lengths not reached get the key of the whole text.
    pub fn finish(mut self) -> Prompt {
        while let Some(&length) = self.settings.prefix_lengths.get(self.prompt.keys.len()) {
            let key = self.key_here();
            self.prompt.keys.push((length, key));
        }
        self.prompt.is_cut = self.chain_is_full();
        self.prompt
    }

    /// Counts text as far as the chain has room for it, so that where a text is cut into pieces does not matter.
    fn count_text(&mut self, bytes: usize) {
        let hashed = self.prompt.chain.hashes.len() * BLOCK_BYTES + self.filled;
        let room = self.settings.chain_bytes_max.next_multiple_of(BLOCK_BYTES).saturating_sub(hashed);
        self.prompt.text_bytes += bytes.min(room) as u64;
    }

    fn chain_is_full(&self) -> bool {
        self.prompt.chain.hashes.len() * BLOCK_BYTES >= self.settings.chain_bytes_max
    }

    fn cut_keys_at(&mut self, chars: u32) {
        while let Some(&length) = self.settings.prefix_lengths.get(self.prompt.keys.len()).filter(|&&l| l <= chars) {
            let key = self.key_here();
            self.prompt.keys.push((length, key));
        }
    }

    fn key_here(&self) -> u64 {
        hash::bytes(&self.block[..self.filled], self.state ^ KEY_SALT)
    }

    fn push(&mut self, mut bytes: &[u8]) {
        if self.is_full() {
            return;
        }
        if self.filled > 0 {
            let taken = bytes.len().min(BLOCK_BYTES - self.filled);
            self.block[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < BLOCK_BYTES {
                return;
            }
            self.filled = 0;
            let block = self.block;
            self.end_block(&block);
        }
        let mut blocks = bytes.chunks_exact(BLOCK_BYTES);
        for block in &mut blocks {
            self.end_block(block);
        }
        let rest = blocks.remainder();
        self.block[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    fn end_block(&mut self, block: &[u8]) {
        self.state = hash::bytes(block, self.state);
        if !self.chain_is_full() {
            self.prompt.chain.hashes.push(self.state);
        }
    }
}

impl fmt::Debug for PromptHasher {
    /// Sizes only: the block holds prompt text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let blocks = self.prompt.chain.hashes.len();
        f.debug_struct("PromptHasher").field("blocks", &blocks).field("chars", &self.chars).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: u32 = 16;

    fn settings() -> Settings {
        Settings { seed: 0, prefix_lengths: Arc::from([LENGTH, 700]), chain_bytes_max: 1 << 20 }
    }

    fn hashed(segments: &[(&str, &str)]) -> Prompt {
        let mut hasher = PromptHasher::new(settings());
        for (role, text) in segments {
            hasher.segment(role.as_bytes());
            hasher.text(text.as_bytes());
        }
        hasher.finish()
    }

    #[test]
    fn roles_and_message_boundaries_are_part_of_the_key() {
        let distinct = [
            hashed(&[("user", "ab"), ("user", "c")]),
            hashed(&[("user", "a"), ("user", "bc")]),
            hashed(&[("user", "abc")]),
            hashed(&[("system", "abc")]),
        ];
        for (i, a) in distinct.iter().enumerate() {
            for b in &distinct[i + 1..] {
                assert_ne!(a.key(LENGTH), b.key(LENGTH));
            }
        }
    }

    #[test]
    fn only_characters_up_to_the_length_make_the_key() {
        let key = |text: &str| hashed(&[("user", text)]).key(LENGTH);
        assert_eq!(key("0123456789abcdefX"), key("0123456789abcdefY and more"));
        assert_eq!(key("0123456789abcdef"), key("0123456789abcdefY"));
        assert_ne!(key("0123456789abcde"), key("0123456789abcdef"));
        assert_ne!(key("0123456789abcdeX"), key("0123456789abcdeY"));
    }

    #[test]
    fn the_length_counts_characters_and_not_bytes() {
        let key = |text: &str| hashed(&[("user", text)]).key(LENGTH);
        let sixteen = "ąßçđ€uro…日本語𝄞123";
        assert_eq!(sixteen.chars().count(), 16);
        assert_eq!(key(&format!("{sixteen}x")), key(&format!("{sixteen}yz")));
        assert_ne!(key("ąßçđ€uro…日本語𝄞12x"), key("ąßçđ€uro…日本語𝄞12y"));
    }

    #[test]
    fn an_escape_is_one_character() {
        let key = |text: &str| hashed(&[("user", text)]).key(LENGTH);
        let fifteen = r#"\"quoted\"\u001f\n\\end\t"#;
        assert_eq!(key(&format!("{fifteen}\\n")), key(&format!("{fifteen}\\n and more")));
        assert_eq!(key(&format!("{fifteen}1\\n")), key(&format!("{fifteen}1\\u001f")));
        assert_ne!(key(&format!("{fifteen}\\n")), key(&format!("{fifteen}\\t")));
    }

    #[test]
    fn a_text_of_exactly_the_length_has_the_same_key_whatever_follows() {
        let alone = hashed(&[("system", "0123456789abcdef")]);
        let followed = hashed(&[("system", "0123456789abcdef"), ("user", "hello")]);
        assert_eq!(alone.key(LENGTH), followed.key(LENGTH));
    }

    #[test]
    fn a_prompt_without_text_has_no_key() {
        assert_eq!(hashed(&[("user", "")]).key(LENGTH), None);
        assert_eq!(hashed(&[]).key(LENGTH), None);
    }

    #[test]
    fn a_longer_conversation_begins_with_its_shorter_self() {
        let (first, second) = ("x".repeat(3_000), "y".repeat(2_000));
        let short = hashed(&[("system", &first)]);
        let long = hashed(&[("system", &first), ("user", &second)]);
        assert!(long.chain.hashes().len() > short.chain.hashes().len());
        assert_eq!(&long.chain.hashes()[..short.chain.hashes().len()], short.chain.hashes());
        assert_eq!(short.key(700), long.key(700));
    }

    #[test]
    fn a_block_in_the_middle_of_another_prompt_does_not_match() {
        let (a, b) = ("a".repeat(2_048), "b".repeat(2_048));
        let mixed = hashed(&[("user", &format!("{b}{a}"))]);
        let only_a = hashed(&[("user", &a)]);
        assert!(only_a.chain.hashes().iter().all(|hash| !mixed.chain.hashes().contains(hash)));
    }

    #[test]
    fn media_are_part_of_the_prompt_by_their_content() {
        let with = |pieces: &[&str]| {
            let mut hasher = PromptHasher::new(settings());
            hasher.segment(b"user");
            hasher.text(b"look");
            pieces.iter().for_each(|piece| hasher.media(piece.as_bytes()));
            hasher.end_media();
            hasher.finish().key(LENGTH)
        };
        assert_eq!(with(&["an image"]), with(&["an im", "age"]));
        assert_ne!(with(&["an image"]), with(&["another"]));
        assert_ne!(with(&["an image"]), hashed(&[("user", "look")]).key(LENGTH));
    }

    #[test]
    fn a_full_hasher_stops_growing() {
        let mut hasher = PromptHasher::new(Settings { chain_bytes_max: 2 * BLOCK_BYTES, ..settings() });
        hasher.segment(b"user");
        for _ in 0..100 {
            hasher.text(&[b'x'; 300]);
        }
        assert!(hasher.is_full());
        let prompt = hasher.finish();
        assert_eq!((prompt.chain.hashes().len(), prompt.is_cut), (2, true));
        let around_the_role = 2;
        assert_eq!(prompt.text_bytes as usize, 2 * BLOCK_BYTES - "user".len() - around_the_role, "what can be held");
        assert!(!hashed(&[("user", "short")]).is_cut);
    }

    #[test]
    fn keys_and_chains_are_the_same_in_every_version() {
        let prompt = hashed(&[("system", &"You are terse. ".repeat(100)), ("user", "hi")]);
        assert_eq!(prompt.chain.hashes().last().copied(), Some(0x4573_5013_d82b_c303));
        assert_eq!(prompt.key(LENGTH), Some(0x7e4a_5f3a_bb0c_7a16));
    }

    proptest! {
        #[test]
        fn where_the_text_is_cut_into_pieces_does_not_matter(
            text in "([a-c ß€𝄞]|\\\\[nt\"\\\\]|\\\\u001f){0,1200}", cuts in prop::collection::vec(0usize..5_000, 0..12), chain_bytes_max in 1usize..5_000,
        ) {
            let start = || {
                let mut hasher = PromptHasher::new(Settings { chain_bytes_max, ..settings() });
                hasher.segment(b"user");
                hasher
            };
            let (mut whole, mut hasher) = (start(), start());
            whole.text(text.as_bytes());
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c % (text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            for pair in cuts.windows(2) {
                hasher.text(&text.as_bytes()[pair[0]..pair[1]]);
            }
            prop_assert_eq!(hasher.finish(), whole.finish());
        }

        #[test]
        fn equal_beginnings_have_equal_keys(
            head in "([a-c ß€𝄞]|\\\\[nt\"\\\\]|\\\\u001f){16}", a in "[a-cß€\"]{0,40}", b in "[a-cß€\"]{0,40}",
        ) {
            let key = |tail: &str| hashed(&[("user", &format!("{head}{tail}"))]).key(LENGTH);
            prop_assert_eq!(key(&a), key(&b));
        }
    }
}
