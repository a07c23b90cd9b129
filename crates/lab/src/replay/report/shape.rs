//! What a trace looks like, for judging whether it is representative.

use serde::Serialize;

use crate::replay::job::Jobs;

/// Counts, and histograms with doubling bins.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Shape {
    /// Requests.
    pub requests: u64,
    /// Sessions; a request without one counts as one.
    pub sessions: u64,
    /// Tokens of all prompts.
    pub prompt_tokens: u64,
    /// Tokens of all answers.
    pub output_tokens: u64,
    /// From the first arrival to the last in the trace, seconds; `null` where it has no times.
    pub span_s: Option<f64>,
    /// `[upper bound in tokens, prompts up to it and above the bound before]`.
    pub prompt_tokens_histogram: Vec<[u64; 2]>,
    /// The same for answers.
    pub output_tokens_histogram: Vec<[u64; 2]>,
    /// `[turns, sessions of so many]`, the last one for all longer ones.
    pub turns_histogram: Vec<[u64; 2]>,
}

/// Longest session that has a bar of its own.
const TURNS_MAX: usize = 40;

impl Shape {
    /// Of all requests.
    pub fn of(jobs: &Jobs) -> Self {
        let input = || jobs.list.iter().map(|job| u64::from(job.input_tokens));
        let output = || jobs.list.iter().map(|job| u64::from(job.output_tokens));
        let last_us = jobs.list.iter().filter_map(|job| job.at_us).max();
        let mut turns = vec![0u64; TURNS_MAX + 1];
        jobs.sessions.iter().for_each(|session| turns[session.len().min(TURNS_MAX)] += 1);
        let turns = turns.into_iter().enumerate().filter(|(_, sessions)| *sessions > 0);
        Self {
            requests: jobs.list.len() as u64,
            sessions: jobs.sessions.len() as u64,
            prompt_tokens: input().sum(),
            output_tokens: output().sum(),
            span_s: last_us.map(|us| us as f64 / 1e6),
            prompt_tokens_histogram: histogram(input()),
            output_tokens_histogram: histogram(output()),
            turns_histogram: turns.map(|(turns, sessions)| [turns as u64, sessions]).collect(),
        }
    }
}

fn histogram(values: impl Iterator<Item = u64>) -> Vec<[u64; 2]> {
    let mut bins = [0u64; 65];
    values.for_each(|value| bins[value.next_power_of_two().trailing_zeros() as usize] += 1);
    let first = bins.iter().position(|count| *count > 0).unwrap_or(0);
    let last = bins.iter().rposition(|count| *count > 0).unwrap_or(0);
    (first..=last).map(|bin| [1u64.checked_shl(bin as u32).unwrap_or(u64::MAX), bins[bin]]).collect()
}
