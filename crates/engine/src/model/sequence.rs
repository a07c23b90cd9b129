//! A request inside the engine.

use std::sync::Arc;

use super::eviction::Kind;
use super::hash::output_block_hash;
use super::pool::BlockId;
use super::{FinishReason, Request};

/// A request that waits or runs, with what it has been given.
pub(super) struct Sequence {
    pub(super) id: u64,
    pub(super) prompt_tokens: u32,
    /// Tokens generated so far. Kept through preemption: they were sent.
    pub(super) generated_tokens: u32,
    /// Leading tokens whose KV is in `blocks`.
    pub(super) computed_tokens: u32,
    /// Tokens of it in the step that runs now.
    pub(super) planned_tokens: u32,
    /// Leading blocks that are named, that is shared or ready to be.
    pub(super) named_blocks: u32,
    /// Whether it has run before.
    pub(super) started: bool,
    /// What eviction thinks of it.
    pub(super) kind: Kind,
    /// Its KV, in order.
    pub(super) blocks: Vec<BlockId>,
    /// The adapter that it runs with.
    pub(super) adapter: Option<u32>,
    /// Leading blocks that were found cached and are to be told at the end of the step.
    pub(super) untold_blocks: u32,
    report_cached: bool,
    output_tokens: u32,
    output_reason: FinishReason,
    output_seed: u64,
    block_hashes: Arc<[u64]>,
    /// Names of the blocks after those in `block_hashes`, as far as they were ever computed.
    output_hashes: Vec<u64>,
}

impl Sequence {
    /// Takes a request in; `None` if it can never run.
    pub(super) fn new(request: Request, block_tokens: u32, context_tokens_max: u32) -> Option<Self> {
        let room_tokens = context_tokens_max.saturating_sub(request.prompt_tokens);
        let full_blocks = (request.prompt_tokens / block_tokens) as usize;
        if request.prompt_tokens == 0 || room_tokens == 0 || request.block_hashes.len() < full_blocks {
            return None;
        }
        let wanted_tokens = request.output_tokens;
        let output_reason = if wanted_tokens > room_tokens { FinishReason::Length } else { FinishReason::Stop };
        Some(Self {
            id: request.id,
            prompt_tokens: request.prompt_tokens,
            generated_tokens: 0,
            computed_tokens: 0,
            planned_tokens: 0,
            named_blocks: 0,
            started: false,
            kind: Kind::default(),
            blocks: Vec::new(),
            adapter: request.adapter,
            untold_blocks: 0,
            report_cached: request.report_cached,
            output_tokens: wanted_tokens.min(room_tokens),
            output_reason,
            output_seed: request.output_seed,
            block_hashes: request.block_hashes,
            output_hashes: Vec::new(),
        })
    }

    /// Tokens that exist: prompt and output.
    pub(super) fn tokens(&self) -> u32 {
        self.prompt_tokens + self.generated_tokens
    }

    /// Tokens that must be computed before the next one comes out: 1 while it decodes.
    pub(super) fn pending_tokens(&self) -> u32 {
        self.tokens() - self.computed_tokens
    }

    /// Begins with this many blocks found cached.
    pub(super) fn start(&mut self, found_blocks: u32, cached_tokens: u32) {
        self.computed_tokens = cached_tokens;
        self.named_blocks = found_blocks;
        if self.report_cached && !self.started {
            self.untold_blocks = found_blocks;
        }
    }

    /// Forgets what it computed. Its blocks must have been released.
    pub(super) fn restart(&mut self) {
        self.computed_tokens = 0;
        self.planned_tokens = 0;
        self.named_blocks = 0;
        self.untold_blocks = 0;
    }

    /// Whether it generates.
    pub(super) fn wants_output(&self) -> bool {
        self.output_tokens > 0
    }

    /// Why it is finished, if it is.
    pub(super) fn finished(&self) -> Option<FinishReason> {
        let computed = self.wants_output() || self.pending_tokens() == 0;
        (computed && self.generated_tokens == self.output_tokens).then_some(self.output_reason)
    }

    /// Hashes of the prompt's full blocks.
    pub(super) fn prompt_hashes(&self, block_tokens: u32) -> &[u64] {
        &self.block_hashes[..(self.prompt_tokens / block_tokens) as usize]
    }

    /// Hashes of the blocks that may be found cached, from the first: the last token is always
    /// computed anew.
    pub(super) fn reusable_hashes(&self, block_tokens: u32) -> impl Iterator<Item = u64> {
        let blocks = (self.tokens() - 1) / block_tokens;
        self.block_hashes.iter().chain(&self.output_hashes).copied().take(blocks as usize)
    }

    /// The hash of block `index`, of which every earlier block's has been asked for.
    pub(super) fn block_hash(&mut self, index: u32) -> u64 {
        let given = self.block_hashes.len();
        if let Some(&hash) = self.block_hashes.get(index as usize) {
            return hash;
        }
        let generated = index as usize - given;
        if generated == self.output_hashes.len() {
            let parent = self.output_hashes.last().or(self.block_hashes.last()).copied();
            self.output_hashes.push(output_block_hash(parent, self.output_seed, index));
        }
        self.output_hashes[generated]
    }
}
