//! What an engine's answer tells the router while it is relayed.
//!
//! Readers that can neither stop nor change the relay:
//! - [`SseReader`] finds the events of a stream, whatever the reads that bring it.
//! - [`StreamObserver`] finds in those events the first content, the usage, errors, the id and the end mark.
//! - [`UsageTap`] finds the usage and the id in an answer that does not stream.
//!
//! [`EventCutter`] cuts a stream where its events end. And one changes it, where a feature asks for that: [`SseFilter`]
//! takes whole events out of a stream.

mod answer;
mod filter;
mod observer;
mod parts;
mod sse;
mod usage;
mod usage_tap;

pub use answer::ID_BYTES_MAX;
pub use filter::SseFilter;
pub use observer::{EventFacts, StreamFacts, StreamObserver};
pub use parts::{EVENT_BYTES_MAX, EventCutter};
pub use sse::{Overlong, SseEvent, SseReader};
pub use usage::Usage;
pub use usage_tap::UsageTap;
