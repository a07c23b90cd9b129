//! Chats: each turn's prompt is all that was said before and one more message.

use super::dice::{Dice, Purpose, Zipf};
use super::prompt::{Prompt, Text};
use super::sessions::{Script, Sessions, Turn};
use super::{COUNT_MAX, Common, Length, Records, Shape, TOKENS_MAX, within};
use crate::InvalidOption;

/// Chats of the shape of ShareGPT's: the means of its messages and answers are those that the vLLM paper measured (161 and
/// 338 tokens; Kwon et al., SOSP 2023, figure 11), their spread and the number of turns are knobs.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiTurn {
    /// System prompts that there are, of which each chat begins with one; 0 for none.
    pub systems: u32,
    /// Popularity of system prompts falls with rank to this power (0..10).
    pub zipf_alpha: f64,
    /// Tokens of a system prompt.
    pub system_tokens: u32,
    /// Turns of a chat, on average; every turn is the last with the same probability. At least 1.
    pub turns: f64,
    /// Tokens of a message.
    pub message: Length,
    /// Tokens of an answer.
    pub output: Length,
    /// Between an answer and the next message, seconds on average (exponential).
    pub think_s: f64,
    /// Tokens at which a chat ends.
    pub context_tokens: u32,
    /// Chats side by side, where requests have no times.
    pub side_by_side: u32,
}

impl Default for MultiTurn {
    fn default() -> Self {
        Self {
            systems: 1,
            zipf_alpha: 1.0,
            system_tokens: 512,
            turns: 4.0,
            message: Length::spread(161, 1.0, 8_192),
            output: Length::spread(338, 0.8, 2_048),
            think_s: 20.0,
            context_tokens: 32_768,
            side_by_side: 50,
        }
    }
}

impl Shape for MultiTurn {
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption> {
        common.check()?;
        within("systems", self.systems, 0, COUNT_MAX)?;
        within("system_tokens", self.system_tokens, 1, TOKENS_MAX)?;
        within("context_tokens", self.context_tokens, 1, TOKENS_MAX)?;
        within("side_by_side", self.side_by_side, 1, COUNT_MAX)?;
        self.message.check("message_tokens")?;
        self.output.check("output_tokens")?;
        for (option, value, most) in
            [("turns", self.turns - 1.0, 1e6), ("think_s", self.think_s, 1e6), ("zipf_alpha", self.zipf_alpha, 10.0)]
        {
            if !(0.0..=most).contains(&value) {
                return Err(InvalidOption::new(option, "is out of its range"));
            }
        }
        let zipf = (self.systems > 0).then(|| Zipf::new(self.systems, self.zipf_alpha));
        let script = Chats { options: self.clone(), zipf, seed: common.seed, block_tokens: common.block_tokens };
        Ok(Box::new(Sessions::new(script, common, self.turns, self.side_by_side)))
    }
}

struct Chats {
    options: MultiTurn,
    zipf: Option<Zipf>,
    seed: u64,
    block_tokens: u32,
}

impl Script for Chats {
    type Session = Chat;

    fn open(&mut self, number: u64) -> Chat {
        let dice = |purpose| Dice::new(self.seed, purpose, 1 + number);
        let mut prompt = Prompt::new(self.block_tokens);
        let mut choice = dice(Purpose::Choice);
        if let Some(zipf) = &self.zipf {
            prompt.push(Text::new(self.seed, "system", zipf.draw(&mut choice)), self.options.system_tokens);
        }
        Chat {
            options: self.options.clone(),
            prompt,
            said: Text::new(self.seed, "chat", number),
            turn: 0,
            choice,
            length: dice(Purpose::Length),
            output: dice(Purpose::Output),
            pause: dice(Purpose::Pause),
        }
    }
}

/// One chat.
struct Chat {
    options: MultiTurn,
    prompt: Prompt,
    said: Text,
    turn: u64,
    choice: Dice,
    length: Dice,
    output: Dice,
    pause: Dice,
}

impl Iterator for Chat {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.turn > 0 && self.choice.unit() < 1.0 / self.options.turns {
            return None;
        }
        let message = self.options.message.draw(&mut self.length);
        if self.turn > 0 && self.prompt.tokens().saturating_add(message) > self.options.context_tokens {
            return None;
        }
        self.prompt.push(self.said.part(2 * self.turn), message);
        let output_tokens = self.options.output.draw(&mut self.output);
        let turn = Turn {
            content: self.prompt.content(),
            input_tokens: self.prompt.tokens(),
            output_tokens,
            pause_ms: self.pause.exponential() * self.options.think_s * 1e3,
        };
        self.prompt.push(self.said.part(2 * self.turn + 1), output_tokens);
        self.turn += 1;
        Some(turn)
    }
}
