//! A trace as the simulator needs it: one [`Job`] a request, with its prompt as the router and the engine see it.

use std::sync::Arc;

use kvroute_core::{
    facts::RequestFacts,
    hash,
    prompt::{BYTES_PER_TOKEN, PrefixChain, Prompt},
};
use smallvec::{SmallVec, smallvec};

/// Unit of a prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LengthUnit {
    /// Characters of message text, as in the gateway.
    Characters,
    /// Tokens, rounded down to whole blocks of the trace: all that a trace of hashes can tell.
    Tokens,
}

impl LengthUnit {
    /// The word in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Characters => "characters",
            Self::Tokens => "tokens",
        }
    }

    /// `prefix_length` where nothing is said: the gateway's default, and what that comes to in tokens.
    pub fn prefix_length_default(self) -> u32 {
        let characters = kvroute_core::routing::PREFIX_LENGTH_DEFAULT;
        match self {
            Self::Characters => characters,
            Self::Tokens => characters / BYTES_PER_TOKEN as u32,
        }
    }
}

/// All requests of a replay, in the order of the trace.
#[derive(Debug)]
pub struct Jobs {
    /// In the order of the trace.
    pub list: Vec<Job>,
    /// The requests of each session, in order, by their places in `list`; a request without a session is one alone. In
    /// the order of their first requests.
    pub sessions: Vec<Vec<u32>>,
    /// Tokens a KV block of the engines: the trace's own block, so that its names can be used as they are.
    pub block_tokens: u32,
    /// What a prefix length counts.
    pub unit: LengthUnit,
    /// Names of the models that requests ask for.
    pub models: Vec<Arc<str>>,
    /// What had to be assumed, in sentences.
    pub assumptions: Vec<String>,
    /// Records that could not be used, and the first reason.
    pub skipped: Option<(u64, String)>,
}

/// One request.
#[derive(Debug)]
pub struct Job {
    /// When it arrived in the trace, in microseconds since the first; `None` where the trace has no times.
    pub at_us: Option<u64>,
    /// How long after the answer before it in its session it was sent, in microseconds, where that is known.
    pub delay_us: Option<u64>,
    /// Place of its session in [`Jobs::sessions`].
    pub session_place: u32,
    /// Place of its model in [`Jobs::models`].
    pub model: Option<u16>,
    /// The adapter that it needs.
    pub adapter: Option<u32>,
    /// Hash of whose it is.
    pub tenant: Option<u64>,
    /// Hash of its session.
    pub session: Option<u64>,
    /// The hash of every full block of the prompt, each including all before it, and as far as they are known of the
    /// blocks that the answer fills.
    pub blocks: Arc<[u64]>,
    /// Tokens of the prompt, at least one.
    pub input_tokens: u32,
    /// Tokens of the answer, at least one.
    pub output_tokens: u32,
    /// The prompt as the gateway hashes it; `None` where only blocks are known, and the chain is made of those.
    pub text: Option<Prompt>,
    /// Hashes of the beginnings that `prefix_aware` may place by, by their length.
    pub keys: SmallVec<[(u32, u64); 1]>,
}

impl Job {
    /// Full blocks of the prompt.
    pub fn prompt_blocks(&self, block_tokens: u32) -> usize {
        (self.input_tokens / block_tokens) as usize
    }

    /// What the router sees of it, where keys are made of `prefix_length`.
    pub fn facts(&self, jobs: &Jobs, prefix_length: u32) -> RequestFacts {
        let prompt = match &self.text {
            Some(prompt) => prompt.clone(),
            None => {
                let blocks = self.blocks[..self.prompt_blocks(jobs.block_tokens)].to_vec();
                let chain = PrefixChain::of_hashes(blocks, u64::from(jobs.block_tokens) * BYTES_PER_TOKEN);
                Prompt::of_chain(chain, u64::from(self.input_tokens) * BYTES_PER_TOKEN, [])
            }
        };
        RequestFacts {
            model: self.model.map(|model| jobs.models[usize::from(model)].to_string()),
            tenant: self.tenant,
            session: self.session,
            prefix_keys: smallvec![self.key(prefix_length)],
            prompt_tokens_estimated: u64::from(self.input_tokens),
            prompt,
            ..RequestFacts::default()
        }
    }

    /// The hash of its beginning of this length, if that is one of those asked for.
    pub fn key(&self, prefix_length: u32) -> Option<u64> {
        match &self.text {
            Some(prompt) => prompt.key(prefix_length),
            None => self.keys.iter().find(|(length, _)| *length == prefix_length).map(|(_, key)| *key),
        }
    }
}

/// The hashes of growing beginnings from the names of blocks, within a scope.
pub(super) fn chained(names: impl Iterator<Item = u64>, scope: u64) -> impl Iterator<Item = u64> {
    names.scan(scope, |before, name| {
        *before = hash::mix(*before, name);
        Some(*before)
    })
}
