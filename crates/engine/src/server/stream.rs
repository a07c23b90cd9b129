//! An answer as server-sent events, one for each token, at the moment the engine has it.

use std::task::{Context, Poll, ready};

use bytes::Bytes;

use super::error::ApiError;
use super::generate::{Answer, Token, failure};
use super::handle::Progress;
use crate::model::FinishReason;
use crate::vocab::Vocab;

/// Room for one event of any API.
const EVENT_BYTES: usize = 512;

/// The body of a streamed answer. Dropped by the server when the client goes, which aborts.
pub(super) struct AnswerStream {
    answer: Answer,
    tokens: u32,
    state: State,
}

/// Where a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Unopened,
    Open,
    /// All was told.
    Ended,
    /// The engine gave up, and that was told.
    Failed,
}

impl AnswerStream {
    pub(super) fn new(answer: Answer) -> Self {
        Self { answer, tokens: 0, state: State::Unopened }
    }

    /// Whether the last piece has been taken.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended | State::Failed)
    }

    /// Whether the engine gave up.
    pub(super) fn has_failed(&self) -> bool {
        self.state == State::Failed
    }

    /// The next piece, `None` after the last.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let mut out = Vec::new();
        if self.state == State::Unopened {
            self.state = State::Open;
            let Answer { facts, telling, .. } = &mut self.answer;
            telling.opening(facts, &mut out);
        }
        while out.is_empty() && self.state == State::Open {
            let progress = ready!(self.answer.ticket.poll_progress(context));
            self.tell(progress, &mut out);
        }
        Poll::Ready((!out.is_empty()).then(|| Bytes::from(out)))
    }

    /// Gives up in the words of the API; `None` if all was told.
    pub(super) fn fail(&mut self, error: &ApiError) -> Option<Bytes> {
        if self.is_over() {
            return None;
        }
        let mut out = Vec::new();
        let Answer { facts, telling, .. } = &mut self.answer;
        telling.failure(facts, error, &mut out);
        self.state = State::Failed;
        Some(Bytes::from(out))
    }

    fn tell(&mut self, progress: Option<Progress>, out: &mut Vec<u8>) {
        let Answer { facts, telling, .. } = &mut self.answer;
        let error = match progress {
            Some(Progress::Scheduled { cached_tokens }) => {
                facts.cached_tokens = cached_tokens;
                return;
            }
            Some(Progress::Token) => return self.tell_token(out),
            Some(Progress::Finished(FinishReason::Stop | FinishReason::Length)) => {
                self.state = State::Ended;
                return telling.end(facts, self.tokens, out);
            }
            Some(Progress::Finished(reason)) => failure(reason),
            None => ApiError::EngineGone,
        };
        telling.failure(facts, &error, out);
        self.state = State::Failed;
    }

    fn tell_token(&mut self, out: &mut Vec<u8>) {
        let Answer { facts, telling, .. } = &mut self.answer;
        let (index, id) = (self.tokens, facts.sequence.answer_token(self.tokens));
        self.tokens += 1;
        out.reserve(EVENT_BYTES);
        let text = Vocab::shared().token_bytes(id).unwrap_or_default();
        let text = String::from_utf8_lossy(text);
        // The last is known without waiting for the engine to say so.
        let last = self.tokens == facts.sequence.answer_tokens();
        telling.token(facts, &Token { index, id, text: &text, last }, out);
    }
}
