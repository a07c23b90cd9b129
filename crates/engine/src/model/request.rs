//! What an engine is asked to do.

use std::sync::Arc;

/// One request, in the shape the engine's scheduler sees: sizes and block hashes, no text.
#[derive(Clone, Debug)]
pub struct Request {
    /// Names the request in events. Unique among the requests that have not finished.
    pub id: u64,
    /// Length of the prompt, 1 or more. A prompt that does not leave room for one token of output
    /// below [`Preset::context_tokens_max`](super::Preset::context_tokens_max) is rejected.
    pub prompt_tokens: u32,
    /// The hash of every full block of the prompt, each including all tokens before it and whatever
    /// scopes the cache (adapter, salt). Shared, since a replayer keeps the prompt as well.
    ///
    /// It may go on after the prompt with the blocks that the answer will fill, if the caller knows
    /// them; a later prompt that quotes the answer then finds it cached, as it would in an engine.
    /// Where the list ends, [`output_block_hash`](super::output_block_hash) names the blocks. A list
    /// that does not cover the prompt's full blocks is rejected.
    pub block_hashes: Arc<[u64]>,
    /// How many tokens the request will generate, cut where the context ends. 0 is a request that only
    /// wants its prompt computed, as embeddings do: it finishes with the prompt's last step and has no
    /// first token.
    pub output_tokens: u32,
    /// Names the blocks that the output fills, together with the hash of the block before. Equal only
    /// where the answers, and what is left of the prompt after its last full block, are equal.
    pub output_seed: u64,
    /// The LoRA adapter that the request runs with. The model only counts them: at most
    /// [`Preset::adapters_max`](super::Preset::adapters_max) run at a time. That adapters share no
    /// blocks is for `block_hashes` to see to.
    pub adapter: Option<u32>,
    /// Whether blocks that are found cached are told as [`Stored`](super::Event::Stored) once more:
    /// how a client makes an engine repeat itself to those who missed it.
    pub report_cached: bool,
}
