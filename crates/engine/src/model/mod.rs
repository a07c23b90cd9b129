//! A model of one LLM engine (one replica), in virtual time.
//!
//! Routing can only be judged against engines that behave like engines: batches that grow, prompts
//! that wait behind other prompts, caches that evict. This model has those, at the price of a hash
//! look-up a KV block, so that a day of fleet traffic replays in seconds; the same code runs in real
//! time behind vLLM's HTTP surface.
//!
//! # Rules (vLLM V1)
//!
//! - The engine works in *steps*. A step has a token budget (`step_tokens_max`): first one token for
//!   every request that decodes, then prefill in order of arrival, cut into chunks where the budget
//!   ends. At most `seqs_max` requests run at a time.
//! - KV memory is a pool of blocks of `block_tokens` tokens. A full block is named by the hash of all
//!   tokens up to its end. A request that starts reuses the longest run of named blocks from the
//!   beginning of its prompt, but never the prompt's last token, which must be computed to get an
//!   answer.
//! - A block that no request refers to stays cached until its room is needed; the least recently
//!   freed goes first. A request frees its last block first, so that the end of a prefix goes before
//!   its beginning. Other rules than the engines' can be set: see [`Eviction`].
//! - When a running request needs a block and none is free, the request that was started last is
//!   preempted: it loses its blocks, goes to the front of the queue, and computes again what it no
//!   longer finds cached. Nobody else starts in that step.
//! - A request starts when all its tokens find room, though only a chunk of them is computed at once
//!   ([`Preset::whole_prompt_must_fit`]). The room is not kept for it: those who run before it may take
//!   it meanwhile.
//! - A request may run with a LoRA adapter; only so many adapters run at a time, and who waits for a
//!   place is overtaken.
//! - How long a step takes is a formula fitted to published profiles: see [`Preset`].
//!
//! # Where it differs from the engine
//!
//! - A block becomes shareable at the end of the step that computes it, not when the step is planned.
//!   If two requests compute the same block in one step, the second copy is dropped at the end of the
//!   step, so a hash names one block at most and `Stored` minus `Removed` is exactly what is cached.
//! - One token a step for each decoding request: no speculative decoding.
//! - An adapter costs neither time nor memory.
//! - The scheduler takes no time: it hides behind the step, as with asynchronous scheduling. Steps take
//!   what the formula says, without jitter, and so does the way to the scheduler.
//! - Every block holds keys and values of all layers: no sliding windows, no state of linear attention.
//! - What is evicted is gone: no second tier in host memory or on disk.
//! - Prefill and decode are not divided between engines.
//! - No share of memory is kept free for those who run (vLLM's `watermark`, 0 by default).
//!
//! # What it needs and gives
//!
//! No clock, no randomness, no sockets: the same calls give the same events, on every platform. See
//! [`Engine`] for the protocol of calls, [`Event`] for what comes out.

mod adapters;
mod engine;
mod event;
mod eviction;
mod hash;
mod outcome;
mod pool;
mod preset;
mod presets;
mod request;
mod scheduler;
mod sequence;
mod step;
#[cfg(test)]
mod tests;
mod time;

pub use engine::{AdapterLoad, Engine, Load};
pub use event::{Event, FinishReason};
pub use eviction::{Eviction, belady::Future};
pub use hash::output_block_hash;
pub use preset::{DecodeCost, Fit, PrefillCost, Preset};
pub use request::Request;
pub use time::Micros;
