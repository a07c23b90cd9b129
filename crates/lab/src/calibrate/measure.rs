//! The dozen requests.

use super::{CalibrationError, Sample};
use crate::InvalidOption;
use crate::load::{self, LoadOptions, Outcome, Pacing, Progress, Target};
use crate::workload::{BodyOptions, DistinctPrompts, DistinctPromptsOptions};

/// Timed requests.
pub const PROMPTS: usize = 12;
/// Requests before them that are not timed.
const WARMUPS: usize = 2;
/// Lengths, each twice.
const LENGTHS: u32 = PROMPTS as u32 / 2;
/// Least of the longest prompt, tokens.
pub const PROMPT_TOKENS_MIN: u32 = 512;
/// Most of the longest prompt, tokens.
pub const PROMPT_TOKENS_MAX: u32 = 131_072;

/// Tokens of the prompts, in the order of sending: six lengths that double up to `longest`, each early
/// and late, so that an engine that grows warm or slow does not look like one that scales otherwise.
pub fn lengths(longest: u32) -> Vec<u32> {
    let ascending = || (0..LENGTHS).rev().map(|halvings| (longest >> halvings).max(16));
    ascending().chain(ascending().rev()).collect()
}

/// Sends prompts of up to `longest` tokens (four bytes each; the engine may count otherwise), one at a
/// time, and times them. The seed must be one that the engine has not seen.
///
/// # Errors
///
/// The outer one for options that cannot be used, the inner one where a request failed.
pub async fn measure(
    target: Target,
    body: BodyOptions,
    longest: u32,
    seed: u64,
    progress: &mut dyn Progress,
) -> Result<Result<Vec<Sample>, CalibrationError>, InvalidOption> {
    let range = u64::from(PROMPT_TOKENS_MIN)..=u64::from(PROMPT_TOKENS_MAX);
    InvalidOption::unless_within("prompt_tokens_max", longest.into(), range)?;
    let options = DistinctPromptsOptions { prompt_tokens: lengths(longest), output_tokens: 1 };
    let mut workload = DistinctPrompts::new(options, body, seed)?;
    let options = LoadOptions {
        target,
        pacing: Pacing { max_concurrency: Some(1), ..Pacing::default() },
        requests_max: PROMPTS,
        warmups: WARMUPS,
        seed,
        ..LoadOptions::default()
    };
    let outcome = load::run(&options, &mut workload, progress, std::future::pending()).await?;
    Ok(samples(&outcome))
}

fn samples(outcome: &Outcome) -> Result<Vec<Sample>, CalibrationError> {
    if outcome.failed() > 0 || outcome.records.len() < PROMPTS {
        let example = outcome.failures.iter().next().map(|(kind, failure)| format!("{kind} {}", failure.example));
        return Err(CalibrationError::Failed {
            sent: PROMPTS,
            failed: outcome.failed() as usize,
            example: example.unwrap_or_default().trim().to_owned(),
        });
    }
    let sample = |record: &load::Record| Sample {
        prompt_tokens: record.prompt_tokens,
        cached_tokens: record.cached_tokens,
        ttft_ms: record.ttft_us as f64 / 1e3,
    };
    Ok(outcome.served().map(sample).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_lengths_come_early_and_late() {
        assert_eq!(lengths(8192), [256, 512, 1024, 2048, 4096, 8192, 8192, 4096, 2048, 1024, 512, 256]);
        assert_eq!(lengths(8192).len(), PROMPTS);
        assert!(lengths(PROMPT_TOKENS_MIN).iter().all(|&tokens| tokens >= 16));
    }
}
