//! Requests that do not depend on each other, at the times of their arrival.

use super::arrivals::Clock;
use super::dice::{Dice, Purpose};
use super::prompt::Prompt;
use super::{Common, Length};
use crate::trace::Record;

/// Makes the prompt of each request.
pub(super) trait Prompts: Send {
    /// The prompt of the request of this number.
    fn next(&mut self, number: u64) -> Prompt;
}

/// Gives prompts their times and the lengths of their answers.
pub(super) struct Timed<P> {
    prompts: P,
    clock: Clock,
    output: Length,
    output_dice: Dice,
    number: u64,
    requests: u64,
    /// No request arrives after it.
    until_ms: f64,
}

impl<P: Prompts> Timed<P> {
    pub(super) fn new(prompts: P, output: Length, common: &Common) -> Self {
        Self {
            prompts,
            clock: Clock::new(common.arrivals, common.seed, Purpose::Arrival),
            output,
            output_dice: Dice::new(common.seed, Purpose::Output, 0),
            number: 0,
            requests: common.requests,
            until_ms: f64::INFINITY,
        }
    }

    /// Other times, and none after `until_ms`.
    pub(super) fn at(self, clock: Clock, until_ms: f64) -> Self {
        Self { clock, until_ms, ..self }
    }
}

impl<P: Prompts> Iterator for Timed<P> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.number == self.requests {
            return None;
        }
        let at_ms = self.clock.next_ms();
        if at_ms.is_some_and(|at| at > self.until_ms) {
            return None;
        }
        let prompt = self.prompts.next(self.number);
        self.number += 1;
        Some(Record {
            at_ms,
            content: prompt.content(),
            input_tokens: Some(prompt.tokens()),
            output_tokens: Some(self.output.draw(&mut self.output_dice)),
            ..Record::default()
        })
    }
}
