//! Requests made from a seed.
//!
//! Two shapes of traffic decide what a prefix cache is worth, and both are here:
//! [`SharedPrefix`] (documents or system prompts, each asked about several times) and
//! [`MultiTurn`] (conversations that grow by their own answers).
//!
//! Rules:
//!
//! - The same options and seed give the same bytes on every platform. Each text has a random stream
//!   of its own, so it does not depend on the order in which answers arrive.
//! - A token is taken to be four bytes. Texts are common English words, exactly `4 x tokens` bytes
//!   long; a real tokenizer finds somewhat fewer tokens in them, and reports then use its number
//!   (`usage.prompt_tokens`).
//! - Two different prefixes differ from their first characters, so no block of them is shared by
//!   accident, and no fixed prefix length is too short to tell them apart.
//! - A body is built when its request is due and not kept: memory does not grow with the run.

mod body;
mod ceiling;
mod distinct;
mod multi_turn;
pub(crate) mod order;
mod shared_prefix;
mod text;

use std::time::Duration;

use bytes::Bytes;

pub use body::{BodyKind, BodyOptions, Route};
pub use ceiling::{hit_ratio_affine, hit_ratio_random};
pub use distinct::{DistinctPrompts, DistinctPromptsOptions};
pub use multi_turn::{MultiTurn, MultiTurnOptions};
pub use shared_prefix::{SharedPrefix, SharedPrefixOptions};

pub(crate) use text::arrival_stream;

/// Bytes of text that stand for one token.
pub const BYTES_PER_TOKEN: usize = 4;

/// One request, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Handed back to [`Workload::finished`]; unique among the requests in flight.
    pub ticket: u64,
    /// The JSON body.
    pub body: Bytes,
    /// Tokens of the prompt by the four-bytes rule, used where the engine reports none.
    pub prompt_tokens: u32,
    /// When the request became possible, since the start of the run. Zero where no answer had to be
    /// awaited first.
    pub ready_at: Duration,
    /// The conversation this belongs to, for a session header.
    pub session: Option<u64>,
    /// Whether [`Workload::finished`] needs the text of the answer.
    pub keep_answer: bool,
}

/// What a workload has to send now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Send this.
    Request(Request),
    /// Nothing before this time (since the start of the run), unless an answer arrives earlier.
    NotBefore(Duration),
    /// Nothing until an answer arrives.
    AwaitingAnswer,
    /// Nothing any more.
    Exhausted,
}

/// A source of requests.
///
/// Times are durations since the start of the run and never go back.
pub trait Workload: Send {
    /// The next request that may be sent at `now`.
    fn next(&mut self, now: Duration) -> Next;

    /// The request with this ticket has ended. `answer` is its text, or `None` when it failed;
    /// it is empty when the request did not ask to keep it.
    fn finished(&mut self, ticket: u64, answer: Option<&str>, now: Duration);

    /// A request to warm connections and engines with. It has the size of the others but shares no
    /// prefix with them, so that it does not move the hit rate.
    fn warmup(&self, index: u64) -> Request;

    /// Number of requests the workload will give if none fails.
    fn requests_total(&self) -> u64;
}
