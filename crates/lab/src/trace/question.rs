//! What can be asked of a trace, by its kind.

use std::fmt;

use super::Kind;

/// Something that is asked of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// When requests arrive, and how long they are.
    Load,
    /// How much of the prompts repeats, on the grid of the trace's blocks.
    Reuse,
    /// What a cut at any length in characters or bytes does.
    PrefixLength,
    /// What the messages are: roles, order, changing lines, spelling of the JSON.
    Messages,
}

/// A question that the trace cannot answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{question} cannot be told from a trace of {kind}: {reason}")]
pub struct Refused {
    /// The question.
    pub question: Question,
    /// What the trace is.
    pub kind: Kind,
    /// Why, and what would help.
    pub reason: &'static str,
}

impl Kind {
    /// Whether a trace of this kind can answer `question`.
    ///
    /// # Errors
    /// It cannot, with the reason.
    pub fn require(self, question: Question) -> Result<(), Refused> {
        let reason = match (self, question) {
            (_, Question::Load) | (Kind::Content, _) | (Kind::Hashes, Question::Reuse) => return Ok(()),
            (Kind::Lengths, _) => "it does not say which prompts begin alike; a log with bodies or block hashes does",
            (Kind::Hashes, Question::PrefixLength) => {
                "names of blocks cannot be cut inside a block, and have no characters; give lengths in tokens, or a trace with bodies"
            }
            (Kind::Hashes, Question::Messages) => "names of blocks hide the text; a log with bodies shows it",
        };
        Err(Refused { question, kind: self, reason })
    }
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Load => "the load",
            Self::Reuse => "how much of the prompts repeats",
            Self::PrefixLength => "the effect of a prefix length in characters or bytes",
            Self::Messages => "what messages differ in",
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lengths => "lengths only",
            Self::Hashes => "hashes of blocks",
            Self::Content => "whole prompts",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_is_refused_where_the_kind_of_trace_cannot_answer_it() {
        use Question::{Load, Messages, PrefixLength, Reuse};
        for (kind, answers) in [
            (Kind::Lengths, &[Load][..]),
            (Kind::Hashes, &[Load, Reuse]),
            (Kind::Content, &[Load, Reuse, PrefixLength, Messages]),
        ] {
            for question in [Load, Reuse, PrefixLength, Messages] {
                assert_eq!(kind.require(question).is_ok(), answers.contains(&question), "{kind} {question}");
            }
        }
        let refused = Kind::Lengths.require(Reuse).unwrap_err().to_string();
        assert!(refused.starts_with("how much of the prompts repeats cannot be told from a trace of lengths only: "));
    }
}
