//! What an engine's answer tells the router while it is relayed untouched.
//!
//! Three readers, none of which can stop or change the relay:
//! - [`SseReader`] finds the events of a stream, whatever the reads that bring it.
//! - [`StreamObserver`] finds in those events the first content, the usage, errors and the end mark.
//! - [`UsageTap`] finds the usage in an answer that does not stream.

mod answer;
mod observer;
mod sse;
mod usage_tap;

pub use answer::Usage;
pub use observer::{EventFacts, StreamObserver};
pub use sse::{Overlong, SseEvent, SseReader};
pub use usage_tap::UsageTap;
