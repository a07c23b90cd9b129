//! Shared prefixes, and one of them suddenly asked for by everybody.

use super::arrivals::Clock;
use super::dice::{Dice, Purpose};
use super::prompt::{Prompt, Text};
use super::timed::{Prompts, Timed};
use super::{Arrivals, Common, Length, Records, Shape, SharedPrefix};
use crate::InvalidOption;
use crate::trace::Record;

/// Traffic as of [`SharedPrefix`], and a burst that all begins alike.
#[derive(Debug, Clone, PartialEq)]
pub struct HotPrefix {
    /// The traffic without the burst; its lengths are the burst's, too.
    pub base: SharedPrefix,
    /// When the burst begins, seconds.
    pub burst_at_s: f64,
    /// How long it lasts, seconds.
    pub burst_s: f64,
    /// Its requests a second, as a multiple of the traffic's without it.
    pub burst_factor: f64,
}

impl Default for HotPrefix {
    fn default() -> Self {
        Self { base: SharedPrefix::default(), burst_at_s: 300.0, burst_s: 60.0, burst_factor: 2.0 }
    }
}

impl Shape for HotPrefix {
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption> {
        common.check()?;
        self.base.check()?;
        if common.arrivals == Arrivals::Closed {
            return Err(InvalidOption::new("arrivals", "a burst needs times"));
        }
        for (option, value) in [("burst_at_s", self.burst_at_s), ("burst_s", self.burst_s)] {
            if !(0.0..=1e9).contains(&value) {
                return Err(InvalidOption::new(option, format!("{value} is not within 0..1e9 seconds")));
            }
        }
        if !(self.burst_factor > 0.0 && self.burst_factor <= 1000.0) {
            return Err(InvalidOption::new("burst_factor", "the factor is above 0 and at most 1000"));
        }
        let base = Timed::new(self.base.prompts(common), self.base.output, common);
        let hot = HotPrompts {
            prefix_tokens: self.base.prefix_tokens,
            question: self.base.question,
            dice: Dice::new(common.seed, Purpose::BurstLength, 0),
            block_tokens: common.block_tokens,
            seed: common.seed,
        };
        let clock = Clock::new(common.arrivals.times(self.burst_factor), common.seed, Purpose::BurstArrival);
        let burst = Timed::new(hot, self.base.output, common).at(clock, self.burst_s * 1e3);
        let begin_ms = self.burst_at_s * 1e3;
        let burst = burst.map(move |record| Record { at_ms: record.at_ms.map(|at| at + begin_ms), ..record });
        let merged = Merged { one: base.peekable(), two: burst.peekable() };
        Ok(Box::new(merged.take(usize::try_from(common.requests).unwrap_or(usize::MAX))))
    }
}

struct HotPrompts {
    prefix_tokens: u32,
    question: Length,
    dice: Dice,
    block_tokens: u32,
    seed: u64,
}

impl Prompts for HotPrompts {
    fn next(&mut self, number: u64) -> Prompt {
        let mut prompt = Prompt::new(self.block_tokens);
        prompt.push(Text::new(self.seed, "hot", 0), self.prefix_tokens);
        prompt.push(Text::new(self.seed, "hot question", number), self.question.draw(&mut self.dice));
        prompt
    }
}

/// Two streams in the order of their times.
struct Merged<A: Iterator, B: Iterator> {
    one: std::iter::Peekable<A>,
    two: std::iter::Peekable<B>,
}

impl<A: Iterator<Item = Record>, B: Iterator<Item = Record>> Iterator for Merged<A, B> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        let at = |record: Option<&Record>| record.and_then(|record| record.at_ms);
        // Once the traffic without the burst has ended, so has the trace.
        let one = at(self.one.peek())?;
        match at(self.two.peek()) {
            Some(two) if two < one => self.two.next(),
            _ => self.one.next(),
        }
    }
}
