//! One record's prompt as blocks, chain and keys.

use std::sync::Arc;

use kvroute_core::{
    hash,
    moment::Entropy,
    prompt::{BYTES_PER_TOKEN, Prompt, PromptHasher, Settings},
    written::written,
};

use super::{BLOCK_TOKENS, PrepareOptions, Unusable};
use crate::replay::job::{Job, LengthUnit, chained};
use crate::trace::{Content, Kind, Record, Segment};

/// Canonical text that goes into a chain, bytes: the gateway's `limits.prompt_bytes_max`.
const CHAIN_BYTES_MAX: usize = 4 << 20;

/// Keeps names that are made up apart from names of traces.
const UNIQUE: u64 = 0x756e_6971_7565_5f31;
const MADE_UP: u64 = 0x6d61_6465_5f75_7031;

/// Reads prompts, all of the kind of the first.
pub(super) struct Reader<'a> {
    options: &'a PrepareOptions,
    settings: Settings,
    kind: Option<ContentKind>,
    block_tokens: u32,
    records: u64,
    /// Records of blocks that do not cover their prompts.
    uncovered: u64,
}

/// What prompts are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ContentKind {
    Text,
    TokenIds,
    Blocks,
    Lengths,
}

impl ContentKind {
    fn of(content: &Content) -> Self {
        match content {
            Content::Text(_) => Self::Text,
            Content::TokenIds(_) => Self::TokenIds,
            Content::Blocks(_) => Self::Blocks,
            Content::Unknown => Self::Lengths,
        }
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(options: &'a PrepareOptions) -> Self {
        let mut lengths = options.prefix_lengths.clone();
        lengths.sort_unstable();
        lengths.dedup();
        let settings = Settings { seed: 0, prefix_lengths: lengths.into(), chain_bytes_max: CHAIN_BYTES_MAX };
        Self { options, settings, kind: None, block_tokens: BLOCK_TOKENS, records: 0, uncovered: 0 }
    }

    pub(super) fn block_tokens(&self) -> u32 {
        self.block_tokens
    }

    pub(super) fn unit(&self) -> LengthUnit {
        if self.kind == Some(ContentKind::Text) { LengthUnit::Characters } else { LengthUnit::Tokens }
    }

    /// What was assumed about prompts.
    pub(super) fn assumptions(&self) -> Vec<String> {
        let tokens = self.block_tokens;
        let mut said = match self.kind {
            Some(ContentKind::Text) => {
                vec![format!("a token is {BYTES_PER_TOKEN} bytes of text; KV blocks have {tokens} tokens")]
            }
            Some(ContentKind::Blocks) => vec![format!(
                "KV blocks have {tokens} tokens, as the trace's: engines with smaller ones reuse up to {} tokens a request more",
                tokens.saturating_sub(1)
            )],
            Some(ContentKind::Lengths) => {
                let made_up = self.options.made_up.map(|made_up| (made_up.share * 100.0, made_up.count));
                made_up.map(|(share, count)| {
                    format!("prefixes are made up: the first {share:.0} % of each prompt is one of {count}; the trace knows lengths only")
                }).into_iter().collect()
            }
            _ => vec![format!("KV blocks have {tokens} tokens")],
        };
        if self.uncovered > 0 {
            said.push(format!(
                "{} prompts are longer than their blocks; the rest is taken to be unique",
                self.uncovered
            ));
        }
        said
    }

    /// One record; the inner error is why it alone cannot be used.
    pub(super) fn read(&mut self, record: &Record) -> Result<Result<Job, String>, Unusable> {
        if record.kind() == Kind::Lengths && self.options.made_up.is_none() && self.kind.is_none() {
            return Err(Unusable::LengthsOnly);
        }
        let kind = ContentKind::of(&record.content);
        if *self.kind.get_or_insert(kind) != kind {
            return Ok(Err("its prompt is known in another form than the first one's".to_owned()));
        }
        self.records += 1;
        Ok(self.job(record))
    }

    fn job(&mut self, record: &Record) -> Result<Job, String> {
        let scope = record.model.as_ref().map_or(0, |model| hash::mix(hash::bytes(model.as_bytes(), 1), 0));
        let assumed = self.options.output_tokens.min(record.output_tokens_max.unwrap_or(u32::MAX));
        let output_tokens = record.output_tokens.unwrap_or(assumed).max(1);
        let (input_tokens, names, text) = match &record.content {
            Content::Text(segments) => self.text(segments, scope)?,
            Content::TokenIds(ids) => (ids.len() as u32, token_blocks(ids), None),
            Content::Blocks(blocks) => {
                let first = self.records == 1;
                if first {
                    self.block_tokens = blocks.tokens.max(1);
                }
                if blocks.tokens != self.block_tokens {
                    let (theirs, ours) = (blocks.tokens, self.block_tokens);
                    return Err(format!("its blocks have {theirs} tokens and the first one's {ours}"));
                }
                let covered = (blocks.ids.len() as u64).saturating_mul(u64::from(blocks.tokens));
                let tokens = record.input_tokens.unwrap_or(covered.min(u64::from(u32::MAX)) as u32);
                (tokens, self.named(&blocks.ids, tokens), None)
            }
            Content::Unknown => {
                let tokens = record.input_tokens.ok_or("neither its prompt nor its length is known")?;
                (tokens, self.made_up(tokens), None)
            }
        };
        if input_tokens == 0 {
            return Err("its prompt is empty".to_owned());
        }
        let blocks: Arc<[u64]> = chained(names.into_iter(), scope).collect();
        let full = (input_tokens / self.block_tokens) as usize;
        let keys = if text.is_some() { Default::default() } else { self.keys(&blocks) };
        let blocks = if blocks.len() > full { blocks[..full].into() } else { blocks };
        Ok(Job {
            at_us: None,
            delay_us: None,
            session_place: 0,
            model: None,
            adapter: None,
            tenant: None,
            session: None,
            blocks,
            input_tokens,
            output_tokens,
            text,
            keys,
        })
    }

    /// Keys on the grid of blocks: of a prompt that is shorter, all that is named of it.
    fn keys(&self, blocks: &[u64]) -> smallvec::SmallVec<[(u32, u64); 1]> {
        let key = |length: &u32| {
            let count = ((length / self.block_tokens).max(1) as usize).min(blocks.len());
            Some((*length, *blocks.get(count.checked_sub(1)?)?))
        };
        self.settings.prefix_lengths.iter().filter_map(key).collect()
    }

    /// The names of a trace's blocks, and unique ones where they do not cover the prompt.
    fn named(&mut self, ids: &[u64], tokens: u32) -> Vec<u64> {
        let full = (tokens / self.block_tokens) as usize;
        self.uncovered += u64::from(full > ids.len());
        let unique = (ids.len()..full).map(|index| self.unique(index));
        ids.iter().copied().chain(unique).collect()
    }

    fn unique(&self, index: usize) -> u64 {
        hash::mix(hash::mix(UNIQUE, self.records), index as u64)
    }

    fn made_up(&self, tokens: u32) -> Vec<u64> {
        let Some(made_up) = self.options.made_up else { return Vec::new() };
        let full = (tokens / self.block_tokens) as usize;
        let shared = (full as f64 * made_up.share) as usize;
        let prefix = Entropy::new(hash::mix(self.options.seed, self.records)).below(made_up.count);
        let name = |index| hash::mix(hash::mix(MADE_UP, u64::from(prefix)), index as u64);
        (0..full).map(|index| if index < shared { name(index) } else { self.unique(index) }).collect()
    }

    fn text(&self, segments: &[Segment], scope: u64) -> Result<(u32, Vec<u64>, Option<Prompt>), String> {
        let mut hasher = PromptHasher::new(self.settings.clone());
        let mut cutter = Cutter::default();
        for segment in segments {
            hasher.segment(segment.role.as_bytes());
            hasher.text(written(&segment.text).as_bytes());
            cutter.push(segment.role.as_bytes());
            cutter.push(segment.text.as_bytes());
        }
        let mut prompt = hasher.finish();
        if scope != 0 {
            prompt.chain.scope(scope);
        }
        let (tokens, names) = cutter.finish();
        let tokens = u32::try_from(tokens).map_err(|_| "its prompt is too long")?;
        Ok((tokens, names, Some(prompt)))
    }
}

/// Names of the full blocks of token ids.
fn token_blocks(ids: &[u32]) -> Vec<u64> {
    let name = |block: &[u32]| block.iter().fold(0, |before, id| hash::mix(before, u64::from(*id)));
    ids.chunks_exact(BLOCK_TOKENS as usize).map(name).collect()
}

/// Cuts text into KV blocks, at four bytes a token.
#[derive(Default)]
struct Cutter {
    names: Vec<u64>,
    rest: Vec<u8>,
    bytes: u64,
}

impl Cutter {
    const BLOCK_BYTES: usize = BLOCK_TOKENS as usize * BYTES_PER_TOKEN as usize;

    fn push(&mut self, mut piece: &[u8]) {
        self.bytes += piece.len() as u64;
        if !self.rest.is_empty() {
            let (head, tail) = piece.split_at(piece.len().min(Self::BLOCK_BYTES - self.rest.len()));
            self.rest.extend_from_slice(head);
            piece = tail;
            if self.rest.len() < Self::BLOCK_BYTES {
                return;
            }
            self.names.push(hash::bytes(&self.rest, 0));
            self.rest.clear();
        }
        let blocks = piece.chunks_exact(Self::BLOCK_BYTES);
        self.rest.extend_from_slice(blocks.remainder());
        self.names.extend(blocks.map(|block| hash::bytes(block, 0)));
    }

    /// Tokens, and names of the blocks that they fill. The last token may have fewer bytes than the others; the block that
    /// it fills is full all the same.
    fn finish(mut self) -> (u64, Vec<u64>) {
        if self.rest.len().div_ceil(BYTES_PER_TOKEN as usize) == BLOCK_TOKENS as usize {
            self.names.push(hash::bytes(&self.rest, 0));
        }
        (self.bytes.div_ceil(BYTES_PER_TOKEN), self.names)
    }
}
