//! What an engine tells.

use super::Micros;

/// Something that happened in the engine.
///
/// The order of events is the order of time. [`Stored`](Event::Stored), [`Removed`](Event::Removed)
/// and [`Cleared`](Event::Cleared) are what an engine publishes about its cache: all that one step
/// caused is told when the step ends, with the same `at`, so it makes one batch: first `Cleared`,
/// then every `Removed`, then the `Stored` that needed the room. Reusing a block tells nothing, unless
/// the request [asks for it](super::Request::report_cached).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request left the queue for the first time. Told once a request, also if it is preempted
    /// and starts again.
    Scheduled {
        /// The request.
        id: u64,
        /// When: the beginning of a step.
        at: Micros,
        /// Prompt tokens found cached: whole blocks, fewer than the prompt.
        cached_tokens: u32,
    },
    /// The request's first token. Every request that wants output and is neither rejected nor aborted
    /// has one.
    FirstToken {
        /// The request.
        id: u64,
        /// When: the end of a step.
        at: Micros,
    },
    /// One more token, after the first.
    Token {
        /// The request.
        id: u64,
        /// When: the end of a step.
        at: Micros,
    },
    /// The request is gone. Told once for every submitted request, and the last thing told of it.
    Finished {
        /// The request.
        id: u64,
        /// When.
        at: Micros,
        /// Why.
        reason: FinishReason,
    },
    /// The request lost its KV blocks to others and waits to start again.
    Preempted {
        /// The request.
        id: u64,
        /// When: the beginning of a step.
        at: Micros,
    },
    /// Blocks became cached: at most one event a request and step. A request that asks for it has one
    /// more with its first step, of the blocks that it found cached.
    Stored {
        /// When: the end of the step that computed them.
        at: Micros,
        /// The request whose tokens fill them.
        id: u64,
        /// The hash of the block before the first, which is cached; `None` at the beginning.
        parent: Option<u64>,
        /// The blocks' hashes, in order, each the parent of the next. Never empty.
        hashes: Vec<u64>,
        /// Place of the first of them in the request's sequence, counted in blocks. Below
        /// `prompt_tokens / block_tokens` it holds prompt only.
        first_block: u32,
    },
    /// A block's room was needed. One hash an event, as the engine publishes it; of a chain, children
    /// go before their parent.
    Removed {
        /// When: the end of the step that took the room.
        at: Micros,
        /// The block's hash.
        hashes: [u64; 1],
    },
    /// The cache was emptied. Told at the end of the first step after the fact.
    Cleared {
        /// When.
        at: Micros,
    },
}

/// Why a request is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It generated as many tokens as it was to, perhaps none.
    Stop,
    /// The context ended first.
    Length,
    /// It was given up by [`Engine::abort`](super::Engine::abort).
    Aborted,
    /// It can never run: see [`Request`](super::Request) for what is refused.
    Rejected,
}

impl Event {
    /// When it happened.
    #[must_use]
    pub fn at(&self) -> Micros {
        match *self {
            Self::Scheduled { at, .. }
            | Self::FirstToken { at, .. }
            | Self::Token { at, .. }
            | Self::Finished { at, .. }
            | Self::Preempted { at, .. }
            | Self::Stored { at, .. }
            | Self::Removed { at, .. }
            | Self::Cleared { at } => at,
        }
    }
}
