//! Sends a workload over HTTP/1.1 and writes down what each request met.
//!
//! Two kinds of pace, told apart as vLLM's flags do:
//!
//! - **open loop**: requests leave on a schedule that does not care about answers
//!   (`request_rate`, `burstiness`). What users do. With `max_concurrency` as well, a request that
//!   finds no free slot waits, and the wait is reported.
//! - **closed loop**: `max_concurrency` users, each sending its next request when the previous one has
//!   ended. What batch jobs do, and the loop that hides a slow server, since it then asks for less.
//!
//! With neither, everything leaves at once.
//!
//! Rules:
//!
//! - A request is timed from when it was *sent*, and the time from when it *should have been* sent to
//!   then is reported next to it (schedule lag). A generator that cannot keep up, or a server that
//!   fills all slots, shows there instead of making latencies look good.
//! - A failed request is counted by kind and the run goes on.
//! - The run ends promptly when its time is over. Requests then still in flight are counted as *cut*:
//!   neither served nor failed.
//! - Memory is bounded: about a hundred bytes for each of `requests_max` requests, plus what is in
//!   flight. Gaps between tokens go into a histogram.

mod answer;
mod arrivals;
mod client;
mod exchange;
mod failure;
mod framing;
mod options;
mod outcome;
mod pace;
mod progress;
mod runner;

pub use failure::FailureKind;
pub use options::{LoadOptions, LoopKind, Pacing, Target};
pub use outcome::{Ending, FailureCount, Names, Outcome, Record};
pub use progress::{Bar, Phase, Progress, Snapshot};
pub use runner::run;
