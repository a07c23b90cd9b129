//! Tokens that are under way to their first token, by replica.

/// What was placed and has no first token yet.
#[derive(Debug, Default)]
pub(crate) struct Books {
    pending_tokens: Vec<u64>,
    /// Of each request: its replica, and its tokens until they are computed.
    requests: Vec<Option<(usize, u64)>>,
}

impl Books {
    /// Tokens under way at a replica.
    pub(super) fn pending_tokens(&self, number: usize) -> u64 {
        self.pending_tokens.get(number).copied().unwrap_or(0)
    }

    /// A request with so many tokens to compute goes to a replica.
    pub(super) fn placed(&mut self, request: u32, number: usize, tokens: u64) {
        self.done(request);
        if self.pending_tokens.len() <= number {
            self.pending_tokens.resize(number + 1, 0);
        }
        if self.requests.len() <= request as usize {
            self.requests.resize(request as usize + 1, None);
        }
        self.pending_tokens[number] += tokens;
        self.requests[request as usize] = Some((number, tokens));
    }

    /// A request has its first token, or is over. Saying it again changes nothing.
    pub(crate) fn done(&mut self, request: u32) {
        if let Some((number, tokens)) = self.requests.get_mut(request as usize).and_then(Option::take) {
            self.pending_tokens[number] -= tokens;
        }
    }
}
