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
    /// How many tokens the request will generate; 0 counts as 1. Cut where the context ends.
    pub output_tokens: u32,
    /// Names the blocks that the output fills, together with the hash of the block before. Equal only
    /// where the answers, and what is left of the prompt after its last full block, are equal.
    pub output_seed: u64,
}
