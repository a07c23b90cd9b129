//! Many prompts that begin with one of many long texts: documents, few-shot prompts.

use std::collections::VecDeque;

use super::dice::{Dice, Purpose, Zipf};
use super::prompt::{Prompt, Text};
use super::timed::{Prompts, Timed};
use super::{COUNT_MAX, Common, Length, Records, Shape, TOKENS_MAX, within};
use crate::InvalidOption;

/// Prefixes that are each used several times.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedPrefix {
    /// Prefixes in use at a time; with `zipf_alpha`, prefixes in all.
    pub live: u32,
    /// How often a prefix is used, on average, before another takes its place; at least 1. Not used with `zipf_alpha`.
    pub uses: f64,
    /// All prefixes stay in use, and popularity falls with rank to this power (0..10).
    pub zipf_alpha: Option<f64>,
    /// Tokens of a prefix.
    pub prefix_tokens: u32,
    /// Tokens of the question after it, of which no two are equal.
    pub question: Length,
    /// Tokens of the answer.
    pub output: Length,
}

impl Default for SharedPrefix {
    fn default() -> Self {
        Self {
            live: 50,
            uses: 5.0,
            zipf_alpha: None,
            prefix_tokens: 8_192,
            question: Length::fixed(128),
            output: Length::fixed(128),
        }
    }
}

impl SharedPrefix {
    pub(super) fn check(&self) -> Result<(), InvalidOption> {
        within("live", self.live, 1, COUNT_MAX)?;
        within("prefix_tokens", self.prefix_tokens, 1, TOKENS_MAX)?;
        self.question.check("question_tokens")?;
        self.output.check("output_tokens")?;
        if !(1.0..=1e9).contains(&self.uses) {
            return Err(InvalidOption::new("uses", "a prefix is used at least once, and at most 1e9 times"));
        }
        if self.zipf_alpha.is_some_and(|alpha| !(0.0..=10.0).contains(&alpha)) {
            return Err(InvalidOption::new("zipf_alpha", "the power is within 0..10"));
        }
        Ok(())
    }

    pub(super) fn prompts(&self, common: &Common) -> SharedPrompts {
        let choice = match self.zipf_alpha {
            Some(alpha) => Choice::Zipf(Zipf::new(self.live, alpha)),
            None => Choice::Live(Live::new(self.live, self.uses)),
        };
        SharedPrompts {
            options: self.clone(),
            choice,
            choice_dice: Dice::new(common.seed, Purpose::Choice, 0),
            length_dice: Dice::new(common.seed, Purpose::Length, 0),
            block_tokens: common.block_tokens,
            seed: common.seed,
        }
    }
}

impl Shape for SharedPrefix {
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption> {
        common.check()?;
        self.check()?;
        Ok(Box::new(Timed::new(self.prompts(common), self.output, common)))
    }
}

pub(super) struct SharedPrompts {
    options: SharedPrefix,
    choice: Choice,
    choice_dice: Dice,
    length_dice: Dice,
    block_tokens: u32,
    seed: u64,
}

enum Choice {
    Zipf(Zipf),
    Live(Live),
}

impl Prompts for SharedPrompts {
    fn next(&mut self, number: u64) -> Prompt {
        let prefix = match &mut self.choice {
            Choice::Zipf(zipf) => zipf.draw(&mut self.choice_dice),
            Choice::Live(live) => live.draw(&mut self.choice_dice),
        };
        let mut prompt = Prompt::new(self.block_tokens);
        prompt.push(Text::new(self.seed, "prefix", prefix), self.options.prefix_tokens);
        prompt.push(Text::new(self.seed, "question", number), self.options.question.draw(&mut self.length_dice));
        prompt
    }
}

/// Prefixes in use. A request takes one of the longer-waiting half, so a prefix comes back after others had their turn,
/// and one that is used up makes room for the next.
struct Live {
    /// Prefixes and how often each is still used, the one that waits longest first.
    waiting: VecDeque<(u64, u64)>,
    fresh: u64,
    uses: f64,
}

impl Live {
    fn new(live: u32, uses: f64) -> Self {
        let mut all = Self { waiting: VecDeque::new(), fresh: 0, uses };
        for _ in 0..live {
            // At the beginning they are in the midst of their uses, as they are later.
            let (prefix, uses) = all.next_prefix();
            let left = 1 + prefix % uses;
            all.waiting.push_back((prefix, left));
        }
        all
    }

    /// Whole numbers of uses whose mean is `uses`.
    fn next_prefix(&mut self) -> (u64, u64) {
        let upto = |number: u64| (number as f64 * self.uses) as u64;
        let uses = upto(self.fresh + 1) - upto(self.fresh);
        self.fresh += 1;
        (self.fresh - 1, uses.max(1))
    }

    fn draw(&mut self, dice: &mut Dice) -> u64 {
        let longer = self.waiting.len().div_ceil(2) as u64;
        let Some((prefix, left)) = self.waiting.remove(dice.below(longer) as usize) else { return 0 };
        let next = if left > 1 { (prefix, left - 1) } else { self.next_prefix() };
        self.waiting.push_back(next);
        prefix
    }
}
