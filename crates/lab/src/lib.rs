//! Load generation, workloads and reports.
//!
//! Whether prefix-aware routing pays depends on the traffic, so the project measures it with three
//! parts that know nothing of each other's insides:
//!
//! - [`workload`] makes requests from a seed: which prompt, in which order. No clock, no sockets.
//! - [`load`] sends them over HTTP/1.1 at the pace asked for, and writes down what each one met.
//! - [`report`] turns what was written down into the table and the JSON that users of vLLM's
//!   benchmark know, and into a comparison of routing strategies.
//!
//! [`calibrate`] fits a preset of the engine model to an engine that is there.
//!
//! [`trace`] holds traffic that was recorded elsewhere; [`analyze`] tells what repeats in it and what to set.
//!
//! Nothing here judges the router by its own word: hits are what the engine reports in
//! `usage.prompt_tokens_details.cached_tokens`, times are what the client saw. Only the names of the
//! replica and of the decision's reason come from the router's response headers.

pub mod analyze;
pub mod baselines;
pub mod calibrate;
mod hashing;
pub mod load;
pub mod replay;
pub mod report;
pub mod stats;
#[cfg(test)]
mod testing;
pub mod trace;
pub mod workload;

/// An option that cannot be used; nothing has been sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {problem}")]
pub struct InvalidOption {
    /// Name of the field.
    pub option: &'static str,
    /// What it must be.
    pub problem: String,
}

impl InvalidOption {
    pub(crate) fn new(option: &'static str, problem: impl Into<String>) -> Self {
        Self { option, problem: problem.into() }
    }

    /// `Ok` when `value` lies within `range`.
    pub(crate) fn unless_within(
        option: &'static str,
        value: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<(), Self> {
        if range.contains(&value) {
            return Ok(());
        }
        let problem = format!("{value} is not within {}..{}", range.start(), range.end());
        Err(Self::new(option, problem))
    }
}
