//! KV events over ZeroMQ, as vLLM publishes them.
//!
//! The engine's events of one step make one batch, in the model's order. A message is `[topic, seq,
//! payload]`: `seq` counts batches from 0, eight bytes big-endian. Late subscribers get nothing old;
//! they ask the replay socket. What a slow subscriber loses shows as a gap in `seq`.

mod encode;
mod publisher;
mod sources;
#[cfg(test)]
pub(super) mod tests;

use super::clock::Clock;
use super::config::{KvEventsConfig, StartError};
use super::sequence::Sequence;
use crate::model::Micros;

use encode::{Batch, Stored};
use publisher::Publisher;
pub(super) use sources::{KvEventSource, KvEventSources};

/// Gathers a step's events and publishes them.
pub(super) struct KvEvents {
    publisher: Publisher,
    batch: Batch,
    /// The moment of the step that `batch` belongs to.
    at: Micros,
    block_tokens: u32,
}

impl KvEvents {
    /// Binds the sockets.
    pub(super) async fn start(config: &KvEventsConfig, block_tokens: u32) -> Result<Self, StartError> {
        let publisher = Publisher::start(config).await?;
        Ok(Self { publisher, batch: Batch::default(), at: Micros::default(), block_tokens })
    }

    /// Where events are published.
    pub(super) fn endpoint(&self) -> &str {
        self.publisher.endpoint()
    }

    /// Where events are replayed.
    pub(super) fn replay_endpoint(&self) -> Option<&str> {
        self.publisher.replay_endpoint()
    }

    /// Blocks of a request became cached.
    pub(super) fn stored(
        &mut self,
        clock: &Clock,
        at: Micros,
        sequence: &Sequence,
        parent: Option<u64>,
        hashes: &[u64],
        first_block: u32,
    ) {
        self.begin(clock, at);
        let start = first_block as usize * self.block_tokens as usize;
        self.batch.stored(&Stored {
            hashes,
            parent,
            tokens: start..start + hashes.len() * self.block_tokens as usize,
            sequence,
            block_tokens: self.block_tokens,
        });
    }

    /// Blocks left the cache.
    pub(super) fn removed(&mut self, clock: &Clock, at: Micros, hashes: &[u64]) {
        self.begin(clock, at);
        self.batch.removed(hashes);
    }

    /// The cache was emptied.
    pub(super) fn cleared(&mut self, clock: &Clock, at: Micros) {
        self.begin(clock, at);
        self.batch.cleared();
    }

    /// Publishes what was gathered.
    pub(super) fn flush(&mut self, clock: &Clock) {
        if !self.batch.is_empty() {
            self.publisher.publish(self.batch.finish(clock.unix_seconds(self.at)));
        }
    }

    /// One batch a step: a new moment ends the batch before.
    fn begin(&mut self, clock: &Clock, at: Micros) {
        if at != self.at {
            self.flush(clock);
            self.at = at;
        }
    }
}
