//! Prompts of given lengths that share nothing, for measuring what an engine does without its cache.

use std::time::Duration;

use super::body::Role;
use super::text::{Purpose, TOKENS_MAX, TOKENS_MIN, text};
use super::{BodyOptions, Next, Request, Workload};
use crate::InvalidOption;

/// Shape of a [`DistinctPrompts`] workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DistinctPromptsOptions {
    /// Tokens of each prompt, in the order of sending, 4..1,048,576.
    pub prompt_tokens: Vec<u32>,
    /// `max_tokens` of every request, at least 1.
    pub output_tokens: u32,
}

/// See the module. Prompts differ within their first words, also between two seeds.
#[derive(Debug)]
pub struct DistinctPrompts {
    options: DistinctPromptsOptions,
    body: BodyOptions,
    seed: u64,
    sent: usize,
}

/// Tokens of a prompt that warms up.
const WARMUP_TOKENS: u32 = 256;

impl DistinctPrompts {
    /// Fails for lengths out of range.
    pub fn new(options: DistinctPromptsOptions, body: BodyOptions, seed: u64) -> Result<Self, InvalidOption> {
        for &tokens in &options.prompt_tokens {
            InvalidOption::unless_within("prompt_tokens", tokens.into(), TOKENS_MIN..=TOKENS_MAX)?;
        }
        InvalidOption::unless_within("output_tokens", options.output_tokens.into(), 1..=TOKENS_MAX)?;
        Ok(Self { options, body, seed, sent: 0 })
    }

    fn request(&self, ticket: u64, purpose: Purpose, prompt_tokens: u32) -> Request {
        let prompt = text(self.seed, purpose, ticket, prompt_tokens);
        Request {
            ticket,
            body: self.body.build([(Role::User, prompt.as_str())].into_iter(), self.options.output_tokens),
            prompt_tokens,
            ready_at: Duration::ZERO,
            session: None,
            keep_answer: false,
        }
    }
}

impl Workload for DistinctPrompts {
    fn next(&mut self, _now: Duration) -> Next {
        let Some(&tokens) = self.options.prompt_tokens.get(self.sent) else {
            return Next::Exhausted;
        };
        self.sent += 1;
        Next::Request(self.request(self.sent as u64 - 1, Purpose::Distinct, tokens))
    }

    fn finished(&mut self, _ticket: u64, _answer: Option<&str>, _now: Duration) {}

    fn warmup(&self, index: u64) -> Request {
        self.request(index, Purpose::Warmup, WARMUP_TOKENS)
    }

    fn requests_total(&self) -> u64 {
        self.options.prompt_tokens.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn workload(prompt_tokens: Vec<u32>, seed: u64) -> Result<DistinctPrompts, InvalidOption> {
        let options = DistinctPromptsOptions { prompt_tokens, output_tokens: 1 };
        DistinctPrompts::new(options, BodyOptions::default(), seed)
    }

    #[test]
    fn prompts_have_the_lengths_asked_for_and_share_no_beginning() {
        let mut heads = BTreeSet::new();
        for seed in [1, 2] {
            let mut workload = workload(vec![100, 7, 100], seed).unwrap();
            for tokens in [100, 7, 100] {
                let Next::Request(request) = workload.next(Duration::ZERO) else { panic!("nothing to send") };
                assert_eq!(request.prompt_tokens, tokens);
                let body: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
                let prompt = body["messages"][0]["content"].as_str().unwrap();
                assert_eq!(prompt.len(), tokens as usize * 4);
                heads.insert(prompt[..24].to_owned());
            }
            assert_eq!(workload.next(Duration::ZERO), Next::Exhausted);
            heads.insert(String::from_utf8_lossy(&workload.warmup(0).body).into_owned());
        }
        assert_eq!(heads.len(), 8);
    }

    #[test]
    fn lengths_out_of_range_are_refused() {
        assert_eq!(workload(vec![8, 3], 1).unwrap_err().option, "prompt_tokens");
    }
}
