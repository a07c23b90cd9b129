//! What a step computes.

use super::sequence::Sequence;

/// What a step computes: all that its duration depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StepWork {
    /// Requests that compute one token, their last.
    pub(super) decodes: u64,
    /// Tokens before those.
    pub(super) decode_context_tokens: u64,
    /// Requests that compute more, or not yet their last.
    pub(super) chunks: u64,
    /// Tokens that they compute: the sum of n.
    pub(super) chunk_tokens: u64,
    /// Tokens before those: the sum of p.
    pub(super) chunk_context_tokens: u64,
    /// Twice the sum of n (p + n/2).
    pub(super) chunk_token_pairs_doubled: u64,
}

impl StepWork {
    /// Counts in what the step plans for this request.
    pub(super) fn add(&mut self, sequence: &Sequence) {
        let (context, new) = (u64::from(sequence.computed_tokens), u64::from(sequence.planned_tokens));
        if sequence.pending_tokens() == 1 {
            self.decodes += 1;
            self.decode_context_tokens += context;
        } else {
            self.chunks += 1;
            self.chunk_tokens += new;
            self.chunk_context_tokens += context;
            self.chunk_token_pairs_doubled += new * (2 * context + new);
        }
    }
}
