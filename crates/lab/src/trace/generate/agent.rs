//! Agents: long runs whose context grows by what tools say, until it is summarised and grows again.

use super::dice::{Dice, Purpose, Zipf};
use super::prompt::{Prompt, Text};
use super::sessions::{Script, Sessions, Turn};
use super::{COUNT_MAX, Common, Length, Records, Shape, TOKENS_MAX, within};
use crate::InvalidOption;

/// Runs of agents. The defaults follow the coding sessions of Weka's trace: prompts of some 65,000 tokens, 40 requests a
/// session, 15,000 tokens of tools and system prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Kinds of agents: runs of one begin with the same tools and system prompt.
    pub kinds: u32,
    /// Popularity of kinds falls with rank to this power (0..10).
    pub zipf_alpha: f64,
    /// Tokens of tools and system prompt.
    pub system_tokens: u32,
    /// Tokens of the task.
    pub task: Length,
    /// Requests of a run, on average; every one is the last with the same probability. At least 1.
    pub steps: f64,
    /// Tokens of what a tool says.
    pub tool: Length,
    /// Tokens of an answer.
    pub output: Length,
    /// How long a tool takes, seconds on average (exponential).
    pub tool_s: f64,
    /// Part of the steps in which a person answers, and not a tool, 0 to 1.
    pub asks: f64,
    /// How long a person takes, seconds on average (exponential).
    pub think_s: f64,
    /// Tokens at which the context is summarised.
    pub context_tokens: u32,
    /// Tokens of the summary.
    pub summary_tokens: u32,
    /// Runs side by side, where requests have no times.
    pub side_by_side: u32,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            kinds: 4,
            zipf_alpha: 1.0,
            system_tokens: 15_000,
            task: Length::spread(600, 1.0, 16_384),
            steps: 40.0,
            tool: Length::spread(1_600, 1.2, 32_768),
            output: Length::spread(390, 1.2, 8_192),
            tool_s: 4.0,
            asks: 0.1,
            think_s: 60.0,
            context_tokens: 131_072,
            summary_tokens: 2_000,
            side_by_side: 50,
        }
    }
}

impl Shape for Agent {
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption> {
        common.check()?;
        within("kinds", self.kinds, 1, COUNT_MAX)?;
        within("system_tokens", self.system_tokens, 1, TOKENS_MAX)?;
        within("summary_tokens", self.summary_tokens, 1, TOKENS_MAX)?;
        within("context_tokens", self.context_tokens, 1, TOKENS_MAX)?;
        within("side_by_side", self.side_by_side, 1, COUNT_MAX)?;
        for (option, length) in [("task_tokens", self.task), ("tool_tokens", self.tool), ("output_tokens", self.output)]
        {
            length.check(option)?;
        }
        for (option, value, most) in [
            ("steps", self.steps - 1.0, 1e6),
            ("tool_s", self.tool_s, 1e6),
            ("think_s", self.think_s, 1e6),
            ("asks", self.asks, 1.0),
            ("zipf_alpha", self.zipf_alpha, 10.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(InvalidOption::new(option, "is out of its range"));
            }
        }
        let zipf = Zipf::new(self.kinds, self.zipf_alpha);
        let script = Runs { options: self.clone(), zipf, seed: common.seed, block_tokens: common.block_tokens };
        Ok(Box::new(Sessions::new(script, common, self.steps, self.side_by_side)))
    }
}

struct Runs {
    options: Agent,
    zipf: Zipf,
    seed: u64,
    block_tokens: u32,
}

impl Script for Runs {
    type Session = Run;

    fn open(&mut self, number: u64) -> Run {
        let dice = |purpose| Dice::new(self.seed, purpose, 1 + number);
        let (mut choice, mut length) = (dice(Purpose::Choice), dice(Purpose::Length));
        let mut system = Prompt::new(self.block_tokens);
        system.push(Text::new(self.seed, "system", self.zipf.draw(&mut choice)), self.options.system_tokens);
        let said = Text::new(self.seed, "run", number);
        let mut prompt = system.clone();
        prompt.push(said, self.options.task.draw(&mut length));
        Run {
            options: self.options.clone(),
            system,
            prompt,
            said,
            step: 0,
            choice,
            length,
            output: dice(Purpose::Output),
            pause: dice(Purpose::Pause),
        }
    }
}

/// One run.
struct Run {
    options: Agent,
    /// What it begins with, and again after a summary.
    system: Prompt,
    prompt: Prompt,
    said: Text,
    step: u64,
    choice: Dice,
    length: Dice,
    output: Dice,
    pause: Dice,
}

impl Iterator for Run {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.step > 0 && self.choice.unit() < 1.0 / self.options.steps {
            return None;
        }
        let (answer, result, summary) = (3 * self.step + 1, 3 * self.step + 2, 3 * self.step + 3);
        let asks = self.choice.unit() < self.options.asks;
        let pause_s = if asks { self.options.think_s } else { self.options.tool_s };
        let output_tokens = self.options.output.draw(&mut self.output);
        let turn = Turn {
            content: self.prompt.content(),
            input_tokens: self.prompt.tokens(),
            output_tokens,
            pause_ms: self.pause.exponential() * pause_s * 1e3,
        };
        self.prompt.push(self.said.part(answer), output_tokens);
        self.prompt.push(self.said.part(result), self.options.tool.draw(&mut self.length));
        if self.prompt.tokens() > self.options.context_tokens {
            self.prompt = self.system.clone();
            self.prompt.push(self.said.part(summary), self.options.summary_tokens);
        }
        self.step += 1;
        Some(turn)
    }
}
