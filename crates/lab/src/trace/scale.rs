//! The same traffic faster or slower, with longer or shorter prompts and answers.
//!
//! What stays (each is tested):
//! - Every request stays, in order. Times are multiplied, never rounded, so fast arrivals stay apart.
//! - The sums of lengths are multiplied exactly, to a token: what rounding takes from one request, the next one gets.
//! - What requests share is multiplied, too: a beginning of *n* tokens that two prompts have in common becomes one of
//!   `n x factor` tokens, less what is lost to the grid of blocks: less than a block a request. The grid becomes finer for
//!   that reason (an eighth of a block, at least 16 tokens).
//! - Nothing is drawn, so the same trace gives the same bytes.

use std::sync::Arc;

use xxhash_rust::xxh3;

use super::{Blocks, Content, Record};
use crate::InvalidOption;

/// The scaled grid is finer by this, to lose less of what is shared.
const FINER: u32 = 8;
/// The finest grid, tokens a block.
const BLOCK_TOKENS_MIN: u32 = 16;
/// Most blocks of a prompt.
const BLOCKS_MAX: u32 = 1 << 20;
/// Largest factor.
const FACTOR_MAX: f64 = 1_000.0;

/// Factors, and what rounding left for the next request.
#[derive(Debug, Clone)]
pub struct Scale {
    time: f64,
    input: f64,
    output: f64,
    input_left: f64,
    output_left: f64,
    origin_ms: Option<f64>,
}

/// Why prompts cannot be scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScaleError {
    /// They are text.
    #[error("text cannot be made longer or shorter: only lengths and hashes of blocks are scaled")]
    Text,
    /// One would have too many blocks.
    #[error("a prompt would have {tokens} tokens, in more than {BLOCKS_MAX} blocks")]
    TooLong {
        /// Its tokens.
        tokens: u32,
    },
}

impl Scale {
    /// Multiplies the time between requests, the tokens of prompts and the tokens of answers.
    ///
    /// # Errors
    /// A factor is not above 0 and at most 1000.
    pub fn new(time: f64, input: f64, output: f64) -> Result<Self, InvalidOption> {
        for (name, factor) in [("time", time), ("input", input), ("output", output)] {
            if !(factor > 0.0 && factor <= FACTOR_MAX) {
                return Err(InvalidOption::new(name, format!("a factor is above 0 and at most {FACTOR_MAX}")));
            }
        }
        Ok(Self { time, input, output, input_left: 0.0, output_left: 0.0, origin_ms: None })
    }

    /// The next request of the trace, scaled.
    ///
    /// # Errors
    /// Its prompt is text, and prompts are to be scaled.
    pub fn apply(&mut self, record: Record) -> Result<Record, ScaleError> {
        let at_ms = record.at_ms.map(|at| {
            let origin = *self.origin_ms.get_or_insert(at);
            origin + (at - origin) * self.time
        });
        let mut scaled = Record { at_ms, delay_ms: record.delay_ms.map(|delay| delay * self.time), ..record };
        if self.output != 1.0 {
            scaled.output_tokens = scaled.output_tokens.map(|tokens| share(tokens, self.output, &mut self.output_left));
        }
        if self.input != 1.0 {
            if matches!(scaled.content, Content::Text(_) | Content::TokenIds(_)) {
                return Err(ScaleError::Text);
            }
            let named = |blocks: &Blocks| (blocks.ids.len() as u32).saturating_mul(blocks.tokens);
            let before = match &scaled.content {
                Content::Blocks(blocks) => Some(scaled.input_tokens.unwrap_or_else(|| named(blocks))),
                _ => scaled.input_tokens,
            };
            scaled.input_tokens = before.map(|tokens| share(tokens, self.input, &mut self.input_left));
            if let (Content::Blocks(blocks), Some(after)) = (&scaled.content, scaled.input_tokens) {
                scaled.content = Content::Blocks(stretch(blocks, self.input, after)?);
            }
        }
        Ok(scaled)
    }
}

/// So many tokens times the factor, and at least one of what was at least one; the remainder is left for the next.
fn share(tokens: u32, factor: f64, left: &mut f64) -> u32 {
    let exact = f64::from(tokens) * factor + *left;
    let least = f64::from(u32::from(tokens > 0));
    let given = exact.floor().clamp(least, f64::from(u32::MAX));
    *left = exact - given;
    given as u32
}

