//! Traffic made from a seed: records without a trace.
//!
//! - The same options and seed give the same records on every platform and build: every logarithm is `libm`'s, written in
//!   Rust, and not the system's.
//! - Each purpose draws from a random stream of its own, so that lengths do not follow from which prompt it is, or from
//!   when it comes.
//! - Prompts are names of blocks ([`Content::Blocks`](super::Content)): two prompts share what their shape makes them
//!   share, and nothing else. Nothing is kept but what is in progress, so a trace may be as long as anybody likes.
//! - Times are never rounded, so arrivals stay apart however fast they are.
//!
//! The shapes: [`SharedPrefix`] (documents or few-shot prompts, each asked about several times), [`HotPrefix`] (the same,
//! and one of them suddenly by everybody), [`Rag`] (documents in Zipf order behind a system prompt), [`MultiTurn`] (chats)
//! and [`Agent`] (long runs that grow by what their tools say).

mod agent;
mod arrivals;
mod dice;
mod hot_prefix;
mod multi_turn;
mod prompt;
mod rag;
mod sessions;
mod shared_prefix;
mod timed;

pub use agent::Agent;
pub use arrivals::Arrivals;
pub use hot_prefix::HotPrefix;
pub use multi_turn::MultiTurn;
pub use rag::Rag;
pub use shared_prefix::SharedPrefix;

use std::fmt;
use std::str::FromStr;

use self::dice::Dice;
use super::Record;
use crate::InvalidOption;

/// Longest text, tokens.
const TOKENS_MAX: u32 = 1 << 20;
/// Most of anything that is drawn from: groups, documents, kinds of agents.
const COUNT_MAX: u32 = 1 << 22;

/// How many requests, when, and on which grid. Shared by all shapes.
#[derive(Debug, Clone, PartialEq)]
pub struct Common {
    /// Requests in all.
    pub requests: u64,
    /// When they arrive.
    pub arrivals: Arrivals,
    /// Tokens a block, 1 to 65536.
    pub block_tokens: u32,
    /// What everything is drawn with.
    pub seed: u64,
}

impl Default for Common {
    fn default() -> Self {
        Self { requests: 10_000, arrivals: Arrivals::Poisson { per_s: 10.0 }, block_tokens: 16, seed: 0 }
    }
}

impl Common {
    fn check(&self) -> Result<(), InvalidOption> {
        InvalidOption::unless_within("block_tokens", self.block_tokens.into(), 1..=65_536)?;
        self.arrivals.check()
    }
}

/// A length in tokens: lognormal around its mean, or always the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Length {
    /// Its mean, before it is cut to 1 and `max`.
    pub mean: u32,
    /// Standard deviation of its logarithm; 0 is always the mean, 1 is what chats have.
    pub spread: f64,
    /// The largest.
    pub max: u32,
}

impl Length {
    /// Always the same.
    pub const fn fixed(tokens: u32) -> Self {
        Self { mean: tokens, spread: 0.0, max: tokens }
    }

    /// Lognormal.
    pub const fn spread(mean: u32, spread: f64, max: u32) -> Self {
        Self { mean, spread, max }
    }

    fn check(&self, option: &'static str) -> Result<(), InvalidOption> {
        InvalidOption::unless_within(option, self.mean.into(), 1..=TOKENS_MAX.into())?;
        InvalidOption::unless_within(option, self.max.into(), self.mean.into()..=TOKENS_MAX.into())?;
        if !(0.0..=4.0).contains(&self.spread) {
            return Err(InvalidOption::new(option, format!("the spread {} is not within 0..4", self.spread)));
        }
        Ok(())
    }

    fn draw(&self, dice: &mut Dice) -> u32 {
        if self.spread == 0.0 {
            return self.mean;
        }
        let drawn = dice.lognormal(f64::from(self.mean), self.spread);
        drawn.clamp(1.0, f64::from(self.max)) as u32
    }
}

impl fmt::Display for Length {
    /// `128`, or `mean:spread:max`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.spread == 0.0 {
            return write!(f, "{}", self.mean);
        }
        write!(f, "{}:{}:{}", self.mean, self.spread, self.max)
    }
}

impl FromStr for Length {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a length is a mean (128), or mean:spread:max of a lognormal one (161:1.0:8192)";
        let tokens = |text: &str| text.parse::<u32>().map_err(|_| WRONG);
        match text.split(':').collect::<Vec<_>>()[..] {
            [mean] => Ok(Self::fixed(tokens(mean)?)),
            [mean, spread, max] => Ok(Self::spread(tokens(mean)?, spread.parse().map_err(|_| WRONG)?, tokens(max)?)),
            _ => Err(WRONG),
        }
    }
}

/// Records, one after the other.
pub type Records = Box<dyn Iterator<Item = Record> + Send>;

/// A shape of traffic.
pub trait Shape {
    /// Its requests, in the order of their times.
    ///
    /// # Errors
    /// An option is out of its range.
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption>;
}

fn within(option: &'static str, count: u32, least: u32, most: u32) -> Result<(), InvalidOption> {
    InvalidOption::unless_within(option, count.into(), least.into()..=most.into())
}

#[cfg(test)]
mod tests;
