//! Retrieval: a system prompt that all share, some documents, a question.

use super::dice::{Dice, Purpose, Zipf};
use super::prompt::{Prompt, Text};
use super::timed::{Prompts, Timed};
use super::{COUNT_MAX, Common, Length, Records, Shape, TOKENS_MAX, within};
use crate::InvalidOption;

/// Most documents in a prompt.
const PER_REQUEST_MAX: u32 = 64;

/// Documents in Zipf order behind a system prompt. A cache can only reuse them where they stand in the same order.
#[derive(Debug, Clone, PartialEq)]
pub struct Rag {
    /// Tokens of the system prompt.
    pub system_tokens: u32,
    /// Documents that there are.
    pub documents: u32,
    /// Their popularity falls with rank to this power (0..10).
    pub zipf_alpha: f64,
    /// Documents in a prompt, 1 to 64, the most popular first if `sorted`, else as they were drawn.
    pub per_request: u32,
    /// Documents stand in a prompt in the order of their popularity.
    pub sorted: bool,
    /// Tokens of a document.
    pub document: Length,
    /// Tokens of the question, of which no two are equal.
    pub question: Length,
    /// Tokens of the answer.
    pub output: Length,
}

impl Default for Rag {
    fn default() -> Self {
        Self {
            system_tokens: 512,
            documents: 10_000,
            zipf_alpha: 1.0,
            per_request: 4,
            sorted: false,
            document: Length::spread(800, 0.5, 4_096),
            question: Length::spread(60, 0.6, 512),
            output: Length::spread(220, 0.7, 2_048),
        }
    }
}

impl Shape for Rag {
    fn generate(&self, common: &Common) -> Result<Records, InvalidOption> {
        common.check()?;
        within("system_tokens", self.system_tokens, 0, TOKENS_MAX)?;
        within("documents", self.documents, 1, COUNT_MAX)?;
        within("per_request", self.per_request, 1, PER_REQUEST_MAX.min(self.documents))?;
        self.document.check("document_tokens")?;
        self.question.check("question_tokens")?;
        self.output.check("output_tokens")?;
        if !(0.0..=10.0).contains(&self.zipf_alpha) {
            return Err(InvalidOption::new("zipf_alpha", "the power is within 0..10"));
        }
        let prompts = RagPrompts {
            options: self.clone(),
            zipf: Zipf::new(self.documents, self.zipf_alpha),
            choice_dice: Dice::new(common.seed, Purpose::Choice, 0),
            length_dice: Dice::new(common.seed, Purpose::Length, 0),
            block_tokens: common.block_tokens,
            seed: common.seed,
        };
        Ok(Box::new(Timed::new(prompts, self.output, common)))
    }
}

struct RagPrompts {
    options: Rag,
    zipf: Zipf,
    choice_dice: Dice,
    length_dice: Dice,
    block_tokens: u32,
    seed: u64,
}

impl RagPrompts {
    /// Different documents.
    fn choose(&mut self) -> Vec<u64> {
        let wanted = self.options.per_request as usize;
        let mut chosen = Vec::with_capacity(wanted);
        // With a steep law the same ones are drawn again and again: then the next in rank are taken.
        for _ in 0..wanted * 20 {
            let document = self.zipf.draw(&mut self.choice_dice);
            if !chosen.contains(&document) {
                chosen.push(document);
            }
            if chosen.len() == wanted {
                break;
            }
        }
        let mut rank = 0;
        while chosen.len() < wanted {
            if !chosen.contains(&rank) {
                chosen.push(rank);
            }
            rank += 1;
        }
        if self.options.sorted {
            chosen.sort_unstable();
        }
        chosen
    }
}

impl Prompts for RagPrompts {
    fn next(&mut self, number: u64) -> Prompt {
        let mut prompt = Prompt::new(self.block_tokens);
        prompt.push(Text::new(self.seed, "system", 0), self.options.system_tokens);
        for document in self.choose() {
            // A document has the same length wherever it stands.
            let tokens = self.options.document.draw(&mut Dice::new(self.seed, Purpose::Length, 1 + document));
            prompt.push(Text::new(self.seed, "document", document), tokens);
        }
        prompt.push(Text::new(self.seed, "question", number), self.options.question.draw(&mut self.length_dice));
        prompt
    }
}