/// The blocks of a prompt whose tokens have each become `factor` tokens, `after` in all.
fn stretch(blocks: &Blocks, factor: f64, after: u32) -> Result<Blocks, ScaleError> {
    let tokens = (blocks.tokens / FINER).max(BLOCK_TOKENS_MIN.min(blocks.tokens)).max(1);
    let count = after.div_ceil(tokens);
    if count > BLOCKS_MAX {
        return Err(ScaleError::TooLong { tokens: after });
    }
    let mut chain = 0;
    let chains: Vec<u64> = blocks
        .ids
        .iter()
        .map(|id| {
            chain = xxh3::xxh3_64_with_seed(&id.to_le_bytes(), chain);
            chain
        })
        .collect();
    let names = (0..count).map(|at| {
        // A block is what it was made of: all up to the source block that its last token came from. What comes after
        // the last named block has no name of its own, and is told apart by its length.
        let end = f64::from(at + 1) * f64::from(tokens) / factor / f64::from(blocks.tokens);
        let source = (end.ceil() as usize).saturating_sub(1);
        let (made_of, rest) = match chains.get(source) {
            Some(&chain) => (chain, 0),
            None => (chains.last().copied().unwrap_or(0), after),
        };
        xxh3::xxh3_64_with_seed(&u64::from(at).to_le_bytes(), made_of ^ u64::from(rest))
    });
    let ids: Arc<[u64]> = names.collect();
    Ok(Blocks { ids, tokens })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::InfiniteCache;

    fn trace() -> Vec<Record> {
        (0_u32..2_000)
            .map(|at| {
                let input = 600 + at * 37 % 9_000;
                let shared = u64::from(at % 7);
                let ids = (0..u64::from(input.div_ceil(512)))
                    .map(|block| if block < 5 { shared * 1_000 + block } else { u64::from(at) << 32 | block });
                Record {
                    at_ms: Some(f64::from(at)),
                    content: Content::Blocks(Blocks { ids: ids.collect(), tokens: 512 }),
                    input_tokens: Some(input),
                    output_tokens: Some(1 + at % 3),
                    ..Record::default()
                }
            })
            .collect()
    }

    fn scaled(time: f64, input: f64, output: f64) -> Vec<Record> {
        let mut scale = Scale::new(time, input, output).unwrap();
        trace().into_iter().map(|record| scale.apply(record).unwrap()).collect()
    }

    fn sum(records: &[Record], tokens: fn(&Record) -> Option<u32>) -> f64 {
        records.iter().filter_map(tokens).map(f64::from).sum()
    }

    fn reused(records: &[Record]) -> f64 {
        let mut cache = InfiniteCache::default();
        let parts: Vec<_> = records.iter().filter_map(|record| cache.take(record)).collect();
        let total: u64 = parts.iter().map(|part| part.total).sum();
        parts.iter().map(|part| part.reused).sum::<u64>() as f64 / total as f64
    }

    /// S99: scaling changes what it says and nothing else.
    #[test]
    fn scaling_keeps_counts_order_sums_and_reuse() {
        let before = trace();
        for factor in [1.3, 0.7, 1.0, 2.0] {
            let after = scaled(factor, factor, factor);
            assert_eq!(after.len(), before.len());
            for (at, record) in after.iter().enumerate() {
                let exact = at as f64 * factor;
                assert!((record.at_ms.unwrap() - exact).abs() < 1e-9, "arrivals of a millisecond stay apart");
            }
            for tokens in [|record: &Record| record.input_tokens, |record: &Record| record.output_tokens] {
                let (sum_before, sum_after) = (sum(&before, tokens), sum(&after, tokens));
                assert!((sum_after - sum_before * factor).abs() <= 1.0, "{factor}: {sum_before} became {sum_after}");
            }
            let (reuse_before, reuse_after) = (reused(&before), reused(&after));
            assert!((reuse_after - reuse_before).abs() < 0.01, "{factor}: {reuse_before} became {reuse_after}");
        }
        assert_eq!(scaled(1.3, 1.3, 1.3), scaled(1.3, 1.3, 1.3));
        assert_eq!(scaled(1.0, 1.0, 1.0), before);
    }

    #[test]
    fn as_many_names_are_made_as_the_scaled_length_has_blocks() {
        for record in scaled(1.0, 1.3, 1.0) {
            let Content::Blocks(blocks) = &record.content else { panic!() };
            assert_eq!(blocks.ids.len(), record.input_tokens.unwrap().div_ceil(blocks.tokens) as usize);
        }
    }

    #[test]
    fn what_cannot_be_scaled_is_refused() {
        for factor in [0.0, -1.0, f64::NAN, 1e9] {
            assert!(Scale::new(factor, 1.0, 1.0).is_err(), "{factor}");
        }
        let long = Record { content: Content::Blocks(Blocks { ids: [].into(), tokens: 1 }), ..Record::default() };
        let long = Record { input_tokens: Some(u32::MAX), ..long };
        let refused = Scale::new(1.0, 2.0, 1.0).unwrap().apply(long);
        assert!(matches!(refused, Err(ScaleError::TooLong { .. })));
        let text = Record { content: Content::Text(Vec::new()), at_ms: Some(5.0), ..Record::default() };
        assert!(Scale::new(2.0, 1.0, 1.0).unwrap().apply(text.clone()).is_ok());
        assert_eq!(Scale::new(1.0, 2.0, 1.0).unwrap().apply(text), Err(ScaleError::Text));
    }
}
