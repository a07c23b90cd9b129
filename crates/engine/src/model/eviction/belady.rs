//! Evict what is used again last: the bound of every rule, for who knows the future.

use std::sync::Arc;

use super::Kind;

/// Which blocks the prompts to come will use.
///
/// What is known is the order of the requests that *this* engine will start, so a caller who simulates a
/// fleet has to know its placement: from an earlier run, or by a strategy that does not look at load.
/// Uses that do not come, or come elsewhere, make the rule worse than the bound, not wrong.
#[derive(Clone, Debug, Default)]
pub struct Future {
    /// Hash and request, ascending.
    uses: Vec<(u64, u64)>,
}

impl Future {
    /// Of the requests to come: [`id`](super::super::Request::id)s, ascending in the order of their starts,
    /// and the hashes of their prompts' full blocks. Memory is 16 bytes a block.
    #[must_use]
    pub fn new<'a>(requests: impl IntoIterator<Item = (u64, &'a [u64])>) -> Self {
        let mut uses = Vec::new();
        for (id, prompt) in requests {
            uses.extend(prompt.iter().map(|&hash| (hash, id)));
        }
        uses.sort_unstable();
        Self { uses }
    }

    /// The first request after `id` that uses the block.
    fn next_use(&self, hash: u64, id: u64) -> Option<u64> {
        let after = self.uses.partition_point(|&of| of <= (hash, id));
        self.uses.get(after).filter(|(of, _)| *of == hash).map(|&(_, id)| id)
    }
}

/// See the module. The order of requests is the clock: after the one that started last.
pub(in super::super) struct Belady {
    future: Arc<Future>,
    started: u64,
}

impl Belady {
    pub(super) fn new(future: Arc<Future>) -> Self {
        Self { future, started: 0 }
    }

    pub(super) fn meet(&mut self, id: u64) -> Kind {
        self.started = self.started.max(id);
        Kind::default()
    }

    /// The higher, the sooner it is used again; 0 if never.
    pub(super) fn rank(&self, hash: u64) -> u64 {
        self.future.next_use(hash, self.started).map_or(0, |id| u64::MAX - id)
    }

    /// Whether the use that the rank is about should have come already.
    pub(super) fn is_past(&self, rank: u64) -> bool {
        u64::MAX - rank <= self.started
    }
}
